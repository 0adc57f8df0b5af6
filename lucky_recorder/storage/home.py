"""A folder that is being written is to stay where it is; where it does not, that is said and not made good."""

from __future__ import annotations

import os
from pathlib import Path

from lucky_recorder.storage.lock import Lock, place_of
from lucky_recorder.storage.write import give_up, keep, moved, storage_errors


class Home:
    """A folder that is written until `leave`.

    Whoever moves it does not move the paths that its writer has. Made anew under the old path, it would hold the rest
    of a recording, and a list of all of it.

    Args:
        folder: The folder; where it is not there, nothing is watched.
        lock: The writer's lock on it, which stays with the folder wherever that goes; None where there are no locks.
        whole: The session or dataset that it is of, for the error; None: it is that itself.
    """

    def __init__(self, folder: Path, lock: Lock | None, whole: Path | None = None) -> None:
        self._folder = folder
        self._lock = lock
        self._whole = whole or folder
        self._found: tuple[int, int] | None = None
        try:
            self._found = place_of(os.stat(folder))
        except OSError:
            return
        keep(folder, self._whole)

    def check(self) -> None:
        """Look whether the folder is where it was.

        Raises:
            StorageError: If it is not, or if the file system does not say.
        """
        # Of the open folder if there is one: a file system may number what nobody has open anew.
        expected = (None if self._lock is None else self._lock.place) or self._found
        if expected is None:
            return
        with storage_errors(self._folder):
            try:
                found = place_of(os.stat(self._folder))
            except (FileNotFoundError, NotADirectoryError):
                raise moved(self._whole) from None
        if found != expected:
            raise moved(self._whole)

    def leave(self) -> None:
        """Have it written no more. Calling it again does nothing."""
        give_up(self._folder, self._whole)
        self._lock = self._found = None
