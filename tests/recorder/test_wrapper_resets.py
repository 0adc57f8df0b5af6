"""RecordSession: a reset that keeps the episode open, and where there is none to keep."""

from __future__ import annotations

from typing import Any

import pytest

from lucky_recorder.testing import CountEnv
from tests.recorder.stepping import Restarts, steps


def test_a_reset_may_keep_the_episode(record: Any, read_back: Any) -> None:
    inner = Restarts(None, mujoco=True)
    env = record(inner, mode="robot_arm")
    env.reset(seed=0)
    steps(env, 3)
    env.reset(options={"keep_episode": True, "how": "gently"})
    assert inner.options == {"how": "gently"}
    steps(env, 2)
    env.reset()
    assert inner.options is None
    steps(env, 1)
    env.close()
    first, second = read_back(env.session_path)
    assert first.rows["observation.state"][:, 0].tolist() == [0, 1, 2, 0, 1]
    assert first.rows["frame_flags"].tolist() == [3, 1, 1, 3, 1]
    assert first.rows["timestamp"].tolist() == [0, 0.02, 0.04, 0.06, 0.08]
    assert second.rows["observation.state"][:, 0].tolist() == [100]


def test_a_false_option_keeps_nothing(record: Any, read_back: Any) -> None:
    inner = Restarts(None)
    env = record(inner)
    for keeps in (False, True, False):
        env.reset(options={"keep_episode": keeps})
        assert inner.options is None
        steps(env, 2)
    env.close()
    assert [e.meta["length"] for e in read_back(env.session_path)] == [4, 2]


@pytest.mark.parametrize("how", ["first", "done", "ended", "longest"])
def test_where_no_episode_is_open_keeping_it_is_a_reset_like_any_other(record: Any, read_back: Any, how: str) -> None:
    env = record(CountEnv(2), **({"max_episode_length_s": 0.02} if how == "longest" else {}))
    if how != "first":
        env.reset()
        steps(env, 2)
    if how == "ended":
        env.end_episode(success=True)
    env.reset(options={"keep_episode": True})
    steps(env, 1)
    env.close()
    lengths = {"first": [1], "done": [2, 1], "ended": [2, 1], "longest": [1, 1]}[how]
    assert [e.meta["length"] for e in read_back(env.session_path)] == lengths
