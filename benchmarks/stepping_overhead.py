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
from pathlib import Path

import lucky_recorder as lr
from lucky_recorder.bench.slides import Slides
from lucky_recorder.bench.stepping import CASES, Case, compare, episode


def back_to_back(case: Case, episodes: int, steps: int = 500) -> tuple[float, float, float]:
    """Return the median microseconds a step and CPU milliseconds of `end_episode`, and all CPU milliseconds of one."""
    with tempfile.TemporaryDirectory() as folder:
        bare = Slides(*case.sizes)
        recorder = lr.RecordSession(Slides(*case.sizes), output_dir=folder, **case.settings)
        ends = []

        def end() -> None:
            began = time.thread_time()
            recorder.end_episode(success=True)
            ends.append(time.thread_time() - began)

        for _ in range(5):
            episode(recorder, steps, end)
        ends.clear()
        began = time.process_time()
        ours = [episode(recorder, steps, end).stepping for _ in range(episodes)]
        recorder.observer.flush()
        everything = time.process_time() - began
        recorder.close()
        alone = [episode(bare, steps, lambda: None).stepping for _ in range(episodes)]
    more = statistics.median(ours) - statistics.median(alone)
    return 1e6 * more / steps, 1e3 * statistics.median(ends), 1e3 * everything / episodes


def profile(case: Case, steps: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        recorder = lr.RecordSession(Slides(*case.sizes), output_dir=folder, **case.settings)
        episode(recorder, steps, lambda: None)
        with cProfile.Profile() as watched:
            episode(recorder, steps, lambda: None)
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
        with tempfile.TemporaryDirectory() as folder:
            ratio, more, worst, total = compare(case, Path(folder), options.pairs, options.steps)
        step, row = ("" if goal is None else f"{goal:.1f}" for goal in (case.step_us, case.row_us))
        print(f"{case.name:30}{ratio:7.2f}{more:9.2f}{worst:8.2f}{step:>6}{total:16.2f}{row:>6}")


if __name__ == "__main__":
    main()
