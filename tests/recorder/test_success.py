"""Where an episode's verdict comes from, and who has the last word."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import lucky_recorder as lr
from lucky_recorder.capture.moment import Moment
from lucky_recorder.recorder.success import SuccessSignal
from lucky_recorder.testing import CountEnv


class Says(CountEnv):
    """Counts to three, and says in its last info what it is told to; has ``_check_success`` where a check is given."""

    def __init__(self, info: dict[str, Any] | None = None, check: bool | None = None, terminates: bool = True) -> None:
        super().__init__(3, succeeds=None)
        self.said = info or {}
        self.terminates = terminates
        if check is not None:
            self._check_success = lambda: check

    def step(self, action: Any) -> Any:
        observation, reward, done, _, _ = super().step(action)
        return observation, reward, done and self.terminates, done and not self.terminates, self.said if done else {}


def by_reward(moment: Any) -> bool:
    """A verdict from the reward of the last step."""
    return bool(moment.reward == 2)


CASES = [
    ("auto", Says({"is_success": True}), True),
    ("auto", Says({"is_success": False}), False),
    ("auto", Says({"is_success": np.True_}), True),
    ("auto", Says({"success": 1.0}), True),
    ("auto", Says({"success": np.array([0.0])}), False),
    ("auto", Says({"is_success": False, "success": True}), False),
    ("auto", Says({"is_success": None, "success": True}), True),
    ("auto", Says({"final_info": {"is_success": True}}), True),
    ("auto", Says({"final_info": {"success": False}}), False),
    ("auto", Says({"success": False, "final_info": {"success": True}}), True),
    ("auto", Says({"final_info": "nothing of ours", "success": True}), True),
    ("auto", Says(check=True), True),
    ("auto", Says(check=False), False),
    ("auto", Says({"success": False}, check=True), False),
    ("info:task_done", Says({"task_done": True, "is_success": False}), True),
    ("info:task_done", Says({"task_done": 0, "is_success": True}), False),
    ("terminated", Says({"is_success": False}), True),
    ("terminated", Says({"is_success": True}, terminates=False), False),
    (by_reward, Says({"is_success": False}), True),
    (lambda moment: moment.info.get("score", 0) > 5, Says({"score": 3}), False),
    (f"{__name__}:by_reward", Says(), True),
]


@pytest.mark.parametrize(("setting", "env", "success"), CASES)
def test_the_verdict_is_the_last_steps(
    record: Any, run: Any, read_back: Any, setting: Any, env: Any, success: bool
) -> None:
    recorder = record(env, success=setting)
    run(recorder)
    recorder.close()
    assert [e.meta["success"] for e in read_back(recorder.session_path)] == [success]


@pytest.mark.parametrize("said", [True, False])
def test_what_the_caller_says_goes_before_what_the_environment_says(
    record: Any, run: Any, read_back: Any, said: bool
) -> None:
    env = record(Says({"is_success": not said}))
    run(env)
    env.end_episode(success=said)
    env.close()
    assert [e.meta["success"] for e in read_back(env.session_path)] == [said]


def test_end_episode_without_a_verdict_asks_the_setting(record: Any, run: Any, read_back: Any) -> None:
    env = record(CountEnv(None, succeeds=lambda n: n == 1))
    for _ in range(2):
        run(env, steps=3)
        env.end_episode()
    env.close()
    assert [e.meta["success"] for e in read_back(env.session_path)] == [False, True]


def test_a_reset_before_done_takes_the_verdict_of_the_last_step(record: Any, run: Any, read_back: Any) -> None:
    env = record(CountEnv(None, succeeds=lambda n: n == 0))
    run(env, steps=2, episodes=2)
    env.reset()
    env.close()
    assert [e.meta["success"] for e in read_back(env.session_path)] == [True, False]


def test_a_check_is_asked_before_the_environment_resets(record: Any, run: Any, read_back: Any) -> None:
    class Checks(CountEnv):
        def _check_success(self) -> bool:
            return self.t == 2

    env = record(Checks(None, succeeds=None))
    run(env, steps=2)
    env.reset()
    env.close()
    assert [e.meta["success"] for e in read_back(env.session_path)] == [True]


@pytest.mark.parametrize(
    ("settings", "steps"), [({"max_episode_length_s": 0.04}, 3), ({}, 2)], ids=["longest", "stopped"]
)
def test_an_end_by_force_is_no_success_whatever_was_said(
    record: Any, run: Any, read_back: Any, settings: dict[str, Any], steps: int
) -> None:
    env = record(CountEnv(9, succeeds=True), **settings)
    run(env, steps=steps)
    env.close()
    assert [(e.meta["length"], e.meta["success"]) for e in read_back(env.session_path)] == [(2, False)]


@pytest.mark.parametrize("setting", ["auto", "info:won"])
def test_no_signal_is_no_success_and_one_warning_that_names_the_setting(
    record: Any, run: Any, read_back: Any, setting: str
) -> None:
    env = record(CountEnv(2, succeeds=None), success=setting)
    with pytest.warns(UserWarning, match=rf"success='{setting}': .*says nothing.*set success='info:KEY'") as caught:
        run(env, episodes=3)
    env.close()
    assert len(caught) == 1
    assert [e.meta["success"] for e in read_back(env.session_path)] == [False] * 3


def test_no_signal_where_failures_are_discarded_is_an_error_at_the_first_end(
    record: Any, run: Any, read_back: Any
) -> None:
    env = record(CountEnv(2, succeeds=None), discard_and_retry_failed=True)
    run(env)
    with pytest.raises(lr.SettingsError, match=r"success='auto': .*nothing would ever be kept; set success='info:KEY'"):
        env.reset()
    env.reset()
    env.step(np.zeros(1))
    env.end_episode(success=True)
    env.close()
    assert [e.meta["length"] for e in read_back(env.session_path)] == [1]


def test_a_missing_signal_is_found_by_close_and_all_the_same_everything_is_closed(record: Any, run: Any) -> None:
    inner = CountEnv(2, succeeds=None)
    closed = []
    inner.close = lambda: closed.append(1)
    env = record(inner, discard_and_retry_failed=True)
    run(env)
    with pytest.raises(lr.SettingsError, match="nothing would ever be kept"):
        env.close()
    assert not env.is_recording
    assert closed == [1]


def test_verdicts_that_are_said_need_no_signal(record: Any, run: Any, read_back: Any) -> None:
    env = record(CountEnv(2, succeeds=None), discard_and_retry_failed=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for success in (True, False, True):
            run(env)
            env.end_episode(success=success)
        env.reset()
        env.close()
    assert [e.rows["obs"].tolist() for e in read_back(env.session_path)] == [[0, 1], [200, 201]]


def test_a_signal_that_raises_fails_the_episode_and_reaches_the_caller(record: Any, run: Any, read_back: Any) -> None:
    def verdict(moment: Any) -> bool:
        return moment.info["is_success"] and 1 // int(moment.obs[0] >= 100) == 1

    env = record(CountEnv(2), success=verdict)
    with pytest.raises(ZeroDivisionError):
        run(env)
    assert env.is_recording
    env.step(np.zeros(1))
    with pytest.warns(RuntimeWarning, match="1 steps came after one that had ended"):
        run(env)
    env.close()
    episodes = read_back(env.session_path)
    assert [(e.rows["obs"].tolist(), e.meta["success"]) for e in episodes] == [([0, 1], False), ([100, 101], True)]


def test_success_of_every_step_is_a_column(record: Any, run: Any, read_back: Any) -> None:
    env = record(Says({"is_success": True}), gym_columns=True, columns=())
    run(env)
    env.close()
    (episode,) = read_back(env.session_path)
    assert episode.rows["next.success"].tolist() == [False, False, True]
    assert episode.rows["next.done"].tolist() == [False, False, True]


def test_a_column_of_success_whose_signal_raises_drops_the_half_row(record: Any, read_back: Any) -> None:
    env = record(CountEnv(5), gym_columns=True, success=lambda m: 1 // int(3 - m.obs[0]) > 0)
    env.reset()
    env.step(np.zeros(1))
    env.step(np.zeros(1))
    with pytest.raises(ZeroDivisionError):
        env.step(np.zeros(1))
    env.close()
    (episode,) = read_back(env.session_path)
    assert (episode.rows["obs"].tolist(), episode.meta["success"]) == ([0, 1], False)


def test_a_name_that_cannot_be_imported_is_refused_when_the_recorder_is_made(record: Any) -> None:
    with pytest.raises(lr.SettingsError, match=r"success='nowhere:at_all'.*cannot be imported"):
        record(success="nowhere:at_all")


def test_a_signal_is_read_without_an_environment_that_unwraps() -> None:
    class Bare:
        def _check_success(self) -> bool:
            return True

    assert SuccessSignal(lr.RecorderSettings(), Bare()).peek(Moment()) is True
    assert SuccessSignal(lr.RecorderSettings(success="info:x"), Bare()).peek(Moment()) is None
