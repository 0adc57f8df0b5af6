"""Checks of ``meta/episodes`` and of the data files' footers (spec: Episode metadata)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

import pyarrow as pa

from lucky_recorder.errors import shown
from lucky_recorder.session.checks.declared import Declared, DeclaredStream
from lucky_recorder.session.checks.evidence import Evidence, Fault

# Repeated on purpose: a check that used the writer's constants would not find a wrong one.
_COLUMNS = {
    "episode_index": pa.int64(),
    "chunk_index": pa.int64(),
    "file_index": pa.int64(),
    "data/chunk_index": pa.int64(),
    "data/file_index": pa.int64(),
    "length": pa.int64(),
    "success": pa.bool_(),
    "dataset_from_index": pa.int64(),
    "dataset_to_index": pa.int64(),
}
# What this recorder writes beyond the format's page.
_OURS = {
    "tasks": pa.list_(pa.string()),
    "meta/episodes/chunk_index": pa.int64(),
    "meta/episodes/file_index": pa.int64(),
}
# What it writes of an episode besides its numbers; versions before it wrote none of them.
ABOUT = {
    "seed": pa.string(),
    "options": pa.string(),
    "lane": pa.int64(),
    "recorded_at": pa.string(),
    "duration_s": pa.float64(),
    "end_reason": pa.string(),
    "annotations": pa.string(),
}
# What stands in meta/episodes alone.
_WHEN = ("recorded_at", "duration_s")
_VIDEO_COLUMNS = {
    "chunk_index": pa.int64(),
    "file_index": pa.int64(),
    "from_timestamp": pa.float64(),
    "to_timestamp": pa.float64(),
}
_STATES_COLUMNS = {"states/chunk_index": pa.int64(), "states/file_index": pa.int64()}
_FOLDER = "meta/episodes"
# Copies say so of themselves since `lerobot_view` is in their info.json.
_EARLIER_COPY = ": if it is a copy for LeRobot that an earlier version has made, make it anew from its session"
# How the names of columns begin that say where files are.
_OWN_PREFIXES = ("data/", "meta/", "videos/", "states/")

Row = Mapping[str, Any]
T = TypeVar("T")


def check_meta_files(evidence: Evidence) -> Iterator[Fault]:
    """Check that the files have the documented columns, typed, and that ours are numbered without a gap.

    What somebody has noted of episodes in columns of their own is theirs, if each has one type.
    """
    yield from _type_faults(evidence)
    if not evidence.declared.is_ours:
        for name, table in evidence.meta_files.items():
            found = {f.name: f.type for f in table.schema}
            yield from _check_schema(name, {c: kind for c, kind in found.items() if c in _COLUMNS}, _COLUMNS)
        return
    per_chunk = evidence.declared.files_per_chunk
    names = [name for name in evidence.under(_FOLDER) if name.endswith(".parquet") and "/." not in name]
    for write, name in enumerate(names if per_chunk else []):
        expected = "meta/episodes/chunk-{:03d}/file-{:03d}.parquet".format(*divmod(write, per_chunk or 1))
        if name != expected:
            yield Fault(name, None, f"out of place: metadata file {write} is {expected}")
    is_told = any(name in table.column_names for table in evidence.meta_files.values() for name in ABOUT)
    wanted = _COLUMNS | _OURS | (ABOUT if is_told else {})
    if "states_path" in (evidence.info or {}):
        wanted |= _STATES_COLUMNS
    for key in evidence.declared.streams:
        wanted |= {f"videos/{key}/{suffix}": kind for suffix, kind in _VIDEO_COLUMNS.items()}
    for name, table in evidence.meta_files.items():
        yield from _check_schema(name, {f.name: f.type for f in table.schema}, wanted)
        if len(set(table.column_names)) != table.num_columns:
            yield Fault(name, None, "a column stands twice")


def _type_faults(evidence: Evidence) -> Iterator[Fault]:
    """Check that what the format does not speak of is of one type in all files: readers take them for one table."""
    kinds: dict[str, tuple[str, pa.DataType]] = {}
    for name, table in evidence.meta_files.items():
        for field in table.schema:
            is_own = field.name not in (*_COLUMNS, *_OURS, *ABOUT) and not field.name.startswith(_OWN_PREFIXES)
            if is_own and not pa.types.is_null(field.type):
                first, kind = kinds.setdefault(field.name, (name, field.type))
                if kind != field.type:
                    yield Fault(name, None, f"column {field.name} is {field.type}, in {first} it is {kind}")


def _check_schema(name: str, found: Mapping[str, pa.DataType], wanted: Mapping[str, pa.DataType]) -> Iterator[Fault]:
    for column in sorted(wanted.keys() | found.keys()):
        if column not in found:
            yield Fault(name, None, f"column {column} is missing")
        elif column not in wanted:
            if column.startswith(_OWN_PREFIXES):
                yield Fault(name, None, f"column {column} is not of the format")
        elif found[column] != wanted[column]:
            yield Fault(name, None, f"column {column} is {found[column]}, expected {wanted[column]}")


def check_rows(evidence: Evidence) -> Iterator[Fault]:
    """Check each episode's numbers: indices without a gap, places by the arithmetic of chunks, rows contiguous."""
    first = 0
    for position, (name, row) in enumerate(evidence.rows):
        for message in _row_faults(row, position, first, name, evidence):
            yield Fault(name, _whole(row, "episode_index", None), message)
        first = _whole(row, "dataset_to_index", first)


