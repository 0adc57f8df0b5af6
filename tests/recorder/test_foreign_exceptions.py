"""What a signal handler of the user's raises, such as a timeout, while the recorder waits for its worker."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lucky_recorder as lr
from lucky_recorder.recorder import exits
from lucky_recorder.recorder.forgotten import close_at_exit
from lucky_recorder.recorder.worker import Worker
from lucky_recorder.session.sink import SessionSink
from lucky_recorder.testing import CountEnv
from tests.recorder.breaking import LATER, break_encoder

ACTION = np.zeros(1)
ALWAYS = 1000


class TimeIsUpError(Exception):
    """As of a library that gives a call so many seconds, with SIGALRM."""


Strike = Callable[..., None]


@pytest.fixture(autouse=True)
def goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is told that the process ends goes on when a test is over."""
    monkeypatch.setattr(exits, "_is_ending", False)


@pytest.fixture
def strike(monkeypatch: pytest.MonkeyPatch) -> Strike:
    """Return a function that has the next calls of a method of the worker's raise, in this thread."""

    def strike(method: str, times: int = 1, is_after: bool = False, skip: int = 0) -> None:
        working, here = getattr(Worker, method), threading.get_ident()
        left = [False] * skip + [True] * times

        def struck(worker: Worker, *args: Any) -> Any:
            is_struck = threading.get_ident() == here and bool(left) and left.pop(0)
            if is_struck and not is_after:
                raise TimeIsUpError
            result = working(worker, *args)
            if is_struck:
                raise TimeIsUpError
            return result

        monkeypatch.setattr(Worker, method, struck)

    return strike


def recorded(record: Any) -> Any:
    """Return a recorder with a finished episode and an open one, of 3 and 2 rows."""
    env = record(CountEnv(3))
    env.reset()
    for _ in range(3):
        env.step(ACTION)
    env.reset()
    for _ in range(2):
        env.step(ACTION)
    return env


def ends(path: Path) -> list[tuple[int, bool]]:
    session = lr.Session(path)
    assert session.state.value == "complete"
    return [(one["length"], one["success"]) for one in session.episodes.to_pylist()]


