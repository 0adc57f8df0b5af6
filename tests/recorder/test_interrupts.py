"""Interrupts at the worst moment, while work is handed over: no frame is lost, and no episode."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lucky_recorder as lr
from lucky_recorder.recorder.take import Take
from lucky_recorder.recorder.worker import Worker
from lucky_recorder.testing import CountEnv
from tests.recorder.lines import AtLine, interrupt


def interrupt_once(monkeypatch: pytest.MonkeyPatch, at: int, is_queued: bool) -> None:
    """Have an interrupt strike while a job is handed over: just before it is queued, or just after."""
    working, handed = Worker.put, []

    def put(worker: Worker, job: Any) -> None:
        handed.append(job)
        is_time = len(handed) == at
        if is_time and not is_queued:
            raise KeyboardInterrupt
        working(worker, job)
        if is_time:
            raise KeyboardInterrupt

    monkeypatch.setattr(Worker, "put", put)


@pytest.mark.parametrize("is_queued", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("interrupted", [3, 5, 6, 7])
def test_an_interrupt_while_work_is_handed_over_costs_no_frame(
    record: Any,
    seen: Any,
    read_back: Any,
    counts: Any,
    monkeypatch: pytest.MonkeyPatch,
    interrupted: int,
    is_queued: bool,
) -> None:
    """Jobs 1 and up: three frames and an end of episode 0, then the frames of episode 1."""
    env = record(CountEnv([3, 9], render_mode="rgb_array"), cameras=[seen])
    env.reset()
    interrupt_once(monkeypatch, interrupted, is_queued)

    def go_on() -> None:
        for _ in range(3):
            env.step(np.zeros(1))
        env.reset()
        for _ in range(9):
            env.step(np.zeros(1))

    with pytest.raises(KeyboardInterrupt):
        go_on()
    env.close()
    episodes = read_back(env.session_path)
    rows = [2 + is_queued] if interrupted == 3 else [3, interrupted - 5 + is_queued]
    assert [e.meta["length"] for e in episodes] == [r for r in rows if r]
    for episode in episodes:
        found = counts(episode)
        assert found["seen"] == found["rows"]
        assert episode.meta["success"] is (interrupted > 4 and episode is episodes[0])
    assert not list(env.session_path.rglob("*.tmp"))


@pytest.mark.parametrize("is_queued", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("goes_on", [False, True], ids=["closes", "goes-on"])
def test_an_interrupt_while_an_end_is_handed_over_loses_no_episode(
    record: Any, run: Any, seen: Any, read_back: Any, monkeypatch: pytest.MonkeyPatch, is_queued: bool, goes_on: bool
) -> None:
    env = record(cameras=[seen])
    run(env)
    interrupt_once(monkeypatch, 1, is_queued)
    with pytest.raises(KeyboardInterrupt):
        env.reset()
    if goes_on:
        run(env)
    env.close()
    episodes = [(e.meta["length"], e.meta["success"]) for e in read_back(env.session_path)]
    assert episodes == [(3, True)] + [(3, True)] * goes_on
    assert not list(env.session_path.rglob("*.tmp"))


@pytest.mark.parametrize("is_queued", [False, True], ids=["before", "after"])
def test_ticks_after_an_interrupted_end_are_the_next_episode(
    bare: Any, read_back: Any, monkeypatch: pytest.MonkeyPatch, wall: Any, is_queued: bool
) -> None:
    observer, advance = bare(cameras=[wall])
    observer.start_recording()
    advance(3)
    interrupt_once(monkeypatch, 1, is_queued)
    with pytest.raises(KeyboardInterrupt):
        observer.end_current_episode(success=True)
    assert observer.state.value == "BetweenEpisodes"
    advance(4)
    observer.end_current_episode(success=False)
    advance(2)
    observer.stop_recording()
    episodes = read_back(observer.session_path)
    assert [(e.meta["length"], e.meta["success"], len(e.frames["wall"])) for e in episodes] == [
        (3, True, 3),
        (4, False, 4),
        (2, False, 2),
    ]


def test_an_interrupt_between_a_step_and_its_row_ends_the_episode(
    record: Any, read_back: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Going on would leave a row out without a word."""
    env = record(CountEnv(None))
    env.reset()
    env.step(np.zeros(1))
    with monkeypatch.context() as patch:
        patch.setattr(Take, "settle", lambda *args: interrupt())
        with pytest.raises(KeyboardInterrupt):
            env.step(np.zeros(1))
    env.step(np.zeros(1))
    env.close()
    assert [e.rows["obs"].tolist() for e in read_back(env.session_path)] == [[0]]


