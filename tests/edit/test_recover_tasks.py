"""Tasks of sessions that were cut short: recovered or gone on with, every row is of the task it was recorded with."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import lucky_recorder as lr
from lucky_recorder.session import metadata, recovery
from lucky_recorder.session.check import check_session
from tests.pairs import in_pairs
from tests.session.building import Recording, arm_schema

NAME = "session_2026-10-08_14-30-05"
ROWS = 3


class Killed(BaseException):
    """Nothing that is written after this is on the disk."""


def die(*_: Any) -> None:
    raise Killed


def part(path: Path, tasks: Sequence[str], per_file: int, found: int, *, is_killed: bool) -> None:
    """Record an episode of each task; the last ``found`` of them are not known beforehand."""
    registered = tasks[: len(tasks) - found]
    recording = Recording(path.parent / "made", arm_schema(), 40, per_file, registered)
    if path.exists():
        recording.close()
        recording.root = path
        recording.resume()
    else:
        recording.close()
        recording = Recording(path, arm_schema(), 40, per_file, registered)
    recording.tasks = list(tasks)
    for number in range(len(tasks)):
        recording.keep(ROWS, tasks=(number,))
    if is_killed:
        recording.sink._lock.release()
    else:
        recording.close()


def described(path: Path) -> list[list[str]]:
    """The task of every row, by what ``tasks.parquet`` says, episode by episode."""
    listed = pq.read_table(path / "meta/tasks.parquet").sort_by("task_index")["task"].to_pylist()
    return [[listed[index] for index in episode.rows()["task_index"].to_pylist()] for episode in lr.Session(path)]


def of(tasks: str) -> list[list[str]]:
    return [[task] * ROWS for task in tasks]


@in_pairs(is_recovered=[False, True], found=[0, 1, 2, 3], per_file=[1, 3, 7])
def test_every_row_keeps_its_task(tmp_path: Path, per_file: int, found: int, is_recovered: bool) -> None:
    path, recorded = tmp_path / NAME, ""
    for tasks, is_killed in (("ABCD", True), ("AFG", True), ("HB", False), ("IDJ", True)):
        part(path, tasks, per_file, min(found, len(tasks) - 1), is_killed=is_killed)
        recorded += tasks
        assert [list(episode.tasks) for episode in lr.Session(path)] == [[task] for task in recorded]
        if is_recovered:
            before = lr.Session(path).tasks
            (done,) = lr.recover(path)
            assert (done.verdict, done.why) == ("recovered" if is_killed else "complete", "")
            assert (described(path), lr.Session(path).tasks, check_session(path)) == (of(recorded), before, [])
            assert lr.recover(path)[0].verdict == "complete"
    part(path, "DE", per_file, 1, is_killed=False)
    assert (described(path), check_session(path)) == (of(f"{recorded}DE"), [])


@pytest.mark.parametrize("per_file", [1, 3])
@pytest.mark.parametrize("step", ["write_tasks", "write_episodes", "write_totals"])
def test_a_recovery_that_was_killed_is_mended_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, per_file: int, step: str
) -> None:
    path = tmp_path / NAME
    part(path, "AB", per_file, 1, is_killed=False)
    part(path, "CBD", per_file, 2, is_killed=True)
    with monkeypatch.context() as patch:
        patch.setattr(metadata, step, die)
        with pytest.raises(Killed):
            lr.recover(path)
    (done,) = lr.recover(path)
    assert (done.verdict, done.why, check_session(path)) == ("recovered", "", [])
    assert (described(path), lr.recover(path)[0].verdict) == (of("ABCBD"), "complete")


@pytest.mark.parametrize("per_file", [1, 3])
def test_tasks_that_a_list_lacks_are_brought_back(tmp_path: Path, per_file: int) -> None:
    """Also where every episode is listed, and the counts are right: earlier versions have left that."""
    path = tmp_path / NAME
    part(path, "ABC", per_file, 2, is_killed=False)
    metadata.write_tasks(path / "meta/tasks.parquet", ["A"])
    assert not recovery.plan(path).is_empty
    part(path, "D", per_file, 0, is_killed=False)
    assert (described(path), check_session(path)) == (of("ABCD"), [])
