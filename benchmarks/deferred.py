"""What worker processes gain where a session is drawn afterwards: the same session by one process and by several.

    python benchmarks/deferred.py [--workers 2] [--episodes 12] [--steps 100] [--rounds 3]

A session of two cameras of 640x480 is recorded without pictures, and then drawn by one process and by several, taking
turns. Printed are the seconds of each run, the start of the processes and the making of the session included, the
ratio of the best ones, and the CPU time of an episode. Beside it stands what the machine gave: cores, and how many one
process kept busy, since the CPU's OpenGL has threads of its own: two cores give at most 2 divided by that. The goal,
1.8 times as fast with two workers on two cores, can be met only where one process leaves enough of them idle.
``--one-thread`` has every process draw with one thread (LP_NUM_THREADS=0), so that one is one core's work.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

import gymnasium as gym

import lucky_recorder as lr


def recorded(folder: Path, episodes: int, steps: int) -> Path:
    """Record PickCube before two cameras that are drawn later; returns the session."""
    cameras = [lr.Camera("front"), lr.Camera("wrist")]
    env = lr.RecordSession(gym.make("LuckyRecorder/PickCube-v0"), output_dir=folder, cameras=cameras, render="deferred")
    action = env.action_space.sample()
    for seed in range(episodes):
        env.reset(seed=seed)
        for _ in range(steps):
            env.step(action)
        env.end_episode(success=True)
    env.close()
    assert env.session_path is not None
    return env.session_path


def seconds(session: Path, workers: int) -> tuple[float, float]:
    """Return the wall-clock time of drawing a session, and the CPU time of all processes."""
    with tempfile.TemporaryDirectory(dir=session.parent.parent) as folder:
        began, before = time.perf_counter(), os.times()
        lr.render(session, Path(folder) / "drawn", workers=workers)
        after = os.times()
        return time.perf_counter() - began, sum(after[:4]) - sum(before[:4])


def main() -> None:
    """Take turns, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--episodes", type=int, default=12)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--one-thread", action="store_true")
    asked = parser.parse_args()
    if asked.one_thread:
        os.environ["LP_NUM_THREADS"] = "0"
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    best: dict[int, tuple[float, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        session = recorded(Path(folder), asked.episodes, asked.steps)
        for number in range(asked.rounds):
            for workers in (1, asked.workers) if number % 2 == 0 else (asked.workers, 1):
                wall, cpu = seconds(session, workers)
                best[workers] = min((wall, cpu), best.get(workers, (wall, cpu)))
                used = f"{cpu / wall:.2f} cores used on average, {cpu / asked.episodes:.2f} s of CPU an episode"
                print(f"{workers} workers: {wall:6.2f} s, {used}; load {os.getloadavg()[0]:.1f}", flush=True)
    (alone, cpu), (together, cpu_together) = best[1], best[asked.workers]
    ratio, free = alone / together, asked.workers * cpu / cpu_together
    most = min(float(asked.workers), cores / (cpu / alone))
    print(f"{ratio:.2f} times as fast with {asked.workers} workers; the machine has {cores} cores")
    print(f"by the CPU time that an episode takes, with a core for each process: {free:.2f} times")
    print(f"one process kept {cpu / alone:.2f} of them busy, so {most:.2f} times is the most that they can give")


if __name__ == "__main__":
    main()
