"""A session that could not quite be opened: nothing that runs is left of it, and the next reset opens one."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lucky_recorder as lr
from lucky_recorder.recorder import exits
from lucky_recorder.storage.lock import is_held
from lucky_recorder.testing import CountEnv

ACTION = np.zeros(1)


def refused(record: Any, tmp_path: Path, error: type[BaseException], match: str) -> Any:
    env = record(CountEnv(3))
    with pytest.raises(error, match=match):
        env.reset()
    assert not env.is_recording
    assert not any(thread.name == "lucky_recorder" for thread in threading.enumerate())
    for path in tmp_path.rglob("session_*"):
        # One that was open already is a whole session without an episode.
        assert (lr.Session(path).state.value, len(lr.Session(path))) == ("complete", 0)
        assert not is_held(path)
    return env


def goes_on(env: Any) -> None:
    env.reset()
    for _ in range(3):
        env.step(ACTION)
    env.close()
    assert len(lr.Session(env.session_path)) == 1


def test_where_a_signal_strikes_when_all_is_open(record: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    guard, strikes = exits.guard, [False, True]

    def struck(*given: Any) -> None:
        if strikes and strikes.pop(0):
            raise KeyboardInterrupt("struck")
        guard(*given)

    monkeypatch.setattr(exits, "guard", struck)
    env = refused(record, tmp_path, KeyboardInterrupt, "struck")
    assert strikes == []
    goes_on(env)


def test_where_no_thread_can_be_started(record: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", fail)
        env = refused(record, tmp_path, lr.StateError, "none can be started .*ulimit -u")
    assert list(tmp_path.iterdir()) == []
    goes_on(env)
