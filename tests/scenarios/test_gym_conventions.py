"""RecordSession among other wrappers, in vector environments, and as a Gymnasium wrapper itself."""

from __future__ import annotations

import ast
import copy
import json
import pickle
import threading
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils import RecordConstructorArgs
from gymnasium.wrappers import Autoreset

import lucky_recorder as lr
from lucky_recorder.testing import CountEnv


@pytest.fixture(scope="module", autouse=True)
def registered() -> Any:
    """Register the counting environment, as any other that gymnasium makes by its id."""
    gym.register("Count-v0", "lucky_recorder.testing:CountEnv", disable_env_checker=True)
    yield
    del gym.registry["Count-v0"]


def steps(env: Any, count: int, action: float = 0.0) -> None:
    for _ in range(count):
        env.step(np.array([action], np.float32))


def every_third(number: int) -> bool:
    return number % 3 == 0


# Wrappers around and inside.


def test_an_autoreset_wrapper_inside_begins_episodes_and_its_reset_is_no_row(
    record: Any, read_back: Any, counts: Any, seen: Any
) -> None:
    env = record(Autoreset(CountEnv([2, 3], render_mode="rgb_array")), cameras=[seen], gym_columns=True)
    env.reset(seed=0)
    for t in range(9):
        env.step(np.array([t], np.float32))
    env.close()
    episodes = read_back(env.session_path)
    assert [counts(e)["rows"] for e in episodes] == [[0, 1], [100, 101, 102], [200, 201]]
    assert [counts(e)["seen"] for e in episodes] == [counts(e)["rows"] for e in episodes]
    assert [e.rows["gym.action"].tolist() for e in episodes] == [[0, 1], [3, 4, 5], [7, 8]]
    assert [e.rows["frame_flags"][0] for e in episodes] == [3, 3, 3]
    assert [e.meta["success"] for e in episodes] == [True, True, True]


def test_an_autoreset_wrapper_inside_goes_on_after_episodes_that_are_not_recorded(record: Any, read_back: Any) -> None:
    env = record(Autoreset(CountEnv(3)), episode_trigger=lambda n: n in (1, 3), max_episode_length_s=0.04)
    env.reset()
    steps(env, 18)
    env.close()
    episodes = read_back(env.session_path)
    assert [(e.rows["obs"].tolist(), e.meta["success"]) for e in episodes] == [([100, 101], False), ([300, 301], False)]


def test_an_autoreset_wrapper_inside_goes_on_after_end_episode(record: Any, read_back: Any) -> None:
    env = record(Autoreset(CountEnv(3)))
    env.reset()
    steps(env, 2)
    env.end_episode(success=True)
    steps(env, 4)
    env.close()
    assert [e.rows["obs"].tolist() for e in read_back(env.session_path)] == [[0, 1], [100, 101]]


@pytest.mark.parametrize("how", ["sync", pytest.param("async", marks=pytest.mark.filterwarnings("ignore"))])
def test_a_recorder_in_every_sub_environment_writes_a_session_of_its_own(
    tmp_path: Path, read_back: Any, counts: Any, seen: Any, how: str
) -> None:
    recorder = partial(
        lr.RecordSession,
        mode="custom",
        columns=[{"name": "obs", "source": "gym:obs"}],
        cameras=[seen],
        output_dir=tmp_path,
    )
    envs = gym.make_vec(
        "Count-v0",
        2,
        vectorization_mode=how,
        wrappers=[recorder],
        vector_kwargs={"context": "spawn"} if how == "async" else None,
        length=[2, 3],
        render_mode="rgb_array",
    )
    envs.reset(seed=0)
    for _ in range(6):
        envs.step(np.zeros((2, 1), np.float32))
    envs.close()
    sessions = sorted(tmp_path.glob("DataSessions/*"))
    assert len(sessions) == 2
    for session in sessions:
        episodes = read_back(session)
        assert [counts(e)["rows"] for e in episodes] == [[0, 1], [100, 101, 102]]
        assert [counts(e)["seen"] for e in episodes] == [[0, 1], [100, 101, 102]]


