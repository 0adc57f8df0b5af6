"""The faces of many environments in one session: what they are, what can be said of a lane, and how it ends."""

from __future__ import annotations

import functools
import gc
import os
import pickle
import warnings
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

import lucky_recorder as lr
from lucky_recorder.settings.recorder import RecorderSettings
from lucky_recorder.testing import CountEnv, check_session
from tests.recorder.lanes import OBS, Lane, custom, expected, run, vector


def rows_of(path: Path) -> list[list[float]]:
    session = check_session(path)
    return [np.ravel(session.episode(i).rows()["obs"].to_pylist()).tolist() for i in range(len(session))]


def step(env: Any, count: int = 1) -> None:
    for _ in range(count):
        env.step(np.zeros((env.num_envs, 1), np.float32))


def test_a_vector_environment_is_handed_over(tmp_path: Path) -> None:
    inner = vector()
    env = lr.RecordSession(inner, RecorderSettings(**custom(tmp_path)))
    assert type(env) is lr.vector.VectorRecordSession
    assert isinstance(env, gym.vector.VectorEnv)
    assert not isinstance(env, lr.RecordSession)
    assert all(isinstance(lane, lr.RecordSession) for lane in env.lanes)
    assert list(env.lanes) == inner.envs
    assert [lane.lane for lane in env.lanes] == [0, 1, 2]
    assert not list(tmp_path.iterdir())
    env.close()
    assert not list(tmp_path.iterdir())


def test_a_single_environment_is_not_handed_over(tmp_path: Path) -> None:
    assert type(lr.RecordSession(CountEnv(), **custom(tmp_path))) is lr.RecordSession
    assert type(lr.RecordSession(env=CountEnv(), **custom(tmp_path))) is lr.RecordSession


def test_wrappers_of_a_vector_environment_stay_around_the_taps(tmp_path: Path) -> None:
    inner = gym.wrappers.vector.TransformAction(vector(), lambda actions: actions + 1)
    env = lr.RecordSession(inner, **custom(tmp_path))
    env.reset(seed=0)
    step(env)
    env.close()
    session = check_session(env.session_path)
    assert [np.ravel(session.episode(i).rows()["gym.action"].to_pylist()).tolist() for i in range(3)] == [[1.0]] * 3


def test_an_environment_that_is_refused_leaves_the_vector_environment_as_it_was(tmp_path: Path) -> None:
    inner = vector()
    with pytest.raises(lr.SettingsError, match="mode"):
        lr.RecordSession(inner, output_dir=tmp_path, mode="nothing")
    assert [type(one) for one in inner.envs] == [Lane] * 3


def test_make_vec_with_shared_makes_one_session(tmp_path: Path) -> None:
    gym.register("Lanes-v0", entry_point=CountEnv, kwargs={"length": 3}, disable_env_checker=True)
    try:
        env = gym.make_vec(
            "Lanes-v0", num_envs=3, vectorization_mode="sync", wrappers=[lr.vector.shared(**custom(tmp_path))]
        )
    finally:
        gym.registry.pop("Lanes-v0")
    env.reset(seed=1)
    step(env, 5)
    first, *others = env.envs
    for lane in (first, *others[:-1]):
        lane.close()
    assert others[-1].is_recording
    env.close()
    assert rows_of(first.session_path) == [[0, 1, 2]] * 3 + [[100]] * 3
    assert len(list((tmp_path / "DataSessions").iterdir())) == 1


def test_shared_is_over_when_its_session_is(tmp_path: Path) -> None:
    wrap = lr.vector.shared(**custom(tmp_path))
    lane = wrap(CountEnv())
    lane.reset()
    lane.close()
    with pytest.raises(lr.StateError, match=r"has ended; call lucky_recorder.vector.shared\(\) again"):
        wrap(CountEnv())


