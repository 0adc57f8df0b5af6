"""Observer: every verb in every state, and nothing begins before it is asked for."""

from __future__ import annotations

import copy
import pickle
import threading
from pathlib import Path
from typing import Any

import pytest

import lucky_recorder as lr
from lucky_recorder.recorder.observer import State
from tests.recorder.states import BETWEEN, IDLE, IN, lead_to

VERBS = {
    "start_recording": (lambda o: o.start_recording(), {IDLE: IN}),
    "stop_recording": (lambda o: o.stop_recording(), {IN: IDLE, BETWEEN: IDLE}),
    "begin_episode": (lambda o: o.begin_episode(), {BETWEEN: IN}),
    "tick": (lambda o: o.tick(), {IN: IN, BETWEEN: IN}),
    "end_current_episode": (lambda o: o.end_current_episode(True), {IN: BETWEEN}),
    "end_current_episode_begin_next": (lambda o: o.end_current_episode_begin_next(True), {IN: IN}),
    "register_task": (lambda o: o.register_task("Stack the cubes"), {IDLE: IDLE}),
    "set_current_task_index": (lambda o: o.set_current_task_index(0), {IDLE: IDLE, IN: IN, BETWEEN: BETWEEN}),
    "mark_reset": (lambda o: o.mark_reset(), {IN: IN, BETWEEN: BETWEEN}),
    "flush": (lambda o: o.flush(), {IN: IN, BETWEEN: BETWEEN}),
}
CASES = [(verb, state) for verb in VERBS for state in State]


@pytest.mark.parametrize(("verb", "state"), CASES, ids=[f"{v}-{s.value}" for v, s in CASES])
def test_a_verb_works_in_its_states_and_says_the_state_in_all_others(bare: Any, verb: str, state: State) -> None:
    observer, _ = bare()
    lead_to(observer, state)
    call, leads_to = VERBS[verb]
    if state in leads_to:
        call(observer)
        assert observer.state is leads_to[state]
        assert observer.is_recording is (observer.state is not IDLE)
        return
    with pytest.raises(lr.StateError, match=rf"{verb}\(\) needs .*, but it is {state.value}") as raised:
        call(observer)
    assert observer.state is state
    assert ("start_recording() was not called yet" in str(raised.value)) is (state is IDLE)


def test_idle_says_why(bare: Any) -> None:
    observer, advance = bare()
    observer.start_recording()
    observer.stop_recording()
    with pytest.raises(lr.StateError, match=r"Idle: stop_recording\(\) was called"):
        advance()


def test_a_constructor_touches_nothing(bare: Any, tmp_path: Path) -> None:
    before = threading.active_count()
    observer, _ = bare(output_dir=tmp_path / "new")
    assert not (tmp_path / "new").exists()
    assert threading.active_count() == before
    assert (observer.session_path, observer.is_recording, observer.counts, observer.koyu_path) == (
        None,
        False,
        None,
        None,
    )


def test_started_again_it_writes_another_session(bare: Any, read_back: Any) -> None:
    observer, advance = bare()
    paths = []
    for ticks in (2, 3):
        paths.append(observer.start_recording())
        advance(ticks)
        observer.end_current_episode(success=True)
        observer.stop_recording()
    assert paths[0] != paths[1] == observer.session_path
    assert [e.rows["observation.state"][:, 0].tolist() for p in paths for e in read_back(p)] == [[0, 1], [2, 3, 4]]
    assert {e.rows["index"][0] for p in paths for e in read_back(p)} == {0}


def test_two_observers_in_one_second_write_two_folders(bare: Any, read_back: Any) -> None:
    observers = [bare() for _ in range(3)]
    paths = {observer.start_recording() for observer, _ in observers}
    assert len(paths) == 3
    for number, (observer, advance) in enumerate(observers):
        advance(number + 1)
        observer.stop_recording()
        assert [e.meta["length"] for e in read_back(observer.session_path)] == [number + 1]


def test_a_session_without_episodes_is_sound(bare: Any, read_back: Any) -> None:
    observer, _ = bare()
    observer.start_recording()
    observer.stop_recording()
    assert read_back(observer.session_path) == []


@pytest.mark.parametrize("state", list(State), ids=lambda s: s.value)
@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps], ids=["copy", "deepcopy", "pickle"])
def test_it_can_be_neither_copied_nor_pickled_and_says_what_to_do(bare: Any, state: State, duplicate: Any) -> None:
    observer, _ = bare()
    lead_to(observer, state)
    with pytest.raises(lr.StateError, match="make one in each process"):
        duplicate(observer)
    assert observer.state is state
