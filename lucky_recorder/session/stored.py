"""Episodes and rows as they are stored, whoever wrote them (spec: Data columns, Episode metadata).

pandas stores whole numbers as floats where one is missing, other writers have other kinds of lists, or no column for
what no episode of a file has. All of it says the same, and is read as such.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from lucky_recorder.episode import keys, limits
from lucky_recorder.errors import FormatError
from lucky_recorder.session import layout, noted
from lucky_recorder.storage.untrusted import Folder, format_errors, plain

_COUNTS = (keys.EPISODE_INDEX, "length", "dataset_from_index", "dataset_to_index")
_PLACE = ("chunk_index", "file_index")
_VALUE_BYTES = 8
_REMEDY = "Read fewer columns, rows(columns=[...]), or some rows at a time: for table in episode.batches()"


def read_episodes(files: Folder) -> pa.Table:
    """Read every file under ``meta/episodes``, as one table in order of ``episode_index``.

    Raises:
        FormatError: If a file cannot be read, lacks a column, or does not go with the others.
    """
    names = noted.files_of(files)
    # A session whose episodes were all discarded lists none, and is still one.
    if not names:
        return no_episodes()
    tables = {name: as_episodes(episodes_table(files, name), files.path / name) for name in names}
    with format_errors(files.path / layout.EPISODES):
        table = pa.concat_tables(noted.alike(tables, files), promote_options="default")
        return table.sort_by(keys.EPISODE_INDEX)


def no_episodes() -> pa.Table:
    """Return the table of a session that lists no episode."""
    return pa.table({c: pa.array([], pa.int64()) for c in (*_COUNTS, *_PLACE)})


def episodes_table(files: Folder, name: str) -> pa.Table:
    """Read a file of ``meta/episodes`` as it is.

    Raises:
        FormatError: If it cannot be read, or lists an absurd number of episodes.
    """
    table = files.table(name, limits.MOST_LISTED)
    if table.num_rows * table.num_columns > limits.MOST_CELLS:
        cells = f"{table.num_rows} episodes of {table.num_columns} columns"
        raise FormatError(f"{files.path / name}: {cells}; at most {limits.MOST_CELLS} values are read")
    return table


def as_episodes(table: pa.Table, path: Path) -> pa.Table:
    """Return a file of ``meta/episodes`` with its numbers as int64, as the format has them.

    Raises:
        FormatError: If a column is missing, stands twice, or holds no whole numbers.
    """
    _refuse_twins(table.column_names, path)
    table = table.replace_schema_metadata(None)
    for part in _PLACE:
        # LeRobot's tools write the place of an episode's rows under one of its two names.
        if part not in table.column_names and f"data/{part}" in table.column_names:
            table = table.append_column(part, table[f"data/{part}"])
    for number, name in enumerate(table.column_names):
        if name in _COUNTS or name.endswith(_PLACE):
            table = table.set_column(number, name, _whole(table[name], name, path))
    if lacking := [c for c in (*_COUNTS, *_PLACE) if c not in table.column_names]:
        raise FormatError(f"{path}: has no int64 column {lacking[0]!r}")
    return table


def _whole(column: pa.ChunkedArray, name: str, path: Path) -> pa.ChunkedArray:
    """Return a column of whole numbers as int64; what pandas made of one with missing values is one too."""
    kind = column.type
    if kind == pa.int64():
        return column
    if pa.types.is_floating(kind):
        column = pc.if_else(pc.is_nan(column), None, column)
    elif not (pa.types.is_integer(kind) or pa.types.is_null(kind)):
        raise FormatError(f"{path}: has no int64 column {name!r}: it is {kind}")
    with format_errors(path):
        return column.cast(pa.int64())


class Expected(NamedTuple):
    """What is said of an episode's rows elsewhere than in its data file.

    Attributes:
        rows: How many there are.
        values: How many values a row has, by column; 1 where it is not said.
    """

    rows: int
    values: Mapping[str, int]

    def bytes_of(self, columns: Iterable[str]) -> int:
        """Return what the rows of some columns come to in memory, each value and each list as 8 bytes."""
        return self.rows * _VALUE_BYTES * sum(1 + self.values.get(column, 1) for column in columns)


def read_rows(
    files: Folder, name: str, episode: int, columns: Sequence[str] | None = None, expected: Expected | None = None
) -> pa.Table:
    """Read an episode's rows, and only the row groups that hold them.

    Args:
        files: The session's files.
        name: The data file.
        episode: The episode's ``episode_index``.
        columns: Names of the columns to read; all of them by default.
        expected: What is said of them elsewhere: where the file agrees, as much memory is taken.

    Raises:
        KeyError: If a column is unknown.
        FormatError: If the file is missing or broken, or all of it would take an absurd amount of memory.
    """
    return pa.concat_tables(rows_in_batches(files, name, episode, columns, expected or Expected(0, {})))


def rows_in_batches(
    files: Folder,
    name: str,
    episode: int,
    columns: Sequence[str] | None = None,
    together: Expected | None = None,
) -> Iterator[pa.Table]:
    """Go through an episode's rows in their order, some row groups at a time; no rows are one table.

    Args:
        files: The session's files.
        name: The data file.
        episode: The episode's ``episode_index``.
        columns: Names of the columns to read; all of them by default.
        together: What is said of them elsewhere, if all of them are to be in memory at once.

    Raises:
        KeyError: If a column is unknown.
        FormatError: If the file is missing or broken, or a row group, or all that are to be in memory at once, would
            take an absurd amount of memory.
    """
    number = keys.EPISODE_INDEX
    with files.parquet(name) as file:
        known = file.schema_arrow.names
        _refuse_twins(known, files.path / name)
        wanted = known if columns is None else list(columns)
        if number not in known:
            raise FormatError(f"{files.path / name}: has no column {number!r}")
        if unknown := [c for c in wanted if c not in known]:
            raise KeyError(f"no column {unknown[0]!r}; {name} has {', '.join(known)}")
        # Each episode we write is a row group of its own. Others may have written it otherwise: hence the filter.
        groups = [g for g in range(file.num_row_groups) if _may_hold(file.metadata.row_group(g), episode)]
        read = list(dict.fromkeys([*wanted, number]))
        most, held, is_first = math.inf, 0, True
        if together is not None:
            agrees = sum(file.metadata.row_group(g).num_rows for g in groups) == together.rows
            most = file.refuse_large(read, groups, together.bytes_of(read) if agrees else 0, _REMEDY)
        for table in file.batches(read, groups):
            is_its = pc.equal(table[number], episode)
            # A filter copies: where all rows are the episode's, as in our files, there is nothing to leave out.
            rows = table if pc.all(is_its, skip_nulls=False).as_py() else table.filter(is_its)
            if rows.num_rows or is_first:
                is_first = False
                rows = plain(rows.select(wanted))
                # Texts that repeat are stored once, and come to more than their pages say.
                held += rows.nbytes
                if held > most:
                    found, bound = held // limits.MEGABYTE, int(most) // limits.MEGABYTE
                    message = f"texts that become {found} MB in memory; at most {bound} MB are read of such a file"
                    raise FormatError(f"{files.path / name}: {message}. {_REMEDY}")
                yield rows


def _refuse_twins(names: Sequence[str], path: Path) -> None:
    if twins := sorted(name for name, count in Counter(names).items() if count > 1):
        raise FormatError(f"{path}: column {twins[0]!r} stands twice")


def _may_hold(group: pq.RowGroupMetaData, episode: int) -> bool:
    """Tell from a row group's statistics whether it can hold rows of an episode."""
    for i in range(group.num_columns):
        column = group.column(i)
        if column.path_in_schema == keys.EPISODE_INDEX and column.is_stats_set and column.statistics.has_min_max:
            return bool(column.statistics.min <= episode <= column.statistics.max)
    return True


