"""Fit a policy to demonstrations by least squares, from where the cube lies to a motion, and evaluate it."""

import argparse
from pathlib import Path

import gymnasium as gym
import numpy as np

import lucky_recorder as lr
from lucky_recorder.rollouts.collect import collect

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--output-dir", type=Path, default=Path())
parser.add_argument("--demonstrations", type=int, default=30)
parser.add_argument("--episodes", type=int, default=20)
arguments = parser.parse_args()
settings = {"output_dir": arguments.output_dir, "columns": [lr.Column("observation.cube", "qpos:cube", shape=(7,))]}
demos = lr.KoyuSettings(name="demonstrations")
with lr.RecordSession(gym.make("LuckyRecorder/PickCube-v0"), **settings, koyu=demos, formats=["koyu"]) as env:
    collect(env, env.unwrapped.expert(), episodes=arguments.demonstrations)


def features(cube):
    """Cubic in the cube's distance, direction, and turn against the fingers: a quarter turn of a cube is none."""
    (x, y), turn = cube[:2], 2 * np.arctan2(cube[6], cube[3])
    azimuth = np.arctan2(y, x)
    turn = (turn - azimuth + np.pi / 4) % (np.pi / 2) - np.pi / 4
    linear = np.array([1.0, (np.hypot(x, y) - 0.2) / 0.04, azimuth / 0.6, turn / 0.8])
    return np.einsum("i,j,k->ijk", linear, linear, linear).ravel()


data = lr.koyu.Dataset(env.koyu_path, horizon=80)
first = [data[data.rows_of(number).start] for number in range(len(data.episodes))]
motions = [row["action"].ravel() for row in first]
weights = np.linalg.lstsq([features(row["observation.cube"]) for row in first], motions)[0]
settings |= {"cameras": [lr.Camera("front", width=320, height=240)], "tasks": ["Pick up the cube"]}
rollouts = lr.KoyuSettings(name="rollouts", collection_mode="eval", policy_name="least squares")
with lr.RecordSession(gym.make("LuckyRecorder/PickCube-v0"), **settings, koyu=rollouts) as env:
    policy = lambda seen: (features(seen["observation.cube"]) @ weights).reshape(80, -1)  # noqa: E731
    print(lr.evaluate(env, policy, action="actuators", seeds=range(1000, 1000 + arguments.episodes)).to_json())
