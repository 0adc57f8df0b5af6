"""What a signal handler of the user's raises while the environment draws: it is no failure of the camera's."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import lucky_recorder as lr
from lucky_recorder.testing import CountEnv

ACTION = np.zeros(1)

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="no such signals here")


class TimeIsUpError(Exception):
    """As of a library that gives a call so many seconds, with SIGALRM."""


@pytest.fixture(autouse=True)
def limit() -> Iterator[None]:
    def over(*given: object) -> None:
        raise TimeIsUpError("10 s are over")

    before = signal.signal(signal.SIGUSR1, over)
    yield
    signal.signal(signal.SIGUSR1, before)


class StruckEnv(CountEnv):
    """Struck by a signal in its picture number ``at``, or failing there by itself."""

    def __init__(self, at: int, by_signal: bool = True) -> None:
        super().__init__(3, render_mode="rgb_array")
        self.left = [False] * (at - 1) + [True]
        self.by_signal = by_signal

    def render(self) -> Any:
        if self.left and self.left.pop(0):
            if not self.by_signal:
                raise TimeIsUpError("of its own")
            os.kill(os.getpid(), signal.SIGUSR1)
        return super().render()


def episode(env: Any) -> None:
    env.reset()
    for _ in range(3):
        env.step(ACTION)


def test_it_is_raised_as_it_is_and_the_session_goes_on(record: Any, seen: Any) -> None:
    env = record(StruckEnv(at=6), cameras=[seen])
    episode(env)
    with pytest.raises(TimeIsUpError, match="10 s are over"):
        episode(env)
    assert env.is_recording
    episode(env)
    env.close()
    said = [(e["length"], e["success"]) for e in lr.Session(env.session_path).episodes.to_pylist()]
    assert [said[0], said[-1]] == [(3, True), (3, True)]
    assert [success for _, success in said[1:-1]] == [False] * (len(said) - 2)


def test_before_anything_is_on_the_disk_the_next_reset_begins(record: Any, seen: Any) -> None:
    env = record(StruckEnv(at=1), cameras=[seen])
    with pytest.raises(TimeIsUpError):
        env.reset()
    episode(env)
    env.close()
    assert len(lr.Session(env.session_path)) == 1


def test_what_the_environment_raises_itself_is_a_failure_of_its_camera(record: Any, seen: Any) -> None:
    env = record(StruckEnv(at=6, by_signal=False), cameras=[seen])
    episode(env)
    with pytest.raises(lr.StreamError, match="TimeIsUpError: of its own"):
        episode(env)
    assert not env.is_recording
