"""The files of ``meta/episodes``, each for itself: which are sound, and how they become one list again.

Only they say when an episode was recorded, and what somebody has noted of it. So one that is sound stays, whatever has
become of the others, and whatever else lies beside them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from lucky_recorder.episode import keys
from lucky_recorder.errors import FormatError
from lucky_recorder.session import layout, metadata, noted, stored
from lucky_recorder.session.carried import Row
from lucky_recorder.session.features import WHEN
from lucky_recorder.storage.untrusted import Folder, format_errors, reason
from lucky_recorder.storage.write import rename

_TWICE = "lists episodes that another file of meta/episodes lists, or not in their order"


class Sound(NamedTuple):
    """What can be read of ``meta/episodes``.

    Attributes:
        table: What the files that stay list, in order of ``episode_index``.
        files: The episodes that each of them lists, by its name, in order.
        broken: Why each of the others cannot stay, by its name.
        known: Rows of those of the others that can be read at all, by ``episode_index``.
        noted: The columns that are somebody's own in these rows.
    """

    table: pa.Table
    files: Mapping[str, range]
    broken: Mapping[str, str]
    known: Mapping[int, Row]
    noted: pa.Schema

    def with_known(self, row: Row, agrees: bool) -> Row:
        """Return what will be listed of an episode: what its data file carries, and what no data file says.

        Args:
            row: What its data file carries.
            agrees: Whether what is known of it is of the same episode.
        """
        if not agrees:
            return row
        listed = self.known.get(row[keys.EPISODE_INDEX], {})
        return {**row, **{k: v for k, v in listed.items() if k in WHEN or k in self.noted.names}}


class Order(NamedTuple):
    """What makes one list of the files again, numbered without a gap.

    Attributes:
        moves: Files and their new names, in an order in which no name is taken.
        told: Files, by their new names, that say that they stand elsewhere.
        added: Numbers of new files, and which episodes they list.
    """

    moves: tuple[tuple[str, str], ...] = ()
    told: tuple[str, ...] = ()
    added: tuple[tuple[int, tuple[Row, ...]], ...] = ()


def names(files: Folder) -> list[str]:
    """List the files of ``meta/episodes`` that have a name of the format, in order."""
    return [name for name in noted.files_of(files) if layout.LIST_FILE.fullmatch(name)]


def read(files: Folder) -> Sound:
    """Read each file of ``meta/episodes`` that has a name of the format."""
    tables: dict[str, pa.Table] = {}
    broken: dict[str, str] = {}
    others: list[pa.Table] = []
    last, columns = -1, pa.schema([])
    for name in names(files):
        try:
            table = stored.as_episodes(stored.episodes_table(files, name), files.path / name)
            columns = _joined(columns, table.schema, files.path / name)
        except FormatError as error:
            broken[name] = reason(error, files.path / name)
            continue
        run = _run(table)
        if run is None or run.start <= last:
            broken[name] = _TWICE
            others.append(table)
            continue
        tables[name], last = table, run[-1]
    runs = {name: run for name, table in tables.items() if (run := _run(table)) is not None}
    together = _together(tables, files)
    columns = _noted(others, together.schema)
    known = {row[keys.EPISODE_INDEX]: row for table in reversed(others) for row in rows_of(table, columns.names)}
    return Sound(together, runs, broken, known, columns)


def rows_of(table: pa.Table, noted_too: Sequence[str] = ()) -> list[Row]:
    """Return the rows of a list, and of somebody's own columns those that are named: as what they are in the table."""
    rows = table.select([name for name in table.column_names if not noted.is_own(name)]).to_pylist()
    own = [name for name in noted_too if name in table.column_names]
    # Not every value of Arrow's is one of Python's: a time may have nanoseconds.
    return [{**row, **{name: table[name][number] for name in own}} for number, row in enumerate(rows)]


def _run(table: pa.Table) -> range | None:
    """Return the episodes that a file lists; None where these are none, or not in their order and without a gap."""
    numbers = table[keys.EPISODE_INDEX].to_pylist()
    if not numbers or None in numbers or numbers[0] < 0:
        return None
    run = range(numbers[0], numbers[0] + len(numbers))
    return run if numbers == list(run) else None


