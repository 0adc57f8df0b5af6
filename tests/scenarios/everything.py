"""A session with every stream of the format at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym

import lucky_recorder as lr

SIZE = {"width": 64, "height": 48}
EVERYTHING: dict[str, Any] = {
    "record_masks": True,
    "gym_columns": True,
    "cameras": [
        {"name": "front", "depth_mode": "rgbd", "masks": ["cube", "base"], **SIZE},
        {"name": "wrist", "depth_mode": "depth_only", "sensor_model": "ActiveStereo", "frame_rate": 25, **SIZE},
        {"name": "fast", "source": "front", "frame_rate": 100, "depth_mode": "separate", "width": 32, "height": 32},
    ],
    "lidars": [
        {"name": "grasp", "rate": 25, "noise_m": 0.01, "azimuth": (-180, 180, 12), "elevation": (-10, 10, 3),
         "record_video_proxy": True},
    ],
}  # fmt: skip


def record(folder: Path, episodes: int = 2, steps: int = 6, **settings: Any) -> Path:
    """Record the expert for some steps of some episodes; returns the session's folder."""
    env = lr.RecordSession(
        gym.make("LuckyRecorder/PickCube-v0"), output_dir=folder, success="terminated", **{**EVERYTHING, **settings}
    )
    expert = env.unwrapped.expert(seed=1)
    try:
        for seed in range(episodes):
            observation, _ = env.reset(seed=seed)
            for _ in range(steps):
                observation, *_ = env.step(expert(observation))
            env.end_episode(success=True)
    finally:
        env.close()
    assert env.session_path is not None
    return env.session_path