WHOLE = [(3, True), (2, False)]


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("is_after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("method", ["put", "_wait", "call", "stop"])
def test_close_writes_everything_and_raises_it_last(
    record: Any, strike: Strike, method: str, is_after: bool, times: int
) -> None:
    env = recorded(record)
    strike(method, times, is_after)
    with pytest.raises(TimeIsUpError):
        env.close()
    assert ends(env.session_path) == WHOLE
    env.close()
    assert not any(thread.name == "lucky_recorder" for thread in threading.enumerate())


def test_what_has_failed_is_told_with_it(record: Any, strike: Strike, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(sink: SessionSink) -> None:
        raise lr.StorageError("meta/info.json: no room")

    env = recorded(record)
    monkeypatch.setattr(SessionSink, "close", fail)
    strike("_wait")
    with pytest.raises(TimeIsUpError) as raised:
        env.close()
    assert any("meta/info.json: no room" in note for note in raised.value.__notes__)


@pytest.mark.parametrize("who", ["another close", "the end of the process"])
def test_one_that_is_interrupted_again_and_again_stays_to_be_closed(
    record: Any, strike: Strike, monkeypatch: pytest.MonkeyPatch, who: str
) -> None:
    env = recorded(record)
    with monkeypatch.context() as patch:
        patch.setattr(Worker, "_wait", lambda *args: (_ for _ in ()).throw(TimeIsUpError))
        patch.setattr(Worker, "put", Worker._wait)
        with pytest.raises(TimeIsUpError):
            env.close()
    session = env.recorder.fleet.session
    assert not session.is_closed
    assert session.worker.is_running
    if who == "another close":
        env.close()
    else:
        with pytest.warns(RuntimeWarning, match=r"close\(\) was not called"):
            exits._close_all()
    assert session.is_closed
    assert ends(env.session_path) == WHOLE


def test_the_close_at_the_end_of_the_process_is_not_left_either(record: Any, strike: Strike) -> None:
    env = recorded(record)
    session, lock = env.recorder.fleet.session, threading.RLock()
    strike("_wait")
    with pytest.warns(RuntimeWarning, match=r"close\(\) was not called"), pytest.raises(TimeIsUpError):
        close_at_exit(session, lambda: None, lock)
    assert ends(env.session_path) == WHOLE


def test_a_session_whose_worker_is_gone_is_completed_by_who_closes_it(record: Any) -> None:
    env = recorded(record)
    session = env.recorder.fleet.session
    env.observer.flush()
    session.worker.stop()
    with pytest.raises(lr.StateError, match="worker thread has ended"):
        env.close()
    assert session.is_closed
    assert ends(env.session_path) == WHOLE[:1]


def test_a_session_that_was_given_up_is_closed_and_told_of_where_the_worker_is_gone(record: Any) -> None:
    env = recorded(record)
    session = env.recorder.fleet.session
    session.worker.stop()
    session._is_given_up = True
    with pytest.warns(RuntimeWarning, match=r"close\(\) was not called .*worker thread has ended"):
        exits._close_all()
    assert session.is_closed
    assert ends(env.session_path) == WHOLE[:1]


def test_a_worker_that_goes_on_late_completes_what_was_given_up(
    record: Any, run: Any, wall: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = threading.Event()

    def wait() -> None:
        assert go_on.wait(LATER)

    break_encoder(monkeypatch, "write", attempt=1, frame=2, act=wait)
    env = record(CountEnv(5, mujoco=True), cameras=[wall], worker_timeout_s=1.0)
    run(env, episodes=2)
    with pytest.raises(lr.WorkerStalledError):
        env.close()
    go_on.set()
    env.recorder.recording._worker._thread.join(LATER)
    assert ends(env.session_path) == [(5, True), (5, True)]


@pytest.mark.parametrize("is_after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("verb", ["flush", "end_episode", "reset", "step", "observe"])
def test_elsewhere_it_is_raised_as_it_is_and_the_session_goes_on(
    record: Any, run: Any, seen: Any, strike: Strike, verb: str, is_after: bool
) -> None:
    env = record(CountEnv(None, render_mode="rgb_array"), cameras=[seen], total_episodes=3)
    env.reset()
    for _ in range(2):
        env.step(ACTION)
    verbs = {
        "flush": env.observer.flush,
        "end_episode": lambda: env.end_episode(success=True),
        "reset": env.reset,
        "step": lambda: env.step(ACTION),
        "observe": env.observe,
    }
    strike("call" if verb == "observe" else "_wait" if verb == "flush" else "put", is_after=is_after)
    with pytest.raises(TimeIsUpError):
        verbs[verb]()
    assert env.is_recording
    env.reset()
    for _ in range(3):
        env.step(ACTION)
    env.end_episode(success=True)
    env.close()
    found = ends(env.session_path)
    assert found[-1] == (3, True)
    assert found[0][0] == 2 + (verb == "step" and is_after)


@pytest.mark.parametrize("is_after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("method", ["start", "call", "put"])
def test_a_session_that_it_strikes_while_it_opens_leaves_nothing(
    record: Any, tmp_path: Path, wall: Any, strike: Strike, method: str, is_after: bool
) -> None:
    env = record(CountEnv(3, mujoco=True), cameras=[wall])
    strike(method, is_after=is_after)
    with pytest.raises(TimeIsUpError):
        env.reset()
    assert not list(tmp_path.rglob("session_*"))
    assert not any(thread.name == "lucky_recorder" for thread in threading.enumerate())
    env.reset()
    env.close()


def test_an_error_of_the_environment_is_heard_also_where_its_episode_cannot_be_ended(
    record: Any, strike: Strike, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = recorded(record)

    def stall(worker: Worker, job: Any) -> None:
        raise lr.WorkerStalledError("the disk hangs")

    def fail(action: Any) -> Any:
        raise TimeIsUpError

    with monkeypatch.context() as patch:
        patch.setattr(Worker, "put", stall)
        patch.setattr(env.env.unwrapped, "step", fail)
        with pytest.raises(TimeIsUpError) as raised:
            env.step(ACTION)
    assert any("the disk hangs" in note for note in raised.value.__notes__)
    env.close()
