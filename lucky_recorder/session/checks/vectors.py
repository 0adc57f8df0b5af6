"""A Parquet column as a numpy array, and what keeps it from being one."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lucky_recorder.session.checks.declared import DeclaredColumn

Array = NDArray[Any]


def type_fault(kind: pa.DataType, column: DeclaredColumn) -> str | None:
    """Tell what is wrong with a column's Parquet type: it is a value, or a list per dimension of the shape."""
    depth = 0
    while pa.types.is_list(kind):
        kind, depth = kind.value_type, depth + 1
    value = pa.bool_() if column.dtype == "bool" else pa.type_for_alias(column.dtype)
    depths = {len(column.shape)}
    if column.shape == (1,):
        # A shape of [1] stands for a plain value; the actuator commands and joint positions are lists all the same.
        depths = {1} if column.is_vector else {0, 1}
    if column.is_text:
        # A row holds one text, never a list of them.
        depths = {0} if column.shape == (1,) else set()
    if kind == value and depth in depths:
        return None
    return f"stored as {depth} nested lists of {kind}, the feature says {column.dtype} of shape {list(column.shape)}"


def values(column: pa.ChunkedArray, shape: tuple[int, ...]) -> Array | None:
    """Return a column as ``(rows that have a value, size)``.

    Returns:
        None if a list is not as long as the shape says or holds an empty value.
    """
    array = column.combine_chunks().drop_null()
    rows = len(array)
    for length in shape:
        if not pa.types.is_list(array.type):
            # A shape of [1] may stand for a plain value.
            break
        if not pc.all(pc.equal(pc.list_value_length(array), length), min_count=0).as_py():
            return None
        array = array.flatten()
        if array.null_count:
            return None
    flat: Array = array.to_numpy(zero_copy_only=False)
    return flat.reshape(rows, math.prod(shape))


def first_wrong(found: Array, expected: Array | int) -> int | None:
    """Return the first place where two arrays differ, None if they are the same."""
    wrong = np.flatnonzero(found != expected)
    return int(wrong[0]) if len(wrong) else None
