from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lucky_recorder.session.check import Fault, check_session
from tests.session.breaking import DATA, FRONT, INFO, META, VIDEO, rewrite, with_value


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("episode_index", 9, "episode_index is 9, expected 5"),
        ("episode_index", 4, "episode_index is 4, expected 5"),
        ("episode_index", None, "episode_index is None"),
        ("episode_index", -1, "episode_index is -1"),
        ("chunk_index", 3, "chunk_index is 3, expected 0"),
        ("file_index", None, "file_index is None, expected 1"),
        ("data/chunk_index", 1, "data/chunk_index is 1, expected 0"),
        ("data/file_index", 0, "data/file_index is 0, expected 1"),
        ("data/file_index", 10**15, "data/file_index is 10"),
        ("length", 10, "dataset_to_index is 60, expected 58"),
        ("length", 0, "length is 0"),
        ("length", -12, "length is -12"),
        ("length", 11, "length is 11, expected a row for each of 2 robots"),
        ("length", 10**17, "12 rows, meta/episodes says 100000000000000000"),
        ("success", None, "success is None"),
        ("success", False, "the footer does not say of it"),
        ("dataset_from_index", 47, "dataset_from_index is 47, expected 48"),
        ("dataset_to_index", 61, "dataset_to_index is 61, expected 60"),
        ("tasks", None, "tasks is None"),
        ("tasks", [], "tasks is []"),
        ("tasks", ["Dance"], "task 'Dance' is not in"),
        ("tasks", ["Pick up the cube"], "meta/episodes says ['Pick up the cube']"),
        ("meta/episodes/chunk_index", 1, "says that it stands in meta/episodes/chunk-001/file-001"),
        ("meta/episodes/file_index", None, "says that it stands in"),
        (f"videos/{FRONT}/chunk_index", 1, f"videos/{FRONT}/chunk_index is 1, expected 2"),
        (f"videos/{FRONT}/file_index", 0, f"videos/{FRONT}/file_index is 0, expected 1"),
        (f"videos/{FRONT}/file_index", None, f"videos/{FRONT}/file_index is empty"),
        (f"videos/{FRONT}/from_timestamp", 0.5, f"videos/{FRONT}/from_timestamp is 0.5"),
        (f"videos/{FRONT}/to_timestamp", 0.1, "to_timestamp is 0.1, its 6 frames end at 0.12"),
    ],
)
def test_every_wrong_number_of_an_episode_is_a_fault(copy: Path, column: str, value: Any, message: str) -> None:
    rewrite(copy / META, with_value(column, 2, value))
    faults = check_session(copy, decode=False)
    assert any(message in f.message and f.episode in (5, value, None) for f in faults), faults


def test_a_stream_without_a_file_in_a_success(copy: Path) -> None:
    def change(table: pa.Table) -> pa.Table:
        for suffix in ("chunk_index", "file_index", "from_timestamp", "to_timestamp"):
            table = with_value(f"videos/{FRONT}/{suffix}", 2, None)(table)
        return table

    rewrite(copy / META, change)
    faults = check_session(copy)
    assert Fault(META, 5, f"{FRONT} wrote no file, and yet success is true") in faults
    assert Fault(VIDEO, None, "no episode names this file") in faults


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.drop_columns("success"), "column success is missing"),
        (lambda t: t.append_column("videos/x/file_index", pa.array([1, 2, 3, 4])), "column videos/x/file_index is not"),
        (lambda t: t.append_column("length", t["length"]), "a column stands twice"),
        (lambda t: t.set_column(5, "length", t["length"].cast(pa.float64())), "column length is double"),
        (lambda t: t.set_column(0, "episode_index", pa.array(list("abcd"))), "column episode_index is string"),
        (lambda t: t.set_column(9, "tasks", pa.nulls(4)), "column tasks is null"),
    ],
)
def test_every_wrong_column_of_the_episodes_is_a_fault(copy: Path, change: Callable, message: str) -> None:
    rewrite(copy / META, change)
    assert Fault(META, None, message) in [f._replace(message=f.message[: len(message)]) for f in check_session(copy)]


def test_a_gap_between_metadata_files(copy: Path) -> None:
    (copy / META).rename(copy / META.replace("001", "003"))
    faults = check_session(copy)
    assert Fault(META.replace("001", "003"), None, f"out of place: metadata file 1 is {META}") in faults


def test_a_lost_metadata_file(copy: Path) -> None:
    (copy / META).unlink()
    faults = check_session(copy)
    assert Fault(INFO, None, "total_episodes is 7, expected 3") in faults
    assert any(f.file == DATA and "does not list (3, 4, 5)" in f.message for f in faults)


def test_what_somebody_notes_of_episodes_is_no_fault(copy: Path) -> None:
    rewrite(copy / META, lambda t: t.append_column("rating", pa.array([1, 2, 3, None])))
    assert check_session(copy) == []
