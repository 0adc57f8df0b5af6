from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lucky_recorder.episode.schema import Field
from lucky_recorder.errors import StorageError
from lucky_recorder.session import rows
from tests.session.building import Recording, arm_schema, custom_schema

DTYPES = ("float64", "float32", "int64", "int32", "int16", "int8", "uint32", "uint16", "uint8", "bool")


@pytest.mark.parametrize("shape", [(), (3,), (1,), (2, 3), (2, 1, 2)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_columns_come_back_as_they_went_in(tmp_path: Path, dtype: str, shape: tuple[int, ...]) -> None:
    recording = Recording(tmp_path, custom_schema(Field("value", dtype, shape)))
    record = recording.record(5)
    table = rows.table(recording.schema, record, 7, 100)
    rows.write(tmp_path / "file.parquet", [table], [])
    stored = pq.ParquetFile(tmp_path / "file.parquet").read()
    np.testing.assert_array_equal(np.array(stored["value"].to_pylist(), dtype), record.columns["value"])
    assert stored["index"].to_pylist() == [100, 101, 102, 103, 104]
    assert set(stored["episode_index"].to_pylist()) == {7}
    assert stored["timestamp"].to_pylist() == [0.0, 0.02, 0.04, 0.06, 0.08]


@pytest.mark.parametrize(("shape", "value"), [((), 2.5), ((2,), [2.5, 2.5])])
def test_missing_values_are_null(tmp_path: Path, shape: tuple[int, ...], value: object) -> None:
    recording = Recording(tmp_path, custom_schema(Field("value", "float64", shape, nullable=True)))
    missing = {"value": np.array([False, True, False])}
    record = recording.record(3, values={"value": np.full((3, *shape), 2.5)}, missing=missing)
    assert rows.table(recording.schema, record, 0, 0)["value"].to_pylist() == [value, None, value]


def test_texts_come_back_as_they_went_in(tmp_path: Path) -> None:
    recording = Recording(tmp_path, custom_schema(Field("said", "string", nullable=True)))
    said = ["", None, "Würfel 立方体", "x\n"]
    record = recording.record(4, values={"said": np.array(said, object)})
    table = rows.table(recording.schema, record, 0, 0)
    rows.write(tmp_path / "file.parquet", [table, table], [])
    stored = pq.ParquetFile(tmp_path / "file.parquet")
    assert stored.read()["said"].to_pylist() == said * 2
    assert stored.schema_arrow.field("said").type == pa.string()
    # Texts repeat themselves, so each is kept once.
    chunk = stored.metadata.row_group(0).column(stored.schema_arrow.names.index("said"))
    assert "RLE_DICTIONARY" in chunk.encodings


@pytest.mark.parametrize("values", [np.zeros((4, 2)), np.zeros((3, 3)), np.zeros(4)])
def test_values_of_another_shape_are_refused(tmp_path: Path, values: np.ndarray) -> None:
    recording = Recording(tmp_path, arm_schema())
    with pytest.raises(StorageError, match="'action'"):
        rows.table(recording.schema, recording.record(4, values={"action": values}), 0, 0)


def test_a_row_group_per_episode_and_a_footer(tmp_path: Path) -> None:
    recording = Recording(tmp_path, arm_schema())
    tables = [rows.table(recording.schema, recording.record(n), n, 0) for n in (2, 3)]
    episodes = [{"episode_index": 0, "tasks": ["Größe"]}, {"episode_index": 1, "success": False}]
    rows.write(tmp_path / "file.parquet", tables, episodes)
    metadata = pq.read_metadata(tmp_path / "file.parquet")
    assert [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)] == [2, 3]
    assert rows.footer(tmp_path / "file.parquet") == episodes
    rows.verify(tmp_path / "file.parquet", 5)


def test_a_file_without_a_footer_of_ours_says_nothing(tmp_path: Path) -> None:
    pq.write_table(pq.read_table(_written(tmp_path)).replace_schema_metadata(None), tmp_path / "plain.parquet")
    assert rows.footer(tmp_path / "plain.parquet") == []


def test_a_file_that_is_not_whole_does_not_verify(tmp_path: Path) -> None:
    path = _written(tmp_path)
    with pytest.raises(StorageError, match=r"holds 3 rows .* 4 were written"):
        rows.verify(path, 4)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(StorageError, match="no readable footer"):
        rows.verify(path, 3)


def test_a_flipped_bit_in_a_page_is_noticed(tmp_path: Path) -> None:
    path = _written(tmp_path)
    stored = bytearray(path.read_bytes())
    column = pq.read_metadata(path).row_group(0).column(7)
    stored[column.data_page_offset + column.total_compressed_size - 2] ^= 1
    path.write_bytes(stored)
    with pytest.raises(OSError, match=r"(?i)crc|checksum"):
        pq.ParquetFile(path, page_checksum_verification=True).read()


def _written(tmp_path: Path) -> Path:
    recording = Recording(tmp_path, arm_schema())
    rows.write(tmp_path / "file.parquet", [rows.table(recording.schema, recording.record(3), 0, 0)], [])
    return tmp_path / "file.parquet"