def test_same_step_autoreset_of_a_vector_environment_records_each_episode(tmp_path: Path, read_back: Any) -> None:
    recorder = partial(lr.RecordSession, mode="custom", gym_columns=True, output_dir=tmp_path)
    kwargs = {"autoreset_mode": gym.vector.AutoresetMode.SAME_STEP}
    envs = gym.make_vec(
        "Count-v0", 1, vectorization_mode="sync", wrappers=[recorder], vector_kwargs=kwargs, length=[2, 3]
    )
    envs.reset(seed=0)
    for t in range(7):
        envs.step(np.full((1, 1), t, np.float32))
    envs.close()
    (session,) = tmp_path.glob("DataSessions/*")
    assert [e.rows["gym.action"].tolist() for e in read_back(session)] == [[0, 1], [2, 3, 4], [5, 6]]


def test_verbs_of_the_observer_may_be_used_behind_the_wrapper(record: Any, read_back: Any) -> None:
    env = record(CountEnv(None))
    env.reset()
    steps(env, 2)
    env.observer.end_current_episode(success=True)
    steps(env, 2)
    env.reset()
    steps(env, 1)
    env.observer.end_current_episode_begin_next(success=True)
    steps(env, 2)
    env.observer.stop_recording()
    steps(env, 1)
    env.close()
    episodes = read_back(env.session_path)
    assert [e.rows["obs"].tolist() for e in episodes] == [[0, 1], [100], [101, 102]]


# Being a Gymnasium wrapper.


def test_it_is_a_wrapper_that_remembers_its_arguments(record: Any, tmp_path: Path) -> None:
    env = lr.RecordSession(
        gym.make("Count-v0", length=2),
        output_dir=tmp_path,
        cameras=[lr.Camera("a", frame_rate="50/3")],
        mode="custom",
        columns=[lr.Column("obs", "gym:obs")],
        episode_trigger=f"{__name__}:every_third",
    )
    assert isinstance(env, gym.Wrapper)
    assert isinstance(env, RecordConstructorArgs)
    assert ast.literal_eval(repr(env._saved_kwargs)) == env._saved_kwargs
    assert json.loads(json.dumps(env._saved_kwargs)) == env._saved_kwargs
    wrapper = env.spec.additional_wrappers[-1]
    assert (wrapper.name, wrapper.entry_point) == ("RecordSession", "lucky_recorder.recorder.wrapper:RecordSession")
    again = gym.make(gym.envs.registration.EnvSpec.from_json(env.spec.to_json()))
    assert isinstance(again, lr.RecordSession)
    assert again.settings == env.settings
    assert again.unwrapped._lengths == [2]


def test_the_spec_inside_is_the_environments_own(tmp_path: Path) -> None:
    inner = gym.make("Count-v0", length=2)
    env = lr.RecordSession(inner, output_dir=tmp_path, mode="custom", gym_columns=True)
    assert env.env is inner
    assert env.env.spec == inner.spec
    assert (env.observation_space, env.action_space) == (inner.observation_space, inner.action_space)
    assert (env.metadata, env.render_mode, env.unwrapped) == (inner.metadata, None, inner.unwrapped)


def test_settings_as_an_object_and_as_fields_are_the_same(tmp_path: Path) -> None:
    fields = {"output_dir": tmp_path, "mode": "custom", "gym_columns": True}
    (tmp_path / "settings.toml").write_text(lr.RecorderSettings(**fields).to_toml())
    given = [lr.RecorderSettings(**fields), fields, tmp_path / "settings.toml", str(tmp_path / "settings.toml")]
    assert {lr.RecordSession(CountEnv(), one).settings for one in given} == {lr.RecorderSettings(**fields)}
    assert lr.RecordSession(CountEnv(), given[0], tasks=["Pick"]).settings.tasks == ("Pick",)


