"""``meta/``: what a session says of itself, written atomically and appended to (spec: Metadata)."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from lucky_recorder.episode import clock, keys
from lucky_recorder.episode.schema import Schema
from lucky_recorder.episode.statistics import ColumnStatistics, PixelHistogram
from lucky_recorder.session import later, layout, rows
from lucky_recorder.session.features import END_REASON, STATES_PATH, episodes_schema, features
from lucky_recorder.session.log import Log
from lucky_recorder.storage import named
from lucky_recorder.storage.space import of_table
from lucky_recorder.storage.write import json_bytes, stage, write_json
from lucky_recorder.version import __version__

CODEBASE_VERSION = "v3.0"
# What ``info.json`` says of a copy for LeRobot, which is no recording.
VIEW = "lerobot_view"
# LeRobot's tools ask for these two. The recorder does not split files by size (spec: info.json).
_FILE_SIZES_MB = {"data_files_size_in_mb": 100, "video_files_size_in_mb": 200}

# Four small files take whole blocks, and Parquet's footers; what is measured later is added.
_SMALLEST_WRITE = 1 << 17
# Nine numbers, each on a line of its own.
_BYTES_OF_STATS = 300


class Finished(NamedTuple):
    """What an episode adds to ``meta/``.

    Attributes:
        row: Its row of ``meta/episodes``.
        columns: Its column statistics, by name.
        pixels: What was counted of its colour streams, by key.
        reproducible: Whether the same run would give the same bytes again.
    """

    row: Mapping[str, Any]
    columns: Mapping[str, ColumnStatistics]
    pixels: Mapping[str, PixelHistogram]
    reproducible: bool


class Totals:
    """Everything a session adds up over the episodes that ``meta/`` lists."""

    def __init__(self) -> None:
        self.episodes = 0
        self.rows = 0
        self.reproducible = True
        self.columns: dict[str, ColumnStatistics] = {}
        self.streams: dict[str, PixelHistogram] = {}

    def add(self, episode: Finished) -> None:
        """Add an episode; they come in the order of their indices."""
        self.episodes += 1
        self.rows += episode.row["length"]
        self.reproducible &= episode.reproducible
        for name, one in episode.columns.items():
            self.columns[name] = self.columns[name].merge(one) if name in self.columns else one
        self.add_pixels(episode.pixels)

    def add_pixels(self, measured: Mapping[str, PixelHistogram]) -> None:
        """Merge what was counted of colour streams."""
        for key, one in measured.items():
            self.streams[key] = self.streams[key].merge(one) if key in self.streams else one

    def stats(self) -> dict[str, Any]:
        """Return the content of ``stats.json``."""
        return {name: one.to_json() for name, one in (self.columns | self.streams).items()}


class Before(NamedTuple):
    """What a session has already when a recording begins to write it.

    Attributes:
        info: The content of its ``info.json``; empty if it has none yet.
        tasks: Its task descriptions, in index order.
        totals: What its episodes come to.
        writes: Files under ``meta/episodes``.
        has_about: Whether these say what is known of episodes besides their rows; earlier versions did not.
    """

    info: Mapping[str, Any]
    tasks: Sequence[str]
    totals: Totals
    writes: int
    has_about: bool = True

    @classmethod
    def nothing(cls) -> Before:
        """Return what a new session has."""
        return cls({}, (), Totals(), 0)


class MadeOf(NamedTuple):
    """What a session takes over from those whose episodes it is made of.

    Attributes:
        info: The content of their ``info.json``; what is counted or groups files is the new session's own.
        columns: The columns of their ``meta/episodes`` beside the format's own; a row without a value has null.
    """

    info: Mapping[str, Any]
    columns: pa.Schema

    def described(self, schema: Schema, chunking: layout.Chunking) -> dict[str, Any]:
        """Return the content of the new ``info.json`` before anything is counted."""
        own = info(schema, chunking)
        grouping = ("chunks_size", "episodes_per_file", "data_path", "video_path")
        new = {field: own[field] for field in grouping if field in own and field in self.info}
        if "recorder_version" in self.info:
            return {**own, **self.info, **new, "recorder_version": __version__}
        # Another recorder's stays one of that recorder: what only this one promises, it does not hold.
        return {**self.info, **new}


def info(schema: Schema, chunking: layout.Chunking) -> dict[str, Any]:
    """Return the content of ``info.json`` before anything is counted (spec: info.json)."""
    video = {"video_path": layout.VIDEO_PATH} if schema.streams else {}
    states = {STATES_PATH: layout.STATES_PATH} if schema.has_states else {}
    described = {
        "codebase_version": CODEBASE_VERSION,
        "recorder_version": __version__,
        "neural_denoise": False,
        "bit_reproducible": True,
        schema.entity_type_field: schema.entity_label,
        "robots": list(schema.robots),
        "total_tasks": 1,
        "total_episodes": 0,
        "total_frames": 0,
        "fps": clock.number(schema.hz),
        "hz": clock.number(schema.hz),
        "chunks_size": chunking.files_per_chunk,
        "episodes_per_file": chunking.episodes_per_file,
        **_FILE_SIZES_MB,
        "data_path": layout.DATA_PATH,
        **video,
        **states,
        **later.said(schema.to_draw),
        "splits": {},
        "features": features(schema),
    }
    return counted(described, 0, Totals())


def counted(info: Mapping[str, Any], tasks: int, totals: Totals) -> dict[str, Any]:
    """Return the content of ``info.json`` with what is counted."""
    return {
        **info,
        "bit_reproducible": totals.reproducible,
        "total_tasks": max(1, tasks),
        "total_episodes": totals.episodes,
        "total_frames": totals.rows,
        "splits": {"train": f"0:{totals.episodes}"},
    }


def as_json(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return what JSON can hold of a row of ``meta/episodes``: a time of somebody's, say, is in the table alone."""
    return {name: value for name, value in row.items() if not isinstance(value, pa.Scalar)}


