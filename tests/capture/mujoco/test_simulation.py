from __future__ import annotations

import mujoco
import numpy as np
import pytest

from lucky_recorder.capture.mujoco import simulation
from lucky_recorder.capture.mujoco.simulation import Simulation
from lucky_recorder.capture.sync import Sync
from tests.capture.models import contents, forward, scene, state

ZOO = "joint_zoo"
# What a picture and the columns of poses need of a state.
PLACES = (
    "xpos",
    "xquat",
    "xmat",
    "xipos",
    "geom_xpos",
    "geom_xmat",
    "site_xpos",
    "site_xmat",
    "cam_xpos",
    "cam_xmat",
    "light_xpos",
    "light_xdir",
)
EVERYTHING = """
<mujoco model="everything">
  <option timestep="0.002"/>
  <worldbody>
    <geom type="plane" size="2 2 0.1"/>
    <body mocap="true" name="target" pos="0 0 1"><geom size="0.02" contype="0" conaffinity="0"/></body>
    <body name="ball" pos="0 0 0.3"><freejoint/><geom name="ball" size="0.05"/><site name="ball"/></body>
    <body name="arm" pos="0.3 0 0.4"><joint name="arm" axis="0 1 0" damping="0.1"/>
      <geom type="capsule" fromto="0 0 0 0.2 0 0" size="0.02"/>
      <site name="hand" pos="0.2 0 0"/><camera name="eye" pos="0 0 0.1"/></body>
    <flexcomp name="cloth" type="grid" count="3 3 1" spacing="0.1 0.1 0.1" pos="-0.4 0 0.4" dim="2" radius="0.01"
      mass="0.1">
      <edge equality="true"/></flexcomp>
    <site name="wall" pos="0.3 0 0.8"/>
  </worldbody>
  <equality><connect name="hold" body1="ball" body2="target" anchor="0 0 0" active="false"/></equality>
  <tendon><spatial name="rope"><site site="wall"/><site site="hand"/></spatial></tendon>
  <actuator>
    <general name="slow" joint="arm" dyntype="integrator" gainprm="1"/>
    <motor name="pull" tendon="rope"/>
  </actuator>
  <sensor><framelinacc objtype="site" objname="ball"/><rangefinder site="hand"/><tendonpos tendon="rope"/></sensor>
</mujoco>
"""


def moved(model: mujoco.MjModel, steps: int = 25) -> mujoco.MjData:
    """Data in the middle of a run, with every kind of input set."""
    data = mujoco.MjData(model)
    data.qvel[:] = np.linspace(-1, 1, model.nv)
    data.ctrl[:] = 0.3
    data.qfrc_applied[:] = 0.01
    data.xfrc_applied[-1, 2] = 0.1
    if model.nmocap:
        data.mocap_pos[:] = 0.1, 0.2, 0.9
        data.eq_active[:] = True
    mujoco.mj_step(model, data, steps)
    return data


@pytest.fixture(params=[ZOO, "everything", "twin_arms"])
def model(request: pytest.FixtureRequest) -> mujoco.MjModel:
    return mujoco.MjModel.from_xml_string(EVERYTHING) if request.param == "everything" else scene(request.param)


@pytest.mark.parametrize("level", [Sync.KINEMATICS, Sync.PICTURES, Sync.FORWARD])
def test_nothing_of_the_users_model_and_data_is_touched(model: mujoco.MjModel, level: Sync) -> None:
    data = moved(model)
    before = contents(model), contents(data)
    looked_at = Simulation(model, data)
    for _ in range(3):
        looked_at.sync(level)
    assert contents(model) == before[0]
    assert contents(data) == before[1]
    assert len(before[0]) > 400
    assert len(before[1]) > 100


def test_a_run_that_is_looked_at_is_bit_equal_to_one_that_is_not(model: mujoco.MjModel) -> None:
    alone, watched = moved(model), moved(model)
    looked_at = Simulation(model, watched)
    for step in range(20):
        looked_at.sync(Sync.FORWARD if step % 2 else Sync.KINEMATICS)
        for data in (alone, watched):
            data.ctrl[:] = np.sin(step)
            mujoco.mj_step(model, data, 5)
        np.testing.assert_array_equal(state(model, alone), state(model, watched))


