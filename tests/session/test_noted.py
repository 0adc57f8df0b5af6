"""Columns of somebody's own in ``meta/episodes`` that have two types: all who read the list say the same of it."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lucky_recorder as lr
from lucky_recorder.session.check import check_session
from lucky_recorder.session.layout import Chunking
from lucky_recorder.session.sink import SessionSink
from tests.session.building import Recording, arm_schema

REAL, WHOLE = pa.array([None], pa.float64()), pa.array([3, 4], pa.int64())


def rated(root: Path, *columns: pa.Array) -> Recording:
    """Three episodes, listed in two files, of one and of two; each gets its part of a column."""
    recording = Recording(root, arm_schema(), metadata_every=3)
    for _ in range(3):
        recording.keep(2)
    recording.close()
    files = sorted(root.glob("meta/episodes/*/*.parquet"))
    for path, column in zip(files, columns, strict=True):
        table = pq.read_table(path)
        pq.write_table(table.append_column("rating", column), path)
    return recording


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ((REAL, WHOLE), [None, 3.0, 4.0]),
        ((pa.array([2], pa.int8()), WHOLE), [2, 3, 4]),
        ((pa.array([0.5], pa.float32()), WHOLE), [0.5, 3.0, 4.0]),
        ((pa.array([0.5]), pa.array([3, 2**53 + 1])), None),
        ((pa.array(["good"]), WHOLE), None),
        ((pa.array([True]), WHOLE), None),
    ],
    ids=["pandas", "whole", "real", "inexact", "text", "bool"],
)
def test_all_say_the_same_of_two_types(tmp_path: Path, columns: tuple[Any, ...], expected: Any) -> None:
    recording = rated(tmp_path / "one", *columns)
    kinds = rf"{columns[0].type} in meta/\S*file-000.parquet, and {columns[1].type} in meta/\S*file-001.parquet"

    def told() -> Any:
        return contextlib.nullcontext() if expected else pytest.warns(RuntimeWarning, match=f"{kinds}: it is not read")

    with told():
        session = lr.Session(recording.root)
        assert [e.length for e in session] == [2, 2, 2]
    assert ("rating" in session.episodes.column_names) is bool(expected)
    if expected:
        assert session.episodes["rating"].to_pylist() == expected
    message = f"column rating is {columns[1].type}, in meta/episodes/chunk-000/file-000.parquet it is {columns[0].type}"
    assert [fault.message for fault in check_session(recording.root)] == [message]
    with told(), pytest.raises(lr.FormatError, match=f"'rating' is {kinds}; give it one type in all files"):
        lr.select(recording.root, tmp_path / "made", episodes="0")
    with pytest.raises(lr.FormatError, match=f"'rating' is {kinds}; give it one type in all files"):
        go_on(recording)
    with told():
        (done,) = lr.recover(recording.root)
    assert (done.verdict, done.set_aside, done.episodes) == ("complete", (), 3)
    assert not (tmp_path / "made").exists()


def go_on(recording: Recording) -> None:
    recording.sink = SessionSink(recording.root, Chunking(40), 3, resumes=True)
    try:
        recording.sink.open(recording.schema, recording.tasks)
    except lr.FormatError:
        recording.sink._lock.release()
        raise


def test_a_file_without_a_value_is_of_any_type(tmp_path: Path) -> None:
    recording = rated(tmp_path / "one", pa.array([None]), WHOLE)
    assert check_session(recording.root) == []
    go_on(recording)
    recording.keep(2)
    recording.close()
    assert lr.Session(recording.root).episodes["rating"].to_pylist() == [None, 3, 4, None]
    assert check_session(recording.root) == []


def test_what_is_not_listed_is_brought_back_all_the_same(tmp_path: Path) -> None:
    recording = Recording(tmp_path / "one", arm_schema(), metadata_every=3)
    for _ in range(5):
        recording.keep(2)
    recording.sink._lock.release()
    files = sorted(recording.root.glob("meta/episodes/*/*.parquet"))
    for path, column in zip(files, (REAL, WHOLE), strict=True):
        pq.write_table(pq.read_table(path).append_column("rating", column), path)
    (done,) = lr.recover(recording.root)
    assert (done.verdict, done.set_aside, done.episodes, done.brought_back) == ("faulty", (), 5, 2)
    assert lr.Session(recording.root).episodes["rating"].to_pylist() == [None, 3.0, 4.0, None, None]


def test_two_sessions_with_two_types_are_not_merged(tmp_path: Path) -> None:
    paths = []
    for name, kind in (("one", pa.int64()), ("two", pa.string())):
        recording = rated(tmp_path / name, pa.array([None], kind), pa.array([None, None], kind))
        paths.append(recording.root)
    with pytest.raises(lr.FormatError, match=r"'rating' in meta/episodes: .*one has int64, .*two string"):
        lr.merge(paths, tmp_path / "made")


LISTS = pa.list_(pa.int64())


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (pa.array([[1]], pa.list_(pa.field("element", pa.int64()))), pa.array([[2], None], LISTS)),
        (pa.array([[]], pa.list_(pa.null())), pa.array([[2], [3, None]], LISTS)),
        (pa.array([[[]]], pa.list_(pa.list_(pa.null()))), pa.array([[[1]], []], pa.list_(LISTS))),
        (pa.array([None], pa.null()), pa.array([[2], []], LISTS)),
    ],
    ids=["called otherwise", "empty", "empty within", "none"],
)
@pytest.mark.parametrize("is_first", [True, False])
def test_lists_that_hold_the_same_are_of_one_type(tmp_path: Path, one: Any, other: Any, is_first: bool) -> None:
    """In the files of a session, and in two sessions."""
    blank = pa.nulls(2 if is_first else 1)
    columns = (one, other) if is_first else (other.slice(0, 1), pa.concat_arrays([one, one]))
    expected = [value for column in columns for value in column.to_pylist()]
    recording = rated(tmp_path / "one", *columns)
    assert lr.Session(recording.root).episodes["rating"].to_pylist() == expected
    other_one = rated(tmp_path / "two", columns[0], blank) if is_first else rated(tmp_path / "two", blank, columns[1])
    both = lr.merge([recording.root, other_one.root], tmp_path / "both").path
    assert lr.Session(both).episodes["rating"].to_pylist()[:3] == expected
    assert check_session(both) == []
    go_on(recording)
    recording.close()


def test_a_column_that_is_called_as_the_formats_are_is_left_out_with_a_word(tmp_path: Path) -> None:
    recording = Recording(tmp_path / "one", arm_schema())
    recording.keep(2)
    recording.close()
    (path,) = recording.root.glob("meta/episodes/*/*.parquet")
    table = pq.read_table(path)
    for name in ("videos/quality", "data/note", "meta/x", "states/s", "rating"):
        table = table.append_column(name, pa.array([1]))
    pq.write_table(table, path)
    with pytest.warns(
        RuntimeWarning, match=r"one: videos/quality, data/note, meta/x, states/s in meta/episodes: .* left out"
    ):
        made = lr.merge([recording.root], tmp_path / "made").path
    assert check_session(made) == []
    assert lr.Session(made).episodes["rating"].to_pylist() == [1]
