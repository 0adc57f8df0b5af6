"""dm_control on MuJoCo 3.17: the suite's physics, and the composer's, whose model is made anew at every reset."""

from __future__ import annotations

import home

home.run_at_home("dm_control", "mujoco==3.17.0", "dm_control==1.0.50")

import functools  # noqa: E402
from fractions import Fraction  # noqa: E402
from typing import Any  # noqa: E402

import gymnasium as gym  # noqa: E402
import numpy as np  # noqa: E402
from dm_control import manipulation, suite  # noqa: E402
from dm_control.locomotion.examples import basic_cmu_2019  # noqa: E402
from proof import prove  # noqa: E402


class DmControl(gym.Env[dict[str, Any], np.ndarray]):
    """A dm_control environment as a Gymnasium one."""

    def __init__(self, load: Any) -> None:
        self._random = np.random.RandomState(1)
        self._env = load(self._random)
        spec = self._env.action_spec()
        low, high = (np.broadcast_to(end, spec.shape) for end in (spec.minimum, spec.maximum))
        self.action_space = gym.spaces.Box(low, high, dtype=np.float64)
        self.observation_space = gym.spaces.Dict(
            {k: gym.spaces.Box(-np.inf, np.inf, v.shape, np.float64) for k, v in self._env.observation_spec().items()}
        )

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
        if seed is not None:
            self._random.seed(seed)
        return dict(self._env.reset().observation), {}

    def step(self, action: np.ndarray) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        step = self._env.step(action)
        return dict(step.observation), step.reward or 0.0, step.last() and step.discount == 0, step.last(), {}


def of_the_suite(domain: str, task: str) -> Any:
    return functools.partial(DmControl, lambda random: suite.load(domain, task, task_kwargs={"random": random}))


def of_manipulation(name: str) -> Any:
    return functools.partial(DmControl, lambda random: manipulation.load(name, seed=random))


SUITE = {
    ("cartpole", "swingup"): Fraction(100),
    ("humanoid", "walk"): Fraction(40),
    ("quadruped", "fetch"): Fraction(50),
    ("fish", "swim"): Fraction(25),
    ("manipulator", "bring_ball"): Fraction(100),
    ("dog", "walk"): Fraction(200, 3),
}
for (domain, task), rate in SUITE.items():
    for mode in ("robot_arm", "full_scene"):
        make = of_the_suite(domain, task)
        session = prove(f"{domain} {task}", make, mode=mode, gym_columns=True, success="terminated")
        assert session.hz == rate, session.hz

COMPOSED = {
    "stack_2_bricks_features": (of_manipulation("stack_2_bricks_features"), Fraction(25)),
    "cmu_humanoid_run_walls": (functools.partial(DmControl, basic_cmu_2019.cmu_humanoid_run_walls), Fraction(100, 3)),
}
for name, (make, rate) in COMPOSED.items():
    session = prove(name, make, mode="robot_arm", success="terminated")
    assert session.hz == rate, session.hz
print("dm_control records.")