@pytest.mark.parametrize("older", [False, True])
def test_kinematics_place_everything_as_mj_forward_does(
    model: mujoco.MjModel, older: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if older:
        monkeypatch.delattr(mujoco, "mj_fwdKinematics", raising=False)
    data = moved(model)
    looked_at = Simulation(model, data)
    looked_at.sync(Sync.KINEMATICS)
    known = forward(model, state(model, data))
    for name in (*PLACES, "flexvert_xpos", "ten_length", "wrap_xpos"):
        np.testing.assert_array_equal(getattr(looked_at.private, name), getattr(known, name), err_msg=name)


def test_forward_gives_all_that_mj_forward_does(model: mujoco.MjModel) -> None:
    data = moved(model)
    looked_at = Simulation(model, data)
    looked_at.sync(Sync.KINEMATICS)
    looked_at.sync(Sync.FORWARD)
    known = forward(model, state(model, data))
    for name in (*PLACES, "sensordata", "qacc", "qfrc_actuator", "cvel", "actuator_force"):
        np.testing.assert_array_equal(getattr(looked_at.private, name), getattr(known, name), err_msg=name)


def test_rangefinders_read_what_their_drawn_rays_need() -> None:
    model = mujoco.MjModel.from_xml_string(EVERYTHING)
    data = moved(model)
    looked_at = Simulation(model, data)
    looked_at.sync(Sync.PICTURES)
    known = forward(model, state(model, data))
    finder = int(np.flatnonzero(model.sensor_type == int(mujoco.mjtSensor.mjSENS_RANGEFINDER))[0])
    assert known.sensordata[model.sensor_adr[finder]] != 0
    assert looked_at.private.sensordata[model.sensor_adr[finder]] == known.sensordata[model.sensor_adr[finder]]


def test_the_state_is_taken_over_whole(model: mujoco.MjModel) -> None:
    data = moved(model)
    looked_at = Simulation(model, data)
    looked_at.sync(Sync.KINEMATICS)
    np.testing.assert_array_equal(state(model, looked_at.private), state(model, data))


@pytest.fixture
def _older_mujoco(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(mujoco, "mj_copyState", raising=False)


@pytest.mark.usefixtures("_older_mujoco")
def test_where_mujoco_cannot_copy_a_state_it_goes_through_a_vector(model: mujoco.MjModel) -> None:
    data = moved(model)
    before = contents(data)
    looked_at = Simulation(model, data)
    looked_at.sync(Sync.FORWARD)
    np.testing.assert_array_equal(state(model, looked_at.private), state(model, data))
    np.testing.assert_array_equal(looked_at.private.sensordata, forward(model, state(model, data)).sensordata)
    assert contents(data) == before


def test_instabilities_are_counted_by_mujoco_itself() -> None:
    model = scene(ZOO)
    data = mujoco.MjData(model)
    counts = Simulation(model, data).instabilities
    assert counts is not None
    assert counts.tolist() == [0, 0, 0]
    data.qpos[0] = np.nan
    mujoco.mj_step(model, data)
    assert counts.tolist() == [1, 0, 0]


def test_a_model_that_never_resets_itself_has_no_instabilities() -> None:
    model = scene(ZOO)
    model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_AUTORESET)
    assert Simulation(model, mujoco.MjData(model)).instabilities is None


def test_only_what_a_model_has_is_computed() -> None:
    plain = mujoco.MjModel.from_xml_string("<mujoco><worldbody><geom size='0.1'/></worldbody></mujoco>")
    everything = mujoco.MjModel.from_xml_string(EVERYTHING)
    assert len(simulation._single_kinematics(plain)) == 3
    assert len(simulation._single_kinematics(everything)) == 5
    assert simulation._drawn_sensors(everything) == [mujoco.mj_sensorPos]
    assert simulation._drawn_sensors(plain) == []
