"""Setting files aside: out of the way, never deleted, with the reason beside each."""

from __future__ import annotations

import contextlib
import errno
import filecmp
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from lucky_recorder.errors import FormatError
from lucky_recorder.files import make_file, open_file, read_file
from lucky_recorder.storage.write import TEMPORARY, make_folder, stage, storage_errors, sync_folder

LOST = "lost+found"


class SetAside(NamedTuple):
    """Something that is put under ``lost+found/``.

    Attributes:
        file: Its name within the folder, as it was.
        reason: Why.
    """

    file: str
    reason: str


def set_aside(root: Path, file: str, reason: str) -> None:
    """Move a file, or a folder, to ``lost+found/`` under its own path, and write the reason into a text file beside it.

    A link is moved itself, and never followed. Killed in the midst, it can be called again. Where it lies on another
    disk than ``lost+found/`` it is copied, and removed once the copy is on the disk.

    Raises:
        StorageError: If the file system refuses; nothing is set aside then, and there is no note of it.
    """
    # The system's names need be no text.
    note = f"{file}\n{reason}\n".encode(errors="surrogateescape")
    source = root / file
    target = _place(root / LOST / file, source, note)
    make_folder(target.parent)
    # First the reason: a file without one would never get it.
    stage(_note(target), lambda path: _write(path, note)).commit()
    try:
        with storage_errors(source):
            if not os.path.lexists(target):
                _move(source, target)
            _remove(source)
            sync_folder(source.parent)
    except BaseException:  # also an interrupt: a note of what was not moved would be false
        if not os.path.lexists(target):
            with contextlib.suppress(OSError):
                _note(target).unlink()
        raise


def _move(source: Path, target: Path) -> None:
    """Give something its new name, durably; on another disk it is there twice then."""
    try:
        os.rename(source, target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        _copy(source, target)
    sync_folder(target.parent)


def _copy(source: Path, target: Path) -> None:
    """Copy a file, a link itself or a folder; the copy gets its name when it is on the disk."""
    temporary = target.with_name(target.name + TEMPORARY)
    _remove(temporary)
    try:
        if source.is_dir() and not source.is_symlink():
            shutil.copytree(source, temporary, symlinks=True, copy_function=_copy_file)
            for parent, _, _ in os.walk(temporary):
                sync_folder(Path(parent))
        else:
            _copy_file(source, temporary)
        os.rename(temporary, target)
    except BaseException:  # also an interrupt: half a copy must not stay behind
        with contextlib.suppress(OSError):
            _remove(temporary)
        raise


def _copy_file(source: str | Path, target: str | Path) -> None:
    if os.path.islink(source):
        os.symlink(os.readlink(source), target)
        return
    # A named pipe or a device is no file: it is refused, and stays.
    with os.fdopen(open_file(Path(source), follow=False), "rb") as file:
        make_file(Path(target))
        with Path(target).open("r+b") as copy:
            shutil.copyfileobj(file, copy)
            copy.flush()
            os.fsync(copy.fileno())
    shutil.copystat(source, target)


def _remove(path: Path) -> None:
    """Remove a file, a link or a folder, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    elif os.path.lexists(path):
        path.unlink()


def _write(path: Path, note: bytes) -> None:
    path.write_bytes(note)


def _note(path: Path) -> Path:
    return path.with_name(f"{path.name}.txt")


def _place(path: Path, source: Path, note: bytes) -> Path:
    """Return a name that nothing has yet, nor its note: what was set aside before stays as it is.

    Or that of a copy whose original a run that was killed has not removed any more.
    """
    number, place = 1, path
    while os.path.lexists(place) or os.path.lexists(_note(place)):
        if _is_written(_note(place), note) and (not os.path.lexists(place) or _is_copy(place, source)):
            return place
        number += 1
        place = path.with_name(f"{path.name}.{number}")
    return place


def _is_written(path: Path, note: bytes) -> bool:
    """Tell whether a note was written by a run that was killed before it moved the file."""
    try:
        return not path.is_symlink() and read_file(path, len(note)) == note
    except OSError:
        return False


def _is_copy(place: Path, source: Path) -> bool:
    """Tell whether two files are the same to the last byte; of folders it is not looked into, which is only safer."""
    are_files = all(path.is_file() and not path.is_symlink() for path in (place, source))
    return are_files and filecmp.cmp(place, source, shallow=False)


def refuse_linked(root: Path, folders: Sequence[str]) -> None:
    """Refuse to work on a folder whose own folders are links: what is written there would be written elsewhere.

    Args:
        root: The folder.
        folders: Those below it in which files are written or moved.

    Raises:
        FormatError: If one of them is a link or holds a folder that is one, or is no folder at all.
    """
    for name in (*folders, LOST):
        top = root / name
        if os.path.lexists(top) and not (top.is_dir() and not top.is_symlink()):
            raise FormatError(f"{top}: is no folder of its own; recover writes in the folder itself only")
        for parent, below, _ in os.walk(top):
            for link in (os.path.join(parent, one) for one in below):
                if os.path.islink(link):
                    raise FormatError(f"{link}: is a link to a folder; recover writes in the folder itself only")
