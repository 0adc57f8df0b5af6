"""An environment whose step does next to nothing, so that little hides what recording adds to it."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import mujoco
import numpy as np
from numpy.typing import NDArray

DT = 0.02


class Slides(gym.Env[NDArray[np.float64], NDArray[np.float64]]):
    """Joints that slide, some of them actuated; a step takes the command and counts time, without any physics.

    Args:
        joints: How many joints.
        actuators: How many of them are actuated.
    """

    def __init__(self, joints: int, actuators: int) -> None:
        self.model = mujoco.MjModel.from_xml_string(_xml(joints, actuators))
        self.data = mujoco.MjData(self.model)
        self.dt = DT
        self.action_space = gym.spaces.Box(-2, 2, (actuators,), np.float64)
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (joints,), np.float64)
        self._observation = np.zeros(joints)
        self._info = {"is_success": True}
        self._ctrl, self._qpos = self.data.ctrl, self.data.qpos

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Put everything back to its beginning."""
        super().reset(seed=seed)
        mujoco.mj_resetData(self.model, self.data)
        return self._observation, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take the command, move the first joint, count time."""
        self._ctrl[:] = action
        self._qpos[0] = action[0]
        self.data.time += DT
        return self._observation, 0.0, False, False, self._info


def _xml(joints: int, actuators: int) -> str:
    slide = '<body><joint name="j{0}" type="slide" range="-1 1"/><geom size="0.1" contype="0"/></body>'
    servo = '<position name="m{0}" joint="j{0}" ctrlrange="-2 2"/>'
    return f"""<mujoco><compiler autolimits="true"/>
    <worldbody>{"".join(slide.format(i) for i in range(joints))}</worldbody>
    <actuator>{"".join(servo.format(i) for i in range(actuators))}</actuator></mujoco>"""
