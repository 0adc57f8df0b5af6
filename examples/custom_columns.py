"""Add columns of your own: poses, velocities, what the policy and the environment said, and anything you compute."""

import argparse

import gymnasium as gym
import numpy as np

import lucky_recorder as lr
from lucky_recorder.rollouts.collect import collect

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--output-dir", default=".")
parser.add_argument("--episodes", type=int, default=2)
arguments = parser.parse_args()


def reach(moment):
    """Metres from the gripper to the cube, from a private copy of the simulation."""
    return np.linalg.norm(moment.data.site("grasp").xpos - moment.data.body("cube").xpos)


columns = [
    lr.Column("gripper.position", "site_xpos:grasp", shape=(3,), names=("x", "y", "z"), unit="m"),
    lr.Column("gripper.velocity", "qvel:gripper", unit="rad/s"),
    lr.Column("reach", reach, dtype="float32", unit="m"),
    lr.Column("lifted", "info:is_success", dtype="bool"),
]
env = lr.RecordSession(
    gym.make("LuckyRecorder/PickCube-v0"), output_dir=arguments.output_dir, columns=columns, gym_columns=True
)
with env:
    collect(env, env.unwrapped.expert(), episodes=arguments.episodes)

rows = lr.Session(env.session_path).episode(0).rows()
print(rows.select(["reach", "lifted", "next.reward"]).slice(rows.num_rows - 1).to_pylist())
