"""A model that is swapped at a reset, with the episode kept or not, is the one that is measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import mujoco
import numpy as np
import pytest

import lucky_recorder as lr
from lucky_recorder.testing import check_session
from tests.scenarios.everything import SIZE


class Swaps(gym.Env[Any, Any]):
    """Makes a model of its own at every reset, as some environments do: the wall is as far away as the episode says."""

    def __init__(self) -> None:
        self.action_space = gym.spaces.Box(-1, 1, (1,), np.float32)
        self.observation_space = gym.spaces.Box(-1, 1, (1,), np.float64)
        self.dt = 0.02
        self.resets = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.load()
        return np.zeros(1), {}

    def load(self) -> None:
        self.resets += 1
        self.model = mujoco.MjModel.from_xml_string(
            f"""<mujoco><visual><quality shadowsize="0" offsamples="0"/></visual><worldbody>
            <geom name="wall" type="box" size="0.1 5 5" pos="{self.resets + 0.1} 0 0"/><site name="eye"/>
            <camera name="eye" xyaxes="0 -1 0 0 0 1"/>
            <body pos="0 0 -9"><joint name="j"/><geom size="0.1"/></body></worldbody>
            <actuator><motor joint="j"/></actuator></mujoco>"""
        )
        self.data = mujoco.MjData(self.model)

    def step(self, action: Any) -> Any:
        mujoco.mj_step(self.model, self.data, 10)
        return np.zeros(1), 0.0, False, False, {}


def test_a_model_that_is_swapped_is_the_one_that_is_measured(tmp_path: Path) -> None:
    env = lr.RecordSession(
        Swaps(),
        output_dir=tmp_path,
        success="terminated",
        cameras=[{"name": "eye", "depth_mode": "depth_only", "masks": ["wall"], **SIZE}],
        lidars=[{"name": "eye", "azimuth": (-10, 10, 3), "elevation": (0, 0, 1), "pattern": "solid_state"}],
        record_masks=True,
    )
    for _ in range(2):
        env.reset(seed=0)
        env.step([0.0])
        env.reset(seed=0, options={"keep_episode": True})
        env.step([0.0])
    env.close()
    for number, episode in enumerate(check_session(env.session_path)):
        distances = [1.0 + 2 * number, 2.0 + 2 * number]
        depth, masks = episode.depth("eye"), episode.masks("eye")
        assert [depth.codes[k][24, 32] for k in range(2)] == [1000 * d for d in distances]
        assert [masks[k].min() for k in range(2)] == [1, 1]
        middle = [episode.scans("eye").ranges(k)[1] for k in range(2)]
        assert middle == pytest.approx(distances, abs=1e-6)
        depth.close()
        masks.close()


class SwapsInside(Swaps):
    """Makes another model inside every step, too: an object is spawned, and time goes on."""

    def step(self, action: Any) -> Any:
        result = super().step(action)
        time = self.data.time
        self.load()
        self.data.time = time
        return result


@pytest.mark.parametrize("is_everything", [False, True], ids=["lidar", "everything"])
def test_a_model_that_is_swapped_inside_every_step_is_the_one_that_is_measured(
    tmp_path: Path, is_everything: bool
) -> None:
    cameras = [{"name": "eye", "depth_mode": "depth_only", "masks": ["wall"], **SIZE}] if is_everything else []
    env = lr.RecordSession(
        SwapsInside(),
        output_dir=tmp_path,
        success="terminated",
        cameras=cameras,
        lidars=[{"name": "eye", "azimuth": (-10, 10, 3), "elevation": (0, 0, 1), "pattern": "solid_state"}],
        record_masks=is_everything,
    )
    env.reset(seed=0)
    for _ in range(5):
        env.step([0.0])
    env.close()
    (episode,) = check_session(env.session_path)
    scans = episode.scans("eye")
    assert [scans.ranges(k)[1] for k in range(5)] == pytest.approx([1.0, 2.0, 3.0, 4.0, 5.0], abs=1e-6)
    if is_everything:
        depth = episode.depth("eye")
        assert [depth.codes[k][24, 32] for k in range(5)] == [1000, 2000, 3000, 4000, 5000]
        depth.close()
