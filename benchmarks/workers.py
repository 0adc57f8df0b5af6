"""What worker processes gain: the same episodes of the rendering scene by one process and by several, taking turns.

    python benchmarks/workers.py [--workers 2] [--episodes 40] [--rounds 3]

Printed are the seconds of each run and the ratio of the best ones; the start of the processes counts. Beside it stands
what the machine gave: the cores that this process may use, and how many processes wanted one meanwhile; and the CPU
time of an episode. The goal, 1.7 times as fast with two workers on two cores, can be met only where one process leaves
enough of them idle: an episode takes as much of the CPU in a worker, so two cores give at most 2 divided by the cores
that one process keeps busy. Where others want the cores too, neither number says much.
"""

from __future__ import annotations

import argparse
import functools
import os
import tempfile
import time
from pathlib import Path

import gymnasium as gym

import lucky_recorder as lr


def make(folder: Path, steps: int) -> lr.RecordSession:
    """Record PickCube before two cameras of 640x480."""
    env = gym.make("LuckyRecorder/PickCube-v0", max_episode_steps=steps)
    return lr.RecordSession(env, output_dir=folder, cameras=[lr.Camera("front"), lr.Camera("wrist")])


def seconds(workers: int, episodes: int, steps: int) -> tuple[float, float]:
    """Return the wall-clock time of a collection, and the CPU time of all its processes."""
    with tempfile.TemporaryDirectory() as folder:
        began, before = time.perf_counter(), os.times()
        summary = lr.collect(functools.partial(make, Path(folder), steps), episodes=episodes, workers=workers)
        after = os.times()
        assert summary.kept == episodes
        cpu = sum(after[:4]) - sum(before[:4])
        return time.perf_counter() - began, cpu


def main() -> None:
    """Take turns, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--episodes", type=int, default=40)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    best: dict[int, tuple[float, float]] = {}
    for number in range(asked.rounds):
        for workers in (1, asked.workers) if number % 2 == 0 else (asked.workers, 1):
            wall, cpu = seconds(workers, asked.episodes, asked.steps)
            best[workers] = min((wall, cpu), best.get(workers, (wall, cpu)))
            used = f"{cpu / wall:.2f} cores used on average, {cpu / asked.episodes:.2f} s of CPU an episode"
            print(f"{workers} workers: {wall:6.2f} s, {used}; load {os.getloadavg()[0]:.1f}", flush=True)
    (alone, cpu), ratio = best[1], best[1][0] / best[asked.workers][0]
    most = min(float(asked.workers), (cores or 1) / (cpu / alone))
    print(f"{ratio:.2f} times as fast with {asked.workers} workers; the machine has {cores} cores")
    print(f"one process kept {cpu / alone:.2f} of them busy, so {most:.2f} times is the most that they can give")


if __name__ == "__main__":
    main()
