"""Columns of a session as arrays, whoever wrote them, and where there are no values."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lucky_recorder.errors import FormatError
from lucky_recorder.session.checks import vectors
from lucky_recorder.session.stored import have_gaps


def array_of(
    table: pa.Table, name: str, dtype: str, shape: tuple[int, ...], place: str
) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Return a column of numbers as an array, shape ``(rows, *shape)``, and where it has no value: there it is 0.

    Args:
        table: The rows.
        name: The column.
        dtype: What it is declared to hold, for the error.
        shape: That of a value: a list per dimension; empty for a plain value.
        place: What the rows are, for the error.

    Raises:
        FormatError: If it stands there twice or not at all, or holds anything else.
    """
    if table.column_names.count(name) != 1:
        raise FormatError(f"{place}: {name}: stands {table.column_names.count(name)} times")
    column, kind = table[name].combine_chunks(), table.schema.field(name).type
    for _ in shape:
        kind = kind.value_type if pa.types.is_list(kind) else pa.null()
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        raise FormatError(f"{place}: {name}: holds {column.type}, and no {dtype} of shape {shape}")
    gaps = have_gaps(column)
    found = vectors.values(pa.chunked_array([column.filter(pa.array(~gaps))]), shape)
    if found is None:
        raise FormatError(f"{place}: {name}: a list does not hold {math.prod(shape)} values")
    values: NDArray[Any] = np.zeros((len(column), *shape), found.dtype)
    values[~gaps] = found.reshape(-1, *shape)
    return values, gaps
