"""Collect demonstrations: a scripted arm lifts a cube before two cameras; attempts that fail are tried again."""

import argparse

import gymnasium as gym

import lucky_recorder as lr
from lucky_recorder.rollouts.collect import collect

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--output-dir", default=".")
parser.add_argument("--episodes", type=int, default=10)
arguments = parser.parse_args()

env = lr.RecordSession(
    gym.make("LuckyRecorder/PickCube-v0"),
    output_dir=arguments.output_dir,
    cameras=[lr.Camera("front", width=320, height=240), lr.Camera("wrist", width=320, height=240)],
    tasks=["Pick up the cube"],
    discard_and_retry_failed=True,
)
with env:
    # A policy is anything that takes an observation and returns an action.
    expert = env.unwrapped.expert(fail=0.2)
    summary = collect(env, expert, episodes=arguments.episodes)

print(f"{summary.kept} demonstrations, {summary.discarded} attempts discarded: {env.session_path}")
