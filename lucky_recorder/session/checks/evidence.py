"""The evidence: a session's files, read without trust, and what could not be read.

What is checked episode by episode is so for some episodes at a time: `Evidence.part` is the evidence of these alone.
However many there are, what is known of one goes when its part is done.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
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
# So many rows of `meta/episodes` become Python's at once.
_AT_ONCE = 1000
_SMALL_FILE = 1 << 20
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
        values: The whole row: of the evidence of a whole session, each value is looked up when it is asked for.
    """

    source: str
    number: int
    length: int
    first: int
    data: Place
    values: Mapping[str, Any]


class _Row(Mapping[str, Any]):
    """A row of a table: its values are made when they are asked for."""

    __slots__ = ("_number", "_table")

    def __init__(self, table: pa.Table, number: int) -> None:
        self._table = table
        self._number = number

    def __getitem__(self, name: str) -> Any:
        if name not in self._table.column_names:
            raise KeyError(name)
        return self._table[name][self._number].as_py()

    def __iter__(self) -> Iterator[str]:
        return iter(self._table.column_names)

    def __len__(self) -> int:
        return int(self._table.num_columns)

    def is_followed_by(self, one: tuple[int, Listed]) -> bool:
        """Tell whether an episode's row stands so many rows behind this one, in the same table."""
        behind, other = one[0], one[1].values
        return isinstance(other, _Row) and other._table is self._table and other._number == self._number + behind

    def rows(self, count: int) -> list[dict[str, Any]]:
        """Return the values of so many rows from this one on: made together, they take a quarter of the time."""
        found: list[dict[str, Any]] = self._table.slice(self._number, count).to_pylist()
        return found


class Shared(NamedTuple):
    """What the first episodes say, and all others have to agree with.

    Attributes:
        columns: The columns of the first data file, in their order; None where none can be read.
        entities: The ids of the robots, in their order.
        labels: What the ids of each camera's masks stand for, by camera.
        sensors: How each lidar is described, by its name.
    """

    columns: list[str] | None = None
    entities: tuple[int, ...] = ()
    labels: Mapping[str, Any] = {}
    sensors: Mapping[str, Any] = {}


# The cameras or sensors whose files, of a name and an ending, lie in the folder.
Names = dict[tuple[re.Pattern[str], str], list[str]]


class Known(NamedTuple):
    """What there is to know of a session before its episodes are looked at one by one; it can be pickled."""

    path: Path
    decode: bool
    info: dict[str, Any] | None
    declared: Declared
    descriptions: list[str] | None
    files: frozenset[str]
    names: Names
    is_measured: bool
    shared: Shared


class Evidence:
    """A session's files, for the checks. What cannot be read is a fault of its own, and None to those who ask.

    Attributes:
        folder: The session.
        decode: Whether videos are decoded in full.
        unreadable: Why a file could not be read, by its relative name.
        progress: How far the check has come.
        frames: Video frames looked at so far.
        shared: What the first episodes say, in the evidence of a part.
        names: What `unlisted.names` has found; the same for all parts.
    """

    def __init__(self, path: Path, decode: bool = True, progress: Progress | None = None) -> None:
        self.folder = Folder(path)
        self.progress = progress or Progress()
        self.decode = decode
        self.unreadable: dict[str, str] = {}
        self.frames = 0
        self.shared = Shared()
        self.names: Names = {}
        self._kept = Kept()
        self._notes: dict[str, bytes | None] = {}

    @classmethod
    def part(cls, known: Known, episodes: list[Listed], progress: Progress | None = None) -> Evidence:
        """Return the evidence of some episodes."""
        one = cls(known.path, known.decode, progress)
        one.info, one.declared, one.descriptions = known.info, known.declared, known.descriptions
        one.files, one.shared, one.episodes = known.files, known.shared, episodes
        one.is_measured, one.names = known.is_measured, known.names
        return one

    def known(self, shared: Shared) -> Known:
        """Return what is known of the whole session, for `part`."""
        return Known(
            self.folder.path,
            self.decode,
            self.info,
            self.declared,
            self.descriptions,
            self.files,
            self.names,
            self.is_measured,
            shared,
        )

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
    def is_measured(self) -> bool:
        """Whether there are statistics to be compared with the rows."""
        return self.stats is not None and self.declared.features is not None

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
    def _plain_tables(self) -> list[tuple[str, pa.Table]]:
        return [(name, _plain(table)) for name, table in self.meta_files.items()]

    @property
    def rows(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Every row of ``meta/episodes`` with the file it stands in, in order; columns of another type are left out."""
        for name, table in self._plain_tables:
            for first in range(0, table.num_rows, _AT_ONCE):
                yield from ((name, row) for row in table.slice(first, _AT_ONCE).to_pylist())

    @property
    def row_count(self) -> int:
        """How many rows there are under ``meta/episodes``."""
        return sum(table.num_rows for _, table in self._plain_tables)

    @cached_property
    def episodes(self) -> list[Listed]:
        """The episodes whose numbers can be used, each index once."""
        found: dict[int, Listed] = {}
        for source, table in self._plain_tables:
            if not all(column in table.column_names for column in (*_COUNTS, *_PLACE)):
                continue
            numbers = zip(*(table[column].to_pylist() for column in (*_COUNTS, *_PLACE)), strict=True)
            for row, (number, length, first, end, *place) in enumerate(numbers):
                if all(map(is_whole, (number, length, first, end))) and all(is_whole(n, 0, 999) for n in place):
                    found.setdefault(number, Listed(source, number, length, first, Place(*place), _Row(table, row)))
        return list(found.values())

    @staticmethod
    def whole(episodes: Sequence[Listed]) -> list[Listed]:
        """Return episodes of a whole session's evidence with all their values at hand."""
        found: list[Listed] = []
        while rest := episodes[len(found) :]:
            first = rest[0].values
            assert isinstance(first, _Row)
            values = first.rows(sum(1 for _ in itertools.takewhile(first.is_followed_by, enumerate(rest))))
            found += [one._replace(values=row) for one, row in zip(rest, values, strict=False)]
        return found

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
                self._note(file, table.schema)
                used += table.nbytes
                is_kept = is_kept and max(used, table.nbytes * rows // max(table.num_rows, 1)) <= self._kept.room
                kept = [*kept, table] if is_kept else []
                yield table
            if is_kept and file not in self.unreadable:
                self._kept.keep(file, kept)

    def kept(self, file: str) -> Sequence[pa.Table]:
        """Return the rows of a data file that has been read and is kept; nothing of another."""
        return self._kept.tables(file) if self._kept.has(file) else ()

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
        if file in self.data_files and self.folder.size(file) <= _SMALL_FILE:
            # It comes with the rows, and to open a file takes longer than to read it.
            deque(self.batches(file), maxlen=0)
        return self.read(file, self._footer)

    def _footer(self, file: str) -> Any:
        if file not in self._notes:
            with self.folder.parquet(file) as parquet:
                self._note(file, parquet.schema_arrow)
        with format_errors(self.folder.path / file):
            note = self._notes[file]
            return None if note is None else json.loads(note)

    def _note(self, file: str, schema: pa.Schema) -> None:
        self._notes[file] = (schema.metadata or {}).get(FOOTER)


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
