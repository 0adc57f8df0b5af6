"""An episode's rows as arrays, exactly as they are stored; those of a long one in a file, part by part."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lucky_recorder.episode import keys
from lucky_recorder.episode.parts import PART_BYTES
from lucky_recorder.episode.schema import Field
from lucky_recorder.errors import FormatError, shown
from lucky_recorder.session.checks.declared import shape_of
from lucky_recorder.session.features import arrow_type
from lucky_recorder.storage.spill import Spill

_DTYPES = {pa.from_numpy_dtype(name): name for name in keys.NUMBERS} | {pa.string(): keys.TEXT}
# Arrays in a file begin at whole lines of the processor's cache.
_ALIGNED = 64


def field_of(name: str, stored: pa.ChunkedArray, said: Mapping[str, Any], has_stats: bool, where: str) -> Field:
    """Describe a column as it is stored.

    Args:
        name: The column.
        stored: Some of its values.
        said: Its feature; empty if it has none.
        has_stats: Whether it has statistics.
        where: The file, for the error.

    Raises:
        FormatError: If it is of a type that a session's columns do not have, and would not be written as it is.
    """
    kind, depth = stored.type, 0
    while pa.types.is_list(kind):
        kind, depth = kind.value_type, depth + 1
    dtype = _DTYPES.get(kind)
    if dtype is None or (depth and dtype == keys.TEXT):
        raise FormatError(f"{where}: column {name!r} holds {stored.type}, which cannot be written anew exactly")
    # A scene without actuators has an action of no values.
    shape = shape_of(said.get("shape"), least=0)
    if shape is None or len(shape) != depth:
        shape = _shape(stored, depth)
    return Field(name, dtype, shape, has_stats=has_stats)


def _shape(stored: pa.ChunkedArray, depth: int) -> tuple[int, ...]:
    """Return the lengths of the lists in the first value that is there."""
    value = next((v for v in stored.to_pylist() if v is not None), None)
    shape = []
    for _ in range(depth):
        shape.append(1 if value is None else len(value))
        value = value[0] if value else None
    return tuple(shape)


def exact(column: pa.ChunkedArray, field: Field, where: str) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
    """Return a column's values, shape ``(rows, *shape)``, and where there are none: there it is 0.

    Raises:
        FormatError: If it is of another type than its field, or a list is of another length or has a gap in it.
    """
    if column.type != arrow_type(field):
        raise FormatError(f"{where}: column {field.name!r} is {column.type}, expected {arrow_type(field)}")
    array = column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):  # of no chunk
        array = pa.array([], column.type)
    if field.is_text:
        texts = np.empty(len(array), object)
        texts[:] = array.to_pylist()
        return texts, None
    gaps = array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None
    held = array if gaps is None else array.drop_null()
    # Where a list has no values, as of a model without actuators, they do not say how many lists there are.
    count = len(held)
    for length in field.shape:
        if not pc.all(pc.equal(pc.list_value_length(held), length), min_count=0, skip_nulls=False).as_py():
            raise FormatError(f"{where}: column {field.name!r}: a list has not {length} values")
        held = held.flatten()
    if held.null_count:
        raise FormatError(f"{where}: column {field.name!r}: a list has a gap, which cannot be written anew exactly")
    found = held.to_numpy(zero_copy_only=False).reshape(count, *field.shape)
    if gaps is None:
        return found, None
    values = np.zeros((len(array), *field.shape), field.dtype)
    values[~gaps] = found
    return values, gaps


class Gathered:
    """Columns of known length that are filled part by part; where they are too many for the memory, in a file.

    Args:
        fields: The columns.
        rows: How many rows there will be.
        folder: Where the file is.
    """

    def __init__(self, fields: Sequence[Field], rows: int, folder: Path) -> None:
        self._fields = {f.name: f for f in fields}
        self._rows = rows
        self._done = 0
        self._missing: dict[str, NDArray[np.bool_]] = {}
        self._arrays = {f.name: np.empty(rows, object) for f in fields if f.is_text}
        numbers = [f for f in fields if not f.is_text]
        sizes = [rows * f.size * np.dtype(f.dtype).itemsize for f in numbers]
        self._spill = Spill(folder) if sum(sizes) > PART_BYTES else None
        self._offsets: dict[str, int] = {}
        offset = 0
        for field, size in zip(numbers, sizes, strict=True):
            if self._spill is None:
                self._arrays[field.name] = np.empty((rows, *field.shape), field.dtype)
            self._offsets[field.name] = offset
            offset += math.ceil(size / _ALIGNED) * _ALIGNED

    def add(self, table: pa.Table, where: str) -> None:
        """Add rows, exactly.

        Raises:
            FormatError: If they are of other columns, or more than there were to be.
            OSError: If the file system refuses.
        """
        rows = slice(self._done, self._done + table.num_rows)
        if rows.stop > self._rows:
            raise FormatError(f"{where}: more than {self._rows} rows")
        for name, field in self._fields.items():
            values, gaps = exact(table[name], field, where)
            if gaps is not None:
                self._missing.setdefault(name, np.zeros(self._rows, np.bool_))[rows] = gaps
            self._put(name, field, values, rows)
        self._done = rows.stop

    def _put(self, name: str, field: Field, values: NDArray[Any], rows: slice) -> None:
        if name in self._arrays:
            self._arrays[name][rows] = values
        elif self._spill is not None:
            each = field.size * np.dtype(field.dtype).itemsize
            self._spill.write(values, self._offsets[name] + rows.start * each)

    def whole(self, where: str) -> tuple[dict[str, NDArray[Any]], dict[str, NDArray[np.bool_]]]:
        """Return the columns, and where they have no value.

        Raises:
            FormatError: If there are fewer rows than there were to be.
            OSError: If the file system refuses.
        """
        if self._done != self._rows:
            raise FormatError(f"{where}: {self._done} rows, expected {self._rows}")
        columns = dict(self._arrays)
        if self._spill is not None:
            mapped = self._spill.whole()
            for name, offset in self._offsets.items():
                field = self._fields[name]
                columns[name] = mapped.array(offset, (self._rows, *field.shape), field.dtype)
        return columns, self._missing


def gather(
    tables: Iterable[pa.Table], fields: Sequence[Field], rows: slice, folder: Path, where: str
) -> tuple[dict[str, NDArray[Any]], dict[str, NDArray[np.bool_]]]:
    """Return some of the rows of tables that come one after the other, and where they have no value.

    Raises:
        FormatError: If they are of other columns or types, or are not that many.
        OSError: If the file system refuses.
    """
    gathered, first = Gathered(fields, rows.stop - rows.start, folder), 0
    wanted = sorted(f.name for f in fields)
    for table in tables:
        # Numbers of rows and episodes are given anew.
        if sorted(n for n in table.column_names if n not in (keys.INDEX, keys.EPISODE_INDEX)) != wanted:
            raise FormatError(f"{where}: columns {shown(table.column_names)}, expected {shown(wanted)}")
        begin, end = max(rows.start, first) - first, min(rows.stop, first + table.num_rows) - first
        if begin < end:
            gathered.add(table.slice(begin, end - begin), where)
        first += table.num_rows
    return gathered.whole(where)
