"""Shuffled loading: `lr.SessionDataset` against LeRobot's own loader, on one session, and order against bare PyAV.

Both give the same items: two cameras as float32, state, a chunk of actions; they are compared first. They take turns,
on the same random indices, in one process, and CPU times are added up (A B B A); printed are milliseconds an item and
their ratio. The goal is 2 or more. Videos in order are compared with a loop of PyAV that converts each frame to RGB
with one thread and one reformatter, which is the least it takes: the goal is 1.1 or less.

The session is recorded here. LeRobot has an environment of its own, which `make interop-readers` builds; without it,
only the second comparison is made.

    python benchmarks/loading.py [--episodes 10] [--length 100] [--items 64] [--pairs 10] [--lerobot PYTHON]
"""

from __future__ import annotations

import argparse
import importlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import lucky_recorder as lr
from lucky_recorder.video.decode import FrameReader
from lucky_recorder.video.probe import ONE_THREAD

VERSION = "0.6.1"
HOME = Path(os.environ.get("LUCKY_RECORDER_INTEROP", "~/.cache/lucky_recorder/interop")).expanduser() / "lerobot"
CAMERAS, SIZE = ("front", "wrist"), (320, 240)


def record(output: Path, episodes: int, length: int) -> Path:
    """Record the sample environment with two cameras."""
    gymnasium: Any = importlib.import_module("gymnasium")
    cameras = [lr.Camera(name, width=SIZE[0], height=SIZE[1]) for name in CAMERAS]
    env = lr.RecordSession(
        gymnasium.make("LuckyRecorder/PickCube-v0", max_episode_steps=length), output_dir=output, cameras=cameras
    )
    with env:
        for seed in range(episodes):
            env.reset(seed=seed)
            for _ in range(length):
                env.step(env.action_space.sample())
    return Path(env.session_path)


def cpu(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def ratio(ours: Callable[[int], object], theirs: Callable[[int], object], pairs: int) -> tuple[float, float]:
    """Return the CPU seconds of both, in turns: A B B A."""
    taken = {"ours": 0.0, "theirs": 0.0}
    for turn in range(2 * pairs):
        ways = [("ours", ours), ("theirs", theirs)]
        for name, way in ways if turn % 2 else reversed(ways):
            taken[name] += cpu(lambda way=way, turn=turn: way(turn))  # type: ignore[misc]
    return taken["ours"], taken["theirs"]


def in_order(session: Path, pairs: int) -> None:
    av, reformatting = (importlib.import_module(name) for name in ("av", "av.video.reformatter"))
    files = sorted(session.glob("videos/*/chunk-*/file-*.mp4"))

    def bare(turn: int) -> int:
        count = 0
        for file in files:
            with av.open(str(file)) as container:
                container.streams.video[0].thread_count = 1
                reformatter = reformatting.VideoReformatter()
                for frame in container.decode(video=0):
                    # Held until the next one is there, as by whoever looks at it.
                    picture = reformatter.reformat(frame, format="rgb24", **ONE_THREAD).to_ndarray()
                    count += len(picture) > 0
        return count

    def ours(turn: int) -> int:
        count = 0
        for file in files:
            with FrameReader(file) as frames:
                count += sum(len(picture) > 0 for picture in frames)
        return count

    frames = ours(0)
    assert bare(0) == frames
    one, other = ratio(ours, bare, pairs)
    each = 1000 / frames / (2 * pairs)
    print(f"in order: {one * each:.3f} ms a frame, PyAV {other * each:.3f}: {one / other:.2f}; the goal is 1.1")


def compare(session: Path, items: int, pairs: int) -> None:
    """Compare the loaders; runs in LeRobot's environment."""
    lerobot: Any = importlib.import_module("lerobot.datasets.lerobot_dataset")
    torch: Any = importlib.import_module("torch")
    torch.set_num_threads(1)
    chunk = {"action": [k / 50 for k in range(8)]}
    theirs = lerobot.LeRobotDataset("local/session", root=session, delta_timestamps=chunk)
    ours = lr.SessionDataset(session, delta_seconds=chunk)
    assert len(theirs) == len(ours)
    for index in np.random.default_rng(0).integers(len(ours), size=8).tolist():
        one, other = ours[index], theirs[index]
        for key in (*ours.cameras, "observation.state", "action", "action_is_pad"):
            apart = (one[key].float() - other[key].float()).abs().max()
            # Two libraries convert colours, and round in their own ways.
            assert one[key].shape == other[key].shape, key
            assert apart <= (6 / 255 if key in ours.cameras else 0), (key, apart)

    def read(dataset: Any, turn: int) -> None:
        for index in np.random.default_rng(turn).integers(len(ours), size=items).tolist():
            dataset[index]

    mine, other_s = ratio(lambda turn: read(ours, turn), lambda turn: read(theirs, turn), pairs)
    each = 1000 / items / (2 * pairs)
    print(
        f"shuffled: {mine * each:.2f} ms an item, LeRobot {VERSION} {other_s * each:.2f}: {other_s / mine:.2f} times; "
        "the goal is 2"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in (("episodes", 10), ("length", 100), ("items", 64), ("pairs", 10)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--lerobot", type=Path, default=HOME / "bin/python")
    parser.add_argument("--compare", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.compare:
        compare(given.compare, given.items, given.pairs)
        return
    with tempfile.TemporaryDirectory() as folder:
        session = record(Path(folder), given.episodes, given.length)
        in_order(session, given.pairs)
        if not given.lerobot.exists():
            print(f"{given.lerobot}: no such environment; `make interop-readers` builds it")
            return
        paths = os.pathsep.join([str(HOME / f"lerobot-{VERSION}"), str(Path(lr.__file__).parents[1])])
        numbers = ["--items", str(given.items), "--pairs", str(given.pairs)]
        command = [str(given.lerobot), __file__, "--compare", str(session), *numbers]
        subprocess.run(command, env={**os.environ, "PYTHONPATH": paths, "HF_HUB_OFFLINE": "1"}, check=True)


if __name__ == "__main__":
    sys.exit(main())
