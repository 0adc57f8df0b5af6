"""A reserve: bytes of a disk that are held as long as something is written, and freed for what is written last."""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path

from lucky_recorder.files import make_file, open_file
from lucky_recorder.storage.space import free
from lucky_recorder.storage.write import TEMPORARY, sync_folder

NAME = f".reserve{TEMPORARY}"
"""The name of a reserve's file: hidden, and incomplete by its ending (spec: Interrupted sessions)."""

_UNSUPPORTED = (errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL)
_CHUNK = 1 << 20
# Less than this is no help.
_LEAST = 1 << 14
# Of what is free at most one in so many: it is there for what is recorded.
_SHARE = 4


def left_in(folder: Path) -> list[str]:
    """Return the name of the reserve that an interrupted recording has left in a folder; empty without one."""
    path = folder / NAME
    return [NAME] if path.is_symlink() or path.is_file() else []


class Reserve:
    """Bytes held by a file that says nothing.

    It raises nothing: whoever has a full disk from the beginning records without a reserve.

    Attributes:
        path: The file.
        size: Bytes held, 0 for none.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = 0

    def hold(self, size: int) -> None:
        """Hold so many bytes, or a share of what is free if that is less; never fewer than before."""
        if size <= self.size:
            return
        # More than was asked for, so that what grows by a little each time asks rarely.
        wanted = size * 5 // 4
        left = free(self.path)
        if left is not None:
            wanted = min(wanted, (left + self.size) // _SHARE)
        while wanted > max(self.size, _LEAST):
            try:
                if not self.size:
                    make_file(self.path)
                self._allocate(wanted)
            except OSError:
                self._cut()
            else:
                self.size = wanted
            wanted //= 2

    def _allocate(self, size: int) -> None:
        descriptor = open_file(self.path, os.O_RDWR, follow=False)
        with os.fdopen(descriptor, "r+b", buffering=0) as file:
            try:
                if not hasattr(os, "posix_fallocate"):  # Windows and macOS have none
                    raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
                os.posix_fallocate(file.fileno(), 0, size)
            except OSError as error:
                if error.errno not in _UNSUPPORTED:
                    raise
                self._fill(file.fileno(), size)

    def _fill(self, descriptor: int, size: int) -> None:
        os.lseek(descriptor, self.size, os.SEEK_SET)
        missing = size - self.size
        while missing > 0:
            # Random: a file system that compresses would hold nothing for zeros.
            missing -= os.write(descriptor, os.urandom(min(missing, _CHUNK)))

    def _cut(self) -> None:
        """Give back what an attempt has taken that did not get all."""
        with contextlib.suppress(OSError):
            if self.size:
                os.truncate(self.path, self.size)
            else:
                self.path.unlink(missing_ok=True)

    def release(self) -> None:
        """Free the bytes. Calling it again does nothing."""
        if not self.size:
            return
        self.size = 0
        with contextlib.suppress(OSError):
            self.path.unlink(missing_ok=True)
            # Some file systems give the bytes to others only when the name is safely gone.
            sync_folder(self.path.parent)
