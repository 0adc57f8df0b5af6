"""Sums of every file of a folder: written once and compared later, so that a copy can be proven.

They are SHA-256, which every system has a tool for and processors compute in hardware. A list of sums says what a
folder was when they were taken. Whoever changes the folder drops the list first (`drop`): no wrong sums are left.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple

from lucky_recorder.episode import limits
from lucky_recorder.errors import FormatError, StateError, StorageError, shown
from lucky_recorder.files import open_file
from lucky_recorder.storage.names import is_within, owned
from lucky_recorder.storage.spread import Progress, spread
from lucky_recorder.storage.untrusted import Folder, format_errors, json_cost, reason
from lucky_recorder.storage.write import TEMPORARY, json_bytes, storage_errors, sync_folder, write_json

logger = logging.getLogger("lucky_recorder")
VERSION, ALGORITHM = 1, "sha256"
_DIGEST = re.compile(r"[0-9a-f]{64}")
_LARGEST_FILE = 1 << 63
# The fields of a name.
_TEXT, _BYTES = "path", "path_hex"
_ANEW = "`lucky-recorder checksum` writes the sums anew"


class Sum(NamedTuple):
    """What is known of a file.

    Attributes:
        bytes: Its size.
        digest: Its SHA-256, 64 hexadecimal digits.
    """

    bytes: int
    digest: str


class Difference(NamedTuple):
    """A file that is not as the list says.

    Attributes:
        file: The file, relative to the folder.
        message: What is wrong, and what to do.
    """

    file: str
    message: str


class Sums:
    """The list of sums of one folder.

    Attributes:
        folder: The folder.
        file: The list's own file in it, which is not summed.
        without: Other files that are not: those that come and go without anything being changed.
    """

    def __init__(self, folder: Folder, file: str, without: Collection[str] = ()) -> None:
        self.folder = folder
        self.file = file
        self.without = frozenset((*without, file, file + TEMPORARY))

    def is_there(self) -> bool:
        """Tell whether there is a list."""
        return self.folder.has(self.file)

    def write(
        self, progress: Progress | None = None, alone: AbstractContextManager[None] | None = None
    ) -> dict[str, Sum]:
        """Sum every file and write the list, in the order of the names; returns it.

        Args:
            progress: How far it has come.
            alone: Entered when all is summed: while it is, nobody else changes the folder, or drops its list.

        Raises:
            FormatError: If something in the folder is no file, is a link to elsewhere, or cannot be read.
            StateError: If a file changed meanwhile.
            StorageError: If there are more files than a list is read of, or the list cannot be written.
        """
        before = self._look()
        sums = self._taken(before, progress or Progress())
        with alone or contextlib.nullcontext():
            if self._look() != before:
                why = "was changed while its sums were taken; take them when nobody writes"
                raise StateError(f"{self.folder.path}: {why}")
            path = owned(self.folder.path, self.file)
            content = _content(sums)
            _refuse_long(path, content, len(sums))
            write_json(path, content)
        return sums

    def _look(self) -> dict[str, tuple[int, int]]:
        """Return the size and the time of the last change of every file."""
        found = {}
        for name in self._names():
            try:
                path = self.folder.file(name)
            except FormatError as error:
                raise FormatError(f"{error}; take it away first: sums are of the files in the folder itself") from error
            with format_errors(path):
                state = path.stat()
            found[name] = (state.st_size, state.st_mtime_ns)
        return found

    def _names(self) -> list[str]:
        return [name for name in self.folder.files() if name not in self.without]

    def _taken(self, found: dict[str, tuple[int, int]], progress: Progress) -> dict[str, Sum]:
        progress.expect(sum(size for size, _ in found.values()))
        sums = {}
        for name, taken in zip(found, spread(lambda name: digest(self.folder, name), found), strict=True):
            progress.advance(taken.bytes)
            sums[name] = taken
        return sums

    def read(self) -> dict[str, Sum]:
        """Return the list.

        Raises:
            FormatError: If it cannot be read, is of another version, or lists what is no file of the folder.
        """
        content = self.folder.json(self.file)
        path = self.folder.path / self.file
        for field, known in (("version", VERSION), ("algorithm", ALGORITHM)):
            if type(content.get(field)) is not type(known) or content[field] != known:
                said = shown(content.get(field))
                raise FormatError(f"{path}: {field}={said}: only {known!r} is understood here; {_ANEW}")
        listed = content.get("files")
        if not isinstance(listed, list):
            raise FormatError(f"{path}: files={shown(listed)}: expected a list; {_ANEW}")
        sums: dict[str, Sum] = {}
        for entry in listed:
            name, one = self._entry(entry, path)
            if name in sums:
                raise FormatError(f"{path}: lists {shown(name)} twice; {_ANEW}")
            sums[name] = one
        return sums

    def _entry(self, entry: Any, path: Path) -> tuple[str, Sum]:
        said = entry if isinstance(entry, dict) else {}
        name, size, digits = _name(said), said.get("bytes"), said.get(ALGORITHM)
        is_size = type(size) is int and 0 <= size < _LARGEST_FILE
        if name is None or not (is_size and isinstance(digits, str) and _DIGEST.fullmatch(digits)):
            raise FormatError(f"{path}: {shown(entry)}: expected a path, its bytes and its {ALGORITHM}; {_ANEW}")
        # One file, one spelling: `a//b` is another way to list `a/b` a second time. And none that leads out.
        if not is_within(name) or name in self.without:
            raise FormatError(f"{path}: lists {shown(name)}, which is no file that is summed; {_ANEW}")
        return name, Sum(size, digits)  # type: ignore[arg-type]  # looked at above

    def expected_bytes(self) -> int:
        """Return how many bytes `differences` will read at the most; 0 of a list that cannot be read."""
        try:
            return sum(one.bytes for one in self.read().values())
        except FormatError:
            return 0

    def differences(self, progress: Progress | None = None) -> Iterator[Difference]:
        """Compare every file with the list: those that are missing, that are too many, and that have changed.

        A file whose size is another is not read. A list that cannot be read is a difference of its own.
        """
        try:
            sums = self.read()
            names = frozenset(self._names())
        except FormatError as error:
            path = self.folder.path / self.file
            yield Difference(self.file, reason(error, path) + ("; remove the link" if path.is_symlink() else ""))
            return
        everything = sorted(sums.keys() | names)
        progress = progress or Progress()
        compared = spread(lambda name: self._compare(name, sums.get(name), name in names), everything)
        for name, message in zip(everything, compared, strict=True):
            progress.advance(sums[name].bytes if name in sums else 0)
            if message:
                yield Difference(name, message)

    def _compare(self, name: str, listed: Sum | None, is_there: bool) -> str:
        if listed is None:
            try:
                self.folder.file(name)
            except FormatError as error:
                return f"{reason(error, self.folder.path / name)}, and {self.file} does not list it; remove it"
            return f"{self.file} does not list it: it came after the sums were taken; remove it, or {_ANEW}"
        if not is_there:
            return f"is missing, and {self.file} lists it; bring it back from a copy"
        path = self.folder.path / name
        try:
            with format_errors(path):
                size = self.folder.file(name).stat().st_size
            found = Sum(size, "") if size != listed.bytes else digest(self.folder, name)
        except FormatError as error:
            return reason(error, path)
        remedy = f"bring it back from a copy; if it was changed on purpose, {_ANEW}"
        if found.bytes != listed.bytes:
            return f"holds {found.bytes} bytes, {self.file} says {listed.bytes}: {remedy}"
        return "" if found == listed else f"holds other bytes than {self.file} says (its {ALGORITHM} differs): {remedy}"


def digest(folder: Folder, name: str) -> Sum:
    """Return the sum of a file.

    Raises:
        FormatError: If it is a link to elsewhere, is no file, or cannot be read.
    """
    path = folder.file(name)
    with format_errors(path), os.fdopen(open_file(path), "rb", buffering=0) as file:
        digits = hashlib.file_digest(file, ALGORITHM).hexdigest()
        return Sum(file.tell(), digits)


def drop(root: Path, file: str) -> None:
    """Remove a folder's list of sums before something in the folder is changed; nothing is done where there is none.

    Raises:
        FormatError: If it is behind a link: it is not the folder's own.
        StorageError: If the file system refuses.
    """
    if not os.path.lexists(root / file):
        return
    path = owned(root, file)
    with storage_errors(path):
        path.unlink(missing_ok=True)
        # Before anything else is: after a power cut no sums may be left that are no longer right.
        sync_folder(path.parent)
    logger.warning("%s: removed: the files it lists are about to change; %s", path, _ANEW)


def _content(sums: dict[str, Sum]) -> dict[str, Any]:
    files = [{**_named(name), "bytes": one.bytes, ALGORITHM: one.digest} for name, one in sums.items()]
    return {"version": VERSION, "algorithm": ALGORITHM, "files": files}


def _named(name: str) -> dict[str, str]:
    """Return how a list names a file: as text, or by the system's bytes where these are no text."""
    system = os.fsencode(name)
    try:
        return {_TEXT: system.decode()}
    except UnicodeDecodeError:
        return {_BYTES: system.hex()}


def _name(entry: Mapping[str, Any]) -> str | None:
    """Return the name of a file that a list names; None if it names none, or in another spelling."""
    text, digits = entry.get(_TEXT), entry.get(_BYTES)
    try:
        if digits is None:
            return os.fsdecode(text.encode()) if isinstance(text, str) else None
        name = os.fsdecode(bytes.fromhex(digits)) if isinstance(digits, str) else ""
    except ValueError:  # no digits, or what is no name here
        return None
    return name if text is None and _named(name) == {_BYTES: digits} else None


def _refuse_long(path: Path, content: dict[str, Any], count: int) -> None:
    """Refuse to write what would be refused when it is read."""
    written = json_bytes(content)
    if len(written) > limits.LARGEST_JSON or json_cost(written) > limits.MOST_JSON_BYTES:
        raise StorageError(f"{path}: {count} files are more than one list of sums can hold; nothing was written")
