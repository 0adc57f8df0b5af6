"""What is made beside its place, checked, and only then given its name: it is there whole, or not at all.

It is made as ``<name>.partial``. What a crash leaves is seen to be unfinished, and the next attempt removes it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from lucky_recorder.errors import FormatError, SettingsError, StorageError
from lucky_recorder.storage.write import make_folder, storage_errors, sync_folder

PARTIAL = ".partial"
_FAULTS_TOLD = 3


def refuse_target(target: Path, sources: Iterable[Path]) -> None:
    """Refuse a place for something new.

    Raises:
        SettingsError: If there is something of its name, or it lies inside what the new is made of.
    """
    if os.path.lexists(target):
        raise SettingsError.of("output", str(target), "is there already; name a new folder")
    for source in sources:
        if source.resolve() in target.resolve().parents:
            raise SettingsError.of("output", str(target), f"lies inside {source}; name a folder beside it")


def claimed(target: Path, is_left: Callable[[Path], bool]) -> Path:
    """Make the folder in which something becomes whole; no other process can make it too.

    Args:
        target: What its name will be.
        is_left: Tells of a folder whether it is what an attempt has left that did not end; it is removed then.

    Raises:
        StorageError: If somebody is at it, there is something else of its name, or the file system refuses.
    """
    partial = target.with_name(target.name + PARTIAL)
    make_folder(partial.parent)
    if os.path.lexists(partial):
        if partial.is_symlink() or not partial.is_dir() or not is_left(partial):
            remedy = "it is being written, or somebody else's; wait for it, or remove it"
            raise StorageError(f"{partial}: is there already: {remedy}")
        with storage_errors(partial):
            shutil.rmtree(partial)
    with storage_errors(partial):
        partial.mkdir()
    return partial


def refuse_faults(faults: Sequence[object], target: Path) -> None:
    """Refuse what was made if it has faults.

    Raises:
        FormatError: If there are any; names the first ones.
    """
    if faults:
        told = "; ".join(map(str, faults[:_FAULTS_TOLD]))
        more = f"; and {len(faults) - _FAULTS_TOLD} more" if len(faults) > _FAULTS_TOLD else ""
        raise FormatError(
            f"{target}: what was made has faults, and was removed: {told}{more}. They are its sources': "
            "`lucky-recorder check` tells them"
        )


def give_name(partial: Path, target: Path) -> None:
    """Give what is whole its name.

    Raises:
        StorageError: If there is something of that name by now, or the file system refuses.
    """
    with storage_errors(target):
        # A folder would take the place of an empty one.
        if os.path.lexists(target):
            raise StorageError(f"{target}: is there by now; it stays, and what was made is removed")
        partial.rename(target)
        sync_folder(target.parent)
