"""Parquet files that someone else may have written: what they come to in memory is known before they are read."""

from __future__ import annotations

import contextlib
import os
import struct
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lucky_recorder.episode import limits
from lucky_recorder.errors import FormatError
from lucky_recorder.files import open_file
from lucky_recorder.storage import footer, named, pages

_TAIL = struct.Struct("<I4s")
_MAGIC = b"PAR1"
_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 8, "FLOAT": 4, "DOUBLE": 8}
_TEXT = "BYTE_ARRAY"
# What a value takes while it is read, beside itself: how deep it is nested, as two short numbers.
_LEVELS = 4
_OFFSET = 8
_COPIES = 4
# Row groups are read together up to so many bytes: a file may have very many.
_BATCH_BYTES = 16 * limits.MEGABYTE
# Files whose footers were looked through, the latest last, and by what they are known: so many of them.
_sound: dict[tuple[int, ...], None] = {}
_MOST_SOUND = 4096
_MOMENT_NS = 100_000_000
_FEWER = "Read fewer columns at a time"
# Of a file that is no larger, all bytes are read at once.
_SMALL_BYTES = limits.MEGABYTE


class ParquetFile:
    """An open Parquet file. Many texts are read as they are stored, each once; `plain` makes them texts again.

    Attributes:
        metadata: What its footer says.
        schema_arrow: The columns.
        num_row_groups: How many row groups it has.
    """

    def __init__(self, file: pq.ParquetFile, content: _Content, path: Path) -> None:
        self.metadata = file.metadata
        self.schema_arrow = file.schema_arrow
        self.num_row_groups: int = file.num_row_groups
        self._file = file
        self._content = content
        self._path = path
        self._measured: dict[tuple[int, int], pages.Column] = {}

    def read(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Return all rows of some columns, or of all; errors as for `read_row_groups`."""
        wanted = None if columns is None else list(columns)
        batches = self._affordable(range(self.num_row_groups), wanted)
        if len(batches) > 1:
            return self._read(batches, wanted)
        return self._file.read(columns=wanted, use_threads=_is_large(batches[0]))

    def read_row_groups(self, groups: Sequence[int], columns: Sequence[str] | None = None) -> pa.Table:
        """Return the rows of some row groups.

        Raises:
            FormatError: If they would take an absurd amount of memory.
        """
        wanted = None if columns is None else list(columns)
        return self._read(self._affordable(groups, wanted), wanted)

    def batches(self, columns: Sequence[str] | None = None, groups: Sequence[int] | None = None) -> Iterator[pa.Table]:
        """Go through the rows of some columns, or of all, some row groups at a time; no rows are one table.

        Args:
            columns: Their names; all by default.
            groups: The row groups; all by default.

        Raises:
            FormatError: If one row group alone would take an absurd amount of memory; before anything is read.
        """
        wanted = None if columns is None else list(columns)
        batches = list(self._batches(range(self.num_row_groups) if groups is None else groups, wanted))
        for batch in batches:
            self._refuse_large([batch], _FEWER)
        for batch in batches:
            # Each thread would keep memory for what it decodes next; of so little at a time they are no faster.
            yield self._file.read_row_groups(batch.groups, columns=wanted, use_threads=False)

    def _read(self, batches: Sequence[_Batch], columns: list[str] | None) -> pa.Table:
        # What the library needs beside the values it has for one batch at a time.
        tables = [
            self._file.read_row_groups(batch.groups, columns=columns, use_threads=_is_large(batch)) for batch in batches
        ]
        return tables[0] if len(tables) == 1 else pa.concat_tables(tables)

    def _batches(self, groups: Sequence[int], columns: Sequence[str] | None) -> Iterator[_Batch]:
        """Cut row groups into batches; one that is large is one of its own."""
        together, cost = list[int](), _Cost(0, 0)
        # Texts in lists and structs, read as they are stored, the library cannot put together for several row groups.
        most = -1 if self._has_nested_texts(columns) else _BATCH_BYTES
        for group in groups:
            more = self._cost_of(group, columns)
            if together and sum(cost) + sum(more) > most:
                yield _Batch(together, cost)
                together, cost = [], _Cost(0, 0)
            together.append(group)
            cost = cost.plus(more)
        yield _Batch(together, cost)

    def _has_nested_texts(self, columns: Sequence[str] | None) -> bool:
        leaves = map(self.metadata.schema.column, range(len(self.metadata.schema.names)))
        return any(
            leaf.physical_type == _TEXT and leaf.path != leaf.name and _is_asked(leaf, columns) for leaf in leaves
        )

    def _affordable(self, groups: Sequence[int], columns: Sequence[str] | None) -> list[_Batch]:
        """Cut row groups into batches; refuse what would take too much memory."""
        batches = list(self._batches(groups, columns))
        self._refuse_large(batches, _FEWER)
        return batches

    def refuse_large(self, columns: Sequence[str], groups: Sequence[int], expected: int, remedy: str) -> int:
        """Refuse to have the rows of some row groups in memory all at once, if they are more than they should be.

        Args:
            columns: The names of the columns.
            groups: The row groups.
            expected: Bytes that they come to, by what is said of them elsewhere.
            remedy: What to do, for the error.

        Returns:
            The bytes that they may take.

        Raises:
            FormatError: If they take more than is expected of them, or that is absurd itself.
        """
        return self._refuse_large(list(self._batches(groups, columns)), remedy, expected)

    def _refuse_large(self, batches: Sequence[_Batch], remedy: str, expected: int = 0) -> int:
        size = self._content.size
        most = max(limits.MOST_TABLE_BYTES, limits.TABLE_BYTES_PER_FILE_BYTE * size)
        most = max(most, min(most + expected, limits.MOST_EXPECTED_BYTES))
        needed = sum(batch.cost.kept for batch in batches) + max(batch.cost.beside for batch in batches)
        if needed > most:
            raise FormatError(
                f"{self._path}: {size} bytes that become {needed // limits.MEGABYTE} MB in memory; at most "
                f"{most // limits.MEGABYTE} MB are read of such a file. {remedy}"
            )
        return most

    def _cost_of(self, number: int, columns: Sequence[str] | None) -> _Cost:
        group = self.metadata.row_group(number)
        leaves = (self.metadata.schema.column(i) for i in range(group.num_columns))
        cost = _Cost(0, 0)
        for i, leaf in enumerate(leaves):
            if _is_asked(leaf, columns):
                cost = cost.plus(self._leaf_cost(leaf, self._pages(number, i), group.num_rows))
        return cost

    def _pages(self, group: int, column: int) -> pages.Column:
        if (group, column) not in self._measured:
            chunk = self.metadata.row_group(group).column(column)
            start = min([s for s in (chunk.dictionary_page_offset, chunk.data_page_offset) if s], default=0)
            found = pages.measure(self._content.read, start, start + chunk.total_compressed_size)
            self._measured[group, column] = found
        return self._measured[group, column]

    def has_little_text(self, columns: Sequence[int]) -> bool:
        """Tell whether some columns of texts come to little even if each value is all of its pages, written out.

        Args:
            columns: Their places among the columns as they are stored.
        """
        needed = 0
        for group in range(self.num_row_groups):
            for column in columns:
                try:
                    found = self._pages(group, column)
                except ValueError:  # whoever reads them will be told
                    return False
                needed += max(found.values, self.metadata.row_group(group).num_rows) * found.unpacked
                if needed > _SMALL_BYTES:
                    return False
        return True

    def _leaf_cost(self, leaf: pq.ColumnSchema, found: pages.Column, rows: int) -> _Cost:
        is_nested = leaf.max_repetition_level > 0
        values = found.values if is_nested else max(rows, found.values)
        width = int(_WIDTHS.get(leaf.physical_type, leaf.length if leaf.physical_type != _TEXT else _OFFSET))
        # Texts are copied out of their pages, into room that doubles as it fills, and written out once more by `plain`;
        # of numbers one page at a time is unpacked.
        is_text = leaf.physical_type == _TEXT
        kept = values * width + (rows * _OFFSET if is_nested else 0) + (_COPIES * found.unpacked if is_text else 0)
        return _Cost(kept, (values * _LEVELS if is_nested else 0) + (0 if is_text else found.largest))


def _is_asked(leaf: pq.ColumnSchema, columns: Sequence[str] | None) -> bool:
    return columns is None or any(leaf.path == c or leaf.path.startswith(f"{c}.") for c in columns)


class _Cost(NamedTuple):
    """What reading comes to, in bytes: what stays, and what is taken beside it meanwhile."""

    kept: int
    beside: int

    def plus(self, other: _Cost) -> _Cost:
        return _Cost(self.kept + other.kept, self.beside + other.beside)


class _Batch(NamedTuple):
    """Row groups that are read together."""

    groups: list[int]
    cost: _Cost


class _Content:
    """The bytes of an open file. Those of a small one are read once, and the library gets them, not the file.

    Attributes:
        size: How many there are.
    """

    def __init__(self, descriptor: int, path: Path) -> None:
        self.size = os.fstat(descriptor).st_size
        self._descriptor = descriptor
        self._path = path
        self._whole = _read_whole(descriptor, self.size) if self.size <= _SMALL_BYTES else None
        self.size = self.size if self._whole is None else len(self._whole)

    def read(self, length: int, start: int) -> bytes:
        """Read so many bytes from a place on; fewer where the file ends.

        Raises:
            ValueError: If the place lies before the file.
            OSError: If they cannot be read.
        """
        if start < 0:
            raise ValueError(f"byte {start} of a file")
        return os.pread(self._descriptor, length, start) if self._whole is None else self._whole[start : start + length]

    def opened(self) -> pa.NativeFile:
        """Open it for the library."""
        return named.readable(self._path) if self._whole is None else pa.BufferReader(self._whole)


def _read_whole(descriptor: int, size: int) -> bytes:
    found = bytearray()
    while len(found) < size and (more := os.pread(descriptor, size - len(found), len(found))):
        found += more
    return bytes(found)


def _is_large(batch: _Batch) -> bool:
    """Tell whether threads are worth being woken for a batch: for a few rows that takes ten times what they take."""
    return sum(batch.cost) > _SMALL_BYTES


@contextlib.contextmanager
def open_parquet(path: Path) -> Iterator[ParquetFile]:
    """Open a Parquet file.

    Raises:
        FormatError: If it has an absurd footer, or an absurd number of rows.
        OSError: If it is no ordinary file, or cannot be read; also what else `pyarrow` raises.
    """
    descriptor = open_file(path)
    try:
        content = _Content(descriptor, path)
        length = _footer_bytes(content, path)
        # A list takes a byte for each of its entries, at least: more than the footer has are none. Each that is there
        # takes a hundred times as much in memory, be it a note without a text. The headers of pages may hold longer
        # texts than a short footer has.
        most = min(length, limits.MOST_IN_FOOTER)
        bounds = {"thrift_string_size_limit": max(length, _SMALL_BYTES), "thrift_container_size_limit": most}
        with content.opened() as source, pq.ParquetFile(source, page_checksum_verification=True, **bounds) as file:
            metadata = file.metadata
            rows, schema = metadata.num_rows, metadata.schema
            if not 0 <= rows <= limits.MOST_ROWS:
                raise FormatError(f"{path}: {rows} rows; at most {limits.MOST_ROWS} are read")
            leaves = [_leaf(schema.column(i)) for i in range(len(schema.names))]
            _refuse_unsound(descriptor, content, length, leaves)
            texts = [number for number, leaf in enumerate(leaves) if leaf.physical_type == _TEXT]
            opened = ParquetFile(file, content, path)
            if opened.has_little_text(texts):
                yield opened
                return
        named_texts = [leaves[number].path for number in texts]
        options = {"metadata": metadata, "read_dictionary": named_texts, "page_checksum_verification": True}
        with content.opened() as source, pq.ParquetFile(source, **options) as file:
            yield ParquetFile(file, content, path)
    finally:
        os.close(descriptor)


def _footer_bytes(content: _Content, path: Path) -> int:
    """Return the size of a file's footer; 1 where there is none, which the library will tell."""
    tail = content.read(_TAIL.size, content.size - _TAIL.size) if content.size > _TAIL.size else b""
    length, magic = _TAIL.unpack(tail) if len(tail) == _TAIL.size else (1, b"")
    if magic == _MAGIC and length > limits.LARGEST_FOOTER:
        raise FormatError(f"{path}: a footer of {length} bytes; at most {limits.LARGEST_FOOTER} are read")
    return max(1, min(int(length), content.size))


def _refuse_unsound(descriptor: int, content: _Content, length: int, leaves: Sequence[footer.Leaf]) -> None:
    """Look through a footer, once for each file: a reader of many episodes opens theirs again for each."""
    status = os.fstat(descriptor)
    file = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    if file in _sound:
        return
    footer.refuse_unsound(content.read(length, content.size - _TAIL.size - length), leaves)
    # What was changed just now may be changed again at what a file system takes for the same moment.
    if time.time_ns() - max(status.st_mtime_ns, status.st_ctime_ns) > _MOMENT_NS:
        _sound[file] = None
        with contextlib.suppress(KeyError, StopIteration, RuntimeError):  # another thread may take it
            if len(_sound) > _MOST_SOUND:
                del _sound[next(iter(_sound))]


def _leaf(column: pq.ColumnSchema) -> footer.Leaf:
    levels = (column.max_repetition_level, column.max_definition_level)
    return footer.Leaf(column.path, column.physical_type, column.length, *levels)


def plain(table: pa.Table) -> pa.Table:
    """Return a table whose lists are ``list`` and whose texts are ``string``, whatever a writer's library calls them.

    Parquet knows one kind of list and one of text. That it was a large or a fixed-size list, or a dictionary, is a note
    of Arrow's in the file, which other writers do not leave.

    Raises:
        ValueError: If its texts, written out, would take an absurd amount of memory.
    """
    kinds = [_plain_type(field.type) for field in table.schema]
    for number, kind in enumerate(kinds):
        field = table.schema.field(number)
        if field.type != kind:
            _refuse_long(table.column(number), field.name)
            table = table.set_column(number, field.name, table.column(number).cast(kind))
    return table


def _plain_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return _plain_type(kind.value_type)
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return pa.list_(_plain_type(kind.value_type))
    return kind


def _refuse_long(column: pa.ChunkedArray, name: str) -> None:
    written = sum(map(_written_bytes, column.chunks))
    if written > limits.MOST_TEXT_BYTES:
        most = limits.MOST_TEXT_BYTES // limits.MEGABYTE
        raise ValueError(f"column {name!r}: texts of {written // limits.MEGABYTE} MB; at most {most} MB are read")


def _written_bytes(array: pa.Array) -> int:
    """Return what the texts of a column take when each is written out."""
    while pa.types.is_list(array.type) or pa.types.is_large_list(array.type) or pa.types.is_fixed_size_list(array.type):
        array = array.flatten()
    if not pa.types.is_dictionary(array.type):
        return int(array.nbytes)
    if not (pa.types.is_string(array.dictionary.type) or pa.types.is_binary(array.dictionary.type)):
        return len(array) * 8
    uses = np.bincount(array.indices.drop_null().to_numpy(), minlength=len(array.dictionary))
    lengths = pc.fill_null(pc.binary_length(array.dictionary), 0).to_numpy()
    return int((uses * lengths.astype(np.float64)).sum())
