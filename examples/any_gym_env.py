"""Record any Gymnasium environment: without MuJoCo, in custom mode, with the columns you name."""

import argparse

import gymnasium as gym
import numpy as np

import lucky_recorder as lr
from lucky_recorder.rollouts.collect import collect

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--output-dir", default=".")
parser.add_argument("--episodes", type=int, default=2)
arguments = parser.parse_args()


def upright(moment):
    """Success: the pendulum stands at the end."""
    return moment.obs[0] > 0.95


def swing(obs):
    """Push along with the swing, which lifts it."""
    return np.array([2.0 * np.sign(obs[2] or 1.0)], np.float32)


env = lr.RecordSession(
    gym.make("Pendulum-v1", max_episode_steps=50),
    output_dir=arguments.output_dir,
    mode="custom",
    columns=[lr.Column("observation", "gym:obs", dtype="float32", shape=(3,), names=("cos", "sin", "speed"))],
    gym_columns=True,  # gym.action, next.reward, next.done and next.success
    success=upright,
)
with env:
    collect(env, swing, episodes=arguments.episodes)
print(lr.Session(env.session_path).episode(0).rows().slice(0, 2).to_pylist())
