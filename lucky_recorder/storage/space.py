"""The space on a disk: what files take of it, what is left, and for how many episodes that will do."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from lucky_recorder.errors import StorageError, VideoError

if TYPE_CHECKING:
    import pyarrow as pa

# What a system says of a disk that is full, or of a user who may have no more of it.
FULL = (errno.ENOSPC, errno.EDQUOT)
# A warning comes while so many episodes still fit: the worker is an episode behind, and somebody must make room.
_FEWEST = 3
# Of so many episodes before, the largest says what the next one is likely to take.
_LOOKED_BACK = 20
# What a Parquet file says of itself besides its values.
_FOOTER, _PER_COLUMN = 1 << 16, 1 << 12
# What is put behind an error: see `told_space`.
_FIGURES = re.compile(
    r" \((?:up to )?[\d.]+ \w+ (?:of it were written|were to be written)(?:, and [\d.]+ \w+ were (?:left|free))?\)"
)
_NO_INODES = "no inode is free, which each file and folder takes one of: remove files, their sizes do not matter"
# Where the list begins that a value is, or its number if it is made when it is written.
_PLACE = 8


class Taken(NamedTuple):
    """What some files take of one file system.

    Attributes:
        folder: A folder on it.
        bytes: Bytes.
    """

    folder: Path
    bytes: int


def taken(files: Iterable[Path]) -> dict[int, Taken]:
    """Measure what files take, by the file system they lie on.

    A file that has two of the names is counted once, one that is gone not at all.
    """
    found: dict[int, Taken] = {}
    known: set[tuple[int, int]] = set()
    for file in files:
        with contextlib.suppress(OSError):
            status = os.stat(file)
            if (status.st_dev, status.st_ino) not in known:
                known.add((status.st_dev, status.st_ino))
                before = found.get(status.st_dev, Taken(file.parent, 0))
                found[status.st_dev] = before._replace(bytes=before.bytes + _bytes(status))
    return found


def _bytes(status: os.stat_result) -> int:
    # A disk gives whole blocks; some systems do not say how many, and some give them only later.
    return max(status.st_size, 512 * getattr(status, "st_blocks", 0))


def free(path: Path) -> int | None:
    """Return the free bytes where a path is or would be; None if the system does not say."""
    for place in (path, *path.parents):
        try:
            return shutil.disk_usage(place).free
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError:
            return None
    return None


def lacks_files(path: Path) -> str:
    """Say so of a disk that can hold no further file, where a path is or would be; empty if it has room for one.

    Many file systems have a fixed number of inodes, one for each file and folder, and say that they are full when these
    are used up, however many bytes are free.
    """
    for place in (path, *path.parents):
        try:
            status = os.statvfs(place)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except (OSError, AttributeError):  # Windows has no such call
            return ""
        # Some count none, and some count those that there are still bytes for.
        is_out = status.f_files > 0 and not status.f_favail and status.f_bavail * status.f_frsize > _FOOTER
        return _NO_INODES if is_out else ""
    return ""


def amount(count: int) -> str:
    """Write a number of bytes for a person."""
    for unit, size in (("GB", 1e9), ("MB", 1e6)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count / 1e3:.0f} kB" if count >= 1e3 else f"{count} bytes"


def of_table(table: pa.Table) -> int:
    """Return how many bytes a Parquet file of a table takes, at most: its values, and what is said of each column."""
    return int(table.nbytes + _FOOTER + _PER_COLUMN * table.num_columns)


def of_rows(count: int, each: int, columns: int) -> int:
    """Return how many bytes a Parquet file of some rows takes, at most, before there is a table of them.

    Args:
        count: How many rows.
        each: Bytes of one row's values.
        columns: How many columns they are.
    """
    return count * (each + _PLACE * columns) + _FOOTER + _PER_COLUMN * columns


def without_space(text: str) -> str:
    """Return what an error says but for the numbers that `told_space` adds: the next time they are others."""
    return _FIGURES.sub("", text)


@contextlib.contextmanager
def told_space(file: Path, needed: int | None = None) -> Iterator[None]:
    """Say in the error of a full disk how much was to be written, and how much was free, or that no inode was.

    Args:
        file: The file that is being written; what there is of it counts as free.
        needed: Bytes that it is to have, at most; None if nobody knows.
    """
    try:
        yield
    except (StorageError, VideoError) as error:
        if _NO_INODES in str(error):
            raise
        if error.errno in FULL and (why := lacks_files(file)):
            error.args = (f"{error} ({why})",)
            raise
        # Measured now: the file goes when the error has passed.
        written = sum(one.bytes for one in taken([file]).values())
        # How much a quota leaves, the disk does not say.
        left = None if error.errno == errno.EDQUOT else free(file)
        # On a full disk a library may write half a file without a word. Then only its end shows it.
        is_cut = error.errno is None and needed is not None and left is not None and written + left < needed
        if not (error.errno in FULL or is_cut):
            raise
        error.args = (f"{error} ({_shortage(written, left, needed)})",)
        error.errno = error.errno or errno.ENOSPC
        raise


def _shortage(written: int, left: int | None, needed: int | None) -> str:
    if needed is None:
        said = f"{amount(written)} of it were written"
        return said if left is None else f"{said}, and {amount(left)} were left"
    said = f"up to {amount(needed)} were to be written"
    return said if left is None else f"{said}, and {amount(written + left)} were free"


class Outlook:
    """Foresees a full disk, from what the episodes before have taken of each file system."""

    def __init__(self) -> None:
        self._recent: dict[int, deque[Taken]] = {}

    def add(self, episode: Mapping[int, Taken]) -> None:
        """Take note of what an episode has taken."""
        for device, one in episode.items():
            self._recent.setdefault(device, deque(maxlen=_LOOKED_BACK)).append(one)

    def warning(self, claimed: Mapping[int, Taken]) -> str:
        """Say that hardly another episode fits, and where; empty while there is space.

        Args:
            claimed: What will be written besides, and lies there already.
        """
        for device, recent in self._recent.items():
            folder, left = recent[-1].folder, free(recent[-1].folder)
            needed = max(one.bytes for one in recent)
            if left is None or not needed:
                continue
            also = claimed[device].bytes if device in claimed else 0
            fitting = max(0, left - also) // needed
            if fitting < _FEWEST:
                besides = f", and {amount(also)} are to be written once more" if also else ""
                return (
                    f"{folder}: the disk is nearly full: {amount(left)} are free, an episode takes about "
                    f"{amount(needed)} there{besides}, so there is room for about {fitting} more; free some, or the "
                    "session stops with the first that does not fit. Those before it stay whole"
                )
        return ""