def missing(files: Folder, name: str, episode: int, robot: int | None = None) -> dict[str, int]:
    """Count the rows of an episode in which a column has no value; columns without a gap are left out.

    Args:
        files: The session's files.
        name: The data file.
        episode: The episode's ``episode_index``.
        robot: The id of the robot whose rows are counted; None for all of them.

    Raises:
        FormatError: If the data file is missing or broken.
    """
    with files.parquet(name) as file:
        _refuse_twins(file.schema_arrow.names, files.path / name)
        gaps = [c for c in file.schema_arrow.names if _may_have_gaps(file.metadata, c, episode)]
    whose = [] if robot is None else [entity_column(files, name)]
    lost: Counter[str] = Counter()
    for rows in rows_in_batches(files, name, episode, list(dict.fromkeys([*gaps, *whose]))):
        for column in whose:
            with format_errors(files.path / name):
                rows = rows.filter(pc.equal(rows[column], robot))
        lost.update({c: int(have_gaps(rows[c].combine_chunks()).sum()) for c in gaps})
    return {c: lost[c] for c in gaps if lost[c]}


def _may_have_gaps(metadata: pq.FileMetaData, name: str, episode: int) -> bool:
    """Tell from a file's statistics whether a column of an episode can lack a value."""
    for g in range(metadata.num_row_groups):
        group = metadata.row_group(g)
        parts = [group.column(i) for i in range(group.num_columns)] if _may_hold(group, episode) else []
        for part in parts:
            if part.path_in_schema == name or part.path_in_schema.startswith(f"{name}."):
                counted = part.is_stats_set and part.statistics.has_null_count
                if not counted or part.statistics.null_count:
                    return True
    return False


