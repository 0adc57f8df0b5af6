from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from lucky_recorder.session.check import check_session
from tests.session.breaking import INFO, TASKS, rewrite


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.take([1, 0]), "task_index is not int64 from 0 to 1 in order"),
        (lambda t: t.set_column(0, "task_index", pa.array([0, 2])), "task_index is not int64"),
        (lambda t: t.set_column(0, "task_index", pa.array([0, 1], pa.int32())), "task_index is not int64"),
        (lambda t: t.set_column(1, "task", pa.array(["a", "a"])), "descriptions are missing or stand twice"),
        (lambda t: t.set_column(1, "task", pa.array(["a", None])), "descriptions are missing or stand twice"),
        (lambda t: t.drop_columns("task"), "columns are ['task_index']"),
        (lambda t: t.append_column("more", pa.array(["a", "b"])), "columns are"),
        (lambda t: t.replace_schema_metadata({b"pandas": b"{"}), "pandas would not take 'task' as the index"),
        (lambda t: t.replace_schema_metadata({b"pandas": b"[]"}), "pandas would not take 'task' as the index"),
        (lambda t: t.slice(0, 1), "total_tasks is 2, expected 1"),
    ],
)
def test_every_wrong_tasks_file_is_a_fault(copy: Path, change: Callable, message: str) -> None:
    rewrite(copy / TASKS, change)
    assert any(message in f.message and f.file in (TASKS, INFO) for f in check_session(copy))
