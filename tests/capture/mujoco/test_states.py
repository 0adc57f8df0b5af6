"""Full states: of which parts one is, and stepping one anew in data that know of no other."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from lucky_recorder.capture.mujoco.plugins import plugins_of
from lucky_recorder.capture.mujoco.states import EVERYTHING, MOST_STEPS, Stepper, parts, steps_between
from tests.recorder.physics import XML, state

# Something of every part that a version of MuJoCo may have.
EVERY_PART = """<mujoco><size nuserdata="3"/><worldbody>
<body><joint name="x" type="slide" stiffness="30"/><geom size=".1"/></body>
<body pos="0 0 1"><freejoint/><geom size=".1"/></body>
<body name="hand" mocap="true"><geom size=".02" contype="0"/></body></worldbody>
<equality><joint joint1="x"/></equality>
<actuator><general joint="x" dyntype="filter" dynprm=".1"/><motor joint="x"/></actuator></mujoco>"""
ASLEEP = """<mujoco><option timestep="0.004"><flag sleep="enable"/></option><worldbody>
<geom type="plane" size="5 5 .1"/><body pos="0 0 .0995"><freejoint/><geom type="box" size=".1 .1 .1"/></body>
<body pos="0 0 .2995"><freejoint/><geom type="box" size=".1 .1 .1"/></body></worldbody></mujoco>"""
# Its only actuator is a plugin that comes with MuJoCo.
PID = XML.replace(
    "<worldbody>",
    '<extension><plugin plugin="mujoco.pid"><instance name="p"><config key="kp" value="5"/><config key="ki" value="3"/>'
    '<config key="kd" value="1"/><config key="slewmax" value="3"/><config key="imax" value="4"/></instance></plugin>'
    "</extension><worldbody>",
).replace(
    '<motor name="push" joint="x" ctrlrange="-5 5"/>',
    '<plugin name="push" joint="x" plugin="mujoco.pid" instance="p" actdim="2"/>',
)
sleeps = pytest.mark.skipif(not hasattr(mujoco.mjtEnableBit, "mjENBL_SLEEP"), reason="this MuJoCo lets no body sleep")


def test_the_parts_of_a_state_are_all_of_it() -> None:
    model = mujoco.MjModel.from_xml_string(EVERY_PART)
    data = mujoco.MjData(model)
    for name, place in parts(model).items():
        if name not in ("time", "eq_active"):
            getattr(data, name)[...] = np.arange(place.stop - place.start).reshape(getattr(data, name).shape) + 7.5
    whole = state(model, data)
    assert [place.start for place in parts(model).values()][1:] == [p.stop for p in parts(model).values()][:-1]
    assert [*parts(model).values()][-1].stop == len(whole)
    for name, place in parts(model).items():
        assert np.array_equal(whole[place], np.ravel(getattr(data, name))), name


def test_what_a_step_makes_is_that_which_mujoco_says() -> None:
    model = mujoco.MjModel.from_xml_string(EVERY_PART)
    made = Stepper(model).made
    names = {name for name, place in parts(model).items() if made[place].any()}
    assert {"time", "qpos", "qvel", "act", "qacc_warmstart"} <= names
    assert not names & {"ctrl", "qfrc_applied", "xfrc_applied", "eq_active", "mocap_pos", "mocap_quat", "userdata"}
    full = int(mujoco.mjtState.mjSTATE_FULLPHYSICS) | int(mujoco.mjtState.mjSTATE_WARMSTART)
    assert made.sum() == mujoco.mj_stateSize(model, full)


@sleeps
def test_each_step_knows_nothing_of_those_before() -> None:
    model = mujoco.MjModel.from_xml_string(ASLEEP)
    data, stepper = mujoco.MjData(model), Stepper(model)
    mujoco.mj_step(model, data, nstep=800)
    assert (data.tree_asleep >= 0).all()
    awake = mujoco.MjData(model)
    mujoco.mj_setState(model, awake, state(model, data), EVERYTHING)
    mujoco.mj_step(model, awake)
    for _ in range(3):
        again = stepper.step(state(model, data), np.empty(0), data.time + 0.004)
        assert again is not None
        assert np.array_equal(again, state(model, awake))
        # What this leaves behind is nothing of the next one's.
        assert stepper.step(state(model, data), np.empty(0), data.time + 4.0) is not None


@pytest.mark.parametrize(
    ("first", "last", "timestep", "steps"),
    [
        (0.0, 0.02, 0.005, 4),
        (1.0, 0.0, 0.005, 0),
        (0.0, 1.0, 0.0, 0),
        (0.0, np.nan, 0.005, 0),
        (1.7e9, 1.7e9 + 0.02, 0.001, 20),
    ],
)
def test_steps_are_counted_by_the_time(first: float, last: float, timestep: float, steps: int) -> None:
    assert steps_between(first, last, timestep) == steps


@pytest.mark.parametrize("until", [0.005 * (MOST_STEPS + 1), 1e300, np.inf])
def test_nobody_waits_for_steps_without_an_end(until: float) -> None:
    model = mujoco.MjModel.from_xml_string(XML)
    assert Stepper(model).step(state(model, mujoco.MjData(model)), np.zeros(1), until) is None


def test_plugins_are_known_by_their_names() -> None:
    model = mujoco.MjModel.from_xml_string(XML)
    assert plugins_of(model) == ()
    model = mujoco.MjModel.from_xml_string(PID)
    assert plugins_of(model) == ("mujoco.pid",)
    for slot in (-1, 10_000):
        model.plugin[:] = slot
        assert plugins_of(model) == (None,)
