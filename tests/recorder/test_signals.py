"""Signals while a session opens and closes: held back until it is done, and not one of them lost."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lucky_recorder as lr
from lucky_recorder.recorder import exits
from lucky_recorder.recorder.devices import Devices
from lucky_recorder.session import layout
from lucky_recorder.session.sink import SessionSink
from lucky_recorder.testing import CountEnv

ENDING = (signal.SIGTERM, signal.SIGHUP)
ALL = (signal.SIGINT, *ENDING)


@pytest.fixture(autouse=True)
def defaults() -> Iterator[None]:
    """Handle signals as Python does at first."""
    before = {number: signal.getsignal(number) for number in ALL}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in ENDING:
        signal.signal(number, signal.SIG_DFL)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def handlers() -> list[Any]:
    return [signal.getsignal(number) for number in ALL]


def raised_by(number: signal.Signals) -> type[BaseException]:
    return KeyboardInterrupt if number == signal.SIGINT else SystemExit


@pytest.mark.parametrize("number", ALL)
@pytest.mark.parametrize("times", range(1, exits.MOST_HELD + 1))
def test_what_is_held_back_is_raised_once_the_block_is_done(number: signal.Signals, times: int) -> None:
    before, done = handlers(), []

    def work() -> None:
        with exits.held_back():
            for _ in range(times):
                signal.raise_signal(number)
            done.append(1)

    with pytest.raises(raised_by(number)) as raised:
        work()
    assert done
    assert handlers() == before
    if isinstance(raised.value, SystemExit):
        assert raised.value.code == 128 + number


@pytest.mark.parametrize("number", ALL)
def test_who_insists_is_heard_at_once(number: signal.Signals) -> None:
    before, left, done = handlers(), exits.MOST_HELD, []

    def work() -> None:
        with exits.held_back():
            for _ in range(left):
                signal.raise_signal(number)
            with contextlib.suppress(KeyboardInterrupt, SystemExit):
                signal.raise_signal(number)
                done.append("the third was held back")
            signal.raise_signal(number)
            done.append("the fourth was held back")

    with pytest.raises(raised_by(number)):
        work()
    assert not done
    assert handlers() == before


def test_a_handler_that_raises_nothing_is_called_afterwards() -> None:
    called: list[Any] = []
    signal.signal(signal.SIGTERM, lambda number, frame: called.append(number))
    with exits.held_back():
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
        assert not called
    assert called == [signal.SIGTERM]


@pytest.mark.parametrize("handler", [signal.SIG_IGN, signal.SIG_DFL])
def test_ctrl_c_that_is_not_pythons_is_left_alone(handler: Any) -> None:
    signal.signal(signal.SIGINT, handler)
    with exits.held_back():
        assert signal.getsignal(signal.SIGINT) is handler


def test_in_another_thread_nothing_is_held_back() -> None:
    seen = []

    def work() -> None:
        with exits.held_back():
            seen.append(handlers())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [handlers()]


def start(folder: Path, **fields: Any) -> lr.RecordSession:
    env = lr.RecordSession(CountEnv(50, mujoco=True), output_dir=folder, **fields)
    env.reset(seed=0)
    return env


@pytest.mark.parametrize("number", ALL)
@pytest.mark.parametrize("when", ["the renderer opens", "the folder is made"])
def test_a_session_that_is_interrupted_while_it_opens_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wall: Any, when: str, number: signal.Signals
) -> None:
    home, name = (Devices, "open_renderer") if when == "the renderer opens" else (layout, "claim_folder")
    working = getattr(home, name)

    def struck(*args: Any) -> Any:
        made = working(*args)
        signal.raise_signal(number)
        return made

    before = handlers()
    monkeypatch.setattr(home, name, struck)
    with pytest.raises(raised_by(number)):
        start(tmp_path, cameras=[wall])
    assert not list(tmp_path.iterdir())
    assert not any(t.name == "lucky_recorder" for t in threading.enumerate())
    assert handlers() == before


@pytest.mark.parametrize("number", ALL)
@pytest.mark.parametrize("times", range(1, exits.MOST_HELD + 1))
def test_signals_while_a_session_closes_leave_it_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read_back: Any, wall: Any, number: signal.Signals, times: int
) -> None:
    working, before = SessionSink.close, handlers()

    def struck(sink: SessionSink) -> None:
        for _ in range(times):
            signal.raise_signal(number)
        working(sink)

    env = start(tmp_path, cameras=[wall])
    env.step(np.zeros(1))
    monkeypatch.setattr(SessionSink, "close", struck)
    with pytest.raises(raised_by(number)):
        env.close()
    (episode,) = read_back(env.session_path)
    assert (episode.meta["length"], episode.meta["success"], len(episode.frames["wall"])) == (1, False, 1)
    assert handlers() == before


def test_a_signal_while_a_forgotten_recorder_is_closed_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read_back: Any
) -> None:
    """A finalizer closes it, and what is raised there goes nowhere."""
    working = SessionSink.close

    def struck(sink: SessionSink) -> None:
        signal.raise_signal(signal.SIGINT)
        working(sink)

    env = start(tmp_path)
    env.step(np.zeros(1))
    path = env.session_path
    monkeypatch.setattr(SessionSink, "close", struck)
    never = threading.Event()

    def forget() -> None:
        nonlocal env
        with pytest.warns(RuntimeWarning, match="close"):
            del env
        never.wait(30)

    with pytest.raises(KeyboardInterrupt):
        forget()
    assert [e.meta["length"] for e in read_back(path)] == [1]


@pytest.mark.parametrize("number", ENDING)
def test_both_signals_that_end_a_process_become_an_exit_while_a_session_is_open(
    tmp_path: Path, read_back: Any, number: signal.Signals
) -> None:
    env = start(tmp_path)
    env.step(np.zeros(1))
    with pytest.raises(SystemExit) as raised, env:
        signal.raise_signal(number)
    assert raised.value.code == 128 + number
    assert signal.getsignal(number) is signal.SIG_DFL
    assert [(e.meta["length"], e.meta["success"]) for e in read_back(env.session_path)] == [(1, False)]


def test_a_session_of_the_main_thread_sets_the_handler_that_one_of_another_could_not(tmp_path: Path) -> None:
    first: list[lr.RecordSession] = []
    thread = threading.Thread(target=lambda: first.append(start(tmp_path / "first")))
    thread.start()
    thread.join()
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    second = start(tmp_path / "second")
    assert signal.getsignal(signal.SIGTERM) is exits._on_signal
    first[0].close()
    second.close()
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_processes_struck_at_random_moments() -> None:
    strikes = os.environ.get("LUCKY_RECORDER_STRIKES", "4")
    asked = [sys.executable, "-m", "tests.soak.signals", "--seed", "14", "--count", strikes]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
