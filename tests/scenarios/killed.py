"""Records every stream and both formats with the real recorder, and kills itself at an instant of choice.

Run as a program: ``python -m tests.scenarios.killed FOLDER PER_FILE EPISODES SECONDS [SESSION]``: so long after so many
episodes it is killed. With SESSION it goes on with that one, whatever state it was left in. Before it is killed it
prints a line for each episode that `flush` has vouched for: how many this recording has kept.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

import gymnasium as gym

import lucky_recorder as lr

SIZE = {"width": 64, "height": 48}


def main(folder: Path, per_file: int, episodes: int, seconds: float, resume: Path | None = None) -> None:
    env = lr.RecordSession(
        gym.make("LuckyRecorder/PickCube-v0"),
        output_dir=folder,
        resume=resume,
        success="terminated",
        episodes_per_file=per_file,
        metadata_every=3,
        record_masks=True,
        cameras=[{"name": "front", "depth_mode": "rgbd", "masks": ["cube"], **SIZE}, {"name": "wrist", **SIZE}],
        lidars=[{"name": "grasp", "rate": 25, "azimuth": (-90, 90, 6), "elevation": (0, 10, 2)}],
        koyu=lr.KoyuSettings(name="bundles", collection_mode="synthetic"),
    )
    for seed in range(10_000):
        env.reset(seed=seed)
        if seed == episodes:
            threading.Thread(target=_kill_later, args=(seconds,), daemon=True).start()
        for _ in range(3 + seed % 5):
            env.step(env.action_space.sample())
        env.end_episode(success=seed % 3 > 0)
        env.observer.flush()
        os.write(1, f"{env.observer.counts.kept}\n".encode())


def _kill_later(seconds: float) -> None:
    time.sleep(seconds)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]), *map(Path, sys.argv[5:]))
