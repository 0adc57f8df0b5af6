"""Values that are too many for the memory: arrays of a file, gone through part by part.

However long an episode is, what the process takes for it stays the same.
"""

from __future__ import annotations

import math
import mmap
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

# What one part of many rows may come to. An episode that does not need more has one row group in its file.
PART_ROWS, PART_BYTES = 65_536, 16 << 20


class Mapped(mmap.mmap):
    """A finished file's bytes, to be looked at only. The system reads them in as they are looked at."""

    def __new__(cls, descriptor: int, size: int) -> Mapped:
        """Map the first ``size`` bytes of a file."""
        return super().__new__(cls, descriptor, size, access=mmap.ACCESS_READ)

    def array(self, offset: int, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """Return the array at a place; it cannot be written to."""
        return np.frombuffer(self, dtype, math.prod(shape), offset).reshape(shape)


def let_go(values: NDArray[Any]) -> None:
    """Give back the memory into which an array of a `Mapped` file was read; it is read in again when it is looked at.

    Of every other array nothing is given back.
    """
    base: Any = values
    while isinstance(base, np.ndarray | memoryview):
        base = base.base if isinstance(base, np.ndarray) else base.obj
    # Only of files of this kind: in other mappings there may be values that are nowhere else.
    if isinstance(base, Mapped):
        base.madvise(mmap.MADV_DONTNEED)


def parts(count: int, each: int, most_bytes: int | None = None) -> Iterator[slice]:
    """Cut many rows into parts that fit the memory; no rows are one part.

    How they are cut follows from the rows alone, since each part becomes a row group.

    Args:
        count: How many rows.
        each: Bytes of one.
        most_bytes: What a part may come to, if not as much as of rows.
    """
    most = max(1, min(PART_ROWS, (PART_BYTES if most_bytes is None else most_bytes) // max(each, 1)))
    for first in range(0, max(count, 1), most):
        yield slice(first, min(first + most, count))
