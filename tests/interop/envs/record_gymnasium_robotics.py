"""Gymnasium-Robotics on MuJoCo 3.3.7: a mocap body instead of actuators, environments inside environments."""

from __future__ import annotations

import home

home.run_at_home("gymnasium_robotics", "mujoco==3.3.7", "gymnasium-robotics==1.4.2")

import functools  # noqa: E402
import warnings  # noqa: E402

import gymnasium as gym  # noqa: E402
import gymnasium_robotics  # noqa: E402
from proof import prove, refuse  # noqa: E402

# What these environments say of themselves at every start, none of it about the recorder.
warnings.filterwarnings("ignore", module="gymnasium")
gym.register_envs(gymnasium_robotics)

reach = functools.partial(gym.make, "FetchReach-v4")
refuse("FetchReach-v4", reach, "no actuator", "full_scene", "custom", mode="robot_arm")
prove("FetchReach-v4", reach, mode="full_scene", gym_columns=True)
prove("FetchReach-v4", reach, mode="custom", gym_columns=True)

RATES = {
    "FetchPickAndPlace-v4": 25,
    "HandReach-v3": 25,
    "AdroitHandDoor-v1": 100,
    "PointMaze_UMaze-v3": 100,
    "AntMaze_UMaze-v5": 20,
    "FrankaKitchen-v1": 12.5,
}
for env_id, rate in RATES.items():
    for mode in ("robot_arm", "full_scene"):
        session = prove(env_id, functools.partial(gym.make, env_id), mode=mode, gym_columns=True, success="terminated")
        assert session.hz == rate, session.hz
print("Gymnasium-Robotics records.")
