"""One thread steps, another one ends the episode or the session: rows and frames agree, whatever comes in between."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lucky_recorder as lr
from lucky_recorder.recorder import forgotten, lane, recording, take
from lucky_recorder.testing import CountEnv, MemorySink
from tests.recorder.lines import Aside, AtLine

KOYU = {"name": "counted", "collection_mode": "synthetic"}
SEEN = {"name": "seen", "source": "render", "width": 64, "height": 48}
# Where a tick is settled, and where a take is ended.
SETTLING = (lane.__file__, recording.__file__)
ENDING = (take.__file__, recording.__file__)

Record = Callable[[str], lr.RecordSession]


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Record]:
    """Return what records a counting environment; its picture, its observation and its row say the same number."""
    monkeypatch.setattr("os.fsync", lambda descriptor: None)
    made: list[lr.RecordSession] = []

    def make(name: str = "") -> lr.RecordSession:
        env = lr.RecordSession(
            CountEnv(50, render_mode="rgb_array"), mode="custom", columns=[lr.Column("obs", "gym:obs")],
            cameras=[SEEN], output_dir=tmp_path / name,
        )  # fmt: skip
        made.append(env)
        return env

    yield make
    for env in made:
        env.close()


def begin(env: lr.RecordSession) -> None:
    env.reset(seed=0)
    env.step(np.zeros(1))


def step(env: lr.RecordSession) -> Callable[[], Any]:
    return lambda: env.step(np.zeros(1))


def leave(env: lr.RecordSession) -> None:
    """Close a session as it is closed when its process ends."""
    recorder = env.recorder
    assert recorder.recording is not None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        forgotten.close_at_exit(recorder.recording.session, lambda: recorder.stop, recorder.lock)


ENDS: dict[str, Callable[[lr.RecordSession], None]] = {
    "end_episode": lambda env: env.end_episode(success=True),
    "begin_next": lambda env: env.observer.end_current_episode_begin_next(success=True),
}
CLOSES: dict[str, Callable[[lr.RecordSession], None]] = {"close": lambda env: env.close(), "exit": leave}


def check(counts: Any, episodes: list[Any], at_least: int) -> None:
    """Each episode's rows count on by one, its frames say the same as its rows, and none is missing."""
    assert len(episodes) >= at_least
    for number, episode in enumerate(episodes):
        found = counts(episode)
        # A picture shows 16 bits of a count.
        assert found["seen"] == [count & 0xFFFF for count in found["rows"]], number
        assert found["rows"] == [found["rows"][0] + k for k in range(len(found["rows"]))], number


@pytest.mark.parametrize("end", list(ENDS))
def test_an_end_from_another_thread_at_any_line_of_a_step(start: Record, read_back: Any, counts: Any, end: str) -> None:
    env = start("one")
    for number in range(1, 1000):
        begin(env)
        with AtLine(number, Aside(lambda: ENDS[end](env)).whole) as line:
            env.step(np.zeros(1))
        env.step(np.zeros(1))
        if line.left > 0:
            break
    env.close()
    assert number > 20
    check(counts, read_back(env.session_path), number)


@pytest.mark.parametrize("end", list(ENDS))
def test_a_step_from_another_thread_at_any_line_of_an_end(start: Record, read_back: Any, counts: Any, end: str) -> None:
    env = start("one")
    for number in range(1, 1000):
        begin(env)
        with AtLine(number, Aside(step(env)).whole) as line:
            ENDS[end](env)
        if line.left > 0:
            break
    env.close()
    assert number > 20
    check(counts, read_back(env.session_path), number)


def test_an_end_at_any_line_of_a_tick_that_is_settled_at_any_line_of_the_end(
    start: Record, read_back: Any, counts: Any
) -> None:
    """The end begins amid the step and goes on when the step is over: what it has read by then is out of date."""
    env = start("one")
    taken = 0
    for number in range(1, 1000):
        for other in range(1, 1000):
            begin(env)
            taken += 1
            aside = Aside(lambda: env.end_episode(success=True), other, ENDING)
            with AtLine(number, aside.begin, SETTLING) as line:
                env.step(np.zeros(1))
            if line.left > 0:
                break
            aside.end()
            if aside.lines_left > 0:
                break
        if line.left > 0:
            break
    env.close()
    assert taken > 200
    check(counts, read_back(env.session_path), taken)


@pytest.mark.parametrize("close", list(CLOSES))
def test_a_session_closed_by_another_thread_at_any_line_of_a_step(
    start: Record, read_back: Any, counts: Any, close: str
) -> None:
    for number in range(1, 1000):
        env = start(str(number))
        begin(env)
        with AtLine(number, Aside(lambda env=env: CLOSES[close](env)).whole) as line:
            env.step(np.zeros(1))
        env.step(np.zeros(1))
        env.close()
        check(counts, read_back(env.session_path), 1)
        assert not list(env.session_path.rglob("*.tmp")), number
        if line.left > 0:
            break
    assert number > 20


