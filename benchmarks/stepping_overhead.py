"""What recording rows alone adds to `env.step`, in the stepping thread and in all.

    python benchmarks/stepping_overhead.py [--pairs 20] [--steps 2000] [--profile] [--back-to-back]

The same environment is stepped with and without a recorder, in interleaved ABBA runs in one process. Its step does
next to nothing, so that little hides the difference. Printed per case: CPU of the stepping thread with the recorder
over that without (a ratio of sums), the difference in microseconds a step, the median and the worst, and all CPU that a
row costs, with its Parquet; each beside its goal.

With `--back-to-back` episodes of 500 steps follow each other, and nobody waits until one is written: the worker, which
commits the one before, wants the interpreter as well.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

import lucky_recorder as lr
from lucky_recorder.bench.slides import Slides


class Case(NamedTuple):
    """An environment to step, how it is recorded, and the goals in microseconds, of a step and of all CPU of a row."""

    name: str
    env: Callable[[], gym.Env[Any, Any]]
    goals_us: tuple[float, float] | None
    settings: dict[str, Any]


CASES = (
    Case("arm, 7 joints", lambda: Slides(7, 7), (3.0, 8.0), {}),
    Case("full scene, 287 joints", lambda: Slides(287, 21), (4.5, 15.0), {"mode": "full_scene"}),
    Case("arm, with states kept", lambda: Slides(7, 7), None, {"keep_states": True}),
    Case("full scene, with states kept", lambda: Slides(287, 21), None, {"mode": "full_scene", "keep_states": True}),
    Case("arm, with gym_columns", lambda: Slides(7, 7), (6.0, 15.0), {"gym_columns": True}),
    Case(
        "arm, with an info column",
        lambda: Slides(7, 7),
        (6.0, 15.0),
        {"columns": [lr.Column("d", "info:is_success", "bool")]},
    ),
)


class Cost(NamedTuple):
    """CPU seconds of one run."""

    stepping: float
    everything: float


def run(env: gym.Env[Any, Any], steps: int, finish: Callable[[], None]) -> Cost:
    """Step one episode; what belongs to no step is in ``everything`` only."""
    actions = np.random.default_rng(0).uniform(-0.3, 0.3, (64, *env.action_space.shape))  # type: ignore[misc]
    began = time.process_time()
    env.reset(seed=0)
    step, started = env.step, time.thread_time()
    for k in range(steps):
        step(actions[k & 63])
    stepping = time.thread_time() - started
    finish()
    return Cost(stepping, time.process_time() - began)


def compare(case: Case, pairs: int, steps: int) -> tuple[float, float, float, float]:
    """Return the ratio, the median microseconds a step, those of the worst pair, and all CPU a row costs."""
    with tempfile.TemporaryDirectory() as folder:
        bare = case.env()
        recorder = lr.RecordSession(case.env(), output_dir=folder, **case.settings)

        def commit() -> None:
            recorder.end_episode(success=True)
            recorder.observer.flush()

        def with_recorder() -> Cost:
            return run(recorder, steps, commit)

        def without() -> Cost:
            return run(bare, steps, lambda: None)

        with_recorder(), without()
        pairs_of = []
        for pair in range(pairs):
            order = (without, with_recorder) if pair % 2 else (with_recorder, without)
            costs = {job: job() for job in order}
            pairs_of.append((costs[without], costs[with_recorder]))
        recorder.close()
    alone, ours = (sum(p[i].stepping for p in pairs_of) for i in (0, 1))
    more = [1e6 * (b.stepping - a.stepping) / steps for a, b in pairs_of]
    total = 1e6 * sum(b.everything - a.everything for a, b in pairs_of) / steps / pairs
    return ours / alone, statistics.median(more), max(more), total


def back_to_back(case: Case, episodes: int, steps: int = 500) -> tuple[float, float, float]:
    """Return the median microseconds a step and CPU milliseconds of `end_episode`, and all CPU milliseconds of one."""
    with tempfile.TemporaryDirectory() as folder:
        bare = case.env()
        recorder = lr.RecordSession(case.env(), output_dir=folder, **case.settings)
        ends = []

        def end() -> None:
            began = time.thread_time()
            recorder.end_episode(success=True)
            ends.append(time.thread_time() - began)

        for _ in range(5):
            run(recorder, steps, end)
        ends.clear()
        began = time.process_time()
        ours = [run(recorder, steps, end).stepping for _ in range(episodes)]
        recorder.observer.flush()
        everything = time.process_time() - began
        recorder.close()
        alone = [run(bare, steps, lambda: None).stepping for _ in range(episodes)]
    more = statistics.median(ours) - statistics.median(alone)
    return 1e6 * more / steps, 1e3 * statistics.median(ends), 1e3 * everything / episodes


def profile(case: Case, steps: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        recorder = lr.RecordSession(case.env(), output_dir=folder, **case.settings)
        run(recorder, steps, lambda: None)
        with cProfile.Profile() as watched:
            run(recorder, steps, lambda: None)
        recorder.end_episode(success=True)
        recorder.close()
    pstats.Stats(watched).sort_stats("tottime").print_stats(14)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--profile", action="store_true", help="show where the time goes instead")
    parser.add_argument("--back-to-back", action="store_true", help="episodes of 500 steps that follow each other")
    options = parser.parse_args()
    if options.profile:
        for case in CASES:
            print(case.name)
            profile(case, options.steps)
        return
    if options.back_to_back:
        print(f"{'':30}{'us/step':>9}{'end_episode ms':>16}{'all CPU ms/episode':>20}")
        for case in CASES:
            more, end, everything = back_to_back(case, 5 * options.pairs)
            print(f"{case.name:30}{more:9.2f}{end:16.3f}{everything:20.2f}")
        return
    print(f"{'':30}{'ratio':>7}{'us/step':>9}{'worst':>8}{'goal':>6}{'all CPU us/row':>16}{'goal':>6}")
    for case in CASES:
        ratio, more, worst, total = compare(case, options.pairs, options.steps)
        step, row = ("", "") if case.goals_us is None else (f"{goal:.1f}" for goal in case.goals_us)
        print(f"{case.name:30}{ratio:7.2f}{more:9.2f}{worst:8.2f}{step:>6}{total:16.2f}{row:>6}")


if __name__ == "__main__":
    main()