def write_episodes(path: Path, schema: pa.Schema, episodes: Sequence[Mapping[str, Any]]) -> None:
    """Append a file under ``meta/episodes``; every file has the same, typed schema."""
    place = layout.place_of(path)
    numbered = [{**e, keys.META_CHUNK: place.chunk_index, keys.META_FILE: place.file_index} for e in episodes]
    _write_parquet(path, pa.Table.from_pylist(numbered, schema=schema))


def write_list(path: Path, table: pa.Table) -> None:
    """Write a file of ``meta/episodes`` again that has got another name: each row says where it stands."""
    for column, number in zip((keys.META_CHUNK, keys.META_FILE), layout.place_of(path), strict=True):
        if column in table.column_names:
            numbers = pa.array([number] * table.num_rows, pa.int64())
            table = table.set_column(table.column_names.index(column), column, numbers)
    _write_parquet(path, table)


def write_tasks(path: Path, tasks: Sequence[str]) -> None:
    """Write ``tasks.parquet``: the description is the table's pandas index (spec: tasks.parquet)."""
    described = list(tasks) or [keys.DEFAULT_TASK]
    # Written by hand, because the recorder does not need pandas. pandas reads from this note that the description is
    # the index.
    index = "task"
    note = {
        "index_columns": [index],
        "column_indexes": [],
        "columns": [
            _pandas_column(keys.TASK_INDEX, keys.TASK_INDEX, "int64", "int64"),
            _pandas_column(index, index, "unicode", "object"),
        ],
        "creator": {"library": "pyarrow", "version": pa.__version__},
        "pandas_version": "2.0.0",
    }
    columns = [(keys.TASK_INDEX, pa.int64()), (index, pa.string())]
    schema = pa.schema(columns, metadata={b"pandas": json.dumps(note).encode()})
    table = pa.table({keys.TASK_INDEX: list(range(len(described))), index: described}, schema=schema)
    _write_parquet(path, table)


def _pandas_column(name: str | None, field: str, kind: str, numpy_type: str) -> dict[str, Any]:
    return {"name": name, "field_name": field, "pandas_type": kind, "numpy_type": numpy_type, "metadata": None}


def _write_parquet(path: Path, table: pa.Table) -> None:
    stage(
        path,
        lambda temporary: named.write_table(temporary, table),
        lambda temporary: rows.verify(temporary, table.num_rows),
        of_table(table),
    ).commit()


def write_totals(root: Path, info: Mapping[str, Any], tasks: int, totals: Totals) -> None:
    """Write what counts the episodes that ``meta/episodes`` lists by now."""
    write_json(root / layout.STATS_PATH, totals.stats())
    # Last: it says how many episodes there are, and must not say it before meta/episodes lists them.
    write_json(root / layout.INFO_PATH, counted(info, tasks, totals))


