"""Stable-Baselines3: its policy learns, acts and is evaluated in a recorded ``DummyVecEnv`` of its own."""

from __future__ import annotations

import home

# LeRobot's environment has this torch too; the one for CPUs is smaller, where the machine has a place to get it from.
home.run_at_home("stable_baselines3", "torch==2.13.0", "stable-baselines3==2.9.2")

import stable_baselines3  # noqa: E402

print(stable_baselines3.__version__)
