"""Rows that a check keeps: those of small files together, and no more than there is room for."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lucky_recorder.session.checks import kept
from lucky_recorder.session.checks.kept import Kept


def table(number: int, rows: int = 3, kind: pa.DataType | None = None) -> pa.Table:
    values = pa.array([number] * rows, kind or pa.int64())
    texts = pa.array([[f"{number}"]] * rows, pa.list_(pa.string()))
    return pa.table({"n": values, "t": texts}).replace_schema_metadata({"footer": str(number)})


def test_small_files_are_put_together_and_each_has_its_rows() -> None:
    held, given = Kept(), {}
    for number in range(150):
        given[f"{number}"] = table(number, rows=number % 4, kind=pa.int32() if number % 7 == 0 else None)
        held.keep(f"{number}", [given[f"{number}"]])
    assert len({id(part.block) for part in held._parts.values()}) == 4
    assert len(held._parts) + len(held._loose) == 150
    for name, one in given.items():
        assert held.has(name)
        (found,) = held.tables(name)
        assert found.equals(one)
        assert found.schema.metadata is None
    assert not held.has("150")
    assert held.room == kept.MOST_BYTES - sum(one.nbytes for one in given.values())


def test_large_files_stay_as_they_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "_SMALL_BYTES", 10)
    held, parts = Kept(), [table(1), table(2)]
    held.keep("a", parts)
    held.keep("b", [table(3, rows=9)])
    assert [found.equals(one) for found, one in zip(held.tables("a"), parts, strict=True)] == [True, True]
    assert (held.tables("b")[0].num_rows, held._parts, held._loose) == (9, {}, {})


def test_what_reads_alike_is_not_put_together() -> None:
    """A name of two lines reads like two columns."""
    held, given = Kept(), {}
    for number in range(64):
        names = ["x: int64\ny"] if number == 5 else ["x", "y"]
        given[f"{number}"] = pa.table({name: [number] for name in names})
        held.keep(f"{number}", [given[f"{number}"]])
    assert str(given["5"].schema) == str(given["6"].schema)
    assert all(held.tables(name)[0].equals(one) for name, one in given.items())
