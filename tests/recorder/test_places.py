"""Which lane's attempt becomes one of `total_episodes`, what is heard of failures then, and how takes are numbered."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

import lucky_recorder as lr
from lucky_recorder.testing import MemorySink
from tests.recorder.lanes import Lane, custom, vector


class Refuses(MemorySink):
    """Has no room for anything."""

    def prepare(self, record: Any) -> Any:
        raise OSError("no room in the database")


class Vanishes(MemorySink):
    """Takes an episode, and loses it when the others have it."""

    def prepare(self, record: Any) -> Any:
        prepared = super().prepare(record)
        prepared.commit = vanish  # type: ignore[method-assign]
        return prepared


def vanish() -> None:
    raise OSError("the database is gone")


def step(env: Any) -> None:
    env.step(np.zeros((env.num_envs, 1), np.float32))


@pytest.mark.parametrize("is_slow", [False, True])
def test_who_is_recorded_does_not_depend_on_the_workers_haste(tmp_path: Path, is_slow: bool) -> None:
    wrap = lr.vector.shared(**custom(tmp_path, total_episodes=2, discard_and_retry_failed=True))
    lanes = [wrap(Lane(number)) for number in range(3)]
    # Lane 0 comes last, so it waits; the attempts of the others fail.
    for number in (1, 2, 0):
        lanes[number].reset()
        lanes[number].step(np.zeros(1, np.float32))
    lanes[2].end_episode(success=False)
    lanes[2].reset()
    recording = lanes[1].recorder.recording
    assert recording is not None
    session, may_go_on = recording.session, threading.Event()
    if is_slow:
        session.worker.put(lambda: may_go_on.wait(60))
    lanes[1].end_episode(success=False)
    if is_slow:
        # It goes on as soon as it is waited for.
        flush = session.flush
        session.flush = lambda: (may_go_on.set(), flush())[1]  # type: ignore[method-assign]
    else:
        session.flush()
    lanes[2].reset()
    # By now two places are free, and one lane has waited longer.
    assert [lane.observer.state.value for lane in lanes] == ["Idle", "BetweenEpisodes", "InEpisode"]
    may_go_on.set()
    for lane in lanes:
        lane.close()


def test_a_failure_in_the_last_episode_is_told_of_at_the_next_reset(tmp_path: Path) -> None:
    sink = Refuses(tmp_path / "own")
    env = lr.RecordSession(
        vector((2, None), AutoresetMode.DISABLED), **custom(tmp_path, total_episodes=1), sinks=[sink]
    )
    env.reset()
    step(env), step(env)
    with pytest.raises(lr.StreamError, match="no room"):
        env.reset(options={"reset_mask": np.array([True, False])})
    assert not env.is_recording
    env.reset()
    env.close()


def test_what_ends_the_session_is_told_of_once(tmp_path: Path) -> None:
    own = Vanishes(tmp_path / "own")
    env: Any = lr.RecordSession(vector((None, None)), **custom(tmp_path, total_episodes=1), sinks=[own])
    env.reset()
    step(env)
    with pytest.raises(lr.StreamError, match="the database is gone"):
        env.end_episode(0, success=True)
    step(env)
    env.close()


def test_what_close_has_told_of_is_not_told_again(tmp_path: Path) -> None:
    env: Any = lr.RecordSession(vector((None, None)), **custom(tmp_path), sinks=[Vanishes(tmp_path / "own")])
    env.reset()
    step(env)
    env.end_episode(0)
    env.lanes[0].recorder.recording.session.flush()
    with pytest.raises(lr.StreamError, match="the database is gone"):
        env.close()
    step(env)
    env.reset()


def test_no_take_is_numbered_again_where_a_session_is_gone_on_with(tmp_path: Path) -> None:
    """Noise is drawn by these numbers: also where the last episode is of the take that began first."""
    env: Any = lr.RecordSession(vector((None, None)), **custom(tmp_path, discard_and_retry_failed=True))
    env.reset()
    step(env)
    env.end_episode(1, success=False)
    for _ in range(3):
        env.lanes[1].reset()
        env.lanes[1].step(np.zeros(1, np.float32))
        env.end_episode(1, success=False)
    env.lanes[1].reset()
    env.lanes[1].step(np.zeros(1, np.float32))
    env.end_episode(1, success=True)
    env.end_episode(0, success=True)
    env.close()
    with lr.RecordSession(
        vector((None, None)), **custom(tmp_path, resume=env.session_path, discard_and_retry_failed=True)
    ) as more:
        more.reset()
        recording = more.lanes[0].recorder.recording
        assert recording is not None
        # 0 and 1, and four more of lane 1.
        assert recording.session.first_take == 6
