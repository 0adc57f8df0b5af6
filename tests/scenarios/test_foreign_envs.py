"""Environments of other libraries' shapes, recorded from end to end by small fakes of them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import mujoco
import numpy as np
import pytest

import lucky_recorder as lr
from lucky_recorder.capture import find as resolve
from lucky_recorder.testing import check_session

XML = """
<mujoco model="arm">
  <option timestep="0.01"/>
  <worldbody>
    <geom type="plane" size="1 1 .1"/>
    <body name="hand" mocap="true"><geom size=".01" contype="0" conaffinity="0"/></body>
    <body name="link"><joint name="turn"/><geom type="capsule" fromto="0 0 1 .3 0 1" size=".05"/></body>
  </worldbody>
  <actuator>{motor}</actuator>
</mujoco>
"""
MOTOR = '<motor name="turn" joint="turn"/>'
STEPS = 3


def model_of(motor: str = MOTOR) -> mujoco.MjModel:
    return mujoco.MjModel.from_xml_string(XML.format(motor=motor))


class Swapping:
    """robosuite's shape: wrapped model and data, both made anew at every reset, no spaces; success is a method."""

    control_freq = 50

    def __init__(self) -> None:
        self.resets = 0
        self._make()

    def _make(self) -> None:
        model = model_of()
        self.bare = mujoco.MjData(model)
        wrapped = SimpleNamespace(_model=model)
        self.sim = SimpleNamespace(model=wrapped, data=SimpleNamespace(_model=wrapped, _data=self.bare))

    def reset(self) -> None:
        self._make()
        self.resets += 1
        self.bare.qpos[:] = self.resets

    def step(self, action: np.ndarray) -> None:
        self.bare.ctrl[:] = action[0]
        mujoco.mj_step(self.sim.model._model, self.bare, 2)

    def _check_success(self) -> bool:
        return self.resets == 1


class Adapter(gym.Env[np.ndarray, np.ndarray]):
    """robosuite's own adapter: the spaces are its, ``unwrapped`` is the environment inside."""

    action_space = gym.spaces.Box(-1, 1, (4,), np.float32)
    observation_space = gym.spaces.Box(-np.inf, np.inf, (1,), np.float64)

    def __init__(self) -> None:
        self.env = Swapping()

    @property
    def unwrapped(self) -> Any:
        return self.env

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        self.env.reset()
        return self.env.bare.qpos.copy(), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.env.step(action)
        return self.env.bare.qpos.copy(), 0.0, False, self.env.bare.time > STEPS * 0.02 - 1e-9, {}


class Robot(gym.Env[np.ndarray, np.ndarray]):
    """Fetch's shape where there is no motor: a mocap body is moved, nothing is actuated."""

    action_space = gym.spaces.Box(-1, 1, (4,), np.float32)
    observation_space = gym.spaces.Dict({"hand": gym.spaces.Box(-9, 9, (3,)), "turn": gym.spaces.Box(-9, 9, (1,))})
    dt = 0.04

    def __init__(self, motor: str = MOTOR) -> None:
        self.model = model_of(motor)
        self.data = mujoco.MjData(self.model)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        mujoco.mj_resetData(self.model, self.data)
        return self._look(), {}

    def step(self, action: np.ndarray) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.data.mocap_pos[0] += action[:3]
        mujoco.mj_step(self.model, self.data, 4)
        return self._look(), 0.0, False, False, {"is_success": False}

    def _look(self) -> dict[str, np.ndarray]:
        return {"hand": self.data.mocap_pos[0].astype(np.float32), "turn": self.data.qpos.astype(np.float32)}


class Maze(gym.Env[Any, Any]):
    """A maze's shape: the robot is an environment inside, under a name of its own, and knows the rate."""

    def __init__(self) -> None:
        self.walker = Robot()
        self.model, self.data = self.walker.model, self.walker.data
        self.action_space, self.observation_space = self.walker.action_space, self.walker.observation_space

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        return self.walker.reset(seed=seed)

    def step(self, action: np.ndarray) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return self.walker.step(action)


