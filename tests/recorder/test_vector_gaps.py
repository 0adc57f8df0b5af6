"""Vector environments that only return batches: a step that a lane cannot record leaves a gap in none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

import lucky_recorder as lr
from lucky_recorder.testing import check_session
from tests.recorder.lanes import custom, vector
from tests.recorder.test_vector_batches import Remote

LANES = 3


class Faults:
    """A column that cannot be read once, in one lane, or says nothing at all."""

    def __init__(self, lane: int, error: BaseException) -> None:
        self.lane, self.error, self.armed = lane, error, False
        self.asked = 0

    def __call__(self, moment: Any) -> float:
        lane, self.asked = self.asked % LANES, self.asked + 1
        if self.armed and lane == self.lane:
            self.armed, self.asked = False, 0
            raise self.error
        return 0.0


@pytest.mark.parametrize("mode", list(AutoresetMode))
@pytest.mark.parametrize("lane", range(LANES))
@pytest.mark.parametrize("error", [ValueError("once"), KeyboardInterrupt()], ids=["error", "interrupt"])
def test_a_step_that_one_lane_cannot_record_leaves_a_gap_in_none(
    tmp_path: Path, mode: AutoresetMode, lane: int, error: BaseException
) -> None:
    own = Faults(lane, error)
    fields = custom(tmp_path)
    fields["columns"] = [*fields["columns"], lr.Column("own", own)]
    env = lr.RecordSession(Remote(vector((6, 6, 6), mode)), **fields)
    env.reset(seed=1)
    raised = 0
    for step in range(30):
        own.armed = step == 2
        try:
            *_, terminated, truncated, _ = env.step(np.zeros((LANES, 1), np.float32))
        except (ValueError, KeyboardInterrupt):
            raised += 1
            continue
        done = terminated | truncated
        if mode is AutoresetMode.DISABLED and done.any():
            env.reset(options={"reset_mask": done})
    env.close()
    assert raised == 1
    session = check_session(env.session_path)
    counts = [np.ravel(episode.rows()["obs"].to_pylist()).astype(int).tolist() for episode in session]
    assert [shown[0] % 100 for shown in counts] == [0] * len(counts), "an episode begins elsewhere than at its reset"
    assert all(shown == list(range(shown[0], shown[0] + len(shown))) for shown in counts), "a row is missing within"
    assert sum(len(shown) == 6 for shown in counts) >= LANES


def test_options_of_a_reset_are_known_of_every_lane(tmp_path: Path) -> None:
    env = lr.RecordSession(Remote(vector((6, 6), AutoresetMode.DISABLED)), **custom(tmp_path))
    env.reset(seed=1, options={"low": 0.5})
    env.step(np.zeros((2, 1), np.float32))
    env.reset(options={"low": 0.25, "reset_mask": np.array([True, False])})
    env.step(np.zeros((2, 1), np.float32))
    env.close()
    found = sorted((e.lane, (e.options or {}).get("low")) for e in check_session(env.session_path))
    assert found == [(0, 0.25), (0, 0.5), (1, 0.5)]
