"""A worker that hangs is an error after a bounded wait, whoever waits for it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import lucky_recorder as lr
from lucky_recorder.session import rows
from lucky_recorder.testing import CountEnv
from tests.recorder.breaking import LATER, break_encoder


@pytest.fixture
def hang(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Have the encoder of the second attempt hang until the test is over; set once it does."""
    go_on, hangs = threading.Event(), threading.Event()

    def wait() -> None:
        hangs.set()
        assert go_on.wait(LATER)

    break_encoder(monkeypatch, "write", attempt=1, frame=2, act=wait)
    yield hangs
    go_on.set()
    for thread in threading.enumerate():
        if thread.name == "lucky_recorder":
            thread.join(LATER)


def test_a_worker_that_hangs_is_an_error_after_a_bounded_wait(
    record: Any, run: Any, wall: Any, hang: threading.Event
) -> None:
    env = record(CountEnv(5, mujoco=True), cameras=[wall], worker_timeout_s=0.2)
    with pytest.raises(lr.WorkerStalledError, match=r"worker_timeout_s=0\.2 s"):
        run(env, episodes=200)
    assert hang.is_set()
    assert not env.is_recording
    env.close()
    assert len(rows.footer(env.session_path / "data/chunk-000/file-000.parquet")) == 1


@pytest.mark.parametrize("verb", ["flush", "stop_recording"])
def test_waiting_for_a_worker_that_hangs_is_bounded(
    record: Any, run: Any, wall: Any, hang: threading.Event, verb: str
) -> None:
    env = record(CountEnv(5, mujoco=True), cameras=[wall], worker_timeout_s=0.2)
    run(env, episodes=2)
    assert hang.wait(LATER)
    with pytest.raises(lr.WorkerStalledError):
        getattr(env.observer, verb)()
    assert not env.is_recording
    env.close()


def test_an_end_that_cannot_be_queued_closes_the_session(record: Any, wall: Any, hang: threading.Event) -> None:
    env = record(CountEnv(None, mujoco=True), cameras=[wall], worker_timeout_s=0.2)
    env.reset()
    env.step(np.zeros(1))
    env.end_episode(success=True)

    def go_on() -> None:
        for _ in range(60):
            env.reset()
            for _ in range(4):
                env.step(np.zeros(1))
            env.end_episode(success=True)

    with pytest.raises(lr.WorkerStalledError):
        go_on()
    assert not env.is_recording
    with pytest.raises(lr.StateError, match="Idle: the session stopped by itself"):
        env.observer.tick()
    env.close()
