"""A cart that is pushed along a rail, with whatever else happens within a step; and the states it went through."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import gymnasium as gym
import mujoco
import numpy as np

XML = """<mujoco><option timestep="0.005"/>
<worldbody><body name="cart" gravcomp="1"><joint name="x" type="slide" axis="1 0 0" damping="0.3"/>
<geom size=".1" mass="1"/><body pos="0 0 .2"><joint name="swing" axis="0 1 0"/>
<geom type="capsule" fromto="0 0 0 0 0 .4" size=".02" contype="0"/></body></body>
<body name="hand" mocap="true"><geom size=".02" contype="0"/></body></worldbody>
<actuator><motor name="push" joint="x" ctrlrange="-5 5"/></actuator></mujoco>"""
EVERYTHING = int(mujoco.mjtState.mjSTATE_INTEGRATION)
Happening = Callable[["Cart"], None]


class Cart(gym.Env[Any, Any]):
    """Steps four times of 5 ms; the episode is over after so many steps.

    Attributes:
        states: The state before each step, and that after the last.
        commands: The commands of each.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": [], "render_fps": 50}

    def __init__(self, within: Happening | None = None, before: Happening | None = None, xml: str = XML) -> None:
        self.model = mujoco.MjModel.from_xml_string(xml)
        self.data = mujoco.MjData(self.model)
        self.dt = 0.02
        self.action_space = gym.spaces.Box(-5, 5, (1,), np.float64)
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float64)
        self._within, self._before = within, before
        self.steps = 0
        self.states: list[np.ndarray] = []
        self.commands: list[np.ndarray] = []

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        mujoco.mj_resetData(self.model, self.data)
        self.data.qpos[:] = self.np_random.uniform(-0.1, 0.1, 2)
        self.steps, self.commands = 0, []
        self.states = [state(self.model, self.data)]
        return self.data.qpos.copy(), {}

    def step(self, action: Any) -> Any:
        if self._before is not None:
            self._before(self)
        self.data.ctrl[:] = action
        for _ in range(4):
            if self._within is not None:
                self._within(self)
            mujoco.mj_step(self.model, self.data)
        self.steps += 1
        self.states.append(state(self.model, self.data))
        self.commands.append(self.data.ctrl.copy())
        return self.data.qpos.copy(), 0.0, False, False, {"is_success": True}


def state(model: mujoco.MjModel, data: mujoco.MjData) -> np.ndarray:
    values = np.empty(mujoco.mj_stateSize(model, EVERYTHING))
    mujoco.mj_getState(model, data, values, EVERYTHING)
    return values


def push(env: Any, steps: int) -> None:
    """Step an environment with commands that change from step to step."""
    for number in range(steps):
        env.step(np.array([np.sin(0.7 * number + 0.2) * 3]))
