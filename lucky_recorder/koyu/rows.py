"""The rows of a bundle, written and read back (spec: data.parquet)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from lucky_recorder.episode import keys
from lucky_recorder.episode.parts import parts
from lucky_recorder.errors import CaptureError, FormatError, StorageError
from lucky_recorder.koyu import layout
from lucky_recorder.koyu.index import Feature
from lucky_recorder.storage import named
from lucky_recorder.storage.parquet import open_parquet, plain
from lucky_recorder.storage.space import of_rows, told_space
from lucky_recorder.storage.untrusted import Folder, format_errors
from lucky_recorder.storage.write import storage_errors, sync_file

# Writing.


class Parts(Protocol):
    """A column of many rows: an array, or what makes one of the rows that are asked for."""

    def __len__(self) -> int:
        """Return how many rows there are."""

    def __getitem__(self, part: slice, /) -> NDArray[Any]:
        """Return some rows, shape ``(rows, …)``."""


def as_float32(
    values: NDArray[Any], missing: NDArray[np.bool_] | None, place: str, column: str, first: int = 0
) -> NDArray[np.float32]:
    """Cast a column's rows once; NaN stands for what is missing.

    Args:
        values: Shape ``(rows, …)``.
        missing: True where a row has no value, shape ``(rows,)``.
        place: What the rows are, for the error.
        column: The column's name, for the error.
        first: Which row of the episode the first is, for the error.

    Raises:
        CaptureError: If a value is too large for float32; names place, row and column.
    """
    # numpy would only warn; below it becomes an error that says where.
    with np.errstate(over="ignore"):
        cast = values.astype(np.float32)
    if missing is not None:
        cast[missing] = np.nan
    if values.dtype.kind == "f":
        lost = np.isinf(cast) & np.isfinite(values)
        if lost.any():
            row = int(np.argwhere(lost)[0][0])
            value = values[row][lost[row]] if values.ndim > 1 else values[row]
            raise CaptureError(
                f"{place}, row {first + row}, column {column!r}: {np.ravel(value)[0]:g} does not fit float32, which "
                "koyu bundles hold; scale the column, or record without koyu"
            )
    return cast


def tables(timestamps: Parts, vectors: Mapping[str, Parts]) -> Iterator[pa.Table]:
    """Build the rows of a bundle part after part: a single one, unless there are too many rows for the memory.

    Args:
        timestamps: Nanoseconds since 1970, int64, shape ``(rows,)``.
        vectors: The other columns by feature key, float32, shape ``(rows, …)``; in the order they are written.
    """
    for part in parts(len(timestamps), _bytes_of_each(vectors)):
        columns = {
            layout.STEP: pa.array(np.arange(part.start, part.stop, dtype=np.int64)),
            keys.TIMESTAMP: pa.array(timestamps[part]),
        }
        yield pa.table(columns | {key: _lists(values[part]) for key, values in vectors.items()})


def _bytes_of_each(vectors: Mapping[str, Parts]) -> int:
    return sum(values[0:1].nbytes for values in vectors.values())


def later(path: Path, by_ns: int) -> Iterator[pa.Table]:
    """Go through the rows of a bundle's file at other times, part after part, as `tables` has built them.

    Args:
        path: The file.
        by_ns: How much later they are to be, nanoseconds.

    Raises:
        FormatError: If it cannot be read.
    """
    with format_errors(path), open_parquet(path) as file:
        for group in range(file.num_row_groups):
            table = plain(file.read_row_groups([group]))
            columns = {name: table[name] for name in table.column_names}
            times = pa.array(_times(columns.pop(keys.TIMESTAMP), str(path)) + by_ns)
            step = columns.pop(layout.STEP).combine_chunks()
            vectors = {key: _lists(_as_they_are(column, f"{path}: {key}")) for key, column in columns.items()}
            yield pa.table({layout.STEP: step, keys.TIMESTAMP: times} | vectors)


def _as_they_are(column: pa.ChunkedArray, where: str) -> NDArray[np.float32]:
    size = len(column[0]) if len(column) else 0
    return values(column, (size,), where)


def largest(timestamps: Parts, vectors: Mapping[str, Parts]) -> int:
    """Return how many bytes the file of a bundle's rows takes, at most."""
    return of_rows(len(timestamps), _bytes_of_each(vectors), len(vectors) + 2)


def _lists(values: NDArray[np.float32]) -> pa.Array:
    """Return rows as lists of float32; a value of several dimensions is written row by row."""
    flat = np.ascontiguousarray(values, np.float32).reshape(len(values), -1)
    offsets = np.arange(len(flat) + 1, dtype=np.int32) * np.int32(flat.shape[1])
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(flat.reshape(-1)))


