"""The values of a session's columns, read for a conversion, and where there are none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lucky_recorder.episode.schema import Field
from lucky_recorder.errors import FormatError, shown
from lucky_recorder.session.checks import vectors
from lucky_recorder.session.stored import have_gaps

# Tasks are not that many, and a float holds it exactly.
_LARGEST_INDEX = 2**53


def values_of(table: pa.Table, field: Field, place: str) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Return a column of a session as an array, shape ``(rows, *shape)``, and where it has no value: there it is 0."""
    if table.column_names.count(field.name) != 1:
        raise FormatError(f"{place}: {field.name}: stands {table.column_names.count(field.name)} times")
    column, kind = table[field.name].combine_chunks(), table.schema.field(field.name).type
    for _ in field.shape:
        kind = kind.value_type if pa.types.is_list(kind) else pa.null()
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        raise FormatError(f"{place}: {field.name}: holds {column.type}, and no {field.dtype} of shape {field.shape}")
    gaps = have_gaps(column)
    found = vectors.values(pa.chunked_array([column.filter(pa.array(~gaps))]), field.shape)
    if found is None:
        raise FormatError(f"{place}: {field.name}: a list does not hold {field.size} values")
    values: NDArray[Any] = np.zeros((len(column), *field.shape), found.dtype)
    values[~gaps] = found.reshape(-1, *field.shape)
    return values, gaps


def whole_numbers(values: NDArray[Any], where: str) -> NDArray[np.int64]:
    """Return whole numbers as such: pandas stores them as floats where one is missing."""
    real = values.astype(np.float64)
    if not (np.isfinite(real) & (np.floor(real) == real) & (np.abs(real) < _LARGEST_INDEX)).all():
        raise FormatError(f"{where}: holds {shown(values)}, expected whole numbers")
    return values.astype(np.int64)
