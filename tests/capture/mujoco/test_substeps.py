"""Ticks inside a step: the physics is the same, bit for bit, and every tick of it is recorded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import mujoco
import numpy as np
import pytest

import lucky_recorder as lr
from lucky_recorder.capture.find import most_parts
from lucky_recorder.capture.mujoco.substeps import Substeps
from lucky_recorder.episode import clock
from lucky_recorder.testing import CountEnv, check_session

STATE = int(mujoco.mjtState.mjSTATE_INTEGRATION)
SIZE = {"width": 64, "height": 48}
HOOK = "_step_mujoco_simulation"


def arm(**options: Any) -> gym.Env[Any, Any]:
    return gym.make("LuckyRecorder/PickCube-v0", **options)


def qpos(episode: Any) -> np.ndarray:
    return np.array(episode.rows(["observation.state"])["observation.state"].to_pylist())


def column(episode: Any, name: str) -> list[Any]:
    values: list[Any] = episode.rows([name])[name].to_pylist()
    return values


def record(tmp_path: Path, env: Any, steps: int = 4, act: Callable[[int], Any] | None = None, **settings: Any) -> Any:
    """Record an episode of some steps and return it, read back."""
    recorder = lr.RecordSession(env, output_dir=tmp_path, **{"mode": "full_scene", "success": "terminated", **settings})
    recorder.reset(seed=5)
    recorder.action_space.seed(1)
    for k in range(steps):
        recorder.step(recorder.action_space.sample() if act is None else act(k))
    recorder.close()
    return check_session(recorder.session_path).episode(0)


def replay(env: Any, steps: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """Step an environment's physics one frame at a time, as its actions say; returns qpos and commands of each."""
    bare = env.unwrapped
    env.reset(seed=5)
    env.action_space.seed(1)
    rows: list[np.ndarray] = []
    commands: list[np.ndarray] = []

    def step(ctrl: Any, frames: int) -> None:
        bare.data.ctrl[:] = ctrl
        for _ in range(frames):
            rows.append(bare.data.qpos.copy())
            commands.append(bare.data.ctrl.copy())
            mujoco.mj_step(bare.model, bare.data)
        mujoco.mj_rnePostConstraint(bare.model, bare.data)

    setattr(bare, HOOK, step)
    for _ in range(steps):
        env.step(env.action_space.sample())
    env.close()
    return np.array(rows), np.array(commands)


@pytest.mark.parametrize(
    ("name", "hz", "every"),
    [("LuckyRecorder/PickCube-v0", 500, 1), ("LuckyRecorder/PickCube-v0", 100, 5), ("Humanoid-v5", "1000/3", 1),
     ("Ant-v5", 100, 1), ("HalfCheetah-v5", 100, 1)],
)  # fmt: skip
def test_every_tick_of_the_physics_is_recorded(tmp_path: Path, name: str, hz: Any, every: int) -> None:
    episode = record(tmp_path, gym.make(name), data_hz=hz)
    known, commands = replay(gym.make(name))
    assert np.array_equal(qpos(episode), known[::every])
    frames = len(known) // 4
    flags = np.array(column(episode, "frame_flags"))
    per_step = frames // every
    assert (flags & 1).tolist() == ([1] + [0] * (per_step - 1)) * 4
    assert (flags >> 1).tolist() == [1] + [0] * (4 * per_step - 1)
    assert len(commands) == len(known)
    rate = clock.rate(hz, "data_hz")
    assert column(episode, "timestamp") == pytest.approx([float(k / rate) for k in range(4 * per_step)], abs=1e-9)


def test_actions_are_held_over_the_rows_of_a_step(tmp_path: Path) -> None:
    fast = np.array(column(record(tmp_path / "fast", gym.make("Ant-v5"), data_hz=100), "action"))
    slow = np.array(column(record(tmp_path / "slow", gym.make("Ant-v5")), "action"))
    assert np.array_equal(fast, slow.repeat(5, axis=0))
    assert len(np.unique(slow, axis=0)) == 4


def test_what_only_the_whole_step_knows_is_on_its_last_row(tmp_path: Path) -> None:
    rewards = []
    env = lr.RecordSession(
        arm(), output_dir=tmp_path, data_hz=250, gym_columns=True,
        columns=[
            lr.Column("reward", "gym:reward"), lr.Column("lifted", "info:is_success", "bool"),
            lr.Column("late", lambda m: m.reward, when="after"), lr.Column("q0", lambda m: m.data.qpos[0]),
            lr.Column("q1", lambda m: m.data.qpos[0], when="after"),
        ],
    )  # fmt: skip
    expert = env.unwrapped.expert(seed=0)
    observation, _ = env.reset(seed=0)
    for _ in range(6):
        observation, reward, *_ = env.step(expert(observation))
        rewards.append(reward)
    env.close()
    episode = check_session(env.session_path).episode(0)
    expected = [r for reward in rewards for r in (0, 0, 0, 0, reward)]
    assert column(episode, "next.reward") == column(episode, "reward") == column(episode, "late") == expected
    # Rows follow each other without a gap: what one leads to is where the next begins.
    assert column(episode, "q1")[:-1] == column(episode, "q0")[1:]
    assert len(set(column(episode, "q1"))) > 20
    assert column(episode, "lifted") == [None, None, None, None, False] * 6
    action = np.array(column(episode, "gym.action")).reshape(6, 5, -1)
    assert (action == action[:, :1]).all()


