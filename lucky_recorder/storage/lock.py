"""Locks between processes. The system gives a lock up when its process ends, however it ends.

A forked child has none of its parent's locks. The system takes a lock for held as long as any process has the file open
that it was taken with: a child that outlives its parent would hold it on, for nobody. So the child closes these files.

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
import threading
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
# Between making a folder and taking its lock there is a moment, and on a slow disk a longer one.
_NEW_S = 5.0
_SYSTEM_LOCKS = Path("/proc/locks")
# Held while a file is opened and noted: with a fork in between, the child would not know that it has it.
_opening = threading.RLock()
_open: set[Lock] = set()
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
        self._path = path
        self._descriptor = -1
        with storage_errors(path), _opening:
            if create:
                self._descriptor = open_file(path, os.O_RDONLY | os.O_CREAT, follow=False)
            elif fcntl is not None:
                self._descriptor = open_file(path, folders=True)
            _open.add(self)

    @property
    def place(self) -> tuple[int, int] | None:
        """Which file or folder it is of, by device and inode, whatever its path has become; None if nobody knows."""
        return None if self._descriptor < 0 else place_of(os.fstat(self._descriptor))

    def try_once(self) -> bool | None:
        """Try to take it; returns whether it was free, or None if there are no locks here."""
        if fcntl is None:
            return None
        taken = self._ask(fcntl.LOCK_EX)
        self.is_held = taken is True
        return taken

    def try_past_readers(self) -> bool | None:
        """Try to take it; a reader that asks whether it is held has it for a moment, and is waited for.

        Returns:
            Whether it is taken now: not if a writer holds it, nor if readers ask all the time. None if there are no
            locks here.
        """
        deadline = time.monotonic() + _LONGEST_LOOK_S
        try:
            while (taken := self.try_once()) is False:
                # A reader lets others look too, and a writer does not.
                if is_held(self._path) is not False or time.monotonic() > deadline:
                    return False
                time.sleep(_PAUSE_S)
        except OSError:  # network shares have further words for it
            return None
        return taken

    def is_held_by_another(self) -> bool | None:
        """Tell whether another holds it, of one that is not held itself; None if there are no locks here."""
        try:
            free = None if fcntl is None else self._ask(fcntl.LOCK_SH)
        except OSError:
            return None
        return None if free is None else not free

    def _ask(self, kind: int) -> bool | None:
        try:
            fcntl.flock(self._descriptor, kind | fcntl.LOCK_NB)  # type: ignore[union-attr]  # asked by the callers
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno in _UNSUPPORTED:
                return None
            raise
        return True

    def release(self) -> None:
        """Give it up and close the file. Calling it again does nothing."""
        _open.discard(self)
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor < 0:
            return
        if fcntl is not None:
            # Closing is not enough: a child that was forked by other means than Python's may have the file open too.
            with contextlib.suppress(OSError):  # a file system without locks
                fcntl.flock(descriptor, fcntl.LOCK_UN)
        self.is_held = False
        os.close(descriptor)

    def leave_to_parent(self) -> None:
        """Close the file in a forked child; the lock stays the parent's, which has the file open."""
        descriptor, self._descriptor = self._descriptor, -1
        self.is_held = False
        if descriptor >= 0:
            with contextlib.suppress(OSError):
                os.close(descriptor)


def _leave_all_to_parent() -> None:
    for lock in _open:
        lock.leave_to_parent()
    _open.clear()
    _opening.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_opening.acquire, after_in_parent=_opening.release, after_in_child=_leave_all_to_parent)


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
    return is_held(folder) is False


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

    Raises:
        StorageError: At once, if a writer holds it; names the process where the system says which it is.
    """
    lock = Lock(folder)
    taken = lock.try_past_readers()
    if taken:
        return lock
    lock.release()
    if taken is None:
        logger.warning("%s: this file system has no locks; let only one process write the session", folder)
        return None
    refuse_held(folder)
    raise StorageError(f"{folder}: other processes ask all the time whether somebody writes it; try again")


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
    if int(holders[0]) == os.getpid():
        return "this process"
    # Who took it may have left it to a child.
    is_over = not Path(f"/proc/{holders[0]}").exists()
    return f"a child of process {holders[0]}, which has ended," if is_over else f"process {holders[0]}"


def is_held(folder: Path) -> bool | None:
    """Tell whether somebody holds a folder's lock; None where there are no locks. Any number may ask at a time."""
    try:
        lock = Lock(folder)
    except StorageError:
        return None
    try:
        return lock.is_held_by_another()
    finally:
        lock.release()


def place_of(status: os.stat_result) -> tuple[int, int]:
    """Return what tells a file or folder from every other, by its status: its device and inode."""
    return status.st_dev, status.st_ino


def is_new(folder: Path) -> bool:
    """Tell whether a folder was made, or something in it, so lately that its maker may be about to take its lock."""
    try:
        return abs(time.time() - folder.stat().st_mtime) < _NEW_S
    except OSError:
        return False
