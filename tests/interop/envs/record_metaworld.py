"""Metaworld on MuJoCo 3.3.7: two actuators under a four-vector of actions, a hand that a mocap body moves."""

from __future__ import annotations

import home

# Its 3.1 asks for MuJoCo 3.3.0, older than the recorder takes.
home.run_at_home("metaworld", "mujoco==3.3.7", "metaworld==3.0.0")

import functools  # noqa: E402
import warnings  # noqa: E402

import gymnasium as gym  # noqa: E402
import metaworld  # noqa: E402, F401 - registers its environments
from proof import prove  # noqa: E402

# What these environments say of their own spaces, none of it about the recorder.
warnings.filterwarnings("ignore", module="gymnasium")

for task in ("reach-v3", "pick-place-v3", "drawer-open-v3"):
    make = functools.partial(gym.make, "Meta-World/MT1", env_name=task, seed=1)
    for mode in ("robot_arm", "full_scene", "custom"):
        session = prove(task, make, mode=mode, gym_columns=True)
        assert session.hz == 80, session.hz
        assert session.features["gym.action"]["shape"] == [4]
        assert mode == "custom" or session.features["action"]["shape"] == [2]
print("Metaworld records.")