class MetadataWriter:
    """Writes ``meta/`` again and again as a session grows; ``info.json`` last, so it never counts what is not there.

    It is written with the first episode, so that others can open what there is, then every so many, and at the end.

    Attributes:
        info: The content of ``info.json`` before anything is counted.
        tasks: The task descriptions that are known by now, registered or found.
        listed: Episodes that ``meta/episodes`` lists by now.
        counted: Episodes that ``info.json`` counts by now.

    Args:
        root: The session's folder.
        schema: What a row and a frame are.
        chunking: How files are grouped.
        tasks: The task descriptions that are known beforehand.
        every: Episodes between two writes.
        before: What the session has already; None for a new one.
        made_of: What it takes over from other sessions; None for a recording.
        log: Says where the session comes from; None where nothing does.
    """

    def __init__(
        self,
        root: Path,
        schema: Schema,
        chunking: layout.Chunking,
        tasks: Sequence[str],
        every: int = 25,
        before: Before | None = None,
        made_of: MadeOf | None = None,
        log: Log | None = None,
    ) -> None:
        before = before or Before.nothing()
        # What is there stays: where cameras stood in the first recording, and what others have added.
        kept = {**before.info, "recorder_version": __version__} if before.info else {}
        described = made_of.described(schema, chunking) if made_of else info(schema, chunking) | kept
        self.info = counted(described, 0, Totals())
        self.tasks = [*before.tasks, *(task for task in tasks if task not in before.tasks)]
        self._root = root
        self._log = log
        # One for all files, also those of earlier versions: LeRobot reads them as one table.
        noted = made_of.columns if made_of else ()
        has_about = END_REASON in made_of.columns.names if made_of else before.has_about
        self._schema = episodes_schema([s.key for s in schema.described], has_about, noted, schema.has_states)
        self._chunking = chunking
        self._every = every
        self._totals = before.totals
        self._tasks_written = len(before.tasks) if before.info else -1
        self._writes = before.writes
        # Where there is a `meta/` already, it is left alone until an episode is added: then what it says is never
        # ahead of, nor behind, what data files carry.
        self._is_behind = not before.info
        self._is_first = True
        self.listed = self.counted = before.totals.episodes
        # As long as there are none yet: a line per value of each column.
        values = sum(math.prod(field.shape) for field in schema.columns if field.has_stats)
        self._stats_bytes = _BYTES_OF_STATS * values
        self._longest_row = 0
        self._pending: list[Mapping[str, Any]] = []

    def listable(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Return what is listed of an episode: the columns that the session's files have."""
        return {name: value for name, value in row.items() if name in self._schema.names}

    def add(self, episode: Finished) -> None:
        """Take an episode whose data file is whole, to be listed by the next write."""
        self._is_behind = True
        self._pending.append(episode.row)
        self._longest_row = max(self._longest_row, len(json.dumps(as_json(episode.row)).encode()))
        self._totals.add(episode)

    def is_due(self, episodes: int) -> bool:
        """Tell whether it is time to write, with so many episodes committed."""
        return bool(self._pending) and (self._is_first or episodes % self._every == 0)

    def write(self) -> None:
        """Write ``meta/`` so that it lists every episode taken so far."""
        if self._log is not None:
            self._log.write(self._totals.episodes)
        if not self._is_behind:
            return
        # Tasks first: no episode is listed before its tasks are. They are written again only where some were found.
        if self._tasks_written != len(self.tasks):
            write_tasks(self._root / layout.TASKS_PATH, self.tasks)
            self._tasks_written = len(self.tasks)
        if self._pending:
            place = self._chunking.metadata(self._writes)
            write_episodes(layout.episodes_path(self._root, place), self._schema, self._pending)
            self._writes += 1
            self.listed += len(self._pending)
            self._is_first = False
            self._pending = []
        write_totals(self._root, self.info, len(self.tasks), self._totals)
        self.counted = self._totals.episodes

    def largest(self, waiting: int) -> int:
        """Return how many bytes the next write takes, at most.

        Args:
            waiting: Episodes that it may have to list.
        """
        whole = len(json_bytes(self.info)) + max(len(json_bytes(self._totals.stats())), self._stats_bytes)
        tasks = sum(len(task.encode()) for task in self.tasks)
        # Each file is whole beside the one that it replaces, which is gone before the next is written.
        log = self._log.largest() if self._log is not None else 0
        return _SMALLEST_WRITE + whole + tasks + log + waiting * self._longest_row
