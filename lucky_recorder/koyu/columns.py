"""A bundle's columns as arrays (spec: data.parquet)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lucky_recorder.errors import FormatError
from lucky_recorder.koyu import layout
from lucky_recorder.koyu.index import Feature
from lucky_recorder.storage.untrusted import Folder


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
        times = ["timestamp"] if known.count("timestamp") == 1 else []
        table = file.read(columns=[*wanted, *times])
        columns = {key: values(table[key], feature.shape, f"{where}: {key}") for key, feature in wanted.items()}
        return columns | {key: _times(table[key], where) for key in times}


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


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _times(column: pa.ChunkedArray, where: str) -> NDArray[np.int64]:
    if column.type != pa.int64() or column.null_count:
        raise FormatError(f"{where}: timestamp is {column.type}, expected int64 without gaps")
    return np.array(column.to_numpy(), np.int64)
