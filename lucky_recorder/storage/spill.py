"""Files without a name, for values that are too many for the memory: see `lucky_recorder.episode.parts`."""

from __future__ import annotations

import errno
import os
import tempfile
import weakref
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from lucky_recorder.episode.parts import Mapped


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
