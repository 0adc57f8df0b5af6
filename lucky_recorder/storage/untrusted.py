"""Reading a folder that someone else made: only what lies inside it, nothing absurd, and never a write."""

from __future__ import annotations

import contextlib
import json
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lucky_recorder.episode import keys
from lucky_recorder.errors import FormatError

LARGEST_JSON = 1 << 26
_PLACEHOLDER = re.compile(r"\{(\w+)(?::0(\d)d)?\}")
# What json and pyarrow raise for broken files: ValueError for bad JSON and UTF-8, RecursionError for deep nesting,
# MemoryError and OverflowError for absurd sizes.
_READING = (pa.ArrowException, OSError, ValueError, MemoryError, RecursionError, OverflowError)


class Folder:
    """A folder and the files inside it, named by their path relative to it.

    Attributes:
        path: The folder.
        kind: What it is, for messages.
    """

    def __init__(self, path: Path, kind: str = "session") -> None:
        self.path = path
        self.kind = kind
        self._real = os.path.realpath(path)

    def file(self, relative: str) -> Path:
        """Return the path of a file.

        Raises:
            FormatError: If it lies outside the folder (by its name, or behind a link), is missing, or is no file.
        """
        path = self.path / relative
        with format_errors(path):
            self._refuse_escape(path, relative)
            if not path.exists():
                raise FormatError(f"{path}: is missing")
            # Opening a named pipe waits until somebody writes into it, perhaps forever.
            if not stat.S_ISREG(path.stat().st_mode):
                raise FormatError(f"{path}: is no file")
        return path

    def _refuse_escape(self, path: Path, relative: str) -> None:
        name = PurePosixPath(relative)
        real = os.path.realpath(path)
        if name.is_absolute() or ".." in name.parts or os.path.commonpath([self._real, real]) != self._real:
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
            if path.stat().st_size > LARGEST_JSON:
                raise FormatError(f"{path}: {path.stat().st_size} bytes; more than {LARGEST_JSON} are no metadata")
            content = json.loads(path.read_text(encoding="utf-8"), parse_constant=_refuse_constant)
            if not isinstance(content, dict):
                raise FormatError(f"{path}: holds a {type(content).__name__}, not a JSON object")
        return content

    @contextlib.contextmanager
    def parquet(self, relative: str) -> Iterator[pq.ParquetFile]:
        """Open a Parquet file; what goes wrong inside the block names the file.

        Raises:
            FormatError: If the file cannot be read or holds an absurd number of rows.
        """
        path = self.file(relative)
        with format_errors(path), pq.ParquetFile(path, page_checksum_verification=True) as file:
            if not 0 <= file.metadata.num_rows <= keys.MOST_ROWS:
                raise FormatError(f"{path}: {file.metadata.num_rows} rows; at most {keys.MOST_ROWS} are read")
            yield file

    def table(self, relative: str) -> pa.Table:
        """Return a whole Parquet file, its lists and texts of the plain kinds: see `plain`.

        Raises:
            FormatError: If it cannot be read.
        """
        with self.parquet(relative) as file:
            table = file.read()
            # Inside the block, so that the error names the file.
            table.validate(full=True)
            return plain(table)

    def files(self, under: str = ".") -> list[str]:
        """List everything below a folder that is no folder itself, sorted; links are not followed."""
        found = []
        for parent, folders, names in os.walk(self.path / under):
            # `os.walk` does not go into linked folders, nor list them among the files.
            links = [name for name in folders if os.path.islink(os.path.join(parent, name))]
            found += [os.path.relpath(os.path.join(parent, name), self.path) for name in (*names, *links)]
        return sorted(name.replace(os.sep, "/") for name in found)


def plain(table: pa.Table) -> pa.Table:
    """Return a table whose lists are ``list`` and whose texts are ``string``, whatever a writer's library calls them.

    Parquet knows one kind of list and one of text. That it was a large or a fixed-size list, or a dictionary, is a note
    of Arrow's in the file, which other writers do not leave.
    """
    kinds = [_plain_type(field.type) for field in table.schema]
    for number, kind in enumerate(kinds):
        if table.schema.field(number).type != kind:
            table = table.set_column(number, table.schema.field(number).name, table.column(number).cast(kind))
    return table


def _plain_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return _plain_type(kind.value_type)
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return pa.list_(_plain_type(kind.value_type))
    return kind


def expand(template: object, **values: str | int) -> str:
    """Fill in a path template of ``info.json``, such as ``data/chunk-{chunk_index:03d}/…``.

    Only plain names and zero-padded numbers are filled in: the template comes with the folder, and is not trusted.

    Raises:
        FormatError: If the template is no text, or asks for anything else.
    """
    if not isinstance(template, str):
        raise FormatError(f"{template!r} is no path template")

    def fill(match: re.Match[str]) -> str:
        name, digits = match.groups()
        if name not in values:
            raise FormatError(f"{template!r}: unknown field {name!r} in a path template")
        return str(values[name]).zfill(int(digits or 0))

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


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")