def record(env: Any, output_dir: Path, episodes: int = 2, **fields: Any) -> lr.Session:
    wrapped = lr.RecordSession(env, output_dir=output_dir, **fields)
    for _ in range(episodes):
        wrapped.reset(seed=0)
        for step in range(STEPS):
            action = np.full(wrapped.action_space.shape, step / 8, np.float32)
            wrapped.step(action)
    wrapped.close()
    return check_session(wrapped.session_path)


def column(session: lr.Session, episode: int, name: str) -> np.ndarray:
    return np.array(session.episode(episode).rows()[name].to_pylist())


def test_a_model_made_anew_at_every_reset_is_followed(tmp_path: Path) -> None:
    session = record(Adapter(), tmp_path, gym_columns=True, cameras=[lr.Camera("free", lr.FreeCamera(), 64, 48)])
    assert session.hz == 50
    assert [e.success for e in session] == [True, False]
    for k in range(2):
        assert column(session, k, "observation.state")[0, 0] == k + 1
        assert column(session, k, "action")[:, 0].tolist() == [0, 1 / 8, 2 / 8]
        assert len(session.episode(k).frames("free")) == STEPS


def test_the_policys_action_has_the_space_of_the_environment_that_is_stepped(tmp_path: Path) -> None:
    """The one inside may have no spaces at all, or others."""
    session = record(Adapter(), tmp_path, gym_columns=True)
    assert session.features["gym.action"]["shape"] == [4]
    rescaled = gym.wrappers.TransformAction(Robot(), lambda a: np.append(a, 0), gym.spaces.Box(-1, 1, (3,), np.float64))
    session = record(rescaled, tmp_path, gym_columns=True)
    assert (session.features["gym.action"]["shape"], session.features["gym.action"]["dtype"]) == ([3], "float64")
    assert column(session, 0, "gym.action").tolist() == [[s / 8] * 3 for s in range(STEPS)]


def test_observations_are_those_of_the_environment_that_is_stepped(tmp_path: Path) -> None:
    hand = lr.Column("hand", "gym:obs.hand", "float32", (3,))
    session = record(Robot(), tmp_path, columns=[hand])
    np.testing.assert_array_equal(column(session, 0, "hand")[:, 0], np.float32([0, 0, 1 / 8]))
    flat = gym.wrappers.FlattenObservation(Robot())
    session = record(flat, tmp_path, columns=[lr.Column("all", "gym:obs", "float32", (4,))])
    assert column(session, 0, "all").shape == (STEPS, 4)
    with pytest.raises(lr.SettingsError, match=r"gym:obs\.hand"):
        record(flat, tmp_path, columns=[hand])


def test_a_callable_is_given_the_environment_without_its_wrappers(tmp_path: Path) -> None:
    env = Robot()
    seen: list[Any] = []
    column = lr.Column("seen", lambda moment: seen.append(moment.env) or 1.0)
    record(gym.wrappers.TimeLimit(env, 100), tmp_path, columns=[column])
    assert {id(e) for e in seen} == {id(env)}


def test_without_an_actuator_the_robot_arm_mode_names_the_others(tmp_path: Path) -> None:
    with pytest.raises(lr.SettingsError, match=r"no actuator; use mode='full_scene' or mode='custom'"):
        record(Robot(motor=""), tmp_path)
    assert list(tmp_path.iterdir()) == []
    session = record(Robot(motor=""), tmp_path, mode="full_scene", gym_columns=True)
    assert session.features["observation.state"]["names"] == ["turn"]
    assert column(session, 0, "action").shape == (STEPS, 0)


def test_the_rate_of_an_environment_inside_one_counts_where_the_outer_says_none(tmp_path: Path) -> None:
    maze = Maze()
    assert resolve.control_rate(maze) == 25
    assert record(maze, tmp_path).hz == 25
    maze.dt = 0.04 * 5
    assert resolve.control_rate(maze) == 5


def test_the_simulation_of_an_environment_inside_one_is_found_last(tmp_path: Path) -> None:
    kitchen = SimpleNamespace(robot_env=Robot(), step=None)
    found = resolve.find_simulation(kitchen)
    assert found is not None
    assert found.model is kitchen.robot_env.model
    other = Robot()
    kitchen.env = SimpleNamespace(env=SimpleNamespace(model=other.model, data=other.data))
    found = resolve.find_simulation(kitchen)
    assert found is not None
    assert found.model is other.model
