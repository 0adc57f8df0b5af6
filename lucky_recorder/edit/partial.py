"""What is made beside its place, checked, and only then given its name: it is there whole, or not at all.

It is made in ``<name>.partial``, a folder with a mark that is made first and removed last. What bears it and is
nobody's any more is what a crash has left, and the next attempt removes it. Whatever else has that name is somebody's
own, be it a session, and stays.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from lucky_recorder.errors import FormatError, SettingsError, StorageError
from lucky_recorder.files import make_file
from lucky_recorder.storage.lock import Lock, hold, is_abandoned, is_new, place_of, take_over
from lucky_recorder.storage.write import make_folder, storage_errors, sync_folder

PARTIAL = ".partial"
MARK = ".lucky-recorder-unfinished"
"""The file that tells a folder in which something is made from every other of such a name."""

_MADE = "made"
_FAULTS_TOLD = 3


def is_where_made(path: Path, target: Path) -> bool:
    """Tell whether something is the folder in which another will be made, or lies in it."""
    real, partial = path.resolve(), target.parent.resolve() / f"{target.name}{PARTIAL}"
    return partial in (real, *real.parents)


def refuse_target(target: Path, sources: Iterable[Path]) -> None:
    """Refuse a place for something new that cannot be made there; nothing is touched.

    Args:
        target: What its folder will be.
        sources: What it is made of.

    Raises:
        SettingsError: If there is something of its name, it lies inside what the new is made of, that lies in the
            folder in which it would be made, or no folder can be made there.
        StorageError: If somebody is at it, or something else has its temporary name.
    """
    if os.path.lexists(target):
        raise SettingsError.of("output", str(target), "is there already; name a new folder")
    if target.name in ("", ".."):
        raise SettingsError.of("output", str(target), "ends in no name; name a new folder")
    partial = _partial(target)
    for source in sources:
        if source.resolve() in target.resolve().parents:
            raise SettingsError.of("output", str(target), f"lies inside {source}; name a folder beside it")
        if is_where_made(source, target):
            told = f"is made in {partial.name}, where {source} is, of which it is made; name another folder"
            raise SettingsError.of("output", str(target), told)
    above = next(parent for parent in target.absolute().parents if os.path.lexists(parent))
    if not above.is_dir():
        raise SettingsError.of("output", str(target), f"{above} is no folder; name one in a folder")
    if not _can_be_written(above):
        raise SettingsError.of("output", str(target), f"nothing may be written into {above}; name another folder")
    _refuse_long(target, above)
    _refuse_taken(partial)


def _can_be_written(folder: Path) -> bool:
    if not os.access(folder, os.W_OK | os.X_OK):
        return False
    try:
        # What the system shows as files, such as /proc, has no blocks, and says yes to whoever is root.
        if os.statvfs(folder).f_blocks == 0:
            os.rmdir(tempfile.mkdtemp(dir=folder))
    except OSError:
        return False
    return True


def _refuse_long(target: Path, above: Path) -> None:
    most = os.pathconf(above, "PC_NAME_MAX")
    names = [*target.absolute().relative_to(above).parts[:-1], _partial(target).name]
    if long := [name for name in names if len(os.fsencode(name)) > most]:
        remedy = f"{long[0]} has more than the {most} bytes that a name may have there; give a shorter one"
        raise SettingsError.of("output", str(target), remedy)


def _partial(target: Path) -> Path:
    return target.with_name(target.name + PARTIAL)


def _refuse_taken(partial: Path) -> None:
    if not os.path.lexists(partial):
        return
    if not _is_marked(partial):
        raise StorageError(
            f"{partial}: is there already: it is not what an unfinished attempt has left, so it stays; call it "
            "otherwise, or name another folder for what is to be made"
        )
    # Between making a folder and taking its lock there is a moment, in which it is empty.
    if not is_abandoned(partial) or (is_new(partial) and not os.listdir(partial)):
        raise StorageError(
            f"{partial}: is there already: it is being written; wait for it, or remove it where you know that nobody "
            "writes it"
        )


def _is_marked(partial: Path) -> bool:
    """Tell whether something is made in a folder, or was: it bears the mark, and there is nothing else in it.

    Whoever is killed before there is a mark, or after it has gone, leaves an empty folder: nobody has anything in that.
    """
    with storage_errors(partial):
        if partial.is_symlink() or not partial.is_dir():
            return False
        mark, made, names = partial / MARK, partial / _MADE, set(os.listdir(partial))
        if not names:
            return True
        return MARK in names <= {MARK, _MADE} and mark.is_file() and not (mark.is_symlink() or made.is_symlink())


@contextlib.contextmanager
def made_whole(target: Path) -> Iterator[Path]:
    """Give the folder in which something becomes whole, and in the end its name; no other process can make it too.

    Whatever is raised, also an interrupt, nothing is left of it, nor of the folders above it that were made for it.

    Args:
        target: What its name will be.

    Raises:
        StorageError: If somebody is at it, there is something else of its name, or the file system refuses.
    """
    partial = _partial(target)
    missing = [parent for parent in partial.parents if not os.path.lexists(parent)]
    try:
        make_folder(partial.parent)
        _remove_left(partial)
        with _claimed(partial) as made:
            yield made
            _give_name(made, target)
    except BaseException:
        for parent in missing:
            with contextlib.suppress(OSError):  # somebody else has put something there by now
                parent.rmdir()
        raise


def _remove_left(partial: Path) -> None:
    """Remove what an attempt has left that did not end."""
    _refuse_taken(partial)
    if not os.path.lexists(partial):
        return
    lock = take_over(partial)
    try:
        # Under its lock: another attempt may have removed it by now, and begun.
        _refuse_taken_meanwhile(partial, lock)
        with storage_errors(partial):
            _remove(partial)
    finally:
        if lock is not None:
            lock.release()


def _refuse_taken_meanwhile(partial: Path, lock: Lock | None) -> None:
    with storage_errors(partial):
        is_same = lock is not None and lock.place == place_of(partial.stat())
    if not (is_same and _is_marked(partial)):
        raise StorageError(f"{partial}: is being written by now; wait for it")


def _remove(partial: Path) -> None:
    """Remove a folder in which something was made; what somebody has put there meanwhile stays."""
    if os.path.lexists(partial / _MADE):
        shutil.rmtree(partial / _MADE)
    (partial / MARK).unlink(missing_ok=True)
    partial.rmdir()


@contextlib.contextmanager
def _claimed(partial: Path) -> Iterator[Path]:
    """Give a folder for what is made, in one that is this process's own as long."""
    with storage_errors(partial):
        partial.mkdir()
    lock = None
    try:
        # First the lock: what bears the mark and is not locked is nobody's.
        lock = hold(partial)
        with storage_errors(partial):
            make_file(partial / MARK)
            (partial / _MADE).mkdir()
        yield partial / _MADE
    finally:
        with contextlib.suppress(OSError):
            _remove(partial)
        if lock is not None:
            lock.release()


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


def _give_name(made: Path, target: Path) -> None:
    """Give what is whole its name.

    Raises:
        StorageError: If there is something of that name by now, or the file system refuses.
    """
    with storage_errors(target):
        # A folder would take the place of an empty one.
        if os.path.lexists(target):
            raise StorageError(f"{target}: is there by now; it stays, and what was made is removed")
        made.rename(target)
        sync_folder(target.parent)
