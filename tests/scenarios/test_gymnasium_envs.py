"""Every MuJoCo environment of Gymnasium, and some that are no MuJoCo: recorded, checked, and untouched by it."""

from __future__ import annotations

import functools
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import mujoco
import numpy as np
import pytest
from numpy.typing import NDArray

import lucky_recorder as lr
from lucky_recorder.session.check import inspect_session

Array = NDArray[Any]
EPISODES, STEPS = 2, 12
STATE = int(mujoco.mjtState.mjSTATE_INTEGRATION)
RATES = {
    "Ant-v5": Fraction(20),
    "HalfCheetah-v5": Fraction(20),
    "Hopper-v5": Fraction(125),
    "Humanoid-v5": Fraction(200, 3),
    "HumanoidStandup-v5": Fraction(200, 3),
    "InvertedDoublePendulum-v5": Fraction(20),
    "InvertedPendulum-v5": Fraction(25),
    "Pusher-v5": Fraction(20),
    "Reacher-v5": Fraction(50),
    "Swimmer-v5": Fraction(25),
    "Walker2d-v5": Fraction(125),
}


class Step(NamedTuple):
    """One step: what it was chosen on, what it did, and the whole state before it."""

    obs: Any
    state: Array
    action: Any
    reward: float
    next_obs: Any
    done: bool


def state_of(model: Any, data: Any) -> Array:
    state = np.empty(mujoco.mj_stateSize(model, STATE))
    mujoco.mj_getState(model, data, state, STATE)
    return state


def whole_state(moment: Any) -> Array:
    """The source of the column that a run can be replayed from."""
    return state_of(moment.model, moment.data)


def run(env: gym.Env[Any, Any]) -> list[list[Step]]:
    """Two short episodes; a reset breaks off what has not ended by itself."""
    env.action_space.seed(7)
    episodes = []
    for seed in range(EPISODES):
        obs, _ = env.reset(seed=seed)
        steps: list[Step] = []
        while len(steps) < STEPS and not (steps and steps[-1].done):
            bare: Any = env.unwrapped
            state = state_of(bare.model, bare.data) if hasattr(bare, "data") else np.empty(0)
            action = env.action_space.sample()
            next_obs, reward, terminated, truncated, _ = env.step(action)
            steps.append(Step(obs, state, action, float(reward), next_obs, terminated or truncated))
            obs = next_obs
        episodes.append(steps)
    env.close()
    return episodes


@functools.cache
def unrecorded(env_id: str) -> list[list[Step]]:
    return run(gym.make(env_id))


def recorded(env: gym.Env[Any, Any], output_dir: Path, **fields: Any) -> tuple[list[list[Step]], lr.Session]:
    """Run an environment in a recorder, and check what was written."""
    wrapped = lr.RecordSession(env, output_dir=output_dir, success="terminated", **fields)
    episodes = run(wrapped)
    assert wrapped.session_path is not None
    report = inspect_session(wrapped.session_path)
    rows = sum(len(steps) for steps in episodes)
    assert report.faults == []
    assert (report.episodes, report.rows, report.frames) == (EPISODES, rows, rows * len(wrapped.settings.cameras))
    return episodes, lr.Session(wrapped.session_path)


def column(session: lr.Session, episode: int, name: str) -> Array:
    return np.array(session.episode(episode).rows()[name].to_pylist())


def assert_same_runs(ours: list[list[Step]], theirs: list[list[Step]]) -> None:
    for mine, other in zip(ours, theirs, strict=True):
        for a, b in zip(mine, other, strict=True):
            for value, expected in zip(a, b, strict=True):
                np.testing.assert_array_equal(value, expected)


def actuated(model: Any) -> list[int]:
    """Where the actuated joints lie in qpos; every actuator of these models drives one hinge or slide joint."""
    return sorted({int(model.jnt_qposadr[j]) for j in model.actuator_trnid[:, 0]})


@pytest.mark.parametrize("env_id", RATES)
def test_a_robot_arm_session_holds_the_driven_joints_and_leaves_the_run_as_it_was(env_id: str, tmp_path: Path) -> None:
    env: Any = gym.make(env_id)
    model = env.unwrapped.model
    episodes, session = recorded(env, tmp_path)
    assert_same_runs(episodes, unrecorded(env_id))
    assert session.hz == RATES[env_id]
    assert session.features["action"]["shape"] == [model.nu]
    for k, steps in enumerate(episodes):
        qpos = np.array([s.state[1 : 1 + model.nq] for s in steps])
        np.testing.assert_array_equal(column(session, k, "observation.state"), qpos[:, actuated(model)])
        commands = lr.commands_to_ctrl(model, column(session, k, "action"))
        np.testing.assert_allclose(commands, [s.action for s in steps], rtol=0, atol=1e-6)


@pytest.mark.parametrize("env_id", RATES)
def test_a_full_scene_session_with_a_camera_leaves_the_run_as_it_was_and_replays_exactly(
    env_id: str, tmp_path: Path
) -> None:
    env: Any = gym.make(env_id)
    bare = env.unwrapped
    size = mujoco.mj_stateSize(bare.model, STATE)
    episodes, session = recorded(
        env,
        tmp_path,
        mode="full_scene",
        gym_columns=True,
        render_quality="fastest",
        columns=[lr.Column("state", whole_state, shape=(size,))],
        cameras=[lr.Camera("free", source=lr.FreeCamera(), width=64, height=48)],
    )
    assert_same_runs(episodes, unrecorded(env_id))
    assert session.hz == session.cameras["free"].rate == RATES[env_id]
    for k, steps in enumerate(episodes):
        states = column(session, k, "state")
        np.testing.assert_array_equal(states, [s.state for s in steps])
        np.testing.assert_array_equal(column(session, k, "observation.state"), states[:, 1 : 1 + bare.model.nq])
        np.testing.assert_array_equal(column(session, k, "next.reward"), [s.reward for s in steps])
        assert_replays(bare.model, bare.frame_skip, states, column(session, k, "gym.action"))