def test_a_session_that_is_shared_in_one_process_is_not_a_childs(tmp_path: Path) -> None:
    wrap = lr.vector.shared(**custom(tmp_path))
    lane = wrap(CountEnv())
    lane.reset()
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if not child:
        try:
            wrap(CountEnv()).reset()
        except lr.StateError as error:
            os.write(write, str(error).encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert "share a session already" in os.read(read, 1000).decode()
    os.close(read), os.close(write)
    lane.close()


def test_a_lane_that_is_never_reset_keeps_no_session_open(tmp_path: Path) -> None:
    wrap = lr.vector.shared(**custom(tmp_path))
    used, unused = wrap(CountEnv()), wrap(CountEnv())
    used.reset()
    used.step(np.zeros(1, np.float32))
    used.close()
    assert used.recorder.fleet.is_open
    unused.close()
    assert rows_of(used.session_path) == [[0]]


def test_a_lane_that_is_forgotten_ends_with_one_warning(tmp_path: Path) -> None:
    wrap = lr.vector.shared(**custom(tmp_path))
    lanes = [wrap(Lane(lane, None)) for lane in range(3)]
    for lane in lanes:
        lane.reset()
        lane.step(np.zeros(1, np.float32))
    path = lanes[0].session_path
    del lanes[1], lane
    gc.collect()
    lanes[0].step(np.zeros(1, np.float32))
    lanes[0].close()
    with pytest.warns(RuntimeWarning, match=r"close\(\) was not called") as caught:
        lanes[1].close()
    assert len(caught) == 1
    assert rows_of(path) == [[2000], [0, 1], [4000]]


def test_a_vector_environment_that_is_forgotten_is_closed_with_one_warning(tmp_path: Path) -> None:
    env = lr.RecordSession(vector((2, None, None)), **custom(tmp_path))
    env.reset()
    step(env, 3)
    path = env.session_path
    kept = [env]
    del env
    with pytest.warns(RuntimeWarning, match=r"close\(\) was not called") as caught:
        kept.clear()
    assert len(caught) == 1
    assert sorted(rows_of(path)) == [[0, 1], [2000, 2001, 2002], [4000, 4001, 4002]]


@pytest.mark.parametrize("mode", list(AutoresetMode))
@pytest.mark.parametrize("total", [1, 2, 4, 7])
def test_total_episodes_counts_over_all_lanes_and_is_never_exceeded(
    tmp_path: Path, mode: AutoresetMode, total: int
) -> None:
    env = lr.RecordSession(vector((2, 3, 5), mode), **custom(tmp_path, total_episodes=total))
    run(env, 30, mode)
    assert not env.is_recording
    assert env.counts.kept == total
    assert env.counts.discarded == 0
    env.close()
    counted = rows_of(env.session_path)
    assert len(counted) == total
    # None is cut short: what is begun is kept.
    assert all(len(one) == (2, 3, 5)[int(one[0]) // 2000] for one in counted)


def test_discarded_attempts_leave_their_place_to_others(tmp_path: Path) -> None:
    """Lane 0 always fails: the places of its attempts are taken by the others, and no index is left out."""
    lanes = [lambda lane=lane: Lane(lane, 2 + lane, succeeds=lane > 0) for lane in range(3)]
    inner = gym.vector.SyncVectorEnv(lanes, autoreset_mode=AutoresetMode.SAME_STEP)
    env = lr.RecordSession(inner, **custom(tmp_path, total_episodes=5, discard_and_retry_failed=True))
    run(env, 40, AutoresetMode.SAME_STEP)
    assert not env.is_recording
    assert env.counts.kept == 5
    assert env.counts.discarded >= 1
    env.close()
    counted = rows_of(env.session_path)
    assert len(counted) == 5
    assert all(one[0] >= 2000 for one in counted)


def test_a_lane_is_ended_by_hand(tmp_path: Path) -> None:
    env = lr.RecordSession(vector((None, None, None)), **custom(tmp_path))
    env.reset()
    step(env, 2)
    env.end_episode(1, success=True, reward=0.5)
    step(env)
    with pytest.raises(lr.StateError, match="open episode"):
        env.end_episode(1)
    for wrong in (3, -1, True, "1", None):
        with pytest.raises(lr.SettingsError, match="lane"):
            env.end_episode(wrong)
    env.close()
    assert rows_of(env.session_path) == [[2000, 2001], [0, 1, 2], [4000, 4001, 4002]]
    assert check_session(env.session_path).episodes["success"].to_pylist() == [True, False, False]


def test_tasks_are_a_lanes_own(tmp_path: Path) -> None:
    env = lr.RecordSession(vector((None, None, None)), **custom(tmp_path, tasks=["lift", "push"]))
    env.set_task(1, lane=2)
    env.reset()
    step(env)
    env.set_task(1)
    step(env)
    env.close()
    session = check_session(env.session_path)
    assert [session.episode(i).rows()["task_index"].to_pylist() for i in range(3)] == [[0, 1], [0, 1], [1, 1]]


def test_a_task_is_registered_for_all_lanes_before_the_session(tmp_path: Path) -> None:
    env = lr.RecordSession(vector((None, None)), **custom(tmp_path))
    assert [env.lanes[1].observer.register_task(task) for task in ("lift", "push")] == [0, 1]
    env.set_task(1, lane=0)
    env.lanes[0].reset()
    with pytest.raises(lr.StateError, match="register_task"):
        env.lanes[1].observer.register_task("turn")
    env.reset()
    step(env)
    env.close()
    assert check_session(env.session_path).episodes["tasks"].to_pylist() == [["push"], ["lift"]]


def test_the_time_limit_and_the_trigger_are_each_lanes_own(tmp_path: Path) -> None:
    settings = custom(tmp_path, max_episode_length_s=0.06, episode_trigger=lambda number: number != 1)
    env = lr.RecordSession(vector((2, None)), **settings)
    env.reset()
    step(env, 8)
    env.close()
    assert rows_of(env.session_path) == [[0, 1], [2000, 2001, 2002], [200, 201]]


def test_counts_flush_and_paths(tmp_path: Path) -> None:
    env = lr.RecordSession(vector((1, 2, 3)), **custom(tmp_path))
    assert env.session_path is None
    assert env.koyu_path is None
    assert env.counts is None
    assert not env.is_recording
    with pytest.raises(lr.StateError, match="reset"):
        env.flush()
    with env:
        env.reset()
        step(env, 2)
        env.flush()
        assert env.counts.kept == 1
        assert env.is_recording
    assert not env.is_recording
    env.close()
    assert env.counts.kept == 3
    with pytest.raises(lr.StateError, match="pickled"):
        pickle.dumps(env)


def test_koyu_bundles_of_all_lanes(tmp_path: Path) -> None:
    koyu = lr.KoyuSettings(name="lanes", collection_mode="synthetic")
    env = lr.RecordSession(
        vector((2, 3), mujoco=True), output_dir=tmp_path, koyu=koyu, cameras=[lr.Camera("wall", width=64, height=48)]
    )
    run(env, 7)
    env.close()
    wanted = expected((2, 3), 7, AutoresetMode.NEXT_STEP)
    assert len(lr.koyu.Dataset(env.koyu_path).episodes) == len(wanted)
    assert len(check_session(env.session_path)) == len(wanted)


def test_lanes_of_another_layout_are_refused(tmp_path: Path) -> None:
    class Wide(CountEnv):
        def __init__(self) -> None:
            super().__init__(mujoco=False)
            self.observation_space = gym.spaces.Box(0, 1, (2,))

        def _observation(self) -> Any:
            return np.zeros(2)

    wrap = lr.vector.shared(**custom(tmp_path, columns=[lr.Column("obs", lambda m: np.zeros(1), shape=(1,))]))
    wrap = lr.vector.shared(output_dir=tmp_path, mode="custom", gym_columns=True)
    first, second = wrap(CountEnv()), wrap(CountEnv())
    second.unwrapped.action_space = gym.spaces.Box(0, 1, (4,))
    first.reset()
    with pytest.raises(lr.SettingsError, match=r"lane 1: it has another layout .* a session of its own"):
        second.reset()
    first.step(np.zeros(1, np.float32))
    first.close(), second.close()
    assert len(check_session(first.session_path)) == 1


def test_lanes_of_another_rate_are_refused_on_their_first_step(tmp_path: Path) -> None:
    wrap = lr.vector.shared(output_dir=tmp_path, mode="custom", columns=[OBS])
    lanes = [wrap(CountEnv(mujoco=True)), wrap(CountEnv(mujoco=True))]
    lanes[1].unwrapped.model.opt.timestep = 0.004
    lanes[1].unwrapped.dt = 0.04
    for lane in lanes:
        lane.reset()
    for _ in range(3):
        lanes[0].step(np.zeros(1, np.float32))
    lanes[0].reset()
    with pytest.raises(lr.SettingsError, match=r"lane 1: .*steps a second: 25 and 50"):
        lanes[1].step(np.zeros(1, np.float32))
    for lane in lanes:
        lane.close()
    assert rows_of(lanes[0].session_path) == [[0, 1, 2]]


def test_a_session_for_each_environment_is_still_there(tmp_path: Path) -> None:
    wrap = functools.partial(lr.RecordSession, **custom(tmp_path))
    inner = vector((2, 2), AutoresetMode.SAME_STEP, wrap)
    run(inner, 2, AutoresetMode.SAME_STEP)
    paths = {one.session_path for one in inner.envs}
    inner.close()
    assert len(paths) == 2
    assert sorted(rows_of(path) for path in paths) == [[[0, 1]], [[2000, 2001]]]
