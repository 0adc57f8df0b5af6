"""Rows that several checks go through: kept once they are read, as long as there is room.

A table of its own takes ten times the room of what is in it, where that is an episode's hundred rows. So the rows of
small files are put together, and each file has its part of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa

# What is beyond that is read each time: with as much as this, a check takes no more memory for ten thousand episodes.
MOST_BYTES = 1 << 25
_SMALL_BYTES = 1 << 20
_TOGETHER = 64


class _Part(NamedTuple):
    """The rows of a file among those of others."""

    block: pa.Table
    first: int
    rows: int


class Kept:
    """The rows of data files, by the files' names.

    Attributes:
        room: Bytes of rows that may still be kept.
    """

    def __init__(self) -> None:
        self.room = MOST_BYTES
        self._whole: dict[str, Sequence[pa.Table]] = {}
        self._parts: dict[str, _Part] = {}
        # Small ones that are not put together yet.
        self._loose: dict[str, pa.Table] = {}

    def has(self, file: str) -> bool:
        """Tell whether a file's rows are kept."""
        return file in self._parts or file in self._loose or file in self._whole

    def tables(self, file: str) -> Sequence[pa.Table]:
        """Return the rows of a file that is kept."""
        if file in self._parts:
            block, first, rows = self._parts[file]
            return [block.slice(first, rows)]
        return [self._loose[file]] if file in self._loose else self._whole[file]

    def keep(self, file: str, tables: Sequence[pa.Table]) -> None:
        """Keep the rows of a file."""
        used = sum(table.nbytes for table in tables)
        self.room -= used
        # The notes of a file's footer go with its schema, and are longer than the rows of a short episode.
        bare = [table.replace_schema_metadata(None) for table in tables]
        if len(bare) == 1 and used <= _SMALL_BYTES:
            self._loose[file] = bare[0]
        else:
            self._whole[file] = bare
        if len(self._loose) >= _TOGETHER:
            self._put_together()

    def _put_together(self) -> None:
        # Compared as they are: of two schemas that read alike, one may have a name that is two lines long.
        by_schema: list[tuple[pa.Schema, list[str]]] = []
        for file, table in self._loose.items():
            same = next((files for schema, files in by_schema if schema.equals(table.schema)), None)
            if same is None:
                by_schema.append((table.schema, same := []))
            same.append(file)
        for _, files in by_schema:
            block, first = pa.concat_tables([self._loose[file] for file in files]).combine_chunks(), 0
            for file in files:
                rows = self._loose[file].num_rows
                self._parts[file] = _Part(block, first, rows)
                first += rows
        self._loose = {}
