"""The rows of one episode, some at a time as they come: however many there are, they take the same memory."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from lucky_recorder.session.checks.declared import Declared, DeclaredColumn
from lucky_recorder.session.checks.evidence import Evidence, Listed
from lucky_recorder.session.checks.times import tick_times
from lucky_recorder.session.checks.vectors import Array, first_wrong, type_fault, values

# Repeated on purpose: a check that used the writer's constants would not find a wrong one.
_KNOWN_FLAGS = 0b11
# Others add up their steps, or take the simulation's own time (spec: "advances by one data-runner step per frame").
_OTHERS_TIMING_S = 1e-4


class EpisodeRows:
    """What the rows of an episode turn out to be: of each kind of fault, the first."""

    def __init__(self, episode: Listed, evidence: Evidence) -> None:
        """Begin with no rows.

        Args:
            episode: What is listed of it.
            evidence: The session.
        """
        self._episode, self._declared = episode, evidence.declared
        self._entities = list(evidence.shared.entities)
        self._count = 0
        self._found: dict[str, str] = {}
        self._tasks = _Tasks(episode, evidence)
        self._columns = [_Column(column) for column in evidence.declared.columns.values()]
        # Ids of a tick whose other rows have not come yet.
        self._begun: Array = np.zeros(0, np.int64)

    def add(self, rows: pa.Table) -> None:
        """Look at more rows, which have the columns that every row starts with."""
        found = {name: rows[name].to_numpy() for name in self._declared.leading}
        numbers = np.arange(self._count, self._count + rows.num_rows)
        self._differ("index", found["index"], self._episode.first + numbers)
        self._look_at_flags(found["frame_flags"])
        self._tasks.add(found["task_index"])
        if self._declared.robots:
            self._look_at_ticks(found, self._declared.robots)
        for column in self._columns:
            column.add(rows)
        self._count += rows.num_rows

    def faults(self) -> Iterator[str]:
        """Tell what is wrong, once all rows have come."""
        if self._count != self._episode.length:
            yield f"{self._count} rows, meta/episodes says {self._episode.length}"
        elif self._count:
            yield from self._row_faults()
        for column in self._columns:
            yield from column.faults()

    def _row_faults(self) -> Iterator[str]:
        yield from self._told("index", "frame_flags")
        yield from self._tasks.faults()
        robots, entity = self._declared.robots, self._declared.leading[1]
        if not robots or self._count % robots:
            return
        yield from self._told("frame_index", "timestamp")
        if len(set(self._entities)) != robots:
            yield f"{entity}: {self._entities} are not the ids of {robots} robots"
        yield from self._told(entity)

    def _told(self, *names: str) -> Iterator[str]:
        return (self._found[name] for name in names if name in self._found)

    def _differ(self, name: str, found: Array, expected: Array, first: int | None = None) -> None:
        row = None if name in self._found else first_wrong(found, expected)
        if row is not None:
            at = (self._count if first is None else first) + row
            self._found[name] = f"row {at}: {name} is {found[row]}, expected {expected[row]}"

    def _look_at_flags(self, flags: Array) -> None:
        unknown = np.flatnonzero(flags & ~np.uint8(_KNOWN_FLAGS))
        if len(unknown) and "frame_flags" not in self._found:
            row = unknown[0]
            message = f"row {self._count + row}: frame_flags is {flags[row]}, only bits 0 and 1 are known"
            self._found["frame_flags"] = message

    def _look_at_ticks(self, found: dict[str, Array], robots: int) -> None:
        """Look at what the robots of a tick share, and whether they are the same robots at every tick."""
        declared, entity = self._declared, self._declared.leading[1]
        numbers = np.arange(self._count, self._count + len(found[entity]))
        ticks = numbers // robots
        self._differ("frame_index", found["frame_index"], ticks)
        if declared.hz is not None and len(ticks):
            times = tick_times(int(ticks[0]), int(ticks[-1] - ticks[0]) + 1, declared.hz)[ticks - ticks[0]]
            if not declared.is_ours:
                times = np.where(np.abs(found["timestamp"] - times) < _OTHERS_TIMING_S, found["timestamp"], times)
            self._differ("timestamp", found["timestamp"], times)
        if len(self._entities) != robots:
            return
        if declared.is_ours:
            self._differ(entity, found[entity], np.array(self._entities)[numbers % robots])
        else:
            self._look_at_unordered(entity, found[entity], robots)

    def _look_at_unordered(self, entity: str, ids: Array, robots: int) -> None:
        """Compare the ids of each whole tick: the format does not say in which order the robots of a tick stand."""
        first = self._count - len(self._begun)
        ids = np.concatenate([self._begun, ids])
        whole = len(ids) // robots * robots
        self._begun = ids[whole:]
        sorted_ids = np.sort(ids[:whole].reshape(-1, robots), axis=1).reshape(-1)
        self._differ(entity, sorted_ids, np.tile(sorted(self._entities), whole // robots), first)


class _Tasks:
    """The tasks that an episode's rows have."""

    def __init__(self, episode: Listed, evidence: Evidence) -> None:
        self._episode, self._known = episode, evidence.descriptions
        self._is_said = evidence.declared.is_ours or "tasks" in episode.values
        self._bounds: tuple[int, int] | None = None
        self._occurring: Array = np.zeros(0, np.int64)

    def add(self, indices: Array) -> None:
        if self._known is None or not len(indices):
            return
        low, high = int(indices.min()), int(indices.max())
        self._bounds = (min(low, self._bounds[0]), max(high, self._bounds[1])) if self._bounds else (low, high)
        # Of those that are out of range, only the outermost are told.
        if not self._are_out_of_range(self._known):
            self._occurring = np.union1d(self._occurring, indices)

    def _are_out_of_range(self, known: list[str]) -> bool:
        return self._bounds is not None and not 0 <= self._bounds[0] <= self._bounds[1] < len(known)

    def faults(self) -> Iterator[str]:
        if self._known is None or self._bounds is None:
            return
        said = self._episode.values.get("tasks")
        if self._are_out_of_range(self._known):
            low, high = self._bounds
            yield f"task_index {low}..{high} is out of range, there are {len(self._known)} tasks"
        elif self._is_said and said != [self._known[i] for i in self._occurring]:
            yield f"its rows have tasks {self._occurring.tolist()}, meta/episodes says {said}"


