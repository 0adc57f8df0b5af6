"""RecordSession: a rate that nobody states is learned from the first step, and nothing else changes."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest

import lucky_recorder as lr
from lucky_recorder.testing import CountEnv, check_session
from tests.recorder.stepping import steps, without_a_rate
from tests.same import bytes_of


def test_a_rate_that_nobody_states_is_read_off_the_first_step(record: Any, wall: Any) -> None:
    files = []
    for env in (without_a_rate(), CountEnv(4, mujoco=True)):
        recorded = record(env, mode="robot_arm", cameras=[wall], gym_columns=True)
        for seed in (0, 1):
            recorded.reset(seed=seed)
            done = False
            while not done:
                _, _, terminated, truncated, _ = recorded.step(np.full(1, 0.25, np.float32))
                done = terminated or truncated
        recorded.close()
        path = check_session(recorded.session_path).path
        files.append(bytes_of(path))
    assert files[0] == files[1]


def test_what_the_first_step_changes_in_place_is_recorded_as_it_was(record: Any) -> None:
    class InPlace(CountEnv):
        def reset(self, **fields: Any) -> Any:
            observation, info = super().reset(**fields)
            self.shown = observation.copy()
            return self.shown, info

        def step(self, action: Any) -> Any:
            observation, *rest = super().step(action)
            self.shown[:], action[:] = observation, 9
            return self.shown, *rest

    env = InPlace(3, mujoco=True)
    env.metadata = {"render_modes": []}
    del env.dt
    recorded = record(env, gym_columns=True)
    recorded.reset(seed=0)
    for _ in range(3):
        recorded.step(np.full(1, 0.25, np.float32))
    recorded.close()
    rows = lr.Session(recorded.session_path).episode(0).rows()
    assert rows["obs"].to_pylist() == [0, 1, 2]
    assert rows["gym.action"].to_pylist() == [0.25] * 3


def test_whatever_looks_at_the_environment_sees_what_was_there_before_the_first_step(
    record: Any, read_back: Any, counts: Any, seen: Any
) -> None:
    env = without_a_rate(render_mode="rgb_array")
    asked = lr.Column("asked", lambda moment: env.count)
    recorded = record(env, mode="robot_arm", cameras=[{**seen, "frame_rate": 25}], columns=[asked])
    recorded.reset(seed=0)
    steps(recorded, 4)
    recorded.close()
    (episode,) = read_back(recorded.session_path)
    assert episode.rows["asked"].tolist() == [0, 1, 2, 3]
    assert counts(episode)["seen"] == [0, 2]


def test_a_session_is_open_from_the_first_reset_whether_its_rate_is_known_or_not(
    record: Any, read_back: Any, wall: Any
) -> None:
    env = record(without_a_rate(), mode="robot_arm", cameras=[wall])
    env.reset(seed=0)
    path = env.session_path
    assert env.is_recording
    assert path is not None
    assert path.is_dir()
    seen = env.observe()
    env.end_episode(success=True)
    env.reset(seed=1)
    steps(env, 2)
    env.end_episode(success=True)
    env.close()
    assert env.session_path == path
    (episode,) = read_back(path)
    assert (episode.meta["length"], episode.meta["success"]) == (2, True)
    assert {key: value.shape for key, value in seen.items()} == {
        "observation.state": (1,),
        "observation.images.wall": (48, 64, 3),
    }


def test_where_no_step_was_taken_nothing_is_left(record: Any, tmp_path: Path) -> None:
    env = record(without_a_rate(), mode="robot_arm", koyu={"name": "cubes"})
    env.reset(seed=0)
    env.reset(seed=0)
    env.close()
    assert (env.is_recording, env.session_path, list(tmp_path.glob("DataSessions/*"))) == (False, None, [])


def test_a_first_step_that_takes_no_time_needs_a_rate(record: Any) -> None:
    env = without_a_rate()
    env.step = lambda action: (env.observation_space.low, 0.0, False, False, {})  # type: ignore[method-assign]
    recorded = record(env, mode="robot_arm")
    recorded.reset(seed=0)
    with pytest.raises(lr.SettingsError, match=r"data_hz=None: nothing here says .* set control_hz"):
        recorded.step(np.zeros(1, np.float32))
    recorded.step(np.zeros(1, np.float32))
    recorded.close()


def test_a_first_step_that_goes_wrong_teaches_no_rate(record: Any, read_back: Any) -> None:
    class Breaks(CountEnv):
        def step(self, action: Any) -> Any:
            if self.episode == 0:
                self.data.qvel[0] = np.nan
                mujoco.mj_step(self.model, self.data)
            return super().step(action)

    inner = Breaks(3, mujoco=True)
    inner.metadata = {"render_modes": []}
    del inner.dt
    env = record(inner, mode="robot_arm")
    env.reset(seed=0)
    with pytest.raises(lr.CaptureError, match="unstable"):
        steps(env, 1)
    env.reset(seed=1)
    steps(env, 3)
    env.close()
    (episode,) = read_back(env.session_path)
    assert episode.rows["timestamp"].tolist() == [0, 0.02, 0.04]


def test_a_refused_session_is_let_go_of(record: Any, wall: Any) -> None:
    env = record(without_a_rate(), mode="robot_arm", cameras=[{**wall, "frame_rate": 40}])
    env.reset(seed=0)
    refused = weakref.ref(env.recorder.recording)
    with pytest.raises(lr.SettingsError, match="does not divide"):
        steps(env, 1)
    gc.collect()
    assert refused() is None
