"""RecordSession: which task a row belongs to, and which rows begin a policy's step."""

from __future__ import annotations

from typing import Any

import pytest

import lucky_recorder as lr
from lucky_recorder.testing import CountEnv
from tests.recorder.stepping import steps


def test_a_task_holds_from_the_call_on(record: Any, read_back: Any) -> None:
    env = record(CountEnv(4), tasks=["Pick", "Place", "Rest"])
    env.set_task(1)
    env.reset()
    steps(env, 2)
    env.set_task(2)
    steps(env, 2)
    env.reset()
    steps(env, 2)
    with pytest.raises(lr.SettingsError, match="task index=3"):
        env.set_task(3)
    env.close()
    first, second = read_back(env.session_path)
    assert first.rows["task_index"].tolist() == [1, 1, 2, 2]
    assert second.rows["task_index"].tolist() == [2, 2]
    assert (first.meta["tasks"], second.meta["tasks"]) == (["Place", "Rest"], ["Rest"])


def test_a_policy_that_runs_every_third_step_is_flagged_so(record: Any, read_back: Any) -> None:
    env = record(CountEnv(7), policy_period=3)
    for _ in range(2):
        env.reset()
        steps(env, 7)
    env.close()
    for episode in read_back(env.session_path):
        assert (episode.rows["frame_flags"] & 1).tolist() == [1, 0, 0, 1, 0, 0, 1]


def test_a_held_action_is_no_new_policy_step(record: Any, read_back: Any) -> None:
    env = record(CountEnv(None))
    env.reset()
    steps(env, 1)
    env.hold()
    env.hold()
    steps(env, 2)
    env.hold()
    env.reset()
    steps(env, 1)
    env.close()
    assert [e.rows["frame_flags"].tolist() for e in read_back(env.session_path)] == [[3, 0, 1], [3]]
