"""An arm reaches what is within reach, and stays within its limits when nothing is."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from lucky_recorder.envs.arms import arm_named, is_held, pointing_down, reach
from lucky_recorder.envs.scenes import scene_path


@pytest.fixture
def twin_arms() -> mujoco.MjModel:
    return mujoco.MjModel.from_xml_path(str(scene_path("twin_arms")))


def home(model: mujoco.MjModel) -> mujoco.MjData:
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, model.key("home").id)
    mujoco.mj_forward(model, data)
    return data


@pytest.mark.parametrize("prefix", ["left_", "right_"])
@pytest.mark.parametrize("forward", [0.17, 0.24])
@pytest.mark.parametrize("turn", [-0.6, 0.0, 0.6])
def test_reaches_a_pose(twin_arms: mujoco.MjModel, prefix: str, forward: float, turn: float) -> None:
    arm, data = arm_named(twin_arms, prefix), home(twin_arms)
    others = np.setdiff1d(np.arange(twin_arms.nq), arm.qpos[:5])
    untouched = data.qpos[others].copy()
    position = arm.base + np.array([forward, 0.02, 0.03])
    rotation = pointing_down(np.pi / 2 + turn)
    angles = reach(twin_arms, data, arm, position, rotation)
    mujoco.mj_kinematics(twin_arms, data)
    np.testing.assert_array_equal(data.qpos[arm.qpos[:5]], angles)
    np.testing.assert_allclose(data.site_xpos[arm.grasp], position, atol=1e-3)
    np.testing.assert_allclose(data.site_xmat[arm.grasp].reshape(3, 3), rotation, atol=0.02)
    np.testing.assert_array_equal(data.qpos[others], untouched)


def test_out_of_reach_it_stays_within_its_limits(twin_arms: mujoco.MjModel) -> None:
    arm, data = arm_named(twin_arms, "left_"), home(twin_arms)
    angles = reach(twin_arms, data, arm, np.array([3.0, -2.0, 0.0]), pointing_down(0.0))
    low, high = twin_arms.jnt_range[twin_arms.dof_jntid[arm.dof[:5]]].T
    assert ((low <= angles) & (angles <= high)).all()


def test_pointing_down_is_a_rotation_with_the_fingers_down() -> None:
    rotation = pointing_down(0.7)
    np.testing.assert_allclose(rotation @ rotation.T, np.eye(3), atol=1e-12)
    assert np.linalg.det(rotation) == pytest.approx(1)
    np.testing.assert_allclose(rotation[:, 0], [0, 0, -1])


def test_nothing_is_held_at_home(twin_arms: mujoco.MjModel) -> None:
    data = home(twin_arms)
    assert not any(is_held(data, arm_named(twin_arms, prefix)) for prefix in ("left_", "right_"))


def test_a_model_without_the_arm_is_refused(twin_arms: mujoco.MjModel) -> None:
    with pytest.raises(KeyError, match="middle_shoulder_pan"):
        arm_named(twin_arms, "middle_")
