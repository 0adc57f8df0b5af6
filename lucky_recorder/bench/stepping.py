"""What recording rows alone adds to a step, in the stepping thread and in all."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lucky_recorder.bench.figures import Figure
from lucky_recorder.lazy import lazy
from lucky_recorder.recorder.wrapper import RecordSession
from lucky_recorder.settings.column import Column

if TYPE_CHECKING:
    import gymnasium as gym

    from lucky_recorder.bench import slides
else:
    slides = lazy("lucky_recorder.bench.slides")

_STEPS, _WARM_UPS = 2000, 10


class Case(NamedTuple):
    """What is stepped, how it is recorded, and the goals.

    Attributes:
        name: In a few words.
        sizes: Joints, and how many of them are actuated.
        step_us: Microseconds that a step may take more, at the median.
        row_us: Microseconds of CPU that a row may take in all, with its Parquet; None: no goal.
        settings: The recorder's settings.
    """

    name: str
    sizes: tuple[int, int]
    step_us: float | None
    row_us: float | None
    settings: Mapping[str, Any]


CASES = (
    Case("7 joints", (7, 7), 3.0, 8.0, {}),
    Case("287 joints", (287, 21), 4.5, 15.0, {"mode": "full_scene"}),
    Case("7 joints, gym columns", (7, 7), 6.0, None, {"gym_columns": True}),
    Case("7 joints, an info column", (7, 7), 6.0, None, {"columns": [Column("done", "info:is_success", "bool")]}),
    Case("7 joints, states kept", (7, 7), None, None, {"keep_states": True}),
    Case("287 joints, states kept", (287, 21), None, None, {"mode": "full_scene", "keep_states": True}),
)


class Cost(NamedTuple):
    """CPU seconds of one episode.

    Attributes:
        stepping: Of the stepping thread, in its steps.
        everything: Of all threads, until the episode is written.
    """

    stepping: float
    everything: float


class Added(NamedTuple):
    """What recording adds.

    Attributes:
        ratio: CPU of the stepping thread, recorded over bare: a ratio of sums.
        step_us: What a step takes more, the median of the pairs, in microseconds.
        worst_us: The same of the worst pair.
        row_us: What a row takes more of the CPU in all, in microseconds.
    """

    ratio: float
    step_us: float
    worst_us: float
    row_us: float


def episode(env: gym.Env[Any, Any], steps: int, finish: Callable[[], None]) -> Cost:
    """Step one episode, and say what it took."""
    shape = env.action_space.shape or ()
    actions = np.random.default_rng(0).uniform(-0.3, 0.3, (64, *shape))
    began = time.process_time()
    env.reset(seed=0)
    step, started = env.step, time.thread_time()
    for k in range(steps):
        step(actions[k & 63])
    stepping = time.thread_time() - started
    finish()
    return Cost(stepping, time.process_time() - began)


def compare(case: Case, folder: Path, pairs: int, steps: int = _STEPS) -> Added:
    """Step the same environment with and without a recorder, in turns.

    Args:
        case: What is recorded.
        folder: Where.
        pairs: How often both are done.
        steps: Steps of an episode.
    """
    bare = slides.Slides(*case.sizes)
    recorder = RecordSession(slides.Slides(*case.sizes), output_dir=folder, **case.settings)

    def commit() -> None:
        recorder.end_episode(success=True)
        recorder.observer.flush()

    jobs = [partial(episode, bare, steps, lambda: None), partial(episode, recorder, steps, commit)]
    try:
        for job in (jobs[0], jobs[1]) * _WARM_UPS:
            job()  # a processor that has slept takes its time to be at its fastest
        costs = []
        for pair in range(pairs):
            order = jobs if pair % 2 else jobs[::-1]
            one = {id(job): job() for job in order}
            costs.append([one[id(job)] for job in jobs])
    finally:
        recorder.close()
    alone, ours = (sum(costs[pair][k].stepping for pair in range(pairs)) for k in (0, 1))
    more = [1e6 * (b.stepping - a.stepping) / steps for a, b in costs]
    in_all = 1e6 * sum(b.everything - a.everything for a, b in costs) / steps / pairs
    return Added(ours / alone, statistics.median(more), max(more), in_all)


def figures(case: Case, pairs: int, folder: Path) -> list[Figure]:
    """Measure one case."""
    with tempfile.TemporaryDirectory(dir=folder) as place:
        added = compare(case, Path(place), pairs)
    note = f"CPU of a step {added.ratio:.2f} times the bare one's; worst pair {added.worst_us:.2f} us"
    return [
        Figure(f"a step, {case.name}", added.step_us, "us", case.step_us, note=note),
        Figure(f"a row with its Parquet, {case.name}", added.row_us, "us CPU", case.row_us),
    ]
