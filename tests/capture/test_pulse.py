"""The pulse: how a reset is told from a step, by time and the count of physics steps."""

from __future__ import annotations

import mujoco
import pytest

from lucky_recorder.capture.mujoco.pulse import pulse_of
from lucky_recorder.capture.pulse import Beat, is_reset
from tests.capture.models import arm

PERIOD = 0.02


@pytest.mark.parametrize(
    ("before", "after", "is_done", "is_first", "expected"),
    [
        (Beat(0.0, 0), Beat(0.02, 10), False, True, False),
        (Beat(0.04, 20), Beat(0.06, 30), False, False, False),
        (Beat(0.04, 20), Beat(0.06, 30), True, False, False),
        # Time ran backwards, whatever else.
        (Beat(0.04, 20), Beat(0.0, 0), False, False, True),
        (Beat(0.04, 20), Beat(0.0, 0), True, False, True),
        (Beat(0.04, 20), Beat(0.03, 30), False, False, True),
        # Reset, and stepped on in the same step, as long as a step or not.
        (Beat(0.04, 20), Beat(0.06, 5), False, False, False),
        (Beat(0.04, 20), Beat(0.06, 5), True, False, True),
        (Beat(0.04, 20), Beat(0.5, 5), False, False, True),
        # The first step of an episode that was its last: from one beginning to another.
        (Beat(0.0, 0), Beat(0.0, 0), True, True, True),
        (Beat(0.0, 0), Beat(0.0, 0), False, True, False),
        (Beat(0.04, 20), Beat(0.04, 20), True, False, False),
        # A last step that was cut short, or was longer.
        (Beat(0.04, 20), Beat(0.05, 25), True, False, False),
        (Beat(0.04, 20), Beat(0.1, 50), True, False, False),
        # A jitter of rounding is no reset.
        (Beat(100.0, 20), Beat(100.0 - 1e-12, 20), False, False, False),
    ],
)
def test_a_reset_is_told_from_a_step(before: Beat, after: Beat, is_done: bool, is_first: bool, expected: bool) -> None:
    assert is_reset(before, after, PERIOD, is_done, is_first) is expected


def test_where_time_stands_still_the_first_step_is_no_reset() -> None:
    assert not is_reset(Beat(0.0, 0), Beat(0.0, 0), 0, is_done=True, is_first=True)
    assert is_reset(Beat(0.0, 0), Beat(0.0, 0), None, is_done=True, is_first=True)


def test_mujoco_counts_its_steps_from_the_last_reset() -> None:
    model = arm('<motor name="m" joint="pan"/>')
    data = mujoco.MjData(model)
    pulse = pulse_of(data)
    assert pulse.beat() == (0, 0)
    mujoco.mj_step(model, data, 3)
    assert pulse.beat() == (data.time, 3)
    mujoco.mj_step1(model, data)
    mujoco.mj_step2(model, data)
    assert pulse.beat().time == data.time > 3 * model.opt.timestep
    mujoco.mj_forward(model, data)
    mujoco.mj_kinematics(model, data)
    steps = pulse.steps()
    mujoco.mj_setState(model, data, [0.5], int(mujoco.mjtState.mjSTATE_QPOS))
    assert pulse.steps() == steps
    for reset in (mujoco.mj_resetData, lambda m, d: mujoco.mj_resetDataKeyframe(m, d, 0) if m.nkey else None):
        mujoco.mj_step(model, data)
        reset(model, data)
    mujoco.mj_resetData(model, data)
    assert pulse.beat() == (0, 0)


def test_looking_at_a_pulse_keeps_its_data_alive() -> None:
    model = arm('<motor name="m" joint="pan"/>')
    pulse = pulse_of(mujoco.MjData(model))
    assert pulse.beat() == (0, 0)
    mujoco.mj_step(model, pulse.data)
    assert pulse.beat().steps == 1
