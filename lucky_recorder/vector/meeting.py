"""A meeting: where the processes that record into one session find each other, a folder of small files.

It lies with the system's temporary files, and its name nobody can guess. Each lane has a file whose lock its process
holds until the lane is closed: so it is known which of them are at work, and the system gives the lock of one that was
killed back.
"""

from __future__ import annotations

import contextlib
import enum
import os
import re
import shutil
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from lucky_recorder.errors import FormatError
from lucky_recorder.storage import lock
from lucky_recorder.storage.untrusted import Folder
from lucky_recorder.storage.write import storage_errors, write_json

PLACE, LAYOUT, OUTCOME, LEFT, WATCHED, TOLD = "place", "layout", "outcome", "left", "watched", "told"
_DOOR = "door"
_LANE = re.compile(r"lane-(\d+)")
_CLOSED = ".closed"


class State(enum.Enum):
    """How it stands with a lane."""

    OPEN = "open"
    CLOSED = "closed"
    GONE = "gone"


class Seat(NamedTuple):
    """A lane's place in a meeting.

    Attributes:
        number: The lane's number.
        lock: Held until the lane is closed; None where there are no locks.
    """

    number: int
    lock: lock.Lock | None

    def give_up(self) -> None:
        """Give the lock up. Calling it again does nothing."""
        if self.lock is not None:
            self.lock.release()


class Meeting:
    """Where processes find each other.

    Attributes:
        folder: Where it is; it is made by the first that comes.

    Args:
        folder: As above; None for a new one.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or Path(tempfile.gettempdir()) / f"lucky_recorder_{uuid.uuid4().hex}"

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Keep all others from coming and going.

        Raises:
            StorageError: If the folder is gone, or another keeps it for more than a minute.
        """
        with lock.locked(self.folder / _DOOR):
            yield

    @property
    def is_busy(self) -> bool:
        """Whether somebody keeps all others from it, such as one that makes the session."""
        return lock.is_held(self.folder / _DOOR) is True

    @property
    def is_there(self) -> bool:
        """Whether anybody has come."""
        return self.folder.is_dir()

    # Lanes.

    def enlist(self, wanted: int | None) -> Seat:
        """Come, and take a number: the one that is wanted, or else the next that is free.

        Raises:
            StorageError: If the file system refuses.
        """
        with storage_errors(self.folder):
            self.folder.mkdir(mode=0o700, exist_ok=True)
        with self.held():
            taken = self.lanes()
            is_free = wanted is not None and wanted not in taken
            number = wanted if wanted is not None and is_free else max(taken, default=-1) + 1
            path = self.folder / f"lane-{number}"
            write_json(path, {"pid": os.getpid()})
            return Seat(number, lock.hold(path))

    def leave(self, seat: Seat, counts: Mapping[str, Any]) -> None:
        """Say that a lane is closed, and what its episodes come to."""
        write_json(self.folder / f"lane-{seat.number}{_CLOSED}", dict(counts))
        seat.give_up()

    def lanes(self) -> dict[int, State]:
        """Return the lanes that have come, by their numbers."""
        return {number: self._state(number) for number in self._numbers()}

    def _numbers(self) -> list[int]:
        names = [path.name for path in self.folder.iterdir()] if self.is_there else []
        return sorted(int(found[1]) for found in map(_LANE.fullmatch, names) if found)

    def _state(self, number: int) -> State:
        if self._path(number, _CLOSED).exists():
            return State.CLOSED
        # Where there are no locks, one that was killed is waited for: who it belongs to makes the session then.
        return State.GONE if lock.is_held(self._path(number)) is False else State.OPEN

    def _path(self, number: int, suffix: str = "") -> Path:
        return self.folder / f"lane-{number}{suffix}"

    def processes(self) -> dict[int, int]:
        """Return the process of each lane, by the lane's number."""
        return {number: self.said(f"lane-{number}")["pid"] for number in self._numbers()}

    def counts(self) -> list[dict[str, Any]]:
        """Return what the lanes come to that are closed."""
        states = self.lanes()
        return [self.said(f"lane-{n}{_CLOSED}") for n, state in states.items() if state is State.CLOSED]

    # What is known to all.

    def say(self, name: str, content: Mapping[str, Any] | None = None) -> None:
        """Leave something for the others to know."""
        write_json(self.folder / name, dict(content or {}))

    def has(self, name: str) -> bool:
        """Tell whether something is known."""
        return (self.folder / name).exists()

    def said(self, name: str) -> dict[str, Any]:
        """Return what somebody has left; empty where nobody has."""
        with contextlib.suppress(FormatError):
            return Folder(self.folder).json(name) if self.has(name) else {}
        return {}

    def remove(self) -> None:
        """Remove it."""
        shutil.rmtree(self.folder, ignore_errors=True)
