"""Reading a folder that someone else made: only what lies inside it, nothing absurd, and never a write."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import stat
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa

from lucky_recorder.episode import limits
from lucky_recorder.errors import FormatError
from lucky_recorder.files import NO_FILE, OTHER_LOCALE, read_file
from lucky_recorder.storage.names import below, is_within, part
from lucky_recorder.storage.parquet import ParquetFile, open_parquet, plain

__all__ = ["Folder", "expand", "format_errors", "json_cost", "parsed", "plain", "reason"]

_PLACEHOLDER = re.compile(r"\{(\w+)(?::0(\d)d)?\}")
_HALF_A_CHARACTER = re.compile(r"\\u[dD][89a-fA-F]")
# What json and pyarrow raise for broken files: ValueError for bad JSON and UTF-8, RecursionError for deep nesting,
# MemoryError and OverflowError for absurd sizes, and pyarrow what its own code stumbles over.
_READING = (
    pa.ArrowException,
    OSError,
    ValueError,
    MemoryError,
    RecursionError,
    OverflowError,
    TypeError,
    IndexError,
    NotImplementedError,
)
# What an empty list, an object with one field, and any other value take in memory.
_LIST_BYTES, _OBJECT_BYTES, _VALUE_BYTES = 72, 240, 56


class Folder:
    """A folder and the files inside it, named by their path relative to it.

    Attributes:
        path: The folder.
        kind: What it is, for messages.
    """

    def __init__(self, path: Path, kind: str = "session") -> None:
        self.path = path
        self.kind = kind
        # Of a relative path this asks for the current folder, which may be gone.
        with format_errors(path):
            try:
                self._real = os.path.realpath(path)
            except UnicodeEncodeError:
                raise FormatError(f"{path}: such a name {OTHER_LOCALE}") from None

    def file(self, relative: str) -> Path:
        """Return the path of a file.

        Raises:
            FormatError: If it lies outside the folder (by its name, or behind a link), is missing, or is no file.
        """
        path = self._below(relative)
        if self._is_plainly_within(relative):
            return path
        with format_errors(path):
            self._refuse_escape(path)
            if not path.exists():
                raise FormatError(f"{path}: is missing")
            # Opening a named pipe waits until somebody writes into it, perhaps forever.
            if not stat.S_ISREG(path.stat().st_mode):
                raise FormatError(f"{path}: {NO_FILE}")
        return path

    def _is_plainly_within(self, relative: str) -> bool:
        """Tell whether it is an ordinary file, and no part of its path a link: then it is where its name says.

        Three looks, where to follow all links from the top takes a dozen.
        """
        parts = relative.split("/")
        try:
            for end in range(1, len(parts)):
                if not stat.S_ISDIR(os.lstat(os.path.join(self.path, *parts[:end])).st_mode):
                    return False
            return stat.S_ISREG(os.lstat(os.path.join(self.path, relative)).st_mode)
        except (OSError, ValueError):
            return False

    def _below(self, relative: str) -> Path:
        try:
            return below(self.path, relative)
        except FormatError as error:
            # What a stranger's list names must be a name of the format. What lies there may be called anything.
            if is_within(relative) and self.has(relative):
                return self.path / relative
            raise FormatError(f"{self.path / relative}: lies outside the {self.kind} folder ({error})") from None

    def _refuse_escape(self, path: Path) -> None:
        real = os.path.realpath(path)
        if os.path.commonpath([self._real, real]) != self._real:
            raise FormatError(f"{path}: lies outside the {self.kind} folder")

    def has(self, relative: str) -> bool:
        """Tell whether there is something of that name."""
        return os.path.lexists(self.path / relative)

    def json(self, relative: str) -> dict[str, Any]:
        """Return the object a JSON file holds.

        Raises:
            FormatError: If the file cannot be read, is absurdly large, or holds anything else.
        """
        path = self.file(relative)
        with format_errors(path):
            content = parsed(self.bytes(relative, limits.LARGEST_JSON))
            if not isinstance(content, dict):
                raise FormatError(f"{path}: holds a {type(content).__name__}, not a JSON object")
        return content

    def read_through(self, relative: str) -> None:
        """Read a file to its end, if it is a table, a spool of one, or JSON; of other files nothing is read.

        Raises:
            FormatError: If it cannot be read. Any JSON will do: what a format does not know may hold a list.
        """
        if ".parquet" in relative.rsplit("/", 1)[-1]:
            for _ in self.batches(relative):
                pass
        elif relative.endswith(".json"):
            with format_errors(self.path / relative):
                parsed(self.bytes(relative, limits.LARGEST_JSON))

    def size(self, relative: str) -> int:
        """Return the bytes of a file, 0 if there is none; a link's are its own."""
        try:
            return os.lstat(self.path / relative).st_size
        except OSError:
            return 0

    def bytes(self, relative: str, most: int) -> bytes:
        """Return the bytes of a file.

        Raises:
            FormatError: If it cannot be read, or holds more than ``most``.
        """
        path = self.file(relative)
        with format_errors(path):
            return read_file(path, most)

    @contextlib.contextmanager
    def parquet(self, relative: str) -> Iterator[ParquetFile]:
        """Open a Parquet file; what goes wrong inside the block names the file.

        Raises:
            FormatError: If the file cannot be read or holds an absurd number of rows.
        """
        path = self.file(relative)
        with format_errors(path), open_parquet(path) as file:
            yield file

    def table(self, relative: str, most_rows: int = limits.MOST_ROWS) -> pa.Table:
        """Return a whole Parquet file, its lists and texts of the plain kinds: see `plain`.

        Args:
            relative: The file.
            most_rows: How many rows it may have.

        Raises:
            FormatError: If it cannot be read.
        """
        with self.parquet(relative) as file:
            if file.metadata.num_rows > most_rows:
                raise FormatError(
                    f"{self.path / relative}: {file.metadata.num_rows} rows; at most {most_rows} are read"
                )
            table = file.read()
            # Inside the block, so that the error names the file.
            table.validate(full=True)
            return plain(table)

    def tables(self, relative: str) -> Iterator[pa.Table]:
        """Go through the row groups of a Parquet file, each as `table` returns a whole file; errors as there."""
        for number in range(len(self.row_groups(relative))):
            yield self.row_group(relative, number)

    def batches(self, relative: str, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """Go through the rows of a Parquet file, some row groups at a time, each as `table` returns a whole file.

        Args:
            relative: The file.
            columns: Names of the columns; all by default.

        Raises:
            FormatError: If it cannot be read, or one row group alone takes an absurd amount of memory.
        """
        with self.parquet(relative) as file:
            for batch in file.batches(columns):
                batch.validate(full=True)
                yield plain(batch)

    def row_groups(self, relative: str) -> list[int]:
        """Return how many rows each row group of a Parquet file has.

        Raises:
            FormatError: If it cannot be read.
        """
        with self.parquet(relative) as file:
            sizes = [file.metadata.row_group(number).num_rows for number in range(file.num_row_groups)]
            if any(size < 0 for size in sizes) or sum(sizes) != file.metadata.num_rows:
                raise FormatError(f"{self.path / relative}: its row groups are not of {file.metadata.num_rows} rows")
            return sizes

    def row_group(self, relative: str, number: int) -> pa.Table:
        """Return one row group of a Parquet file, as `table` returns all of them; errors as there."""
        with self.parquet(relative) as file:
            group = file.read_row_groups([number])
            group.validate(full=True)
            return plain(group)

    def files(self, under: str = ".") -> list[str]:
        """List everything below a folder that is no folder itself, sorted; links are not followed.

        Raises:
            FormatError: If a folder may not be looked into.
        """
        top = self.path / under
        with format_errors(top):
            self._refuse_escape(top)
            prefix = "" if under == "." else f"{under.strip('/')}/"
            return sorted(_below(os.fspath(top), prefix))


def _below(folder: str, prefix: str) -> Iterator[str]:
    """Go through what is below a folder and is no folder itself: a link to one is not gone into."""
    folders = [(folder, prefix)]
    while folders:
        folder, prefix = folders.pop()
        try:
            entries = os.scandir(folder)
        except (FileNotFoundError, NotADirectoryError):
            # One that is not there holds nothing; one that is there and may not be read is no empty one.
            continue
        with entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append((entry.path, f"{prefix}{entry.name}/"))
                else:
                    yield prefix + entry.name


def expand(template: object, **values: str | int) -> str:
    """Fill in a path template of ``info.json``, such as ``data/chunk-{chunk_index:03d}/…``.

    Only plain names and zero-padded numbers are filled in: neither the template nor the values, which come with the
    folder, are trusted.

    Raises:
        FormatError: If the template is no text, or asks for anything else, or a value is no part of a path.
    """
    if not isinstance(template, str):
        raise FormatError(f"{template!r} is no path template")

    def fill(match: re.Match[str]) -> str:
        name, digits = match.groups()
        if name not in values:
            raise FormatError(f"{template!r}: unknown field {name!r} in a path template")
        return part(str(values[name])).zfill(int(digits or 0))

    path = _PLACEHOLDER.sub(fill, template)
    if "{" in path or "}" in path:
        raise FormatError(f"{template!r} is no path template")
    return path


@contextlib.contextmanager
def format_errors(path: Path) -> Iterator[None]:
    """Turn what reading a broken file raises into a `FormatError` that names it."""
    try:
        yield
    except FormatError:
        raise
    except _READING as error:
        reason = getattr(error, "strerror", None) or error
        raise FormatError(f"{path}: cannot be read ({type(error).__name__}: {reason})") from error


def reason(error: Exception, path: Path) -> str:
    """Return what an error says of a file, without the file's path in front."""
    return str(error).removeprefix(f"{path}: ")


def json_cost(content: bytes) -> int:
    """Return about how many bytes of memory it takes to parse JSON."""
    others = content.count(b",") + content.count(b":")
    lists, objects = content.count(b"["), content.count(b"{")
    # The text itself, the texts in it, and what each value takes at the least. A text of other scripts than ours takes
    # up to four bytes a character.
    text = len(content) if content.isascii() else sys.getsizeof(content.decode("utf-8"))
    return 2 * text + lists * _LIST_BYTES + objects * _OBJECT_BYTES + others * _VALUE_BYTES


def parsed(content: bytes) -> Any:
    """Return what JSON says that came with a folder, if it takes no absurd amount of memory and is not nested too deep.

    Raises:
        ValueError: If it does, or is none.
        RecursionError: If it is nested deeper than Python can follow.
    """
    needed = json_cost(content)
    if needed > limits.MOST_JSON_BYTES:
        raise ValueError(f"{len(content)} bytes of JSON that become {needed // limits.MEGABYTE} MB in memory")
    text = content.decode("utf-8")
    value = json.loads(text, parse_constant=_refuse_constant, parse_float=_real)
    if _HALF_A_CHARACTER.search(text):
        # Half a character is JSON, and no text: it can be neither written again nor shown.
        json.dumps(value, ensure_ascii=False).encode()
    level, depth = [value] if isinstance(value, dict | list) else [], 0
    while level := [v for c in level for v in (c.values() if isinstance(c, dict) else c) if isinstance(v, dict | list)]:
        depth += 1
        if depth > limits.DEEPEST_JSON:
            raise ValueError(f"objects in objects, more than {limits.DEEPEST_JSON} deep")
    return value


def _real(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError(f"{digits} is too large for a number")
    return number


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")
