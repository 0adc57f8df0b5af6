"""An environment whose steps are taken in parts: it can be copied, and no second recorder takes them in parts."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.mujoco.mujoco_env import MujocoEnv

import lucky_recorder as lr
from lucky_recorder.capture.find import PHYSICS_STEP, most_parts


class Pendulum(MujocoEnv):
    """One that is copied by what it holds, and not by how it was made."""

    def __init__(self) -> None:
        space = gym.spaces.Box(-np.inf, np.inf, (4,))
        super().__init__("inverted_pendulum.xml", 4, observation_space=space)

    def step(self, action: Any) -> Any:
        self.do_simulation(action, self.frame_skip)
        return self.state(), 1.0, False, False, {}

    def state(self) -> np.ndarray:
        return np.concatenate([self.data.qpos, self.data.qvel])

    def reset_model(self) -> np.ndarray:
        return self.state()


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))], ids=["copy", "pickle"])
def test_a_copy_has_its_own_step(tmp_path: Path, copied: Callable[[Any], Any]) -> None:
    inner = Pendulum()
    env = lr.RecordSession(inner, output_dir=tmp_path, data_hz=2 / inner.dt)
    env.reset(seed=0)
    action = np.full(1, 0.5, np.float32)
    env.step(action)
    other = copied(inner)
    before = inner.state()
    found = [other.step(action)[0] for _ in range(2)]
    assert np.array_equal(inner.state(), before)
    assert np.array_equal([env.step(action)[0] for _ in range(2)], found)
    assert vars(other)[PHYSICS_STEP].__self__ is other
    assert most_parts(other) == 4
    env.close()
    assert [e.data_ticks for e in lr.Session(env.session_path)] == [6]


@pytest.mark.parametrize(("inner_rate", "outer_rate", "works"), [(2, 4, False), (2, 1, True), (1, 2, True)])
def test_a_second_recorder_that_needs_parts_is_told_why_not(
    tmp_path: Path, inner_rate: int, outer_rate: int, works: bool
) -> None:
    bare = Pendulum()
    inner = lr.RecordSession(bare, output_dir=tmp_path / "inner", data_hz=inner_rate / bare.dt)
    outer = lr.RecordSession(inner, output_dir=tmp_path / "outer", data_hz=outer_rate / bare.dt)
    if works:
        outer.reset(seed=0)
        outer.step(np.zeros(1, np.float32))
    else:
        with pytest.raises(lr.SettingsError, match="another recorder of this environment does that already"):
            outer.reset(seed=0)
    outer.close()
