"""A row that stands for several steps, where the episode ends between two of them: what it adds up is theirs alone."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pytest

import lucky_recorder as lr
from lucky_recorder.recorder import buffer, filler, lane
from lucky_recorder.testing import CountEnv, MemorySink
from tests.recorder.lines import AtLine, interrupt

COLUMNS = [
    lr.Column("obs", "gym:obs"),
    lr.Column("hot", "info:hot"),
    # Looked at after next.reward, which is added up by then.
    lr.Column("small", "gym:reward", dtype="int8"),
]


class Paid(CountEnv):
    """Step k is paid k + 1, or what it is told to; its info has a value of its own."""

    paid: float | None = None
    breaks = False

    def step(self, action: Any) -> Any:
        if self.breaks:
            raise OSError("the gripper is stuck")
        observation, reward, *rest, info = super().step(action)
        pay = reward + 1 if self.paid is None else self.paid
        return observation, pay, *rest, {**info, "hot": float(self.t)}


def step(env: Any, count: int = 1) -> None:
    for _ in range(count):
        env.step(np.zeros(1, np.float32))


def sums(episode: Any) -> tuple[list[float], list[int], list[float]]:
    return tuple(episode.rows[name].tolist() for name in ("next.reward", "small", "hot"))


def test_a_step_that_raises_adds_nothing_to_the_row_before_it(record: Any, read_back: Any) -> None:
    env = record(Paid(None), data_hz=25, gym_columns=True, columns=COLUMNS)
    env.reset()
    step(env, 3)
    env.unwrapped.breaks = True
    with pytest.raises(OSError, match="stuck"):
        step(env)
    env.close()
    (episode,) = read_back(env.session_path)
    assert sums(episode) == ([3, 3], [3, 3], [1, 3])


@pytest.mark.parametrize("paid", [126, float("nan")])
def test_a_step_that_a_later_column_refuses_adds_nothing_to_an_earlier_one(
    record: Any, read_back: Any, paid: float
) -> None:
    env = record(Paid(None), data_hz=25, gym_columns=True, columns=COLUMNS)
    env.reset()
    step(env, 3)
    env.unwrapped.paid = paid
    with pytest.raises(lr.CaptureError, match=r"small|next\.reward"):
        step(env)
    env.close()
    (episode,) = read_back(env.session_path)
    assert sums(episode) == ([3, 3], [3, 3], [1, 3])


def test_an_interrupt_at_any_line_leaves_rows_that_add_up(record: Any, tmp_path: Any) -> None:
    """Whatever the row of a step holds by then, it is kept with all of the step, or with nothing of it."""
    files = tuple(module.__file__ for module in (buffer, filler, lane))
    found, number = [], 0
    while True:
        number += 1
        sink = MemorySink(tmp_path / str(number))
        env = record(Paid(None), data_hz=25, gym_columns=True, columns=COLUMNS, formats=(), sinks=[sink])
        env.reset()
        step(env, 3)
        struck = AtLine(number, interrupt, files)
        with contextlib.suppress(KeyboardInterrupt), struck:
            step(env)
        env.close()
        columns = sink.records[0].columns
        rows = [columns[name].tolist() for name in ("next.reward", "small", "hot")]
        assert rows in ([[3, 3], [3, 3], [1, 3]], [[3, 7], [3, 7], [1, 3]]), number
        found.append(rows[0][1])
        if struck.left > 0:
            break
    assert set(found) == {3, 7}
    assert len(found) > 20