def test_a_constructor_opens_nothing(record: Any, tmp_path: Path, wall: Any) -> None:
    before = threading.active_count()
    env = record(CountEnv(mujoco=True), cameras=[wall], output_dir=tmp_path / "new")
    assert (env.session_path, env.is_recording) == (None, False)
    env.close()
    env.close()
    assert not (tmp_path / "new").exists()
    assert threading.active_count() == before


@pytest.mark.parametrize("when", ["before", "during", "after"])
@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps], ids=["copy", "deepcopy", "pickle"])
def test_it_can_be_neither_copied_nor_pickled_and_says_what_to_do(
    record: Any, run: Any, when: str, duplicate: Any
) -> None:
    env = record()
    if when != "before":
        run(env)
    if when == "after":
        env.close()
    with pytest.raises(lr.StateError, match=r"neither copied nor pickled; make one in each process"):
        duplicate(env)
    assert env.is_recording is (when == "during")


def test_closing_twice_closes_the_environment_once(record: Any, run: Any, read_back: Any) -> None:
    inner, closed = CountEnv(2), []
    inner.close = lambda: closed.append(1)
    env = record(inner)
    run(env)
    env.close()
    env.close()
    assert closed == [1]
    assert [(e.meta["length"], e.meta["success"]) for e in read_back(env.session_path)] == [(2, True)]


@pytest.mark.parametrize(("length", "success"), [(2, True), (None, False)], ids=["done", "open"])
def test_close_gives_a_done_episode_its_verdict_and_fails_an_open_one(
    record: Any, run: Any, read_back: Any, length: int | None, success: bool
) -> None:
    env = record(CountEnv(length))
    run(env, steps=2)
    env.close()
    assert [(e.meta["length"], e.meta["success"]) for e in read_back(env.session_path)] == [(2, success)]


def test_leaving_a_block_closes_also_with_an_error(record: Any, read_back: Any) -> None:
    env = record(CountEnv(None))

    def work() -> None:
        with env as entered:
            assert entered is env
            env.reset()
            steps(env, 2)
            raise KeyError("in the policy")

    with pytest.raises(KeyError, match="in the policy"):
        work()
    assert not env.is_recording
    assert [(e.meta["length"], e.meta["success"]) for e in read_back(env.session_path)] == [(2, False)]


def test_an_environment_that_fails_to_close_leaves_a_whole_session(record: Any, run: Any, read_back: Any) -> None:
    inner = CountEnv(2)

    def close() -> None:
        raise OSError("the window is gone")

    inner.close = close
    env = record(inner)
    run(env)
    with pytest.raises(OSError, match="the window is gone"):
        env.close()
    env.close()
    assert [e.meta["length"] for e in read_back(env.session_path)] == [2]


def test_two_recorders_around_one_environment_write_the_same(tmp_path: Path, run: Any, read_back: Any) -> None:
    fields = {"mode": "custom", "columns": [lr.Column("obs", "gym:obs")]}
    inner = lr.RecordSession(CountEnv(3), output_dir=tmp_path / "inner", **fields)
    outer = lr.RecordSession(inner, output_dir=tmp_path / "outer", **fields)
    run(outer, episodes=2)
    outer.close()
    assert not inner.is_recording
    rows = [[e.rows["obs"].tolist() for e in read_back(env.session_path)] for env in (inner, outer)]
    assert rows[0] == rows[1] == [[0, 1, 2], [100, 101, 102]]


def test_a_render_of_another_size_says_which(record: Any, tmp_path: Path) -> None:
    env = record(CountEnv(render_mode="rgb_array"), cameras=[{"name": "seen", "source": "render"}])
    with pytest.raises(
        lr.SettingsError, match="gives 64x48 pixels, and the camera is 640x480; set width=64, height=48"
    ):
        env.reset()
    env.close()
    assert list(tmp_path.iterdir()) == []
