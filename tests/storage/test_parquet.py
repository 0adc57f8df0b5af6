"""Small files that would become gigabytes: known before anything is read."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lucky_recorder.episode import limits
from lucky_recorder.errors import FormatError
from lucky_recorder.storage import pages
from lucky_recorder.storage.untrusted import Folder


def zeros(rows: int, length: int) -> pa.Array:
    offsets = pa.array(np.arange(rows + 1, dtype=np.int32) * length)
    return pa.ListArray.from_arrays(offsets, pa.array(np.zeros(rows * length, np.float32)))


def texts(rows: int, length: int) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array(["x" * length]))


@pytest.fixture
def little(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four megabytes are too much here: the tests are quick, and the arithmetic is the same."""
    monkeypatch.setattr(limits, "MOST_TABLE_BYTES", 4 * limits.MEGABYTE)
    monkeypatch.setattr(limits, "MOST_TEXT_BYTES", 4 * limits.MEGABYTE)


def written(path: Path, column: pa.Array, **options: Any) -> Folder:
    pq.write_table(pa.table({"x": column}), path / "x.parquet", **options)
    assert (path / "x.parquet").stat().st_size < 200_000
    return Folder(path)


@pytest.mark.usefixtures("little")
@pytest.mark.parametrize("options", [{}, {"row_group_size": 100_000}, {"data_page_version": "2.0"}])
@pytest.mark.parametrize(
    "column",
    [
        pa.array(np.zeros(1_000_000, np.int64)),
        zeros(1000, 2000),
        zeros(1, 2_000_000),
        texts(1000, 100_000),
        pa.array([["y" * 50_000] * 10] * 100),
        pa.array(np.zeros(2_000_000, np.int64)).cast(pa.timestamp("ns")),
    ],
    ids=["numbers", "lists", "one long list", "texts", "lists of texts", "times"],
)
def test_few_bytes_that_become_many_are_refused(tmp_path: Path, column: pa.Array, options: dict[str, Any]) -> None:
    folder = written(tmp_path, column, **options)
    before = pa.total_allocated_bytes()
    with pytest.raises(FormatError, match=r"x\.parquet: .* at most 4 MB are read"):
        folder.table("x.parquet")
    assert pa.total_allocated_bytes() - before < 8 * limits.MEGABYTE


@pytest.mark.usefixtures("little")
def test_a_file_that_is_large_itself_is_read(tmp_path: Path) -> None:
    numbers = np.random.default_rng(0).random(2_000_000)
    pq.write_table(pa.table({"x": numbers}), tmp_path / "x.parquet")
    assert Folder(tmp_path).table("x.parquet")["x"].to_numpy().tolist() == numbers.tolist()


@pytest.mark.usefixtures("little")
def test_a_column_is_read_where_all_are_too_many(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": zeros(1000, 2000), "x.y": list(range(1000))}), tmp_path / "x.parquet")
    with Folder(tmp_path).parquet("x.parquet") as file:
        assert file.read(["x.y"])["x.y"].to_pylist() == list(range(1000))
    with pytest.raises(FormatError, match="Read fewer columns"):
        Folder(tmp_path).table("x.parquet")


def varint(number: int) -> bytes:
    """A whole number as Thrift has it, in three bytes."""
    number *= 2
    return bytes((number & 127 | 128, number >> 7 & 127 | 128, number >> 14))


@pytest.mark.usefixtures("little")
def test_a_footer_that_lies_is_not_believed(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": zeros(1000, 1000)}), tmp_path / "x.parquet", store_schema=False)
    content = (tmp_path / "x.parquet").read_bytes()
    places = [i for i in range(len(content)) if content[i : i + 3] == varint(1_000_000)]
    believed = 0
    for place in places:
        (tmp_path / "x.parquet").write_bytes(content[:place] + varint(20_000) + content[place + 3 :])
        declared = pq.read_metadata(tmp_path / "x.parquet").row_group(0).column(0).num_values
        believed += declared == 20_000
        with contextlib.suppress(FormatError):
            assert Folder(tmp_path).table("x.parquet").nbytes < limits.MOST_TABLE_BYTES
    assert believed == 1  # the library itself would have given a million values


def reading(path: Path) -> Callable[[int, int], bytes]:
    content = path.read_bytes()
    return lambda length, start: content[start : start + length]


@pytest.mark.parametrize("options", [{}, {"data_page_version": "2.0"}, {"use_dictionary": False}])
def test_pages_are_counted_as_they_are(tmp_path: Path, options: dict[str, Any]) -> None:
    column = pa.array([[float(i)] * (i % 5) for i in range(1000)])
    pq.write_table(pa.table({"x": column}), tmp_path / "x.parquet", write_page_index=True, **options)
    chunk = pq.read_metadata(tmp_path / "x.parquet").row_group(0).column(0)
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    found = pages.measure(reading(tmp_path / "x.parquet"), start, start + chunk.total_compressed_size)
    assert found.values == chunk.num_values
    assert found.largest <= found.unpacked <= chunk.total_uncompressed_size


@pytest.mark.parametrize("content", [b"", b"\x15", b"\xff" * 400, b"\x00" * 40, b"\x15\x00\x15\xff", b"\x1c" * 300])
def test_what_is_no_page_is_an_error(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(ValueError, match="page's header"):
        pages.measure(reading(tmp_path / "x"), 0, 100)


def test_a_footer_of_absurd_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = written(tmp_path, pa.array([1]))
    monkeypatch.setattr(limits, "LARGEST_FOOTER", 100)
    with pytest.raises(FormatError, match=r"x\.parquet: a footer of \d+ bytes; at most 100 are read"):
        folder.table("x.parquet")


@pytest.mark.parametrize("rows", [5, 6])
def test_rows_may_be_bounded(tmp_path: Path, rows: int) -> None:
    folder = written(tmp_path, pa.array(range(rows)))
    if rows == 5:
        assert folder.table("x.parquet", 5).num_rows == 5
        return
    with pytest.raises(FormatError, match="6 rows; at most 5 are read"):
        folder.table("x.parquet", 5)


NESTED = [
    pa.array([["a", "b"], [], None, ["b"]]),
    pa.array([{"by": "ada"}, {"by": None}, None, {"by": "ada"}]),
    pa.array([[("a", "b")], [], None, [("a", "c")]], pa.map_(pa.string(), pa.string())),
    pa.array([[{"by": "x"}], [], None, [{"by": "y"}]]),
    pa.array([[["x"]], [[]], None, [["y", None]]]),
]


@pytest.mark.parametrize("values", NESTED, ids=[str(values.type) for values in NESTED])
@pytest.mark.parametrize("rows", [1, 3, 4])
def test_texts_in_lists_and_structs_are_read_from_several_row_groups(
    tmp_path: Path, values: pa.Array, rows: int
) -> None:
    """Others write a row group every few episodes: LeRobot, DuckDB, pandas."""
    table = pa.table({"x": values, "n": range(len(values)), "flat.name": ["t"] * len(values)})
    pq.write_table(table, tmp_path / "x.parquet", row_group_size=rows)
    folder = Folder(tmp_path)
    assert folder.table("x.parquet").to_pylist() == table.to_pylist()
    assert [row for batch in folder.batches("x.parquet") for row in batch.to_pylist()] == table.to_pylist()
    with folder.parquet("x.parquet") as file:
        assert file.read_row_groups(range(file.num_row_groups), ["x"]).num_rows == len(values)
        # What holds none is read together.
        assert len(list(file.batches(["n", "flat.name"]))) == 1
