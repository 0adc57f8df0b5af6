"""The evidence: a session's files, read without trust, and what could not be read."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from lucky_recorder.episode import limits
from lucky_recorder.errors import FormatError
from lucky_recorder.session import stored
from lucky_recorder.session.checks.declared import Declared, declare, is_whole
from lucky_recorder.session.checks.kept import Kept
from lucky_recorder.session.layout import Place
from lucky_recorder.storage.spread import Progress
from lucky_recorder.storage.untrusted import Folder, format_errors, reason

# Repeated on purpose: a check that used the writer's constants would not find a wrong one.
INFO, STATS, TASKS, SUMS = "meta/info.json", "meta/stats.json", "meta/tasks.parquet", "meta/checksums.json"
FOOTER = b"lucky_recorder.episodes"
_COUNTS = ("episode_index", "length", "dataset_from_index", "dataset_to_index")
_PLACE = ("data/chunk_index", "data/file_index")
_META_TYPES = (pa.int64(), pa.float64(), pa.bool_(), pa.string(), pa.list_(pa.string()))

T = TypeVar("T")


class Fault(NamedTuple):
    """Something that is not as the format says.

    Attributes:
        file: The file, relative to the session's folder.
        episode: The episode it concerns, None if it is not one's own.
        message: What is wrong.
    """

    file: str
    episode: int | None
    message: str


class Listed(NamedTuple):
    """An episode that ``meta/episodes`` lists, with numbers that can be used.

    Attributes:
        source: The file that lists it.
        number: Its ``episode_index``.
        length: Its rows.
        first: The ``index`` of its first row.
        data: The place of its data file.
        values: The whole row.
    """

    source: str
    number: int
    length: int
    first: int
    data: Place
    values: Mapping[str, Any]


class Evidence:
    """A session's files, for the checks. What cannot be read is a fault of its own, and None to those who ask.

    Attributes:
        folder: The session.
        decode: Whether videos are decoded in full.
        unreadable: Why a file could not be read, by its relative name.
        progress: How far the check has come.
        frames: Video frames looked at so far.
    """

    def __init__(self, path: Path, decode: bool = True, progress: Progress | None = None) -> None:
        self.folder = Folder(path)
        self.progress = progress or Progress()
        self.decode = decode
        self.unreadable: dict[str, str] = {}
        self.frames = 0
        self._kept = Kept()

    def read(self, file: str, read: Callable[[str], T]) -> T | None:
        """Read a file, or remember why it cannot be read."""
        if file in self.unreadable:
            return None
        try:
            return read(file)
        except FormatError as error:
            self.unreadable[file] = reason(error, self.folder.path / file)
            return None

    @cached_property
    def files(self) -> frozenset[str]:
        """Every file in the folder."""
        return frozenset(self.folder.files())

    def under(self, folder: str) -> list[str]:
        """Every file below one of the session's folders, sorted."""
        return sorted(name for name in self.files if name.startswith(f"{folder}/"))

    @cached_property
    def info(self) -> dict[str, Any] | None:
        """``meta/info.json``."""
        return self.read(INFO, self.folder.json)

    @cached_property
    def declared(self) -> Declared:
        """What ``meta/info.json`` declares."""
        declared = declare(self.info or {})
        if declared.is_ours or "robots" in (self.info or {}):
            return declared
        return dataclasses.replace(declared, robots=self._counted_robots())

    def _counted_robots(self) -> int | None:
        """Return how many rows the first tick has, for a session that does not name its robots; None if none has."""
        for file, episodes in self.data_files.items():
            first, count, is_numbered = None, 0, False
            for table in self.batches(file):
                numbered = [f for f in table.schema if f.name in ("episode_index", "frame_index")]
                is_numbered = len(numbered) == 2 and all(pa.types.is_integer(f.type) for f in numbered)
                if not is_numbered:
                    break
                ticks = table["frame_index"].filter(pc.equal(table["episode_index"], episodes[0].number))
                first = first if first is not None or not len(ticks) else ticks[0]
                count += 0 if first is None else pc.sum(pc.equal(ticks, first)).as_py() or 0
            if is_numbered and file not in self.unreadable:
                return count or None
        return None

    @cached_property
    def stats(self) -> dict[str, Any] | None:
        """``meta/stats.json``."""
        return self.read(STATS, self.folder.json)

    @cached_property
    def tasks(self) -> pa.Table | None:
        """``meta/tasks.parquet``."""
        return self.read(TASKS, lambda file: self.folder.table(file, limits.MOST_LISTED))

    @cached_property
    def descriptions(self) -> list[str] | None:
        """The task descriptions, in the order of the file."""
        texts = [] if self.tasks is None else [f.name for f in self.tasks.schema if pa.types.is_string(f.type)]
        if self.tasks is None or len(texts) != 1 or self.tasks.column_names.count(texts[0]) != 1:
            return None
        described: list[str] = self.tasks[texts[0]].to_pylist()
        return described

    @cached_property
    def meta_files(self) -> dict[str, pa.Table]:
        """Every file under ``meta/episodes`` that can be read, by name, in order."""
        names = [name for name in self.under("meta/episodes") if name.endswith(".parquet") and "/." not in name]
        tables = {name: self.read(name, self._meta_table) for name in names}
        return {name: table for name, table in tables.items() if table is not None}

    def _meta_table(self, name: str) -> pa.Table:
        table = stored.episodes_table(self.folder, name)
        # Other writers' libraries store whole numbers with gaps as floats, or as nothing where all are missing.
        return table if declare(self.info or {}).is_ours else stored.as_episodes(table, self.folder.path / name)

    @cached_property
    def rows(self) -> list[tuple[str, dict[str, Any]]]:
        """Every row of ``meta/episodes`` with the file it stands in, in order; columns of another type are left out."""
        return [(name, row) for name, table in self.meta_files.items() for row in _plain(table).to_pylist()]

    @cached_property
    def episodes(self) -> list[Listed]:
        """The episodes whose numbers can be used, each index once."""
        found: dict[int, Listed] = {}
        for source, row in self.rows:
            if all(is_whole(row.get(c)) for c in _COUNTS) and all(is_whole(row.get(c), 0, 999) for c in _PLACE):
                number, length, first, _ = (row[c] for c in _COUNTS)
                found.setdefault(number, Listed(source, number, length, first, Place(*(row[c] for c in _PLACE)), row))
        return list(found.values())

    @cached_property
    def data_files(self) -> dict[str, list[Listed]]:
        """The data files that ``meta/episodes`` names, with their episodes."""
        files: dict[str, list[Listed]] = {}
        for episode in self.episodes:
            files.setdefault(data_file(episode.data), []).append(episode)
        return files

    def tables(self) -> Iterator[tuple[str, list[Listed], Iterator[pa.Table]]]:
        """Go through the data files, one after the other, and through the rows of each: see `batches`."""
        for file, episodes in self.data_files.items():
            yield file, episodes, self.batches(file)

    def batches(self, file: str) -> Iterator[pa.Table]:
        """Go through the rows of a data file, some at a time; what is too large to be kept is read each time.

        Of a file that cannot be read to its end there are fewer or none, and then it is among the `unreadable`.
        """
        if self._kept.has(file):
            yield from self._kept.tables(file)
        elif file not in self.unreadable:
            # What is not fit to be kept takes no room while that is found out: `meta/episodes` says how much will come.
            rows = sum(episode.length for episode in self.data_files.get(file, ()))
            kept: list[pa.Table] = []
            used, is_kept = 0, True
            for table in self.read_on(file, self.folder.batches(file)):
                used += table.nbytes
                is_kept = is_kept and max(used, table.nbytes * rows // max(table.num_rows, 1)) <= self._kept.room
                kept = [*kept, table] if is_kept else []
                yield table
            if is_kept and file not in self.unreadable:
                self._kept.keep(file, kept)

    def read_on(self, file: str, tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
        """Go through what is read of a file, and remember why it cannot be read on."""
        try:
            yield from tables
        except FormatError as error:
            self.unreadable[file] = reason(error, self.folder.path / file)

    def column(self, file: str, name: str) -> Iterator[pa.Table]:
        """Go through one column of a data file, and what says of which episode each row is; as `batches` otherwise."""
        if self._kept.has(file) or file in self.unreadable:
            return self.batches(file)
        return self.read_on(file, self.folder.batches(file, [name, "episode_index"]))

    def footer(self, file: str) -> Any:
        """Return what a data file's footer says of its episodes, None if it says nothing."""

        def read(file: str) -> Any:
            with self.folder.parquet(file) as parquet, format_errors(self.folder.path / file):
                note = (parquet.schema_arrow.metadata or {}).get(FOOTER)
                return None if note is None else json.loads(note)

        return self.read(file, read)


def _plain(table: pa.Table) -> pa.Table:
    """Return the columns that are of a type ``meta/episodes`` may have, and of a name that stands once."""
    names = table.column_names
    return table.select([i for i, f in enumerate(table.schema) if f.type in _META_TYPES and names.count(f.name) == 1])


def data_file(place: Place) -> str:
    """Return the name of a data file (spec: Chunks and files)."""
    return f"data/chunk-{place.chunk_index:03d}/file-{place.file_index:03d}.parquet"


def video_file(key: str, place: Place, suffix: str) -> str:
    """Return the name of a video file (spec: Chunks and files)."""
    return f"videos/{key}/chunk-{place.chunk_index:03d}/file-{place.file_index:03d}{suffix}"