class _Column:
    """A column of an episode: the length of every list, and whether commands and positions are finite."""

    def __init__(self, column: DeclaredColumn) -> None:
        self._column = column
        self._count = 0
        self._is_whole = True
        self._broken: int | None = None

    def add(self, rows: pa.Table) -> None:
        column = self._column
        if rows.column_names.count(column.name) != 1 or type_fault(rows.schema.field(column.name).type, column):
            return
        found = values(rows[column.name], column.shape)
        if found is None:
            self._is_whole = False
            return
        if column.is_vector and self._broken is None:
            broken = np.flatnonzero(~np.isfinite(found).all(axis=1))
            self._broken = self._count + int(broken[0]) if len(broken) else None
        self._count += len(found)

    def faults(self) -> Iterator[str]:
        if not self._is_whole:
            yield f"{self._column.name}: a list is not whole, or not of shape {list(self._column.shape)}"
        elif self._broken is not None:
            yield f"{self._column.name}: row {self._broken} holds NaN or infinity"


def episodes_of(table: pa.Table, listed: dict[int, Listed]) -> Iterator[tuple[Listed, pa.Table]]:
    """Split rows into those of each listed episode, which must have an ``episode_index`` in every row."""
    found = table["episode_index"].to_numpy()
    occurring = np.unique(found)
    if len(occurring) == 1:
        # Nothing is copied where all rows are of one.
        yield from ((listed[n], table) for n in occurring.tolist() if n in listed)
        return
    for number in occurring.tolist():
        if number in listed:
            yield listed[number], table.filter(pa.array(found == number))


def leads(table: pa.Table, declared: Declared) -> bool:
    """Tell whether the columns every row starts with can be looked at: each there once, of its type, and whole."""
    kinds = {name: pa.int64() for name in declared.leading} | {"timestamp": pa.float64(), "frame_flags": pa.uint8()}
    names = table.column_names
    return all(
        names.count(n) == 1 and table.schema.field(n).type == kind and not table[n].null_count
        for n, kind in kinds.items()
    )