def _row_faults(row: Row, position: int, first: int, name: str, evidence: Evidence) -> Iterator[str]:
    yield from _differ(row, "episode_index", position)
    yield from _differ(row, "dataset_from_index", first)
    length = _whole(row, "length", 0)
    yield from _differ(row, "dataset_to_index", _whole(row, "dataset_from_index", 0) + length)
    robots = evidence.declared.robots or 1
    if length <= 0 or length % robots:
        yield f"length is {row.get('length')}, expected a row for each of {robots} robots at each of at least one tick"
    if not isinstance(row.get("success"), bool):
        yield f"success is {shown(row.get('success'))}, expected true or false"
    yield from _place_faults(row, position, evidence.declared)
    if evidence.declared.is_ours:
        yield from _own_place_faults(row, name)
        yield from _task_faults(row, evidence.descriptions)
    for stream in evidence.declared.streams.values():
        yield from _video_faults(row, position, stream, evidence.declared.files_per_chunk)


def _whole(row: Row, column: str, otherwise: T) -> int | T:
    value = row.get(column)
    return value if isinstance(value, int) else otherwise


def _place_faults(row: Row, position: int, declared: Declared) -> Iterator[str]:
    if declared.files_per_chunk and declared.episodes_per_file:
        chunk, file = divmod(position // declared.episodes_per_file, declared.files_per_chunk)
        yield from _differ(row, "data/chunk_index", chunk)
        yield from _differ(row, "data/file_index", file)
    yield from _differ(row, "chunk_index", row.get("data/chunk_index"))
    yield from _differ(row, "file_index", row.get("data/file_index"))


def _own_place_faults(row: Row, name: str) -> Iterator[str]:
    own = f"{_FOLDER}/chunk-{_digits(row, 'chunk')}/file-{_digits(row, 'file')}.parquet"
    if own != name:
        yield f"says that it stands in {own}"


def _digits(row: Row, part: str) -> str:
    return str(row.get(f"meta/episodes/{part}_index")).zfill(3)


def _task_faults(row: Row, descriptions: list[str] | None) -> Iterator[str]:
    tasks = row.get("tasks")
    if not isinstance(tasks, list) or not tasks:
        yield f"tasks is {shown(tasks)}, expected the descriptions of its tasks"
    elif descriptions is not None and (unknown := [t for t in tasks if t not in descriptions]):
        yield f"task {shown(unknown[0])} is not in meta/tasks.parquet"


def _video_faults(row: Row, position: int, stream: DeclaredStream, per_chunk: int | None) -> Iterator[str]:
    columns = {suffix: f"videos/{stream.key}/{suffix}" for suffix in _VIDEO_COLUMNS}
    missing = [column for column in columns.values() if row.get(column) is None]
    if len(missing) == len(columns):
        if row.get("success") is True:
            yield f"{stream.key} wrote no file, and yet success is true"
        return
    yield from (f"{column} is empty, others of its stream are not" for column in missing)
    if per_chunk and not missing:
        chunk, file = divmod(position, per_chunk)
        yield from _differ(row, columns["chunk_index"], chunk)
        yield from _differ(row, columns["file_index"], file)
        yield from _differ(row, columns["from_timestamp"], 0.0)


def _differ(row: Row, column: str, expected: object) -> Iterator[str]:
    if row.get(column) != expected:
        yield f"{column} is {row.get(column)}, expected {expected}"


def check_footers(evidence: Evidence) -> Iterator[Fault]:
    """Check that each data file's footer says of its episodes what ``meta/episodes`` says; only ours has one.

    A copy for LeRobot lists other streams and other episodes than the session whose data files it has.
    """
    has_footers = evidence.declared.is_ours and not evidence.declared.is_view
    for file, episodes in evidence.data_files.items() if has_footers else ():
        footer = evidence.footer(file)
        if file in evidence.unreadable:
            continue
        if not isinstance(footer, list) or not all(isinstance(e, dict) for e in footer):
            hint = "" if footer is not None else _EARLIER_COPY
            yield Fault(file, None, f"the footer's list of episodes is {shown(footer)}{hint}")
            continue
        said = {_key(e.get("episode_index")): e for e in footer}
        for episode in episodes:
            values = episode.values.items()
            listed = {k: v for k, v in values if v is not None and k not in _WHEN and not k.startswith(_FOLDER)}
            footed = said.get(_key(episode.number), {})
            # What somebody has noted of it may stand in one of the two alone.
            if any(footed.get(k) != listed.get(k) for k in {*footed, *listed} if _must_agree(k, footed, listed)):
                # Such a copy has the session's own files, and lists fewer streams than these carry.
                has_more = any(_is_undeclared(column, evidence) for column in footed.keys() - listed.keys())
                hint = _EARLIER_COPY if has_more else ""
                yield Fault(file, episode.number, f"the footer does not say of it what {episode.source} says{hint}")


def _is_undeclared(column: str, evidence: Evidence) -> bool:
    return column.startswith("videos/") and column.split("/")[1] not in evidence.declared.streams


def _must_agree(column: str, footed: Row, listed: Row) -> bool:
    is_own = column in (*_COLUMNS, *_OURS, *ABOUT) or column.startswith(_OWN_PREFIXES)
    return is_own or (column in footed and column in listed)


def _key(index: object) -> str:
    """Make a key of whatever a footer has as an index."""
    return repr(index)