def _joined(columns: pa.Schema, more: pa.Schema, path: Path) -> pa.Schema:
    """Add a file's columns to those of the files before it; what is somebody's own is `noted.alike`'s."""
    with format_errors(path):
        return pa.unify_schemas([columns, pa.schema([f for f in more if not noted.is_own(f.name)])])


def _together(tables: Mapping[str, pa.Table], files: Folder) -> pa.Table:
    if not tables:
        return stored.no_episodes()
    return pa.concat_tables(noted.alike(tables, files), promote_options="default")


def _noted(tables: Sequence[pa.Table], beside: pa.Schema) -> pa.Schema:
    """Return the columns that are somebody's own and go with those of the files that stay."""
    found: dict[str, pa.Field] = {}
    for field in (field for table in tables for field in table.schema if noted.is_own(field.name)):
        known = beside.field(field.name).type if field.name in beside.names else field.type
        if field.name not in found and known in (field.type, pa.null()):
            found[field.name] = field
    return pa.schema(list(found.values()))


def order(sound: Sound, unlisted: Iterable[Row], files_per_chunk: int) -> Order:
    """Say what makes one list of the files that stay and of episodes that none of them lists.

    Args:
        sound: What was read.
        unlisted: The rows of these episodes, in order.
        files_per_chunk: Files in each folder.
    """
    chunking = layout.Chunking(files_per_chunk)
    # Each run of episodes goes into one file, between those that list what comes before and after.
    found: list[tuple[int, str | tuple[Row, ...]]] = [(run.start, name) for name, run in sound.files.items()]
    found += [
        (rows[0][keys.EPISODE_INDEX], rows) for rows in _runs(unlisted, [run.start for run in sound.files.values()])
    ]
    numbered: dict[str, str] = {}
    added = []
    for number, (_, one) in enumerate(sorted(found, key=lambda pair: pair[0])):
        if isinstance(one, str):
            numbered[one] = layout.EPISODES_PATH.format(**chunking.metadata(number)._asdict())
        else:
            added.append((number, one))
    # The files keep their order. So those that go down are out of each other's way from the first on, those that go up
    # from the last on.
    down = [pair for pair in numbered.items() if pair[1] < pair[0]]
    up = [pair for pair in reversed(numbered.items()) if pair[1] > pair[0]]
    told = tuple(new for old, new in numbered.items() if not _says(sound, old, layout.place_of(Path(new))))
    return Order((*down, *up), told, tuple(added))


def _runs(rows: Iterable[Row], starts: Sequence[int]) -> Iterator[tuple[Row, ...]]:
    """Cut episodes into runs: a new one begins behind each file that lists what comes before it."""
    for _, run in itertools.groupby(rows, lambda row: sum(start < row[keys.EPISODE_INDEX] for start in starts)):
        yield tuple(run)


def _says(sound: Sound, name: str, place: layout.Place) -> bool:
    """Tell whether each row of a file says where it stands; others' tools may have left that out."""
    run, first = sound.files[name], 0
    for other, before in sound.files.items():
        if other == name:
            break
        first += len(before)
    rows = sound.table.slice(first, len(run))
    said = ((keys.META_CHUNK, place.chunk_index), (keys.META_FILE, place.file_index))
    return all(set(rows[column].to_pylist()) <= {n} for column, n in said if column in rows.column_names)


def carry_out(path: Path, planned: Order, columns: pa.Schema, files_per_chunk: int) -> None:
    """Make one list of the files; after each step it can be planned and carried out again.

    Args:
        path: The session's folder.
        planned: What is to be done.
        columns: The columns of new files.
        files_per_chunk: Files in each folder.

    Raises:
        FormatError: If a file cannot be read any more.
        StorageError: If the file system refuses.
    """
    files, chunking = Folder(path), layout.Chunking(files_per_chunk)
    for old, new in planned.moves:
        rename(path / old, path / new)
    for name in planned.told:
        metadata.write_list(path / name, stored.episodes_table(files, name))
    for number, rows in planned.added:
        metadata.write_episodes(layout.episodes_path(path, chunking.metadata(number)), columns, rows)
