"""The disk: how fast it writes, how long until a file is safe on it, and whether it has hard links."""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

from lucky_recorder.storage import write as files

_MOST_BYTES, _CHUNK = 64 << 20, 1 << 20
_LONGEST_S = 1.0
_SYNCS, _PAGE = 8, 4096


class Disk(NamedTuple):
    """What was measured in a folder.

    Attributes:
        folder: Where, an existing folder.
        bytes_per_s: Writing speed, the bytes safe on the disk.
        fsync_s: Median seconds until 4 kB are safe on the disk.
        free_bytes: Free space.
        has_hard_links: Whether one file can have two names.
    """

    folder: Path
    bytes_per_s: float
    fsync_s: float
    free_bytes: int
    has_hard_links: bool


def measure(path: Path) -> Disk:
    """Measure the disk of a folder, or of the nearest one above it that exists; at most 64 MB are written for a moment.

    Raises:
        StorageError: If nothing can be written there.
    """
    folder = existing(path)
    with (
        files.storage_errors(folder),
        tempfile.TemporaryDirectory(dir=folder, prefix=".lucky-recorder-doctor-") as place,
    ):
        trial = Path(place)
        return Disk(folder, _speed(trial), _latency(trial), shutil.disk_usage(folder).free, _links(trial))


def existing(path: Path) -> Path:
    """Return a folder, or the nearest one above it that exists."""
    path = path.absolute()
    return next(place for place in (path, *path.parents) if place.exists())


def _speed(folder: Path) -> float:
    # Random bytes: a file system that compresses would look faster than it is with others.
    chunk = os.urandom(_CHUNK)
    written, begun = 0, perf_counter()
    with (folder / "speed").open("wb", buffering=0) as file:
        while written < _MOST_BYTES and perf_counter() - begun < _LONGEST_S:
            written += file.write(chunk)
        os.fsync(file.fileno())
    return written / (perf_counter() - begun)


def _latency(folder: Path) -> float:
    taken: list[float] = []
    with (folder / "latency").open("wb", buffering=0) as file:
        while len(taken) < _SYNCS and sum(taken) < _LONGEST_S:
            begun = perf_counter()
            file.write(bytes(_PAGE))
            os.fsync(file.fileno())
            taken.append(perf_counter() - begun)
    return statistics.median(taken)


def _links(folder: Path) -> bool:
    (folder / "one").touch()
    try:
        os.link(folder / "one", folder / "other")
    except OSError:
        return False
    return True