def test_both_formats_hold_the_same_ticks(tmp_path: Path, read_back: Any, wall: Any) -> None:
    env = lr.RecordSession(
        CountEnv(5, mujoco=True), output_dir=tmp_path, cameras=[wall], koyu=KOYU, formats=("session", "koyu")
    )
    for number in range(1, 1000):
        begin(env)
        with AtLine(number, Aside(lambda: env.end_episode(success=True)).whole, SETTLING) as line:
            env.step(np.zeros(1))
        if line.left > 0:
            break
    env.close()
    lengths = [len(e.frames["wall"]) for e in read_back(env.session_path)]
    assert lengths == [e.meta["length"] for e in read_back(env.session_path)]
    dataset = lr.koyu.Dataset(env.koyu_path)
    assert len(dataset) == sum(lengths)
    assert set(lengths) == {1, 2}


def test_a_recorder_works_in_another_thread_than_it_was_made_in(start: Record, read_back: Any, counts: Any) -> None:
    env = start("one")
    for verb in (lambda: begin(env), step(env), lambda: env.observer.flush(), lambda: env.end_episode(success=True)):
        Aside(verb).whole()
    Aside(lambda: begin(env)).whole()
    env.close()
    episodes = read_back(env.session_path)
    check(counts, episodes, 2)
    assert [e.meta["success"] for e in episodes] == [True, False]


def test_recorders_in_threads_of_their_own_do_not_mix(tmp_path: Path, read_back: Any, counts: Any, wall: Any) -> None:
    def record(number: int) -> None:
        env = lr.RecordSession(
            CountEnv(7, mujoco=True), output_dir=tmp_path / str(number), cameras=[wall],
            columns=[lr.Column("obs", "gym:obs")],
        )  # fmt: skip
        with env:
            for seed in range(4):
                env.reset(seed=seed)
                for _ in range(7):
                    env.step(np.zeros(1))

    asides = [Aside(lambda n=number: record(n)) for number in range(2)]
    threads = [threading.Thread(target=aside.whole) for aside in asides]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in range(2):
        (session,) = (tmp_path / str(number)).glob("DataSessions/*")
        for index, episode in enumerate(read_back(session)):
            assert counts(episode)["rows"] == [100 * index + t for t in range(7)]
            assert counts(episode)["wall"] == [100 * (index % 2) + t for t in range(7)]


def test_two_threads_that_start_at_once_open_one_session(bare: Any) -> None:
    observer, _ = bare()
    refused = []

    def begin_too() -> None:
        try:
            observer.start_recording()
        except lr.StateError as error:
            refused.append(str(error))

    aside = Aside(begin_too)
    with AtLine(1, aside.begin_only, (recording.__file__,)):
        observer.start_recording()
    aside.end()
    assert len(refused) == 1
    assert "needs the observer to be Idle" in refused[0]
    observer.stop_recording()


def test_a_success_callable_is_not_asked_while_a_step_is_under_way(tmp_path: Path, read_back: Any) -> None:
    class Impatient(CountEnv):
        def step(self, action: Any) -> Any:
            aside = Aside(lambda: env.end_episode())
            with pytest.raises(lr.StateError, match="while a step is under way: the success callable"):
                aside.whole()
            return super().step(action)

    env = lr.RecordSession(Impatient(3, mujoco=True), output_dir=tmp_path, success=lambda simulation: True)
    begin(env)
    env.end_episode()
    env.close()
    assert [(e.meta["length"], e.meta["success"]) for e in read_back(env.session_path)] == [(1, True)]


@pytest.mark.parametrize("mujoco", [False, True])
def test_a_reset_that_is_marked_at_any_line_of_a_step_is_of_the_next_row(tmp_path: Path, mujoco: bool) -> None:
    sink = MemorySink(tmp_path)
    column = lr.Column("obs", "gym:obs")
    env = lr.RecordSession(
        CountEnv(None, mujoco=mujoco), mode="custom", columns=[column], formats=(), sinks=[sink], output_dir=tmp_path
    )
    for number in range(1, 1000):
        begin(env)
        env.step(np.zeros(1))
        # Of one robot it is noted otherwise than of all.
        robot = env.recorder.robots[0] if number % 2 else None
        with AtLine(number, Aside(lambda name=robot: env.observer.mark_reset(name)).whole) as line:
            env.step(np.zeros(1))
        for _ in range(2):
            env.step(np.zeros(1))
        env.end_episode(success=True)
        if line.left > 0:
            break
    env.close()
    assert number > 20
    flags = [record.columns["frame_flags"].tolist() for record in sink.records[:-1]]
    # Before the look it is of the row that begins, and later of the one after it.
    seen = flags.index([3, 1, 1, 3, 1])
    assert flags == [[3, 1, 3, 1, 1]] * seen + [[3, 1, 1, 3, 1]] * (number - 1 - seen)
