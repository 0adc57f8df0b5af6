"""What derives from a `Schema`: Parquet columns, the features of ``info.json``, the columns of ``meta/episodes``."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from lucky_recorder.episode import clock, keys
from lucky_recorder.episode.schema import Field, Schema, Stream

_EPISODE_COLUMNS = (
    (keys.EPISODE_INDEX, pa.int64()),
    ("chunk_index", pa.int64()),
    ("file_index", pa.int64()),
    ("data/chunk_index", pa.int64()),
    ("data/file_index", pa.int64()),
    ("length", pa.int64()),
    ("success", pa.bool_()),
    ("dataset_from_index", pa.int64()),
    ("dataset_to_index", pa.int64()),
    ("tasks", pa.list_(pa.string())),
    (keys.META_CHUNK, pa.int64()),
    (keys.META_FILE, pa.int64()),
)
# What is known of an episode besides its rows: sessions of versions before these columns have none of them.
SEED, OPTIONS, LANE, END_REASON, ANNOTATIONS = "seed", "options", "lane", "end_reason", "annotations"
RECORDED_AT, DURATION = "recorded_at", "duration_s"
ABOUT_COLUMNS = (
    (SEED, pa.string()),
    (OPTIONS, pa.string()),
    (LANE, pa.int64()),
    (RECORDED_AT, pa.string()),
    (DURATION, pa.float64()),
    (END_REASON, pa.string()),
    (ANNOTATIONS, pa.string()),
)
# What says when it was recorded, in `meta/episodes` alone: without it the same run gives the same bytes.
WHEN = (RECORDED_AT, DURATION)
# Where an episode's states are, in sessions that keep them.
STATES_COLUMNS = tuple((f"{keys.STATES}{part}", pa.int64()) for part in ("chunk_index", "file_index"))
STATES_PATH = "states_path"
_VIDEO_COLUMNS = (
    ("chunk_index", pa.int64()),
    ("file_index", pa.int64()),
    ("from_timestamp", pa.float64()),
    ("to_timestamp", pa.float64()),
)


def arrow_type(field: Field) -> pa.DataType:
    """Return a column's Parquet type: a value, or a list per dimension of its shape."""
    kind = pa.string() if field.is_text else pa.from_numpy_dtype(field.dtype)
    for _ in field.shape:
        kind = pa.list_(kind)
    return kind


def arrow_schema(schema: Schema) -> pa.Schema:
    """Return the Parquet schema of the data files."""
    return pa.schema([pa.field(f.name, arrow_type(f)) for f in schema.fields])


def episodes_schema(
    streams: Iterable[str], has_about: bool = True, more: Iterable[pa.Field] = (), has_states: bool = False
) -> pa.Schema:
    """Return the one Parquet schema of every file under ``meta/episodes``; video columns may be null.

    Args:
        streams: The keys of the video streams that ``meta/`` speaks of.
        has_about: Whether it has `ABOUT_COLUMNS`: what an earlier version has begun, goes on without.
        more: Columns that are somebody's own; one of a name that is here already is left out.
        has_states: Whether it says where states are.
    """
    videos = [(keys.video_column(key, part), kind) for key in streams for part, kind in _VIDEO_COLUMNS]
    own = pa.schema(
        [*_EPISODE_COLUMNS, *(ABOUT_COLUMNS if has_about else ()), *videos, *(STATES_COLUMNS if has_states else ())]
    )
    return pa.schema([*own, *(field for field in more if field.name not in own.names)])


def has_about(listed: pa.Table, rows: Iterable[Mapping[str, Any]] = ()) -> bool:
    """Tell whether a session says what is known of its episodes besides their rows.

    Args:
        listed: What ``meta/episodes`` lists; the one schema of its files decides.
        rows: What data files carry of others.
    """
    if listed.num_rows:
        return END_REASON in listed.column_names
    return all(END_REASON in row for row in rows)


def streams_of(features: Mapping[str, Any]) -> list[str]:
    """Return the keys of the video streams that the ``features`` of ``info.json`` name."""
    return [key for key, feature in features.items() if feature.get("dtype") == "video"]


def measured_of(features: Mapping[str, Any]) -> list[str]:
    """Return the names of the columns that have statistics, by the ``features`` of ``info.json``."""
    unmeasured = ("video", keys.TEXT)
    return [n for n, f in features.items() if n not in keys.LEADING and f.get("dtype") not in unmeasured]


def features(schema: Schema) -> dict[str, dict[str, Any]]:
    """Return the ``features`` of ``info.json``: one entry per column and per stream."""
    columns = {f.name: _column_feature(f) for f in schema.fields} if schema.has_rows else {}
    return columns | {s.key: _stream_feature(s) for s in schema.described}


def _column_feature(field: Field) -> dict[str, Any]:
    names = field.flags or field.names
    feature: dict[str, Any] = {
        "dtype": field.dtype,
        "shape": list(field.shape or (1,)),
        "names": list(names) if names else None,
    }
    if field.lucky_names:
        feature["lucky_names"] = list(field.lucky_names)
    if field.unit:
        feature["unit"] = field.unit
    return feature


def _stream_feature(stream: Stream) -> dict[str, Any]:
    return {
        "dtype": "video",
        "shape": [stream.height, stream.width, stream.channels],
        "names": ["height", "width", "channels"],
        "info": {
            "video.fps": clock.number(stream.rate),
            "video.height": stream.height,
            "video.width": stream.width,
            "video.channels": stream.channels,
            "video.codec": stream.codec,
            "video.pix_fmt": stream.pix_fmt,
            "video.is_depth_map": stream.kind != "color",
            "has_audio": False,
            **stream.info,
            **stream.calibration,
        },
    }


def sizes_of(features: object) -> dict[str, int]:
    """Return how many values a row has, by column; of what is broken in the features nothing is said."""
    entries = {n: f for n, f in features.items() if isinstance(f, dict)} if isinstance(features, dict) else {}
    shapes = {name: feature.get("shape") for name, feature in entries.items() if feature.get("dtype") != "video"}
    whole = {n: s for n, s in shapes.items() if isinstance(s, list) and all(type(i) is int and i >= 0 for i in s)}
    return {name: math.prod(shape) for name, shape in whole.items()}
