"""The sums of a dataset's files, and when they may be taken."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from lucky_recorder.errors import StateError
from lucky_recorder.koyu import layout
from lucky_recorder.koyu.begun import refuse_begun
from lucky_recorder.storage.checksums import Sum, Sums
from lucky_recorder.storage.lock import is_abandoned, locked
from lucky_recorder.storage.spread import Progress
from lucky_recorder.storage.untrusted import Folder


def sums_of(dataset: Folder) -> Sums:
    """Return a dataset's list of sums, whether there is one or not. The lock is no part of it: it comes and goes."""
    return Sums(dataset, layout.CHECKSUMS, (layout.LOCK,))


def write(dataset: Folder, progress: Progress | None = None) -> dict[str, Sum]:
    """Sum every file of a dataset, and list the sums beside its manifest; errors as for `Sums.write`.

    Raises:
        FormatError: Also if it has neither a manifest nor a bundle yet.
        StateError: If somebody is recording into it.
        StorageError: If another process has held the dataset's lock for a minute.
    """
    refuse_begun(dataset.path)
    _refuse_writers(dataset)
    return sums_of(dataset).write(progress, _alone(dataset))


@contextlib.contextmanager
def _alone(dataset: Folder) -> Iterator[None]:
    """Hold the dataset's lock, while nobody records into it.

    Under it whoever changes the dataset drops its sums first. A writer that opens it later waits, and drops those that
    are written now; one that has come meanwhile is refused here, and what one has left changes the last look.
    """
    with locked(dataset.path / layout.LOCK):
        _refuse_writers(dataset)
        yield


def _refuse_writers(dataset: Folder) -> None:
    place = dataset.path / layout.EPISODES
    for folder in sorted(place.glob(f"{layout.TEMPORARY}*")):
        if folder.is_dir() and not folder.is_symlink() and not is_abandoned(folder):
            raise StateError(f"{dataset.path}: is being recorded into; write its sums when that is done")