@pytest.mark.parametrize("data_hz", [50, 25])
def test_a_camera_faster_than_the_rows_takes_nothing_from_them(tmp_path: Path, data_hz: int) -> None:
    """What a step says is known at its end; the rows are those that are recorded without the camera."""
    columns = [
        lr.Column("reward", "gym:reward"),
        lr.Column("lifted", "info:is_success", "bool"),
        lr.Column("late", lambda m: (m.data.qpos[0], m.reward, m.obs[0]), shape=(3,), when="after"),
    ]

    def rows(place: str, **settings: Any) -> Any:
        env = arm()
        fields = {"data_hz": data_hz, "gym_columns": True, "columns": columns, "mode": "robot_arm", **settings}
        return record(tmp_path / place, env, steps=7, **fields)

    fast = rows("fast", cameras=[lr.Camera("front", frame_rate=100, **SIZE)])
    assert fast.rows().equals(rows("plain").rows())
    assert all(reward != 0 for reward in column(fast, "reward"))
    assert None not in column(fast, "lifted")
    with fast.frames("front") as frames:
        assert len(frames) == 14


def test_a_fast_camera_shows_the_state_inside_the_step(tmp_path: Path) -> None:
    """Through lossless depth: frame k is the picture of physics tick k."""
    from tests.capture.surfaces import Mirror

    env = arm()
    model = env.unwrapped.model
    cameras = [lr.Camera("front", depth_mode="depth_only", frame_rate=250, **SIZE)]
    episode = record(tmp_path, env, steps=3, data_hz=250, cameras=cameras)
    depth, rows = episode.depth("front"), qpos(episode)
    assert len(depth) == len(rows) == 15
    data = mujoco.MjData(model)
    with Mirror(model, 64, 48) as mirror:
        for k, row in enumerate(rows):
            data.qpos[:] = row
            state = np.empty(mujoco.mj_stateSize(model, STATE))
            mujoco.mj_getState(model, data, state, STATE)
            mirror.show(state, "front")
            np.testing.assert_array_equal(depth.codes[k], mirror.codes(0.001))
    depth.close()


@pytest.mark.parametrize("settings", [{"data_hz": 500}, {"cameras": [{"name": "front", "frame_rate": 100, **SIZE}]}],
                         ids=["rows", "frames"])  # fmt: skip
def test_a_run_with_ticks_inside_is_the_run_without_a_recorder(tmp_path: Path, settings: Any) -> None:
    plain, env = arm(), lr.RecordSession(arm(), output_dir=tmp_path, **settings)
    for seed in (0, None):
        starts = [e.reset(seed=seed) for e in (plain, env)]
        assert np.array_equal(starts[0][0], starts[1][0])
        for k in range(6):
            action = np.sin(np.arange(plain.action_space.shape[0]) + k).astype(np.float32)
            one, other = plain.step(action), env.step(action)
            assert np.array_equal(one[0], other[0])
            assert one[1:4] == other[1:4]
            for name in ("qpos", "qvel", "ctrl", "qacc", "xpos", "sensordata", "cfrc_ext"):
                known, got = (getattr(e.unwrapped.data, name) for e in (plain, env))
                assert np.array_equal(known, got), name
    env.close()
    plain.close()
    check_session(env.session_path)


