"""A worker that hangs is an error after a bounded wait, whoever waits for it."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import lucky_recorder as lr
from lucky_recorder.recorder.worker import Worker
from lucky_recorder.session import rows
from lucky_recorder.testing import CountEnv
from tests.recorder.breaking import LATER, break_encoder
from tests.recorder.lines import interrupt


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
    env = record(CountEnv(5, mujoco=True), cameras=[wall], worker_timeout_s=4.0)
    with pytest.raises(lr.WorkerStalledError, match=r"worker_timeout_s=4 s"):
        run(env, episodes=200)
    assert hang.is_set()
    assert not env.is_recording
    env.close()
    assert len(rows.footer(env.session_path / "data/chunk-000/file-000.parquet")) == 1


@pytest.mark.parametrize("verb", ["flush", "stop_recording"])
def test_waiting_for_a_worker_that_hangs_is_bounded(
    record: Any, run: Any, wall: Any, hang: threading.Event, verb: str
) -> None:
    env = record(CountEnv(5, mujoco=True), cameras=[wall], worker_timeout_s=4.0)
    run(env, episodes=2)
    assert hang.wait(LATER)
    with pytest.raises(lr.WorkerStalledError):
        getattr(env.observer, verb)()
    assert not env.is_recording
    env.close()


def test_an_end_that_cannot_be_queued_closes_the_session(record: Any, wall: Any, hang: threading.Event) -> None:
    env = record(CountEnv(None, mujoco=True), cameras=[wall], worker_timeout_s=1.0)
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


NUMBERS = [n for n in (signal.SIGINT, signal.SIGTERM, getattr(signal, "SIGHUP", None)) if n is not None]


@pytest.fixture
def strike(monkeypatch: pytest.MonkeyPatch) -> Callable[[signal.Signals, int], None]:
    """Return a function that has this thread struck by signals while it waits for the worker next."""
    working = Worker._wait

    def strike(number: signal.Signals, times: int) -> None:
        left = [number] * times

        def wait(worker: Worker, done: threading.Lock) -> None:
            while left:
                signal.raise_signal(left.pop())
            working(worker, done)

        monkeypatch.setattr(Worker, "_wait", wait)

    return strike


@pytest.mark.parametrize("number", NUMBERS)
def test_who_insists_leaves_a_worker_that_hangs_at_once(
    record: Any, run: Any, wall: Any, hang: threading.Event, strike: Any, number: signal.Signals
) -> None:
    env = record(CountEnv(5, mujoco=True), cameras=[wall], worker_timeout_s=LATER)
    run(env, episodes=2)
    assert hang.wait(LATER)
    strike(number, 3)
    begun = time.monotonic()
    with pytest.raises((KeyboardInterrupt, SystemExit)) as raised:
        env.close()
    env.close()
    assert time.monotonic() - begun < LATER / 2
    assert not env.is_recording
    if isinstance(raised.value, SystemExit):
        assert raised.value.code == 128 + number


def test_what_was_left_is_whole_where_the_worker_goes_on_after_all(
    record: Any, run: Any, wall: Any, monkeypatch: pytest.MonkeyPatch, strike: Any, read_back: Any
) -> None:
    go_on = threading.Event()

    def wait() -> None:
        assert go_on.wait(LATER)

    break_encoder(monkeypatch, "write", attempt=1, frame=2, act=wait)
    env = record(CountEnv(5, mujoco=True), cameras=[wall])
    run(env, episodes=2)
    strike(signal.SIGINT, 3)
    with pytest.raises(KeyboardInterrupt):
        env.close()
    go_on.set()
    env.recorder.recording._worker._thread.join(LATER)
    assert [(e.meta["length"], len(e.frames["wall"])) for e in read_back(env.session_path)] == [(5, 5)] * 2


def test_an_interrupt_wins_over_what_it_was_struck_by_later(
    record: Any, run: Any, wall: Any, hang: threading.Event, strike: Any
) -> None:
    env = record(CountEnv(5, mujoco=True), cameras=[wall], worker_timeout_s=1.0)
    run(env, episodes=2)
    assert hang.wait(LATER)
    strike(signal.SIGINT, 1)
    with pytest.raises(KeyboardInterrupt) as raised:
        env.close()
    assert isinstance(raised.value.__context__, lr.WorkerStalledError)


def test_an_interrupted_step_is_an_interrupt_also_where_its_end_cannot_be_queued(
    record: Any, wall: Any, hang: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = record(CountEnv(None, mujoco=True), cameras=[wall], worker_timeout_s=1.0)
    env.reset()
    env.step(np.zeros(1))
    env.end_episode(success=True)
    env.reset()
    for _ in range(4):
        env.step(np.zeros(1))
    assert hang.wait(LATER)
    working = Worker._wait_for_room

    def wait(worker: Worker) -> None:
        monkeypatch.setattr(Worker, "_wait_for_room", working)
        interrupt()

    monkeypatch.setattr(Worker, "_wait_for_room", wait)

    def go_on() -> None:
        for _ in range(60):
            env.step(np.zeros(1))

    with pytest.raises(KeyboardInterrupt):
        go_on()
    assert not env.is_recording
    env.close()
