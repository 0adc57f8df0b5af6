"""Observer: tasks are numbered, listed, and a row's from the call on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import lucky_recorder as lr
from lucky_recorder.recorder.observer import State
from tests.recorder.states import lead_to


def test_tasks_are_numbered_listed_and_kept_from_the_call_on(bare: Any, read_back: Any) -> None:
    observer, advance = bare(tasks=["Pick"])
    assert [observer.register_task("Place"), observer.register_task("Stapeln, bitte: ⬒")] == [1, 2]
    observer.start_recording()
    advance(1)
    observer.set_current_task_index(2)
    advance(2)
    observer.set_current_task_index(np.int64(1))
    observer.end_current_episode(success=True)
    advance(2)
    observer.stop_recording()
    first, second = read_back(observer.session_path)
    assert first.rows["task_index"].tolist() == [0, 2, 2]
    assert second.rows["task_index"].tolist() == [1, 1]
    assert (first.meta["tasks"], second.meta["tasks"]) == (["Pick", "Stapeln, bitte: ⬒"], ["Place"])
    table = pd.read_parquet(observer.session_path / "meta/tasks.parquet")
    assert table["task_index"].to_dict() == {"Pick": 0, "Place": 1, "Stapeln, bitte: ⬒": 2}


def test_without_tasks_there_is_a_default_one(bare: Any) -> None:
    observer, advance = bare()
    observer.start_recording()
    advance()
    observer.stop_recording()
    assert pd.read_parquet(observer.session_path / "meta/tasks.parquet")["task_index"].to_dict() == {"Default Task": 0}


def test_a_task_may_be_registered_for_the_next_session(bare: Any) -> None:
    observer, _ = bare(tasks=["Pick"])
    first = observer.start_recording()
    observer.stop_recording()
    assert observer.register_task("Place") == 1
    second = observer.start_recording()
    observer.stop_recording()
    assert [lr.Session(p).tasks for p in (first, second)] == [["Pick"], ["Pick", "Place"]]


@pytest.mark.parametrize("index", [-1, 2, True, 1.0, "0", None], ids=repr)
@pytest.mark.parametrize("state", list(State), ids=lambda s: s.value)
def test_an_unknown_task_is_refused(bare: Any, index: Any, state: State) -> None:
    observer, _ = bare(tasks=["Pick", "Place"])
    lead_to(observer, state)
    with pytest.raises(lr.SettingsError, match=r"task index=.*give 0 to 1, or register the task before recording"):
        observer.set_current_task_index(index)


@pytest.mark.parametrize("description", ["", "  ", None, 3, "Pick"], ids=repr)
def test_a_task_that_is_empty_or_known_is_refused(bare: Any, description: Any) -> None:
    observer, _ = bare(tasks=["Pick"])
    with pytest.raises(lr.SettingsError, match="task="):
        observer.register_task(description)
    assert observer.register_task("Place") == 1