def test_frames_rows_and_scans_each_at_a_rate_of_its_own(tmp_path: Path) -> None:
    """Field report 24: sensors faster than the policy."""
    cameras = [{"name": "front", "frame_rate": 250, **SIZE}, {"name": "wrist", "frame_rate": 10, **SIZE}]
    lidars = [{"name": "grasp", "rate": 100, "azimuth": (0, 90, 3), "elevation": (0, 10, 2)}]
    episode = record(tmp_path, arm(), steps=7, data_hz=50, cameras=cameras, lidars=lidars)
    assert episode.length == 7
    for name, count, rate in (("front", 35, 250), ("wrist", 2, 10)):
        with episode.frames(name) as frames:
            assert (len(frames), frames.info.fps) == (count, rate)
        assert episode.meta[f"videos/observation.images.{name}/to_timestamp"] == count / rate
    scans = episode.scans("grasp")
    assert len(scans) == 14
    assert scans.table["frame_index"].to_pylist() == [k // 2 for k in range(14)]
    assert scans.table["timestamp"].to_pylist() == [k / 100 for k in range(14)]


def test_an_episode_may_end_in_the_midst_of_a_step(tmp_path: Path) -> None:
    env = lr.RecordSession(arm(), output_dir=tmp_path, data_hz=500, max_episode_length_s=0.05, mode="full_scene")
    for _ in range(2):
        env.reset(seed=1)
        for _ in range(5):
            env.step(np.zeros(env.action_space.shape, np.float32))
    env.close()
    session = check_session(env.session_path)
    assert [(e.length, e.success) for e in session] == [(25, False)] * 2


def test_autoreset_goes_on_after_an_episode_that_ended_in_the_midst_of_a_step(tmp_path: Path) -> None:
    inner = gym.wrappers.Autoreset(arm(max_episode_steps=3))
    env = lr.RecordSession(inner, output_dir=tmp_path, data_hz=500, max_episode_length_s=0.05, success="terminated")
    env.reset(seed=1)
    for _ in range(11):
        env.step(np.zeros(env.action_space.shape, np.float32))
    env.close()
    assert [e.length for e in check_session(env.session_path)] == [25, 25, 25]


# What cannot be divided.


class Twice(gym.Wrapper[Any, Any, Any, Any]):
    """Repeats every action, as frame skipping wrappers do."""

    def step(self, action: Any) -> Any:
        self.env.step(action)
        return self.env.step(action)


def test_an_environment_that_steps_its_physics_twice_is_refused(tmp_path: Path) -> None:
    env = lr.RecordSession(Twice(arm()), output_dir=tmp_path, data_hz=500)
    env.reset(seed=0)
    with pytest.raises(
        lr.CaptureError, match=r"stepped its physics 2 times in a step, not once, .*; keep data_hz and every"
    ):
        env.step(np.zeros(env.action_space.shape, np.float32))
    env.close()
    assert [e.success for e in check_session(env.session_path)] == [False]


def test_an_environment_that_skips_other_frames_than_it_says_is_refused(tmp_path: Path) -> None:
    inner = arm()
    bare = inner.unwrapped
    bare.do_simulation = lambda ctrl, frames: bare._step_mujoco_simulation(ctrl, 2 * frames)
    env = lr.RecordSession(inner, output_dir=tmp_path, data_hz=500)
    env.reset(seed=0)
    with pytest.raises(lr.CaptureError, match="stepped 20 frames at once, but its frame_skip is 10"):
        env.step(np.zeros(env.action_space.shape, np.float32))
    env.step(np.zeros(env.action_space.shape, np.float32))
    env.close()


def test_elsewhere_a_rate_above_the_control_rate_is_refused(tmp_path: Path) -> None:
    for settings in ({"data_hz": 500}, {"cameras": [{"name": "wall", "frame_rate": 100, **SIZE}]}):
        env = lr.RecordSession(CountEnv(3, mujoco=True), output_dir=tmp_path, **settings)
        env.reset()
        with pytest.raises(lr.SettingsError, match=r"is above the control rate as measured .*; the nearest: 50 Hz"):
            env.step(np.zeros(1))
        env.close()
    assert list(tmp_path.glob("DataSessions/*")) == []


def test_which_environments_can_be_stepped_in_parts() -> None:
    with arm() as env:
        assert most_parts(env) == 10
        setattr(env.unwrapped, HOOK, lambda ctrl, frames: None)
        assert most_parts(env) == 1
    assert most_parts(CountEnv(3, mujoco=True)) == 1


def test_the_environment_gets_its_own_step_back(tmp_path: Path) -> None:
    inner = arm()
    env = lr.RecordSession(inner, output_dir=tmp_path, data_hz=100)
    env.reset(seed=0)
    assert HOOK in vars(inner.unwrapped)
    env.step(np.zeros(env.action_space.shape, np.float32))
    env.close()
    assert HOOK not in vars(inner.unwrapped)
    assert most_parts(inner) == 10


def test_while_nothing_is_recorded_the_step_is_the_environments_own() -> None:
    env = arm()
    env.reset(seed=0)
    calls: list[int] = []
    substeps = Substeps(env, 5, calls.append)
    action = np.zeros(env.action_space.shape, np.float32)
    env.step(action)
    assert (calls, substeps.steps) == ([], 0)
    substeps.is_recording = True
    env.step(action)
    assert (calls, substeps.steps) == ([0, 1, 2, 3, 4], 1)
    substeps.remove()
    env.close()
