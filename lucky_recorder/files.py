"""Files that are nothing but files: opened without waiting, made without following a link.

A folder may come from anyone. In place of a file it may hold a named pipe, which makes whoever opens it wait, a device,
which gives bytes without end, or a link, through which a write would land elsewhere. What goes wrong is an `OSError`:
the callers know what to say of it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
from pathlib import Path

# Windows has none of these, nor what they guard against.
_NO_WAITING = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_BINARY = getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
NO_FILE = "is no file"
# Of a name that the system cannot be given, because the locale has no bytes for its letters.
OTHER_LOCALE = (
    f"cannot be given to this system: Python writes names as {sys.getfilesystemencoding()} in this locale; set "
    "PYTHONUTF8=1 in the environment, or a locale of UTF-8, such as LC_ALL=C.UTF-8"
)


def open_file(path: Path, flags: int = os.O_RDONLY, *, follow: bool = True, folders: bool = False) -> int:
    """Open a file, and nothing else that may have its name; returns the descriptor.

    Args:
        path: The file.
        flags: How, as for `os.open`.
        follow: Whether a link may stand in its place.
        folders: Whether a folder will do.

    Raises:
        OSError: If it cannot be opened, or is no ordinary file.
    """
    if follow:
        # Looked at first: even to open a device may do something.
        with contextlib.suppress(FileNotFoundError):
            _refuse_other(os.stat(path), path, folders)
    descriptor = os.open(path, flags | _NO_WAITING | _BINARY | (0 if follow else _NO_LINK), 0o666)
    try:
        # And again: only now is it certain what has been opened.
        _refuse_other(os.fstat(descriptor), path, folders)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def read_file(path: Path, most: int) -> bytes:
    """Return the bytes of a file.

    Raises:
        OSError: If it cannot be read, is no ordinary file, or holds more than ``most`` bytes.
    """
    with os.fdopen(open_file(path), "rb") as file:
        # Asked for one more than there may be: what the system says of a size need not be so.
        content = file.read(most + 1)
    if len(content) > most:
        raise OSError(errno.EFBIG, f"holds more than {most} bytes", str(path))
    return content


def make_file(path: Path) -> None:
    """Make an empty file that is nobody else's.

    What has the name already goes first: it is the file of an interrupted write, or a link that somebody has put there.
    It is removed and not written to, since it may be a second name of another file.

    Raises:
        OSError: If it cannot be made.
    """
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINK | _BINARY, 0o666))


def _refuse_other(found: os.stat_result, path: Path, folders: bool) -> None:
    if not (stat.S_ISREG(found.st_mode) or (folders and stat.S_ISDIR(found.st_mode))):
        raise OSError(errno.EINVAL, NO_FILE, str(path))
