"""Values that are too many for the memory: a file without a name holds them, and they are gone through part by part.

However long an episode is, what the process takes for it stays the same.
"""

from __future__ import annotations

import errno
import math
import mmap
import os
import tempfile
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

# What one part of many rows may come to. An episode that does not need more has one row group in its file.
PART_ROWS, PART_BYTES = 131_072, 32 << 20


class Spill:
    """A file that grows, and that nobody else can open: it has no name, and is gone with the process.

    Values are written and read, never mapped while it grows: a disk that refuses says so by an error, not by a signal.

    Attributes:
        size: Bytes that were appended.

    Args:
        folder: Where it is. Not in the system's folder for temporary files, which may itself be memory.

    Raises:
        OSError: If the file system refuses.
    """

    def __init__(self, folder: Path) -> None:
        self.size = 0
        # Linux makes it without a name; where a file system cannot, it has one for a moment.
        with tempfile.TemporaryFile(dir=folder, suffix=".tmp") as file:
            self._descriptor = os.dup(file.fileno())
        # When the process ends, the system closes it.
        weakref.finalize(self, os.close, self._descriptor).atexit = False

    def append(self, values: NDArray[Any]) -> int:
        """Write an array at the end; returns where. If it fails, or is interrupted, nothing was appended.

        Raises:
            OSError: If the file system refuses.
        """
        offset = self.size
        self.write(values, offset)
        self.size = offset + values.nbytes
        return offset

    def write(self, values: NDArray[Any], offset: int) -> None:
        """Write an array at a place, whatever is there; errors as for `append`."""
        content = _bytes_of(np.ascontiguousarray(values))
        while content:
            written = os.pwrite(self._descriptor, content, offset)
            content, offset = content[written:], offset + written

    def read(self, offset: int, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """Read an array as a new one.

        Raises:
            OSError: If the disk cannot give it back.
        """
        values = np.empty(shape, dtype)
        content = _bytes_of(values)
        while content:
            found = os.preadv(self._descriptor, [content], offset)
            if not found:
                raise OSError(errno.EIO, "a temporary file is shorter than what was written to it")
            content, offset = content[found:], offset + found
        return values

    def whole(self) -> Mapped:
        """Return what was written, as arrays that take no memory; nothing may be written to it any more.

        Raises:
            OSError: If the file system refuses.
        """
        # What the disk has not taken yet, and then refuses, would be a signal in the middle of reading.
        os.fsync(self._descriptor)
        return Mapped(self._descriptor, os.fstat(self._descriptor).st_size)


def _bytes_of(values: NDArray[Any]) -> memoryview:
    return memoryview(values.reshape(-1).view(np.uint8).data)


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


def parts(count: int, each: int) -> Iterator[slice]:
    """Cut many rows into parts that fit the memory; no rows are one part.

    How they are cut follows from the rows alone, since each part becomes a row group.

    Args:
        count: How many rows.
        each: Bytes of one.
    """
    most = max(1, min(PART_ROWS, PART_BYTES // max(each, 1)))
    for first in range(0, max(count, 1), most):
        yield slice(first, min(first + most, count))
