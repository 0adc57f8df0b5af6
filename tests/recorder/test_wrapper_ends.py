"""RecordSession: where an episode ends, by the environment's word or by the caller's, and what is no row after it."""

from __future__ import annotations

from typing import Any

import pytest
from gymnasium.wrappers import Autoreset, TimeLimit

import lucky_recorder as lr
from lucky_recorder.testing import CountEnv
from tests.recorder.stepping import steps


def test_done_freezes_the_rows_until_the_verdict(record: Any, read_back: Any) -> None:
    env = record(CountEnv(2))
    env.reset()
    steps(env, 5)
    assert env.recorder.take.lane.ticks == 2
    env.end_episode(success=False)
    steps(env, 2)
    with pytest.warns(RuntimeWarning, match=r"^5 steps came after one that had ended its episode"):
        env.reset()
    steps(env, 2)
    env.close()
    episodes = read_back(env.session_path)
    assert [(e.rows["obs"].tolist(), e.meta["success"]) for e in episodes] == [([0, 1], False), ([100, 101], True)]


def test_a_truncated_episode_is_frozen_too(record: Any, run: Any, read_back: Any) -> None:
    env = record(TimeLimit(CountEnv(None), 4))
    run(env, episodes=2)
    env.close()
    assert [(e.meta["length"], e.meta["success"]) for e in read_back(env.session_path)] == [(4, True)] * 2


def test_end_episode_records_nothing_until_reset(record: Any, read_back: Any) -> None:
    env = record(CountEnv(None))
    with pytest.raises(lr.StateError, match=r"end_episode\(\) needs an open episode.*call reset\(\)"):
        env.end_episode()
    env.reset()
    steps(env, 2)
    env.end_episode(success=True, reward=0.5)
    with pytest.raises(lr.StateError, match=r"end_episode\(\) needs an open episode"):
        env.end_episode(success=True)
    steps(env, 3)
    env.reset()
    steps(env, 1)
    with pytest.raises(lr.SettingsError, match="success='yes'"):
        env.end_episode(success="yes")
    with pytest.raises(lr.SettingsError, match="reward=7"):
        env.end_episode(success=True, reward=7)
    steps(env, 1)
    env.end_episode(success=True)
    env.close()
    assert [e.rows["obs"].tolist() for e in read_back(env.session_path)] == [[0, 1], [100, 101]]


def test_an_episode_ended_without_rows_takes_no_index(record: Any, read_back: Any) -> None:
    env = record(CountEnv(None), total_episodes=2)
    env.reset()
    env.end_episode(success=True)
    env.reset()
    steps(env, 1)
    env.close()
    assert [e.meta["episode_index"] for e in read_back(env.session_path)] == [0]


@pytest.mark.parametrize(
    ("verb", "lengths"),
    [
        (lambda env: env.end_episode(success=True), [2, 3]),
        (lambda env: env.observer.end_current_episode(True), [2, 3]),
        (lambda env: env.observer.end_current_episode_begin_next(True), [2, 2, 3]),
    ],
    ids=["end_episode", "end_current_episode", "begin_next"],
)
def test_an_episode_that_ends_inside_a_step_has_no_row_of_it(
    record: Any, read_back: Any, counts: Any, seen: Any, verb: Any, lengths: list[int]
) -> None:
    class Asks(CountEnv):
        def step(self, action: Any) -> Any:
            if self.count == 2:
                verb(env)
            return super().step(action)

    env = record(Asks([5, 3], render_mode="rgb_array"), cameras=[seen])
    for length in (5, 3):
        env.reset(seed=length)
        steps(env, length)
    env.close()
    episodes = read_back(env.session_path)
    assert [len(e.rows["obs"]) for e in episodes] == lengths
    assert [counts(e)["seen"] for e in episodes] == [counts(e)["rows"] for e in episodes]
    assert counts(episodes[0])["rows"] == [0, 1]
    assert counts(episodes[-1])["rows"] == [100, 101, 102]


@pytest.mark.parametrize("wrap", [lambda env: env, Autoreset], ids=["plain", "autoreset"])
def test_steps_after_done_are_no_rows_whoever_begins_an_episode(record: Any, read_back: Any, wrap: Any) -> None:
    env = record(wrap(CountEnv(3)))
    env.reset(seed=0)
    steps(env, 3)
    env.observer.end_current_episode_begin_next(True)
    if wrap is Autoreset:
        steps(env, 1)
    else:
        steps(env, 5)
        with pytest.warns(RuntimeWarning, match=r"^5 steps came after"):
            env.reset(seed=1)
    steps(env, 3)
    env.close()
    assert [e.rows["obs"].tolist() for e in read_back(env.session_path)] == [[0, 1, 2], [100, 101, 102]]


def test_a_done_that_was_no_row_is_done_all_the_same(record: Any, read_back: Any) -> None:
    env = record(CountEnv(3))
    env.reset(seed=0)
    steps(env, 1)
    env.end_episode(success=True)
    steps(env, 2)
    env.observer.begin_episode()
    steps(env, 2)
    with pytest.warns(RuntimeWarning, match=r"^2 steps came after"):
        env.reset(seed=1)
    steps(env, 3)
    env.close()
    assert [e.rows["obs"].tolist() for e in read_back(env.session_path)] == [[0], [100, 101, 102]]
