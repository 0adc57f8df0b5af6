"""Finished episodes of known numbers, put through the real sink and the real encoder; and bundles read back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow.parquet as pq

from lucky_recorder.episode import clock
from lucky_recorder.episode.record import EpisodeRecord, FinishedVideo, Outcome
from lucky_recorder.episode.schema import Schema
from lucky_recorder.episode.statistics import PixelHistogram
from lucky_recorder.koyu.sink import KoyuSink
from lucky_recorder.settings.koyu import KoyuSettings
from lucky_recorder.testing import paint_count
from lucky_recorder.video.decode import decode_all
from lucky_recorder.video.encoder import VideoEncoder

BEGAN_NS = 1_760_000_000_123_456_789
TASKS = ("Pick up the cube", "Put it down")
SETTLED = KoyuSettings("cubes", id_seed=3, time_origin_ns=5_000_000_000)


class Read(NamedTuple):
    """A bundle as its files have it."""

    sidecar: dict[str, Any]
    types: dict[str, str]
    rows: dict[str, np.ndarray]
    frames: dict[str, np.ndarray]


def make_sink(root: Path, schema: Schema, settings: KoyuSettings = SETTLED, **options: Any) -> KoyuSink:
    sink = KoyuSink(root, settings, **options)
    sink.open(schema, TASKS)
    return sink


def make_record(
    sink: KoyuSink,
    schema: Schema,
    ticks: int,
    attempt: int = 0,
    outcome: Outcome = Outcome(True),  # noqa: B008 - immutable
    tasks: Sequence[int] = (0,),
    described: Sequence[str] = TASKS,
    values: dict[str, Any] | None = None,
    **fields: Any,
) -> EpisodeRecord:
    """Make a finished episode; the value of element e in row r of a column is ``1000 * attempt + r + e / 8``."""
    rows = ticks * len(schema.robots)
    columns = {
        schema.entity_column: np.zeros(rows, np.int64),
        "timestamp": np.repeat(clock.ticks_s(ticks, schema.hz), len(schema.robots)),
        "frame_index": np.repeat(np.arange(ticks), len(schema.robots)),
        "task_index": np.repeat(np.sort(np.resize(tasks, ticks)), len(schema.robots)),
        "frame_flags": np.ones(rows, np.uint8),
    }
    for column in schema.columns:
        counted = 1000 * attempt + np.arange(rows)[:, None] + np.arange(column.size) / 8
        columns[column.name] = counted.reshape(rows, *column.shape).astype(column.dtype)
    videos = {s.key: _film(sink.stream_path(s.key, attempt, ".mp4"), s, ticks, attempt) for s in schema.streams}
    occurring = {index: described[index] for index in sorted({int(t) for t in columns["task_index"]})}
    return EpisodeRecord(
        attempt, ticks, rows, columns | (values or {}), outcome, occurring, videos, began_ns=BEGAN_NS, **fields
    )


def _film(path: Path, stream: Any, ticks: int, attempt: int) -> FinishedVideo:
    encoder = VideoEncoder(path, width=stream.width, height=stream.height, fps=stream.rate)
    for frame in range(ticks):
        encoder.write(paint_count(100 * attempt + frame, stream.height, stream.width))
    return FinishedVideo(encoder.close(), PixelHistogram())


def keep(sink: KoyuSink, schema: Schema, ticks: int, **episode: Any) -> EpisodeRecord:
    record = make_record(sink, schema, ticks, **episode)
    sink.prepare(record).commit()
    return record


def read_manifest(dataset: Path) -> dict[str, Any]:
    return json.loads((dataset / "manifest.json").read_text())


def read_bundle(folder: Path) -> Read:
    """Read every file of a bundle; there is nothing but what the format names."""
    names = {path.name for path in folder.iterdir()}
    videos = {name for name in names if name.endswith(".mp4")}
    assert names == {"data.parquet", "episode.json"} | videos
    table = pq.read_table(folder / "data.parquet")
    return Read(
        json.loads((folder / "episode.json").read_text()),
        {f.name: str(f.type) for f in table.schema},
        {name: np.array(table[name].to_pylist()) for name in table.column_names},
        {name.removesuffix(".mp4"): decode_all(folder / name) for name in videos},
    )


def read_dataset(dataset: Path) -> list[Read]:
    """Read every bundle that the manifest lists; there are no others, and nothing temporary is left."""
    listed = [entry["id"] for entry in read_manifest(dataset)["episodes"]]
    assert sorted(listed) == sorted(path.name for path in (dataset / "episodes").iterdir())
    return [read_bundle(dataset / "episodes" / name) for name in listed]


def snapshot(folder: Path) -> dict[str, bytes | None]:
    """Return every file below a folder with its bytes."""
    found = sorted(folder.rglob("*"))
    return {str(p.relative_to(folder)): p.read_bytes() if p.is_file() else None for p in found}
