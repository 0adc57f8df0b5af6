"""RecordSession: the verdict of an episode whose last step has reset the environment is what that step returned."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lucky_recorder as lr
from lucky_recorder.testing import CountEnv
from tests.recorder.resetting import ROBOT, Books, SameStep, drive

pytestmark = pytest.mark.filterwarnings("ignore:the environment reset itself inside a step")


class Checks(CountEnv):
    """Knows of success only as long as its episode lasts."""

    asked_at: list[int]

    def _check_success(self) -> bool:
        self.asked_at.append(self.count)
        return self.t == 3


def test_an_environment_that_was_reset_inside_the_step_is_not_asked(record: Any, read_back: Any) -> None:
    inner = Checks(3, succeeds=None, mujoco=True)
    inner.asked_at = []
    env = record(SameStep(inner), mode="robot_arm", columns=[])
    books = Books(env, inner)
    with pytest.warns(UserWarning, match="says nothing about success"):
        drive(books, 6, calls_reset=False)
    env.close()
    assert inner.asked_at == []
    assert [e.meta["success"] for e in read_back(env.session_path)] == [False, False]


LOOKS = {
    "obs": lambda moment: moment.obs[0] > 0,
    "obs as an array": lambda moment: np.asarray(moment.obs).any(),
    "data": lambda moment: moment.data.qpos[0] > 0,
    "env": lambda moment: moment.env.count > 0,
}


@pytest.mark.parametrize("gym_columns", [False, True])
@pytest.mark.parametrize("looks", LOOKS)
def test_a_callable_verdict_is_never_shown_the_next_episode(
    record: Any, read_back: Any, looks: str, gym_columns: bool
) -> None:
    inner = CountEnv(3, mujoco=True)
    env = record(SameStep(inner), success=LOOKS[looks], **{**ROBOT, "gym_columns": gym_columns})
    books = Books(env, inner)
    books.reset(seed=0)
    for n in range(2):
        books.step(0.5)
        books.step(0.5)
        with pytest.raises(lr.CaptureError, match=r"are gone.*info\['final_obs'\]"):
            books.step(0.5)
        books.inner.t, books.is_over = 0, False
        assert env.is_recording, n
    env.close()
    assert [(e.rows["obs"].tolist(), e.meta["success"]) for e in read_back(env.session_path)] == [
        ([0, 1], False),
        ([100, 101], False),
    ]


@pytest.mark.parametrize("says", ["final_obs", "final_observation", "terminal_observation"])
def test_a_callable_verdict_sees_the_last_observation_where_info_gives_it(
    record: Any, read_back: Any, says: str
) -> None:
    inner, asked = CountEnv(3, mujoco=True), []
    env = record(SameStep(inner, says), mode="robot_arm", columns=[], success=lambda m: bool(asked.append(m.obs[0])))
    drive(Books(env, inner), 6, calls_reset=False)
    env.close()
    assert asked == [3, 103]
    assert [e.meta["success"] for e in read_back(env.session_path)] == [False, False]


def test_a_callable_verdict_may_go_by_what_the_step_returned(record: Any, read_back: Any) -> None:
    inner = CountEnv(3, mujoco=True)
    env = record(SameStep(inner), mode="robot_arm", columns=[], success=lambda m: m.reward == 2 and m.terminated)
    drive(Books(env, inner), 6, calls_reset=False)
    env.close()
    assert [e.meta["success"] for e in read_back(env.session_path)] == [True, True]
