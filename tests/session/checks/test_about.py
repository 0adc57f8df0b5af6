"""Faults in what ``meta/episodes`` says of an episode besides its numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lucky_recorder as lr
from lucky_recorder.session.check import Fault, check_session
from tests.session.breaking import META, rewrite, with_value

WRONG = [
    ("seed", "three", "seed is 'three', expected decimal digits"),
    ("options", "[1]", "options is '[1]', expected a JSON object"),
    ("annotations", "{", "annotations is '{', expected a JSON object"),
    ("annotations", '{"a": NaN}', "expected a JSON object"),
    ("lane", -1, "lane is -1, expected a whole number"),
    ("lane", None, "lane is empty, expected a whole number"),
    ("end_reason", "", "end_reason is '', expected a reason"),
    ("end_reason", None, "end_reason is empty, expected a reason"),
    ("recorded_at", "2026-10-08T14:30:05+02:00", "expected a moment in UTC"),
    ("recorded_at", "yesterday", "expected a moment in UTC"),
    ("duration_s", -0.5, "duration_s is -0.5, expected seconds"),
    ("duration_s", float("nan"), "duration_s is nan, expected seconds"),
]


@pytest.mark.parametrize(("column", "value", "message"), WRONG, ids=repr)
def test_a_value_of_another_kind_is_a_fault(copy: Path, column: str, value: Any, message: str) -> None:
    rewrite(copy / META, with_value(column, 0, value))
    found = [f.message for f in check_session(copy, decode=False) if f.file == META]
    assert any(message in one for one in found)


def test_values_that_are_right_are_none(copy: Path) -> None:
    for column, value in (("recorded_at", "2026-10-08T14:30:05.000001+00:00"), ("duration_s", 0.0)):
        rewrite(copy / META, with_value(column, 0, value))
    assert check_session(copy, decode=False) == []


def test_a_footer_that_says_another_seed_is_a_fault(copy: Path) -> None:
    rewrite(copy / META, with_value("seed", 0, "5"))
    assert any("the footer does not say of it what" in f.message for f in check_session(copy, decode=False))


@pytest.mark.parametrize("column", ["seed", "lane", "annotations"])
def test_all_files_have_these_columns_or_none(copy: Path, column: str) -> None:
    rewrite(copy / META, lambda table: table.drop_columns([column]))
    assert Fault(META, None, f"column {column} is missing") in check_session(copy, decode=False)


def test_a_column_of_another_type_is_a_fault_and_reads_as_nothing(copy: Path) -> None:
    def as_numbers(table: pa.Table) -> pa.Table:
        number = table.column_names.index("seed")
        return table.set_column(number, "seed", pa.array([1] * table.num_rows, pa.int64()))

    for path in sorted(copy.glob("meta/episodes/*/*.parquet")):
        rewrite(path, as_numbers)
    assert any("column seed is int64, expected string" in f.message for f in check_session(copy, decode=False))
    assert [e.seed for e in lr.Session(copy)] == [None] * len(lr.Session(copy))
    assert pq.read_schema(copy / META).field("seed").type == pa.int64()


@pytest.mark.parametrize("column", ["seed", "lane", "end_reason", "duration_s"])
def test_a_column_that_stands_twice_is_a_fault(copy: Path, column: str) -> None:
    rewrite(copy / META, lambda table: table.append_column(column, table[column]))
    assert Fault(META, None, "a column stands twice") in check_session(copy, decode=False)


def test_annotations_that_are_no_json_are_an_error_of_ours(copy: Path) -> None:
    rewrite(copy / META, with_value("annotations", 0, "{"))
    broken = [e for e in lr.Session(copy) if e.meta["annotations"] == "{"]
    with pytest.raises(lr.FormatError, match=r"episode \d+: annotations='\{': is no JSON"):
        broken[0].annotations  # noqa: B018
