"""``meta/``: what a session says of itself, written atomically and appended to (spec: Metadata)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lucky_recorder.episode import clock, keys
from lucky_recorder.episode.schema import Schema
from lucky_recorder.episode.statistics import ColumnStatistics, PixelHistogram
from lucky_recorder.session import layout, rows
from lucky_recorder.session.features import episodes_schema, features
from lucky_recorder.storage.write import stage, write_json
from lucky_recorder.version import __version__

CODEBASE_VERSION = "v3.0"
# LeRobot's tools ask for these two. The recorder does not split files by size (spec: info.json).
_FILE_SIZES_MB = {"data_files_size_in_mb": 100, "video_files_size_in_mb": 200}


class Totals:
    """Everything a session adds up over its committed episodes."""

    def __init__(self) -> None:
        self.episodes = 0
        self.rows = 0
        self.reproducible = True
        self.columns: dict[str, ColumnStatistics] = {}
        self.streams: dict[str, PixelHistogram] = {}

    def add_columns(self, measured: Mapping[str, ColumnStatistics]) -> None:
        """Merge an episode's column statistics."""
        for name, one in measured.items():
            self.columns[name] = self.columns[name].merge(one) if name in self.columns else one

    def add_streams(self, measured: Mapping[str, PixelHistogram]) -> None:
        """Merge an episode's pixel counts."""
        for key, one in measured.items():
            self.streams[key] = self.streams[key].merge(one) if key in self.streams else one

    def stats(self) -> dict[str, Any]:
        """Return the content of ``stats.json``."""
        return {name: one.to_json() for name, one in (self.columns | self.streams).items()}


def info(schema: Schema, chunking: layout.Chunking, tasks: Sequence[str], totals: Totals) -> dict[str, Any]:
    """Return the content of ``info.json`` (spec: info.json)."""
    video = {"video_path": layout.VIDEO_PATH} if schema.streams else {}
    return {
        "codebase_version": CODEBASE_VERSION,
        "recorder_version": __version__,
        "neural_denoise": False,
        "bit_reproducible": totals.reproducible,
        schema.entity_type_field: schema.entity_label,
        "robots": list(schema.robots),
        "total_tasks": max(1, len(tasks)),
        "total_episodes": totals.episodes,
        "total_frames": totals.rows,
        "fps": clock.number(schema.hz),
        "hz": clock.number(schema.hz),
        "chunks_size": chunking.files_per_chunk,
        "episodes_per_file": chunking.episodes_per_file,
        **_FILE_SIZES_MB,
        "data_path": layout.DATA_PATH,
        **video,
        "splits": {"train": f"0:{totals.episodes}"},
        "features": features(schema),
    }


def write_episodes(path: Path, schema: Schema, episodes: Sequence[Mapping[str, Any]]) -> None:
    """Append a file under ``meta/episodes``; every file has the same, typed schema."""
    place = layout.place_of(path)
    numbered = [{**e, keys.META_CHUNK: place.chunk_index, keys.META_FILE: place.file_index} for e in episodes]
    _write_parquet(path, pa.Table.from_pylist(numbered, schema=episodes_schema(schema)))


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
        lambda temporary: pq.write_table(table, temporary, compression="zstd", write_page_checksum=True),
        lambda temporary: rows.verify(temporary, table.num_rows),
    ).commit()


class MetadataWriter:
    """Writes ``meta/`` again and again as a session grows; ``info.json`` last, so it never counts what is not there."""

    def __init__(self, root: Path, schema: Schema, chunking: layout.Chunking, tasks: Sequence[str]) -> None:
        self._root = root
        self._schema = schema
        self._chunking = chunking
        self._tasks = list(tasks)
        self._tasks_written = -1
        self._writes = 0
        self._pending: list[Mapping[str, Any]] = []

    @property
    def pending(self) -> int:
        """Episodes finished since the last write."""
        return len(self._pending)

    @property
    def total_tasks(self) -> int:
        """Tasks that are known by now, registered or found."""
        return len(self._tasks)

    def add(self, episode: Mapping[str, Any], new_tasks: Sequence[str] = ()) -> None:
        """Take a committed episode's row of ``meta/episodes``, and its new tasks, to be listed by the next write."""
        self._pending.append(episode)
        self._tasks += new_tasks

    def write(self, totals: Totals) -> None:
        """Write ``meta/`` so that it lists every episode taken so far."""
        # Tasks first: no episode is listed before its tasks are. They are written again only where some were found.
        if self._tasks_written != len(self._tasks):
            write_tasks(self._root / layout.TASKS_PATH, self._tasks)
            self._tasks_written = len(self._tasks)
        if self._pending:
            place = self._chunking.metadata(self._writes)
            write_episodes(layout.episodes_path(self._root, place), self._schema, self._pending)
            self._writes += 1
            self._pending = []
        # info.json last: it says how many episodes there are, and must not say it before meta/episodes lists them.
        write_json(self._root / layout.STATS_PATH, totals.stats())
        write_json(self._root / layout.INFO_PATH, info(self._schema, self._chunking, self._tasks, totals))