def assert_replays(model: Any, frame_skip: int, states: Array, actions: Array) -> None:
    """From the first recorded state, the recorded actions lead through every later one, bit for bit."""
    data = mujoco.MjData(model)
    mujoco.mj_setState(model, data, states[0], STATE)
    for k, action in enumerate(actions[:-1]):
        data.ctrl[:] = action
        mujoco.mj_step(model, data, frame_skip)
        np.testing.assert_array_equal(state_of(model, data), states[k + 1])


class Docking(gym.Env[dict[str, Any], int]):
    """A craft on a line: observations of several kinds in a dict, three actions, pictures, a clock of its own."""

    observation_space = gym.spaces.Dict(
        {
            "position": gym.spaces.Box(-20.0, 20.0, (2,), np.float32),
            "fuel": gym.spaces.Discrete(100),
            "sonar": gym.spaces.Box(0, 255, (2, 3), np.uint8),
        }
    )
    action_space = gym.spaces.Discrete(3)
    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012 - Gymnasium's own declaration
    render_mode = "rgb_array"
    control_dt = 0.1

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
        super().reset(seed=seed)
        self._at, self._fuel = self.np_random.uniform(-1, 1), 99
        return self._look(), {}

    def step(self, action: int) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        self._at += (action - 1) * 0.25
        self._fuel -= action != 1
        return self._look(), -abs(self._at), False, False, {"is_success": abs(self._at) < 0.5}

    def render(self) -> Any:
        return np.full((48, 64, 3), 2 * self._fuel, np.uint8)

    def _look(self) -> dict[str, Any]:
        sonar = self.np_random.integers(0, 256, (2, 3), np.uint8)
        return {"position": np.array([self._at, -self._at], np.float32), "fuel": self._fuel, "sonar": sonar}


CLASSIC = {
    "CartPole-v1": (Fraction(50), "int64", "float32", (4,)),
    "Pendulum-v1": (Fraction(20), "float32", "float32", (3,)),
    "FrozenLake-v1": (Fraction(4), "int64", "int64", ()),
}


@pytest.mark.parametrize("env_id", CLASSIC)
def test_an_environment_without_a_simulator_records_what_it_was_told_and_said(env_id: str, tmp_path: Path) -> None:
    rate, action_dtype, dtype, shape = CLASSIC[env_id]
    columns = [lr.Column("obs", "gym:obs", dtype=dtype, shape=shape)]
    episodes, session = recorded(gym.make(env_id), tmp_path, mode="custom", gym_columns=True, columns=columns)
    assert_same_runs(episodes, unrecorded(env_id))
    assert session.hz == rate
    assert session.features["gym.action"]["dtype"] == action_dtype
    for k, steps in enumerate(episodes):
        np.testing.assert_array_equal(column(session, k, "obs"), [s.obs for s in steps])
        actions = [np.asarray(s.action).reshape(()) for s in steps]
        np.testing.assert_array_equal(column(session, k, "gym.action"), actions)
        np.testing.assert_array_equal(column(session, k, "next.reward"), [s.reward for s in steps])
        np.testing.assert_array_equal(column(session, k, "next.done"), [s.done for s in steps])


def test_a_dict_of_observations_records_key_by_key_with_its_own_pictures(tmp_path: Path) -> None:
    columns = [
        lr.Column("position", "gym:obs.position", dtype="float32", shape=(2,)),
        lr.Column("fuel", "gym:obs.fuel", dtype="int64"),
        lr.Column("sonar", "gym:obs.sonar", dtype="uint8", shape=(2, 3)),
        lr.Column("docked", "info:is_success", dtype="bool"),
    ]
    cameras = [lr.Camera("own", source="render", width=64, height=48)]
    fields = {"mode": "custom", "gym_columns": True, "columns": columns, "cameras": cameras}
    episodes, session = recorded(Docking(), tmp_path, **fields)
    assert session.hz == 10
    for k, steps in enumerate(episodes):
        for key in ("position", "fuel", "sonar"):
            np.testing.assert_array_equal(column(session, k, key), [s.obs[key] for s in steps])
        np.testing.assert_array_equal(column(session, k, "gym.action"), [s.action for s in steps])
        np.testing.assert_array_equal(column(session, k, "docked"), [abs(s.reward) < 0.5 for s in steps])
        frames = session.episode(k).frames("own")
        for step, frame in zip(steps, frames, strict=True):
            assert abs(float(frame.mean()) - 2 * step.obs["fuel"]) < 4


def test_a_dict_of_observations_is_no_single_column(tmp_path: Path) -> None:
    columns = [lr.Column("obs", "gym:obs", shape=(2,))]
    env = lr.RecordSession(Docking(), output_dir=tmp_path, mode="custom", columns=columns)
    with pytest.raises(lr.SettingsError, match=r"gym:obs\.position"):
        env.reset(seed=0)
    env.close()
    assert list(tmp_path.iterdir()) == []
