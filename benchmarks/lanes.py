"""What a row costs in a vector environment of many lanes, over what it costs in a single environment.

    python benchmarks/lanes.py [--lanes 64] [--pairs 5] [--rows 64000]

Rows alone are recorded, without cameras. The same number of rows is recorded in one environment and in the lanes of a
`SyncVectorEnv`, in interleaved ABBA runs in one process, and each run is repeated without a recorder: what that takes
is gymnasium's own, and is taken off. Printed are the wall time and the CPU time of a row in both, all threads together,
with what it takes to write the session, and their ratios of sums. Goal: within 20 %.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import lucky_recorder as lr
from lucky_recorder.bench.slides import Slides

LENGTH = 500


class Ends(Slides):
    """Slides whose episodes end after `LENGTH` steps."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self._t = 0
        return super().reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, reward, _, _, info = super().step(action)
        self._t += 1
        return observation, reward, False, self._t == LENGTH, info


class Cost(NamedTuple):
    """Seconds of a run."""

    wall: float
    cpu: float

    def __sub__(self, other: Any) -> Cost:
        return Cost(self.wall - other.wall, self.cpu - other.cpu)

    def plus(self, other: Cost) -> Cost:
        return Cost(self.wall + other.wall, self.cpu + other.cpu)


def single(rows: int, wrap: Callable[[Any], Any]) -> Cost:
    env = wrap(Ends(7, 7))
    actions = np.random.default_rng(0).uniform(-0.3, 0.3, (64, 7))
    env.reset(seed=0)
    began = time.perf_counter(), time.process_time()
    for k in range(rows):
        if env.step(actions[k & 63])[3]:
            env.reset()
    env.close()
    return Cost(time.perf_counter() - began[0], time.process_time() - began[1])


def many(rows: int, lanes: int, wrap: Callable[[Any], Any]) -> Cost:
    env = wrap(SyncVectorEnv([lambda: Ends(7, 7)] * lanes, autoreset_mode=AutoresetMode.SAME_STEP))
    actions = np.random.default_rng(0).uniform(-0.3, 0.3, (64, lanes, 7))
    env.reset(seed=0)
    began = time.perf_counter(), time.process_time()
    for k in range(rows // lanes):
        env.step(actions[k & 63])
    env.close()
    return Cost(time.perf_counter() - began[0], time.process_time() - began[1])


def recorded(env: gym.Env[Any, Any]) -> Any:
    return lr.RecordSession(env, output_dir=tempfile.mkdtemp(dir=FOLDER.name), max_episode_length_s=None)


FOLDER = tempfile.TemporaryDirectory()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lanes", type=int, default=64)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--rows", type=int, default=64_000)
    options = parser.parse_args()
    rows, lanes = options.rows, options.lanes

    def one() -> Cost:
        return single(rows, recorded) - single(rows, lambda env: env)

    def all_lanes() -> Cost:
        return many(rows, lanes, recorded) - many(rows, lanes, lambda env: env)

    one(), all_lanes()
    sums = {one: Cost(0, 0), all_lanes: Cost(0, 0)}
    for pair in range(options.pairs):
        for job in (one, all_lanes) if pair % 2 else (all_lanes, one):
            sums[job] = sums[job].plus(job())
    count = rows * options.pairs
    for name, job in (("one environment", one), (f"{lanes} lanes", all_lanes)):
        print(f"{name:18} {1e6 * sums[job].wall / count:7.2f} us wall a row {1e6 * sums[job].cpu / count:7.2f} us CPU")
    print(
        f"ratio              {sums[all_lanes].wall / sums[one].wall:7.2f}               "
        f"{sums[all_lanes].cpu / sums[one].cpu:7.2f}"
    )
    FOLDER.cleanup()


if __name__ == "__main__":
    main()
