"""Checks of the data files: every column of every row (spec: Data columns, Frame flags)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from lucky_recorder.session.checks.declared import Declared
from lucky_recorder.session.checks.evidence import Evidence, Fault, Listed
from lucky_recorder.session.checks.runs import EpisodeRows, episodes_of, leads
from lucky_recorder.session.checks.screen import are_in_order
from lucky_recorder.session.checks.short import Short, short
from lucky_recorder.session.checks.vectors import Array, first_wrong, type_fault

# What pandas calls an index that it stores and that has no name.
_PANDAS_INDEX = "__index_level_"
# Where nothing says so, no more files are looked into for who the robots are.
_FIRST_FILES = 100


def check_data_files(evidence: Evidence) -> Iterator[Fault]:
    """Check each data file that ``meta/episodes`` names, in one pass."""
    # Short episodes are gone through together. Only where something is wrong with one, it is found out with which.
    together = short(evidence)
    faultless = together.files if together.rows is not None and _are_faultless(together, evidence) else ()
    for file in faultless:
        evidence.progress.advance(evidence.folder.size(file))
    for file, episodes, batches in evidence.tables():
        if file in faultless:
            continue
        looked = _DataFile(file, episodes, evidence)
        for table in batches:
            looked.add(table)
        evidence.progress.advance(evidence.folder.size(file))
        # Of a file that cannot be read to its end, nothing else is told.
        if file in evidence.unreadable:
            continue
        if looked.columns != evidence.shared.columns:
            yield Fault(file, None, "has other columns, or another order, than the first data file")
        yield from looked.faults()


def first_rows(evidence: Evidence) -> tuple[list[str] | None, tuple[int, ...]]:
    """Return what the first rows say, and all others have to agree with: their columns, and the ids of the robots."""
    columns: list[str] | None = None
    entities: list[int] = []
    robots, declared = evidence.declared.robots or 1, evidence.declared
    for _, _, batches in itertools.islice(evidence.tables(), _FIRST_FILES):
        for table in batches:
            columns = columns or table.column_names
            if leads(table, declared):
                entities += table[declared.leading[1]][: robots - len(entities)].to_pylist()
            if len(entities) >= robots:
                return columns, tuple(entities)
    return columns, tuple(entities)


def _are_faultless(together: Short, evidence: Evidence) -> bool:
    """Tell whether nothing is to be found in some files: neither in their columns nor in their episodes."""
    rows, declared = together.rows, evidence.declared
    assert rows is not None
    if rows.column_names != evidence.shared.columns or not leads(rows, declared):
        return False
    if any(_column_faults(rows, declared)) or any(_gap_faults(rows, declared)):
        return False
    return are_in_order(rows, together.episodes, together.lengths, evidence)


class _DataFile:
    """What the rows of a data file turn out to be, looked at some at a time."""

    def __init__(self, file: str, episodes: list[Listed], evidence: Evidence) -> None:
        self._file, self._declared = file, evidence.declared
        self._listed = {e.number: e for e in episodes}
        self._episodes = {e.number: EpisodeRows(e, evidence) for e in episodes}
        self._indices = _Indices(episodes)
        self._leads = True
        # Each once, in the order in which they were found.
        self._column_faults: dict[str, None] = {}
        self.columns: list[str] | None = None

    def add(self, table: pa.Table) -> None:
        """Look at more of its rows."""
        if self.columns is None:
            self.columns = table.column_names
            self._column_faults |= dict.fromkeys(_column_faults(table, self._declared))
        self._column_faults |= dict.fromkeys(_gap_faults(table, self._declared))
        self._leads = self._leads and leads(table, self._declared)
        if not self._leads:
            return
        self._indices.add(table["episode_index"].to_numpy())
        for episode, rows in episodes_of(table, self._listed):
            self._episodes[episode.number].add(rows)

    def faults(self) -> Iterator[Fault]:
        """Tell what is wrong, once all rows have come."""
        yield from (Fault(self._file, None, message) for message in self._column_faults)
        if self._leads:
            yield from (Fault(self._file, None, message) for message in self._indices.faults())
            for number, episode in self._episodes.items():
                yield from (Fault(self._file, number, message) for message in episode.faults())


class _Indices:
    """The ``episode_index`` of a data file's rows: its episodes one after the other, and no others."""

    def __init__(self, episodes: list[Listed]) -> None:
        self._numbers = np.array([e.number for e in episodes])
        self._ends = np.cumsum([e.length for e in episodes])
        self._count = 0
        self._others: Array = np.zeros(0, np.int64)
        self._wrong: str | None = None

    def add(self, found: Array) -> None:
        self._others = np.union1d(self._others, np.setdiff1d(found, self._numbers))
        places = np.searchsorted(self._ends, np.arange(self._count, self._count + len(found)), "right")
        # Rows beyond the last episode's: then there are more than are listed, which is told by their count.
        expected = self._numbers[np.minimum(places, len(self._numbers) - 1)]
        row = first_wrong(found, expected) if self._wrong is None else None
        if row is not None:
            self._wrong = f"row {self._count + row}: episode_index is {found[row]}, expected {expected[row]}"
        self._count += len(found)

    def faults(self) -> Iterator[str]:
        for index in self._others:
            yield f"holds rows of episode {index}, which meta/episodes does not list there"
        if self._wrong is not None and self._count == self._ends[-1]:
            yield self._wrong


def _column_faults(table: pa.Table, declared: Declared) -> Iterator[str]:
    """Features and stored columns are one to one; every row starts with the same columns."""
    features = {k for k, v in (declared.features or {}).items() if not isinstance(v, dict) or v.get("dtype") != "video"}
    if declared.features is not None:
        for name in sorted(features - set(table.column_names)):
            yield f"column {name} is missing; info.json has a feature for it"
        for name in sorted(set(table.column_names) - features):
            if name.startswith(_PANDAS_INDEX) and not declared.is_ours:
                continue
            yield f"column {name} has no feature in info.json"
    if declared.entity_column:
        start = (*declared.leading, *declared.vectors)
        if tuple(table.column_names[: len(start)]) != start:
            yield f"does not start with the columns {', '.join(start)}"
    for column in declared.columns.values():
        is_there = table.column_names.count(column.name) == 1
        wrong = type_fault(table.schema.field(column.name).type, column) if is_there else None
        if wrong:
            yield f"column {column.name}: {wrong}"


def _gap_faults(table: pa.Table, declared: Declared) -> Iterator[str]:
    for name in (*declared.leading, *declared.vectors):
        if table.column_names.count(name) == 1 and table[name].null_count:
            yield f"column {name}: a value is missing"
