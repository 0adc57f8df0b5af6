"""The values of a session's columns, read for a conversion, and where there are none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lucky_recorder.episode.schema import Field
from lucky_recorder.errors import FormatError, shown
from lucky_recorder.session.arrays import array_of

# Tasks are not that many, and a float holds it exactly.
_LARGEST_INDEX = 2**53


def values_of(table: pa.Table, field: Field, place: str) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Return a column of a session as an array, shape ``(rows, *shape)``, and where it has no value: there it is 0."""
    return array_of(table, field.name, field.dtype, tuple(field.shape), place)


def whole_numbers(values: NDArray[Any], where: str) -> NDArray[np.int64]:
    """Return whole numbers as such: pandas stores them as floats where one is missing."""
    real = values.astype(np.float64)
    if not (np.isfinite(real) & (np.floor(real) == real) & (np.abs(real) < _LARGEST_INDEX)).all():
        raise FormatError(f"{where}: holds {shown(values)}, expected whole numbers")
    return values.astype(np.int64)
