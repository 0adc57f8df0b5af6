"""Checks of the data files: every column of every row (spec: Data columns, Frame flags)."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache

import numpy as np
import pyarrow as pa

from lucky_recorder.session.checks.declared import Declared, DeclaredColumn
from lucky_recorder.session.checks.evidence import Evidence, Fault, Listed
from lucky_recorder.session.checks.vectors import Array, first_wrong, type_fault, values

# Repeated on purpose: a check that used the writer's constants would not find a wrong one.
_KNOWN_FLAGS = 0b11
_NANOSECONDS = 10**9
# Others add up their steps, or take the simulation's own time (spec: "advances by one data-runner step per frame").
_OTHERS_TIMING_S = 1e-4
# What pandas calls an index that it stores and that has no name.
_PANDAS_INDEX = "__index_level_"


def check_data_files(evidence: Evidence) -> Iterator[Fault]:
    """Check each data file that ``meta/episodes`` names, in one pass."""
    columns: list[str] | None = None
    entities: list[int] = []
    for file, episodes, table in evidence.tables():
        columns = columns or table.column_names
        if table.column_names != columns:
            yield Fault(file, None, "has other columns, or another order, than the first data file")
        yield from _check_columns(file, table, evidence.declared)
        if not _has_leading(table, evidence.declared):
            continue
        entities = entities or table[evidence.declared.leading[1]][: evidence.declared.robots or 1].to_pylist()
        yield from _check_episode_indices(file, episodes, table)
        for episode in episodes:
            rows = _rows_of(table, episode)
            for message in (*_row_faults(rows, episode, evidence, entities), *_value_faults(rows, evidence.declared)):
                yield Fault(file, episode.number, message)


def _check_columns(file: str, table: pa.Table, declared: Declared) -> Iterator[Fault]:
    """Features and stored columns are one to one; every row starts with the same columns."""
    features = {k for k, v in (declared.features or {}).items() if not isinstance(v, dict) or v.get("dtype") != "video"}
    if declared.features is not None:
        for name in sorted(features - set(table.column_names)):
            yield Fault(file, None, f"column {name} is missing; info.json has a feature for it")
        for name in sorted(set(table.column_names) - features):
            if name.startswith(_PANDAS_INDEX) and not declared.is_ours:
                continue
            yield Fault(file, None, f"column {name} has no feature in info.json")
    if declared.entity_column:
        start = (*declared.leading, *declared.vectors)
        if tuple(table.column_names[: len(start)]) != start:
            yield Fault(file, None, f"does not start with the columns {', '.join(start)}")
    stored = {name: table[name] for name in table.column_names if table.column_names.count(name) == 1}
    for column in declared.columns.values():
        wrong = type_fault(stored[column.name].type, column) if column.name in stored else None
        if wrong:
            yield Fault(file, None, f"column {column.name}: {wrong}")
    for name in (*declared.leading, *declared.vectors):
        if name in stored and stored[name].null_count:
            yield Fault(file, None, f"column {name}: a value is missing")


def _has_leading(table: pa.Table, declared: Declared) -> bool:
    """Tell whether the columns every row starts with can be looked at: each there once, of its type, and whole."""
    kinds = {name: pa.int64() for name in declared.leading} | {"timestamp": pa.float64(), "frame_flags": pa.uint8()}
    names = table.column_names
    return all(
        names.count(n) == 1 and table.schema.field(n).type == kind and not table[n].null_count
        for n, kind in kinds.items()
    )


def _check_episode_indices(file: str, episodes: list[Listed], table: pa.Table) -> Iterator[Fault]:
    found = table["episode_index"].to_numpy()
    for index in np.setdiff1d(found, [e.number for e in episodes]):
        yield Fault(file, None, f"holds rows of episode {index}, which meta/episodes does not list there")
    lengths = [e.length for e in episodes]
    if sum(lengths) == len(found):
        expected = np.repeat([e.number for e in episodes], lengths)
        yield from (Fault(file, None, message) for message in _differ("episode_index", found, expected))


def _rows_of(table: pa.Table, episode: Listed) -> pa.Table:
    return table.filter(pa.array(table["episode_index"].to_numpy() == episode.number))


def _row_faults(rows: pa.Table, episode: Listed, evidence: Evidence, entities: list[int]) -> Iterator[str]:
    count, declared = rows.num_rows, evidence.declared
    if count != episode.length:
        yield f"{count} rows, meta/episodes says {episode.length}"
    if count != episode.length or not count:
        return
    found = {name: rows[name].to_numpy() for name in declared.leading}
    yield from _differ("index", found["index"], episode.first + np.arange(count))
    yield from _flag_faults(found["frame_flags"])
    says_tasks = declared.is_ours or "tasks" in episode.values
    yield from _task_faults(found["task_index"], episode, evidence.descriptions, says_tasks)
    if declared.robots and count % declared.robots == 0:
        yield from _tick_faults(found, count // declared.robots, declared, entities)


def _tick_faults(found: dict[str, Array], ticks: int, declared: Declared, entities: list[int]) -> Iterator[str]:
    """Check what the robots of a tick share, and that they are the same robots at every tick."""
    robots, entity = len(entities), declared.leading[1]
    yield from _differ("frame_index", found["frame_index"], np.repeat(np.arange(ticks), robots))
    if declared.hz is not None:
        times = np.repeat(tick_times(_longest(ticks), declared.hz)[:ticks], robots)
        if not declared.is_ours:
            times = np.where(np.abs(found["timestamp"] - times) < _OTHERS_TIMING_S, found["timestamp"], times)
        yield from _differ("timestamp", found["timestamp"], times)
    if len(set(entities)) != robots:
        yield f"{entity}: {entities} are not the ids of {robots} robots"
    if declared.is_ours:
        yield from _differ(entity, found[entity], np.tile(entities, ticks))
    else:  # the format does not say in which order the robots of a tick stand
        sorted_ids = np.sort(found[entity].reshape(ticks, robots), axis=1).reshape(-1)
        yield from _differ(entity, sorted_ids, np.tile(sorted(entities), ticks))


def _flag_faults(flags: Array) -> Iterator[str]:
    unknown = np.flatnonzero(flags & ~np.uint8(_KNOWN_FLAGS))
    if len(unknown):
        yield f"row {unknown[0]}: frame_flags is {flags[unknown[0]]}, only bits 0 and 1 are known"


def _task_faults(indices: Array, episode: Listed, descriptions: list[str] | None, says_tasks: bool) -> Iterator[str]:
    if descriptions is None:
        return
    occurring = np.unique(indices)
    if occurring[0] < 0 or occurring[-1] >= len(descriptions):
        yield f"task_index {occurring[0]}..{occurring[-1]} is out of range, there are {len(descriptions)} tasks"
    elif says_tasks and episode.values.get("tasks") != [descriptions[i] for i in occurring]:
        yield f"its rows have tasks {occurring.tolist()}, meta/episodes says {episode.values.get('tasks')}"


def _value_faults(rows: pa.Table, declared: Declared) -> Iterator[str]:
    """Check the length of every list, and that commands and positions are finite."""
    for column in declared.columns.values():
        if rows.column_names.count(column.name) != 1 or type_fault(rows.schema.field(column.name).type, column):
            continue
        yield from _vector_faults(rows[column.name], column)


def _vector_faults(stored: pa.ChunkedArray, column: DeclaredColumn) -> Iterator[str]:
    found = values(stored, column.shape)
    if found is None:
        yield f"{column.name}: a list is not whole, or not of shape {list(column.shape)}"
    elif column.is_vector:
        broken = np.flatnonzero(~np.isfinite(found).all(axis=1))
        if len(broken):
            yield f"{column.name}: row {broken[0]} holds NaN or infinity"


def _differ(name: str, found: Array, expected: Array) -> Iterator[str]:
    row = first_wrong(found, expected)
    if row is not None:
        yield f"row {row}: {name} is {found[row]}, expected {expected[row]}"


def _longest(ticks: int) -> int:
    """Round up to a power of two, so that few lengths of `tick_times` are ever computed."""
    return 1 << max(ticks - 1, 1).bit_length()


@lru_cache(maxsize=4)
def tick_times(ticks: int, hz: Fraction) -> Array:
    """Return the seconds of ticks ``0..ticks-1``: whole nanoseconds, nearest to the exact time, over ``1e9``."""
    step = Fraction(_NANOSECONDS) / hz
    return np.array([round(k * step) / _NANOSECONDS for k in range(ticks)])