def break_a_step(env: lr.RecordSession, step: int, number: int) -> bool:
    """Interrupt a step of an episode before a line, and record another one; returns whether it had as many lines."""
    env.reset(seed=0)
    for _ in range(step - 1):
        env.step(np.zeros(1))
    line = AtLine(number, interrupt)
    with contextlib.suppress(KeyboardInterrupt), line:
        env.step(np.zeros(1))
    for _ in range(4):
        env.step(np.zeros(1))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*steps came after one that had ended")
        env.reset(seed=1)
    for _ in range(2):
        env.step(np.zeros(1))
    return line.left <= 0


def check_broken(episodes: list[Any], counts: Any, first: int, number: int) -> None:
    """Of what was broken whole ticks without a gap are left, from the first on, and the next episode is whole."""
    *broken, last = episodes
    for episode in broken:
        rows = counts(episode)["rows"]
        assert rows == [first + t for t in range(len(rows))], number
        assert counts(episode)["seen"] == rows, number
    assert counts(last) == {"rows": [first + 100, first + 101], "seen": [first + 100, first + 101]}, number


@pytest.fixture
def begin(tmp_path: Path, seen: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], lr.RecordSession]:
    """Return what opens a session in a folder of its own, whose episodes have three steps and two, in turn."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    return lambda number: lr.RecordSession(
        CountEnv([3, 2], render_mode="rgb_array"), mode="custom", columns=[lr.Column("obs", "gym:obs")],
        cameras=[seen], output_dir=tmp_path / str(number),
    )  # fmt: skip


def test_an_interrupt_at_any_line_of_a_first_step_leaves_whole_ticks_without_a_gap(
    begin: Any, read_back: Any, counts: Any
) -> None:
    """Of a session: it is there that rates are learned."""
    for number in range(1, 1000):
        env = begin(number)
        has_struck = break_a_step(env, 1, number)
        env.close()
        check_broken(read_back(env.session_path), counts, 0, number)
        if not has_struck:
            break
    assert number > 20


def test_an_interrupt_at_any_line_of_a_last_step_leaves_whole_ticks_without_a_gap(
    begin: Any, read_back: Any, counts: Any
) -> None:
    env, number = begin(0), 1
    while break_a_step(env, 3, number):
        number += 1
    env.close()
    assert 20 < number < 300
    by_number: dict[int, list[Any]] = {}
    for episode in read_back(env.session_path):
        by_number.setdefault(counts(episode)["rows"][0] // 200, []).append(episode)
    assert list(by_number) == list(range(number))
    for place, episodes in by_number.items():
        check_broken(episodes, counts, 200 * place, place + 1)


@pytest.mark.parametrize("is_queued", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("at", [1, 2], ids=["end", "meta"])
def test_an_interrupt_while_closing_still_leaves_a_whole_session(
    record: Any, seen: Any, read_back: Any, monkeypatch: pytest.MonkeyPatch, at: int, is_queued: bool
) -> None:
    env = record(CountEnv(None, render_mode="rgb_array"), cameras=[seen])
    env.reset()
    for _ in range(4):
        env.step(np.zeros(1))
    interrupt_once(monkeypatch, at, is_queued)
    with pytest.raises(KeyboardInterrupt):
        env.close()
    env.close()
    assert [(e.meta["length"], e.meta["success"]) for e in read_back(env.session_path)] == [(4, False)]
    assert not list(env.session_path.rglob("*.tmp"))
