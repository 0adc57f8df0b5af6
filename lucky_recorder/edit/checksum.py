"""Writing sums of all files, of sessions and of koyu datasets, so that a copy can be proven."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import NamedTuple

from lucky_recorder.edit.recover import under
from lucky_recorder.errors import StateError
from lucky_recorder.koyu import sums as dataset_sums
from lucky_recorder.session.folder import refuse_other_folders
from lucky_recorder.session.layout import CHECKSUMS_PATH
from lucky_recorder.storage.checksums import Sum, Sums
from lucky_recorder.storage.lock import Lock
from lucky_recorder.storage.names import owned
from lucky_recorder.storage.spread import Progress, Tell
from lucky_recorder.storage.untrusted import Folder

__all__ = ["Summed", "checksum"]

logger = logging.getLogger("lucky_recorder")


class Summed(NamedTuple):
    """A session or a dataset whose sums were written.

    Attributes:
        path: Its folder.
        files: How many files were summed.
        bytes: Their sizes together.
    """

    path: Path
    files: int
    bytes: int


def checksum(path: str | Path, *, tell: Tell | None = None) -> list[Summed]:
    """Write the SHA-256 of every file of a session or a dataset into it; `check` compares from then on.

    They stand in ``meta/checksums.json`` of a session, and in ``checksums.json`` beside the manifest of a koyu dataset.
    Sums that were there are replaced: check first what is meant to be as it was.

    Args:
        path: A session, a koyu dataset, or a folder that holds some: an output directory, or its ``DataSessions``.
        tell: Called with the bytes that are done and those that there are.

    Returns:
        What was summed, for each session or dataset.

    Raises:
        FormatError: If there is no such folder, it is nothing of this kind, or holds what is no file, or a link.
        StateError: If it is being recorded, or something was changed meanwhile. What came before it is done.
        StorageError: If the list cannot be written.
    """
    path, progress = Path(path), Progress(tell)
    sessions, datasets = under(path)
    # A session that is a link is somebody else's, unless it is named itself.
    own = [owned(path, one.relative_to(path).as_posix()) for one in sessions]
    done = [_summed(one, _session(one, progress)) for one in own]
    return done + [_summed(one, dataset_sums.write(Folder(one, "dataset"), progress)) for one in datasets]


def _summed(path: Path, sums: dict[str, Sum]) -> Summed:
    return Summed(path, len(sums), sum(one.bytes for one in sums.values()))


def _session(path: Path, progress: Progress) -> dict[str, Sum]:
    refuse_other_folders(path)
    lock = Lock(path)
    try:
        if _taken(lock, path) is False:
            raise StateError(f"{path}: is being recorded; write its sums when it is closed")
        return Sums(Folder(path), CHECKSUMS_PATH).write(progress)
    finally:
        lock.release()


def _taken(lock: Lock, path: Path) -> bool | None:
    taken = lock.try_past_readers()
    if taken is None:
        logger.warning("%s: no locks here: sums of a session that is still being recorded are soon wrong", path)
    return taken