def write(path: Path, tables: Iterable[pa.Table], rows: int, size: int | None = None) -> None:
    """Write the file of a bundle's rows, durably: a row group per table.

    Args:
        path: The file.
        tables: Its rows, part after part.
        rows: How many there are.
        size: Bytes that it will have, at most, for the error of a full disk; None if that is not known.

    Raises:
        StorageError: If the file system refuses, or the file is not whole afterwards.
    """
    # Without dictionaries: measured values hardly repeat.
    options = {"compression": "zstd", "use_dictionary": False, "write_page_checksum": True}
    with told_space(path, size), storage_errors(path):
        remaining = iter(tables)
        first = next(remaining)
        with named.writable(path) as file, pq.ParquetWriter(file, first.schema, **options) as writer:
            for table in itertools.chain([first], remaining):
                writer.write_table(table, row_group_size=max(1, table.num_rows))
        sync_file(path)
        # On a full disk pyarrow may close a file without an error, and without a footer.
        try:
            held = named.metadata_of(path).num_rows
        except pa.ArrowException as error:
            raise StorageError(f"{path}: the file has no readable footer after it was closed ({error})") from error
        if held != rows:
            raise StorageError(f"{path}: holds {held} rows after it was closed, {rows} were written")


# Reading.

_VALUE_BYTES = 4
_REMEDY = "Read fewer columns, Dataset(..., keys=[...])"


def read_columns(folder: Folder, bundle: str, rows: int, features: Iterable[Feature]) -> dict[str, NDArray[Any]]:
    """Read columns of an episode; what else its file holds is ignored.

    Args:
        folder: The dataset's folder.
        bundle: The bundle's, within it.
        rows: How many rows it must hold.
        features: The columns.

    Returns:
        By key: float32 arrays of shape ``(rows, *shape)``, and ``timestamp`` (nanoseconds, int64, shape ``(rows,)``)
        where there is one.

    Raises:
        FormatError: If the file is broken, has not as many rows as the manifest says, or lacks a feature.
    """
    wanted = {f.key: f for f in features}
    name = f"{bundle}/{layout.DATA}"
    with folder.parquet(name) as file:
        known = file.schema_arrow.names
        where = str(folder.path / name)
        if file.metadata.num_rows != rows:
            raise FormatError(f"{where}: {file.metadata.num_rows} rows, the manifest says {rows}")
        for key in wanted:
            if known.count(key) != 1:
                raise FormatError(f"{where}: has no column {key!r}, which the manifest lists among the features")
        times = [keys.TIMESTAMP] if known.count(keys.TIMESTAMP) == 1 else []
        # A value, and what says where its list begins. The manifest and the file agree on how many rows there are.
        expected = _VALUE_BYTES * rows * sum(2 + math.prod(feature.shape) for feature in wanted.values())
        file.refuse_large([*wanted, *times], range(file.num_row_groups), expected, _REMEDY)
        parts: dict[str, list[NDArray[Any]]] = {key: [] for key in (*wanted, *times)}
        for table in map(plain, file.batches(list(parts))):
            for key, feature in wanted.items():
                parts[key].append(values(table[key], feature.shape, f"{where}: {key}"))
            for key in times:
                parts[key].append(_times(table[key], where))
        # A column after the other: while one is put together, it is there twice.
        columns = {key: _joined(parts.pop(key)) for key in (*wanted, *times)}
        if other := next((key for key, column in columns.items() if len(column) != rows), None):
            raise FormatError(f"{where}: {other}: {len(columns[other])} rows, the manifest says {rows}")
        return columns


def values(column: pa.ChunkedArray, shape: tuple[int, ...], where: str) -> NDArray[np.float32]:
    """Return a column of lists as float32, shape ``(rows, *shape)``.

    Raises:
        FormatError: If a list is missing or of another length, or its values are no numbers.
    """
    rows, size = len(column), math.prod(shape)
    if not _is_list(column.type):
        flat = column
    else:
        if column.null_count or pc.any(pc.not_equal(pc.list_value_length(column), size)).as_py():
            raise FormatError(f"{where}: a list is missing or does not hold {size} values")
        flat = pc.list_flatten(column)
    kind = flat.type
    if not (pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind)):
        raise FormatError(f"{where}: holds {column.type}, expected list<float>")
    if flat.null_count or len(flat) != rows * size:
        raise FormatError(f"{where}: a value is missing, or a row does not hold {size} of them")
    # `pyarrow` gives NumPy no view of bits.
    numbers = flat.cast(pa.uint8()) if pa.types.is_boolean(kind) else flat
    return np.array(numbers.to_numpy(), np.float32).reshape(rows, *shape)


def _joined(parts: list[NDArray[Any]]) -> NDArray[Any]:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _times(column: pa.ChunkedArray, where: str) -> NDArray[np.int64]:
    if column.type != pa.int64() or column.null_count:
        raise FormatError(f"{where}: timestamp is {column.type}, expected int64 without gaps")
    return np.array(column.to_numpy(), np.int64)
