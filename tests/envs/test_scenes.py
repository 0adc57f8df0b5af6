"""The packaged scenes compile and hold what they promise."""

from __future__ import annotations

from pathlib import Path

import mujoco
import numpy as np
import pytest

from lucky_recorder.envs import scene_path, scenes
from lucky_recorder.errors import SettingsError

JOINT = mujoco.mjtJoint
TRANSMISSION = mujoco.mjtTrn


def load(name: str) -> mujoco.MjModel:
    return mujoco.MjModel.from_xml_path(str(scene_path(name)))


def names(model: mujoco.MjModel, kind: str, count: int) -> list[str]:
    return [getattr(model, kind)(index).name for index in range(count)]


def test_a_scene_is_found_in_the_first_folder_that_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel, checkout = tmp_path / "wheel", tmp_path / "checkout"
    for folder in (wheel, checkout):
        folder.mkdir()
        (folder / "both.xml").touch()
    (checkout / "one.xml").touch()
    monkeypatch.setattr(scenes, "_FOLDERS", (wheel, checkout))
    assert scene_path("both") == wheel / "both.xml"
    assert scene_path("one") == checkout / "one.xml"


@pytest.mark.parametrize("name", ["nowhere", "../scenes/pick_cube", "pick_cube.xml"])
def test_an_unknown_scene_is_refused_with_those_there_are(name: str) -> None:
    with pytest.raises(SettingsError, match=f"scene='{name}'.*joint_zoo, pick_cube.*twin_arms"):
        scene_path(name)


@pytest.mark.parametrize("name", ["pick_cube", "twin_arms"])
def test_desktop_scenes_run_at_50_hz_and_draw_fast(name: str) -> None:
    model = load(name)
    substeps = 0.02 / model.opt.timestep
    assert substeps == pytest.approx(round(substeps), abs=1e-12)
    assert (model.vis.quality.shadowsize, model.vis.quality.offsamples) == (1024, 0)
    assert model.nlight == 1
    assert model.nmesh == 0


def test_the_arm_has_six_position_actuators_over_the_whole_joint_ranges() -> None:
    model = load("pick_cube")
    joints = names(model, "joint", 6)
    assert joints == ["shoulder_pan", "shoulder_lift", "elbow_flex", "wrist_flex", "wrist_roll", "gripper"]
    assert names(model, "actuator", model.nu) == joints
    assert model.actuator_ctrllimited.all()
    assert model.jnt_limited[:6].all()
    np.testing.assert_array_equal(model.actuator_ctrlrange, model.jnt_range[:6])
    assert names(model, "camera", model.ncam) == ["front", "wrist"]
    assert model.body("base").parentid[0] == 0
    assert int(model.joint("cube").type[0]) == int(JOINT.mjJNT_FREE)


def test_the_twins_are_identical_but_for_their_place() -> None:
    model = load("twin_arms")
    actuators = names(model, "actuator", model.nu)
    assert [name.removeprefix("left_") for name in actuators[:6]] == [
        name.removeprefix("right_") for name in actuators[6:]
    ]
    left, right = slice(0, 6), slice(6, 12)
    for field in (model.actuator_ctrlrange, model.actuator_gainprm, model.actuator_biasprm, model.jnt_range):
        np.testing.assert_array_equal(field[left], field[right])
    np.testing.assert_array_equal(model.dof_damping[left], model.dof_damping[right])
    assert [model.body(f"{side}_base").parentid[0] for side in ("left", "right")] == [0, 0]
    assert names(model, "camera", model.ncam) == ["front", "left_wrist", "right_wrist"]


@pytest.mark.parametrize("name", ["pick_cube", "twin_arms"])
def test_the_arms_stay_at_home_and_the_cubes_lie_still(name: str) -> None:
    model = load(name)
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, model.key("home").id)
    home = data.qpos.copy()
    mujoco.mj_step(model, data, nstep=500)
    np.testing.assert_allclose(data.qpos, home, atol=0.01)


def test_the_zoo_holds_every_kind_of_joint() -> None:
    model = load("joint_zoo")
    kinds = {int(kind) for kind in model.jnt_type}
    assert kinds == {int(JOINT.mjJNT_FREE), int(JOINT.mjJNT_BALL), int(JOINT.mjJNT_SLIDE), int(JOINT.mjJNT_HINGE)}
    driven = {int(joint) for joint in model.actuator_trnid[:, 0][_driving(model, TRANSMISSION.mjTRN_JOINT)]}
    assert int(model.joint("flap").id) not in driven
    assert int(model.joint("flap").type[0]) == int(JOINT.mjJNT_HINGE)


def test_the_zoo_holds_every_kind_of_transmission() -> None:
    model = load("joint_zoo")
    assert [int(kind) for kind in model.actuator_trntype] == [
        int(TRANSMISSION.mjTRN_JOINT),
        int(TRANSMISSION.mjTRN_JOINT),
        int(TRANSMISSION.mjTRN_TENDON),
        int(TRANSMISSION.mjTRN_SITE),
        int(TRANSMISSION.mjTRN_JOINT),
    ]
    assert not model.actuator("spin").ctrllimited[0]
    assert not model.joint("wheel").limited[0]
    wrapped = [int(joint) for joint in model.wrap_objid[: model.tendon_num[0]]]
    assert wrapped == [model.joint("knuckle").id, model.joint("fingertip").id]


def test_the_zoo_has_an_actuator_whose_range_is_not_its_joints() -> None:
    model = load("joint_zoo")
    assert model.actuator("lift").ctrlrange.tolist() == [0, 255]
    assert model.joint("carriage").range.tolist() == [-0.1, 0.2]


def test_the_zoo_has_sensors_a_site_a_camera_and_a_small_offscreen_buffer() -> None:
    model = load("joint_zoo")
    assert names(model, "sensor", model.nsensor) == ["knuckle_pos", "tip_pos", "puck_acc"]
    assert [int(dim) for dim in model.sensor_dim] == [1, 3, 3]
    assert names(model, "site", model.nsite) == ["tip", "hover"]
    assert names(model, "camera", model.ncam) == ["overview"]
    assert (model.vis.global_.offwidth, model.vis.global_.offheight) == (128, 128)


def test_the_zoo_stays_finite_and_moves_under_random_commands() -> None:
    model = load("joint_zoo")
    data = mujoco.MjData(model)
    rng = np.random.default_rng(0)
    start = data.qpos.copy()
    for _ in range(300):
        data.ctrl[:] = rng.uniform(-1, 1, model.nu) * [255, 1, 1, 5, 1]
        mujoco.mj_step(model, data)
    assert [warning.number for warning in data.warning] == [0] * len(data.warning)
    moved = np.abs(data.qpos - start) > 1e-6
    assert all(moved[model.joint(index).qposadr[0] :][:3].any() for index in range(model.njnt))


def _driving(model: mujoco.MjModel, kind: object) -> np.ndarray:
    return np.array([int(each) == int(kind) for each in model.actuator_trntype])
