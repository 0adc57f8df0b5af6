"""How every byte reaches the disk: temporary name, write, fsync, reopen and verify, rename.

A final name therefore always holds a whole file. What is left of an interrupted write ends in ``.tmp``.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from lucky_recorder.errors import LuckyRecorderError, MetadataError, StorageError, told
from lucky_recorder.files import make_file, open_file
from lucky_recorder.storage.space import FULL, lacks_files, told_space

TEMPORARY = ".tmp"
# What `link` says where a second name cannot be: another disk, a file system without links or with too many of one
# file, a file of somebody else's. Anything else is an error: above all, that the name is taken.
_NO_LINKS = (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP)

# Folders that are being written, and as part of what: see `keep`.
_kept: list[tuple[Path, Path]] = []


@contextlib.contextmanager
def storage_errors(path: Path) -> Iterator[None]:
    """Turn what the file system or a library says into a `StorageError` that names ``path``."""
    try:
        yield
    except LuckyRecorderError:
        raise
    except OSError as error:
        # Here, and not only where a file's size is told: a folder takes an inode too, and a link.
        lacks = lacks_files(path) if error.errno in FULL else ""
        named = StorageError(f"{path}: {error.strerror or error}" + (f" ({lacks})" if lacks else ""))
        # An OSError made of one text has no errno of its own.
        named.errno = error.errno
        raise named from error


@contextlib.contextmanager
def metadata_errors() -> Iterator[None]:
    """Turn whatever is raised into a `MetadataError`: what is written here only lists episodes that are there."""
    try:
        yield
    except MetadataError:
        raise
    except Exception as error:  # a file that cannot be read again is no reason to count the episode as failed
        is_ours = isinstance(error, LuckyRecorderError)
        failed = MetadataError(str(error) if is_ours else f"what lists an episode could not be written: {told(error)}")
        failed.errno = getattr(error, "errno", None)
        raise failed from error


class Staged:
    """A file written in full under a temporary name, waiting for its final one.

    Attributes:
        path: The final name.
        temporary: Where the bytes are now.
    """

    def __init__(self, path: Path, temporary: Path) -> None:
        self.path = path
        self.temporary = temporary

    def commit(self) -> None:
        """Give the file its final name, durably.

        Raises:
            StorageError: If the file system refuses; the temporary file is gone then.
        """
        try:
            with storage_errors(self.path):
                make_folder(self.path.parent)
                os.replace(self.temporary, self.path)
                # A rename is safe from a power cut only once the folder itself is on the disk.
                sync_folder(self.path.parent)
        except StorageError:
            self.discard()
            raise

    def discard(self) -> None:
        """Remove the temporary file."""
        with contextlib.suppress(OSError):
            self.temporary.unlink()


def stage(
    path: Path,
    write: Callable[[Path], None],
    verify: Callable[[Path], None] | None = None,
    size: int | None = None,
) -> Staged:
    """Write a file under its temporary name, fsync it, and read it back.

    Args:
        path: The final name.
        write: Writes the whole file to the path it is given.
        verify: Raises if the file at the path it is given is not whole.
        size: Bytes that it will have, at most, for the error of a full disk; None if that is not known.

    Raises:
        StorageError: If the file system refuses. Whatever is raised, the temporary file is gone then.
    """
    staged = Staged(path, path.with_name(path.name + TEMPORARY))
    try:
        with told_space(staged.temporary, size), storage_errors(path):
            make_folder(path.parent)
            # Made here, and not by whoever writes: a link of this name would be followed.
            make_file(staged.temporary)
            write(staged.temporary)
            if not staged.temporary.stat().st_size:
                raise StorageError(f"{path}: nothing was written")
            # Before the rename: else a power cut may leave the final name on an empty file.
            sync_file(staged.temporary)
            if verify is not None:
                verify(staged.temporary)
    except BaseException:  # also an interrupt: no temporary file must stay behind
        staged.discard()
        raise
    return staged


def write_json(path: Path, content: Any) -> None:
    """Write a JSON file atomically.

    Raises:
        ValueError: For NaN and infinity: they are no JSON. Nothing is touched.
        StorageError: If the file system refuses; a file that was there before is as it was.
    """
    stage_json(path, content).commit()


def stage_json(path: Path, content: Any) -> Staged:
    """Write a JSON file under its temporary name and read it back; errors as for `write_json`."""
    content_bytes = json_bytes(content)
    return stage(
        path, lambda file: _write(file, content_bytes), lambda file: _verify(file, content_bytes), len(content_bytes)
    )


def json_bytes(content: Any) -> bytes:
    """Return what is written of a JSON file.

    Raises:
        ValueError: For NaN and infinity.
    """
    return (json.dumps(content, indent=4, ensure_ascii=False, allow_nan=False) + "\n").encode()


def _write(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def _verify(path: Path, content: bytes) -> None:
    if path.read_bytes() != content:
        raise StorageError(f"{path}: the disk gave back other bytes than were written")


def make_folder(path: Path) -> None:
    """Make a folder and its parents; the new names are durable.

    Raises:
        StorageError: If the file system refuses, or if a folder that is kept (`keep`) would be made anew.
    """
    with storage_errors(path):
        if path.is_dir():
            return
        for kept, whole in list(_kept):
            if kept == path:
                raise moved(whole)
        make_folder(path.parent)
        path.mkdir(exist_ok=True)
        sync_folder(path.parent)


def keep(folder: Path, whole: Path) -> None:
    """Have a folder never made anew by `make_folder`, until `give_up`: what is written is in it, wherever it is now.

    Args:
        folder: The folder.
        whole: The session or dataset that it is of, for the error.
    """
    _kept.append((folder, whole))


def give_up(folder: Path, whole: Path) -> None:
    """Undo a `keep`."""
    with contextlib.suppress(ValueError):
        _kept.remove((folder, whole))


def moved(whole: Path) -> StorageError:
    """Return the error of a session or dataset that is not there any more."""
    return StorageError(
        f"{whole}: was moved or removed while it was recorded; what was finished is in the folder wherever it is now: "
        "`lucky-recorder recover` completes it there. Record into another one, or with resume"
    )


def link(source: Path, target: Path) -> None:
    """Give a file a second name, or copy it where there are no links; it is not synced.

    Raises:
        StorageError: If there is something of that name, or the file system refuses.
    """
    # The file itself: a link to a link would lead somewhere else from its new place.
    file = os.path.realpath(source)
    size = os.path.getsize(file) if os.path.exists(file) else None
    with told_space(target, size), storage_errors(target):
        try:
            os.link(file, target)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            _copy(Path(file), target)


def _copy(source: Path, target: Path) -> None:
    """Copy a file under a temporary name; what is there already is never written to."""
    temporary = target.with_name(target.name + TEMPORARY)
    try:
        make_file(temporary)
        with os.fdopen(open_file(source), "rb") as file, temporary.open("r+b") as copy:
            shutil.copyfileobj(file, copy)
        if os.path.lexists(target):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))
        temporary.rename(target)
    except BaseException:  # also an interrupt: half a copy must not stay behind
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def rename(source: Path, target: Path) -> None:
    """Give a file another name, durably.

    Raises:
        StorageError: If there is something of that name, or the file system refuses.
    """
    with storage_errors(target):
        make_folder(target.parent)
        if os.path.lexists(target):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))
        os.rename(source, target)
        for folder in {target.parent, source.parent}:
            sync_folder(folder)


def taken_away(files: Iterable[Path]) -> Path | None:
    """Remove files, one after another; returns the first that the disk keeps."""
    for path in files:
        try:
            path.unlink(missing_ok=True)
        except OSError:
            if path.is_file():
                return path
    return None


def sync_file(path: Path) -> None:
    """Ask the disk to keep a file's bytes."""
    # Windows syncs only a file that was opened for writing. Elsewhere a file that may only be read is synced too.
    _sync(open_file(path, os.O_RDONLY if os.name == "posix" else os.O_RDWR, follow=False))


def sync_folder(path: Path) -> None:
    """Ask the disk to keep a folder's names; a no-op where folders cannot be opened or synced."""
    if os.name != "posix":
        return
    try:
        _sync(os.open(path, os.O_RDONLY | os.O_DIRECTORY))
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise


def _sync(descriptor: int) -> None:
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