def have_gaps(column: pa.Array) -> NDArray[np.bool_]:
    """Tell which rows have no value, or a list with a gap in it, shape ``(rows,)``."""
    lost, rows, values = np.zeros(len(column), np.bool_), np.arange(len(column)), column
    while True:
        empty = values.is_null().to_numpy(zero_copy_only=False)
        lost[rows[empty]] = True
        if not pa.types.is_list(values.type):
            return lost
        # An empty place has no values below it.
        rows, values = rows[~empty], values.drop_null()
        rows, values = rows[pc.list_parent_indices(values).to_numpy()], pc.list_flatten(values)


def by_tick(rows: pa.Table, column: str, ids: Sequence[int], where: str) -> pa.Table:
    """Return an episode's rows tick by tick, those of each tick in the order of the robots.

    Args:
        rows: The rows, whole.
        column: The column that says whose row it is.
        ids: The robots' ids.
        where: What the rows are, for the error.

    Raises:
        FormatError: If a tick has not one row of each robot.
    """
    if keys.FRAME_INDEX not in rows.column_names:
        raise FormatError(f"{where}: has no column {keys.FRAME_INDEX!r}")
    for name in (column, keys.FRAME_INDEX):
        kind = rows[name].type
        # pandas makes floats of whole numbers where one was missing once.
        if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)) or rows[name].null_count:
            raise FormatError(f"{where}: {name}: holds {kind} or a gap, expected whole numbers")
    ordered = np.resize(np.array(ids), rows.num_rows)
    if rows.num_rows % len(ids) == 0 and np.array_equal(rows[column].to_numpy(), ordered):
        return rows
    found = rows[column].to_pylist()
    if found == list(ids) * (len(found) // len(ids)):
        return rows
    # The format does not say in which order the rows of a tick stand.
    places = {i: place for place, i in enumerate(ids)}
    ticks = rows[keys.FRAME_INDEX].to_pylist()
    order = sorted(range(len(found)), key=lambda row: (ticks[row], places.get(found[row], -1)))
    if [found[row] for row in order] != list(ids) * (len(found) // len(ids)):
        raise FormatError(f"{where}: a tick has not one row of each of {len(ids)} robots, by {column}")
    return rows.take(pa.array(order, pa.int64()))


def entity_column(files: Folder, name: str) -> str:
    """Return the name of the column of a data file that says whose row it is.

    Raises:
        FormatError: If the file cannot be read, or has none.
    """
    with files.parquet(name) as file:
        known = file.schema_arrow.names
    for column in keys.ENTITY_COLUMNS:
        if column in known:
            return column
    raise FormatError(
        f"{files.path / name}: has no column {', '.join(keys.ENTITY_COLUMNS)}: it says not whose row it is"
    )


def entities(files: Folder, name: str, episode: int) -> tuple[int, ...]:
    """Return the ids of the robots that have a row in the first tick of an episode, in their order.

    Raises:
        FormatError: If the file cannot be read, or its first tick is none.
    """
    column = entity_column(files, name)
    first, ids = None, list[Any]()
    try:
        for rows in rows_in_batches(files, name, episode, [column, keys.FRAME_INDEX]):
            ticks = rows[keys.FRAME_INDEX]
            first = first if first is not None or not len(ticks) else ticks[0]
            with format_errors(files.path / name):
                ids += rows[column].filter(pc.equal(ticks, first)).to_pylist() if first is not None else []
    except KeyError as error:
        raise FormatError(f"{files.path / name}: {error.args[0]}") from error
    if not ids or not all(type(i) is int for i in ids) or len(set(ids)) < len(ids):
        raise FormatError(f"{files.path / name}: {column}: {ids} are no robots' ids, one for each in a tick")
    return tuple(ids)
