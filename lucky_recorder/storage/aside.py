"""Setting files aside: out of the way, never deleted, with the reason beside each."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from lucky_recorder.errors import FormatError
from lucky_recorder.files import read_file
from lucky_recorder.storage.write import make_folder, stage, storage_errors, sync_folder

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

    A link is moved itself, and never followed. Killed in the midst, it can be called again.

    Raises:
        StorageError: If the file system refuses.
    """
    # The system's names need be no text.
    note = f"{file}\n{reason}\n".encode(errors="surrogateescape")
    source, target = root / file, _free(root / LOST / file, note)
    make_folder(target.parent)
    # First the reason: a file without one would never get it.
    stage(_note(target), lambda path: _write(path, note)).commit()
    with storage_errors(source):
        os.rename(source, target)
        sync_folder(target.parent)
        sync_folder(source.parent)


def _write(path: Path, note: bytes) -> None:
    path.write_bytes(note)


def _note(path: Path) -> Path:
    return path.with_name(f"{path.name}.txt")


def _free(path: Path, note: bytes) -> Path:
    """Return a name that nothing has yet, nor its note: what was set aside before stays as it is."""
    number, free = 1, path
    while os.path.lexists(free) or (os.path.lexists(_note(free)) and not _is_written(_note(free), note)):
        number += 1
        free = path.with_name(f"{path.name}.{number}")
    return free


def _is_written(path: Path, note: bytes) -> bool:
    """Tell whether a note was written by a run that was killed before it moved the file."""
    try:
        return not path.is_symlink() and read_file(path, len(note)) == note
    except OSError:
        return False


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
