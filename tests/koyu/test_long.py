"""Bundles of many row groups: the same faults are found, and rows that agree with the manifest are read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lucky_recorder.episode import limits
from lucky_recorder.errors import FormatError
from lucky_recorder.koyu.check import check_koyu
from lucky_recorder.koyu.reader import Dataset
from lucky_recorder.storage import parquet
from tests.koyu.bundles import features, write_bundle, write_manifest

ROWS, GROUP = 30, 7


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The rows of a bundle, seven at a time."""
    monkeypatch.setattr(parquet, "_BATCH_BYTES", 1)
    write_manifest(tmp_path, [write_bundle(tmp_path, 0, ROWS, cameras=())], features=features(()))
    path = next(tmp_path.glob("episodes/*/data.parquet"))
    pq.write_table(pq.ParquetFile(path).read(), path, row_group_size=GROUP)
    return path


def spoil(path: Path, column: str, row: int, value: Any) -> None:
    table = pq.ParquetFile(path).read()
    values = table[column].to_pylist()
    values[row] = value
    field = table.schema.field(column)
    table = table.set_column(table.column_names.index(column), field, pa.array(values, field.type))
    pq.write_table(table, path, row_group_size=GROUP)


@pytest.mark.parametrize("row", [GROUP - 1, GROUP, ROWS - 1])
@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("step", 77, "row {row}: step is 77, expected {row}"),
        ("timestamp", 5, "row {row}: timestamp is 5, not after {before}"),
        ("timestamp", None, "column timestamp: a value is missing"),
        ("action", [1.0], "action: a list is missing or does not hold 2 values"),
        ("action", [1.0, np.inf], "action: row {row} holds NaN or infinity"),
    ],
)
def test_faults_at_the_borders_are_found(
    data: Path, tmp_path: Path, row: int, column: str, value: Any, message: str
) -> None:
    assert check_koyu(tmp_path) == []
    spoil(data, column, row, value)
    told = [f.message for f in check_koyu(tmp_path)]
    assert told == [message.format(row=row, before=10**18 + (row - 1) * 20_000_000)]


def test_rows_that_the_manifest_counts_are_read(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MOST_TABLE_BYTES", 1500)
    monkeypatch.setattr(limits, "TABLE_BYTES_PER_FILE_BYTE", 0)
    assert check_koyu(tmp_path) == []
    columns = Dataset(tmp_path).columns(0)
    assert columns["observation.state"].tolist() == [[0, k, k] for k in range(ROWS)]
    assert columns["timestamp"].tolist() == [10**18 + k * 20_000_000 for k in range(ROWS)]
    monkeypatch.setattr(limits, "MOST_EXPECTED_BYTES", 1500)
    with pytest.raises(FormatError, match=r"Read fewer columns, Dataset\(\.\.\., keys=\[\.\.\.\]\)"):
        Dataset(tmp_path).columns(0)
    assert Dataset(tmp_path, keys=["action"]).columns(0)["action"].shape == (ROWS, 2)
    monkeypatch.setattr(limits, "MOST_TABLE_BYTES", 100)
    assert any("are read of such a file" in f.message for f in check_koyu(tmp_path))
