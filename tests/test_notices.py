"""Notices are shown at the user's own line, also where gymnasium's wrappers stand between it and the recorder."""

from __future__ import annotations

import inspect
import warnings
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.wrappers import ClipAction, RecordEpisodeStatistics, TransformReward

import lucky_recorder as lr
from lucky_recorder.notices import held, tell
from lucky_recorder.testing import CountEnv


def line() -> int:
    """The line of the caller."""
    frame = inspect.currentframe()
    assert frame is not None
    assert frame.f_back is not None
    return frame.f_back.f_lineno


def deaf(lasts: float = 0.04) -> CountEnv:
    """An environment that says something wrong of its rate."""
    env = CountEnv(2, mujoco=True, succeeds=None)
    env.dt = lasts
    env.action_space = gym.spaces.Box(-1, 1, (1,), np.float32)
    return env


def test_a_notice_is_shown_where_it_was_led_to() -> None:
    with pytest.warns(UserWarning, match="^so$") as caught:
        tell("so", UserWarning)
    where = line() - 1
    assert (Path(caught[0].filename), caught[0].lineno) == (Path(__file__), where)


WRAPS: list[Any] = [
    lambda env: env,
    RecordEpisodeStatistics,
    lambda env: ClipAction(TransformReward(RecordEpisodeStatistics(env), lambda r: r)),
]


@pytest.mark.parametrize("wrap", WRAPS)
def test_also_through_wrappers_around_the_recorder(record: Any, wrap: Any) -> None:
    inner = record(deaf(), mode="robot_arm", columns=[])
    env = wrap(inner)
    env.reset()
    with pytest.warns(RuntimeWarning, match=r"states dt=0\.04") as caught:
        env.step(np.zeros(1, np.float32))
    assert (Path(caught[0].filename), caught[0].lineno) == (Path(__file__), line() - 1)
    env.step(np.zeros(1, np.float32))
    env.step(np.zeros(1, np.float32))
    with pytest.warns(Warning, match=".") as caught:
        env.reset()
    assert {(Path(one.filename), one.lineno) for one in caught} == {(Path(__file__), line() - 1)}
    assert len(caught) == 2
    inner.close()


def test_a_notice_can_be_silenced_by_module(record: Any) -> None:
    env = record(deaf(), mode="robot_arm", columns=[])
    env.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", module=__name__)
        env.step(np.zeros(1, np.float32))
    env.end_episode(success=True)
    env.close()
    assert lr.Session(env.session_path).info["hz"] == 50


@pytest.mark.parametrize("where", ["first-step", "first-reset"])
@pytest.mark.filterwarnings("error")
def test_a_warning_that_is_an_error_is_raised_once_and_the_session_goes_on(
    record: Any, read_back: Any, where: str
) -> None:
    """Where steps are recorded in parts their rate is compared at the reset; else in the first step."""
    fast = [{"name": "front", "width": 32, "height": 32, "frame_rate": 100}]
    inner, cameras = (wrong(), fast) if where == "first-reset" else (deaf(), [])
    env = record(inner, mode="robot_arm", columns=[], cameras=cameras, success="terminated", render_quality="fastest")
    told = []
    for _ in range(3):
        try:
            env.reset()
            for _ in range(2):
                env.step(np.zeros(env.action_space.shape, np.float32))
        except RuntimeWarning as error:
            told.append(str(error))
    env.close()
    assert len(told) == 1
    assert "=0.04" in told[0]
    assert [e.meta["length"] for e in read_back(env.session_path)] == [2, 2]


def wrong() -> Any:
    """An environment whose steps can be recorded in parts, and which says something wrong of its rate."""
    env = gym.make("LuckyRecorder/PickCube-v0", max_episode_steps=2)
    env.unwrapped.control_timestep = 0.04  # type: ignore[attr-defined]
    return env


@pytest.mark.filterwarnings("error")
def test_what_is_held_back_is_told_of_when_the_block_is_over() -> None:
    done = []

    def work() -> None:
        with held():
            tell("first")
            tell("second")
            done.append(1)

    def fail() -> None:
        with held():
            tell("first")
            raise KeyError

    with pytest.raises(RuntimeWarning, match=r"^first$"):
        work()
    assert done == [1]
    with pytest.raises(KeyError):
        fail()
    with pytest.raises(RuntimeWarning, match=r"^at once$"):
        tell("at once")


def test_what_is_held_back_is_shown_at_the_users_own_line() -> None:
    with pytest.warns(UserWarning, match="^so$") as caught, held():
        tell("so", UserWarning)
    assert caught[0].filename == __file__
