"""Locks between processes. The system gives a lock up when its process ends, however it ends.

They call `flock` directly. The filelock package does not fit, for three reasons:

- It cannot lock a folder. Here a writer locks its own folder, so that the lock and what it protects are one thing.
- It opens the file for writing, and a dataset may belong to somebody else.
- Where a file system has no locks, it raises, or makes marker files that stay behind after a crash. Here the process
  goes on, and there is a warning.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from lucky_recorder.errors import StorageError
from lucky_recorder.files import open_file
from lucky_recorder.storage.write import storage_errors

fcntl: ModuleType | None
try:
    import fcntl
except ImportError:  # Windows has none
    fcntl = None

logger = logging.getLogger("lucky_recorder")
LONGEST_WAIT_S = 60.0
_PAUSE_S = 0.01
_LONGEST_LOOK_S = 5.0
_SYSTEM_LOCKS = Path("/proc/locks")
# What `flock` says on file systems without locks, some network shares among them.
_UNSUPPORTED = (errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK, errno.EINVAL)


class Lock:
    """A lock on a file or folder that exists.

    It belongs to this object, not to the process: a second one on the same path, in any process, has to wait. It is
    given up when the process ends, however it ends.

    Attributes:
        is_held: Whether it is held; never where the file system knows no locks.

    Args:
        path: The file or folder.
        create: Make the file if it is missing. A link in its place is refused: it would be made elsewhere.

    Raises:
        StorageError: If it cannot be opened, or is neither a file nor a folder.
    """

    def __init__(self, path: Path, *, create: bool = False) -> None:
        self.is_held = False
        self._descriptor = -1
        with storage_errors(path):
            if create:
                self._descriptor = open_file(path, os.O_RDONLY | os.O_CREAT, follow=False)
            elif fcntl is not None:
                self._descriptor = open_file(path, folders=True)

    def try_once(self) -> bool | None:
        """Try to take it; returns whether it was free, or None if there are no locks here."""
        if fcntl is None:
            return None
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno in _UNSUPPORTED:
                return None
            raise
        self.is_held = True
        return True

    def release(self) -> None:
        """Give it up and close the file. Calling it again does nothing."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor < 0:
            return
        if self.is_held and fcntl is not None:
            # Closing is not enough: a forked child may have the file open too, and the lock stays until all close it.
            fcntl.flock(descriptor, fcntl.LOCK_UN)
            self.is_held = False
        os.close(descriptor)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of a file, which is made if it is missing; waits while another holds it.

    Raises:
        StorageError: If it is not free within a minute.
    """
    lock = Lock(path, create=True)
    try:
        with storage_errors(path):
            if not _take(lock, path, LONGEST_WAIT_S):
                logger.warning("%s: this file system has no locks; let only one process write the dataset", path)
        yield
    finally:
        lock.release()


def _take(lock: Lock, path: Path, longest_s: float) -> bool:
    """Take a lock, and wait while another holds it; returns whether there are locks here."""
    deadline = time.monotonic() + longest_s
    while (taken := lock.try_once()) is False:
        if time.monotonic() > deadline:
            raise StorageError(f"{path}: another process has held this lock for more than {longest_s:g} s")
        time.sleep(_PAUSE_S)
    return taken is True


def is_abandoned(folder: Path) -> bool:
    """Tell whether nobody holds a folder's lock: then its maker has ended. False where there are no locks."""
    try:
        lock = Lock(folder)
    except StorageError:
        return False
    try:
        return lock.try_once() is True
    finally:
        lock.release()


def hold(folder: Path) -> Lock | None:
    """Take the lock of a folder that is this process's own; None where there are no locks, or the folder is not there.

    A reader that asks whether it is held has it for a moment: that is waited for.

    Raises:
        StorageError: If another holds it for longer than that.
    """
    try:
        lock = Lock(folder)
    except StorageError:
        return None
    try:
        _take(lock, folder, _LONGEST_LOOK_S)
    except OSError as error:
        lock.release()
        if isinstance(error, StorageError):
            raise
        # Network shares have further words for it.
        return None
    return lock


def take_over(folder: Path) -> Lock | None:
    """Take the lock of a folder that another process may be writing; None where there are no locks.

    A reader that asks whether it is held is waited for: that is a moment.

    Raises:
        StorageError: At once, if a writer holds it; names the process where the system says which it is.
    """
    lock = Lock(folder)
    try:
        # A reader lets others look too, and a writer does not.
        while lock.try_once() is False:
            refuse_held(folder)
            time.sleep(_PAUSE_S)
    except BaseException as error:
        lock.release()
        if not isinstance(error, OSError) or isinstance(error, StorageError):
            raise
    if not lock.is_held:  # network shares have further words for it
        lock.release()
        logger.warning("%s: this file system has no locks; let only one process write the session", folder)
        return None
    return lock


def refuse_held(folder: Path) -> None:
    """Refuse a folder that a writer holds, without taking it.

    Raises:
        StorageError: As `take_over`.
    """
    if is_held(folder):
        raise StorageError(f"{folder}: {_holder(folder)} is writing it: it holds the folder's lock")


def _holder(folder: Path) -> str:
    """Name the process that holds a folder's lock, as far as the system tells: Linux does."""
    try:
        found, lines = folder.stat(), _SYSTEM_LOCKS.read_text().splitlines()
    except OSError:
        return "another process"
    place = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
    holders = [words[4] for words in map(str.split, lines) if words[1:2] == ["FLOCK"] and words[5:6] == [place]]
    if not holders or not holders[0].isdecimal() or holders[0] == "0":
        return "another process"
    return "this process" if int(holders[0]) == os.getpid() else f"process {holders[0]}"


def is_held(folder: Path) -> bool | None:
    """Tell whether somebody holds a folder's lock; None where there are no locks. Any number may ask at a time."""
    if fcntl is None:
        return None
    try:
        descriptor = open_file(folder, folders=True)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return None
    else:
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        return False
    finally:
        os.close(descriptor)
