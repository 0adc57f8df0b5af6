"""What is made beside its place, checked, and only then given its name: it is there whole, or not at all.

It is made as ``<name>.partial``. What a crash leaves is seen to be unfinished, and the next attempt removes it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from lucky_recorder.errors import FormatError, SettingsError, StorageError
from lucky_recorder.storage.write import make_folder, storage_errors, sync_folder

PARTIAL = ".partial"
_FAULTS_TOLD = 3
IsLeft = Callable[[Path], bool]
"""Tells of a folder whether it is what an attempt has left that did not end."""


def refuse_target(target: Path, sources: Iterable[Path], is_left: IsLeft) -> None:
    """Refuse a place for something new that cannot be made there; nothing is touched.

    Args:
        target: What its folder will be.
        sources: What it is made of.
        is_left: Of a folder of its temporary name, whether that may go.

    Raises:
        SettingsError: If there is something of its name, it lies inside what the new is made of, or no folder can be
            made there.
        StorageError: If somebody is at it.
    """
    if os.path.lexists(target):
        raise SettingsError.of("output", str(target), "is there already; name a new folder")
    if target.name in ("", ".."):
        raise SettingsError.of("output", str(target), "ends in no name; name a new folder")
    for source in sources:
        if source.resolve() in target.resolve().parents:
            raise SettingsError.of("output", str(target), f"lies inside {source}; name a folder beside it")
    above = next(parent for parent in target.absolute().parents if os.path.lexists(parent))
    if not above.is_dir():
        raise SettingsError.of("output", str(target), f"{above} is no folder; name one in a folder")
    if not os.access(above, os.W_OK | os.X_OK):
        raise SettingsError.of("output", str(target), f"nothing may be written into {above}; name another folder")
    _refuse_long(target, above)
    _refuse_taken(_partial(target), is_left)


def _refuse_long(target: Path, above: Path) -> None:
    most = os.pathconf(above, "PC_NAME_MAX")
    names = [*target.absolute().relative_to(above).parts[:-1], _partial(target).name]
    if long := [name for name in names if len(os.fsencode(name)) > most]:
        remedy = f"{long[0]} has more than the {most} bytes that a name may have there; give a shorter one"
        raise SettingsError.of("output", str(target), remedy)


def _partial(target: Path) -> Path:
    return target.with_name(target.name + PARTIAL)


def _refuse_taken(partial: Path, is_left: IsLeft) -> None:
    if os.path.lexists(partial) and (partial.is_symlink() or not partial.is_dir() or not is_left(partial)):
        remedy = "it is being written, or somebody else's; wait for it, or remove it"
        raise StorageError(f"{partial}: is there already: {remedy}")


@contextlib.contextmanager
def made_whole(target: Path, is_left: IsLeft) -> Iterator[Path]:
    """Give the folder in which something becomes whole, and in the end its name; no other process can make it too.

    Whatever is raised, also an interrupt, nothing is left of it, nor of the folders above it that were made for it.

    Args:
        target: What its name will be.
        is_left: Of a folder of its temporary name, whether that may go.

    Raises:
        StorageError: If somebody is at it, there is something else of its name, or the file system refuses.
    """
    partial = _partial(target)
    missing = [parent for parent in partial.parents if not os.path.lexists(parent)]
    try:
        make_folder(partial.parent)
        _claim(partial, is_left)
        try:
            yield partial
            _give_name(partial, target)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise
    except BaseException:
        for parent in missing:
            with contextlib.suppress(OSError):  # somebody else has put something there by now
                parent.rmdir()
        raise


def _claim(partial: Path, is_left: IsLeft) -> None:
    _refuse_taken(partial, is_left)
    with storage_errors(partial):
        if os.path.lexists(partial):
            shutil.rmtree(partial)
        partial.mkdir()


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


def _give_name(partial: Path, target: Path) -> None:
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
