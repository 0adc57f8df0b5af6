"""Lidar files: a Parquet per sensor and episode in ``data/``, and a JSON file that describes it (spec: Lidar files)."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from lucky_recorder.episode import clock, keys
from lucky_recorder.episode.record import FinishedScans
from lucky_recorder.episode.schema import ScanStream
from lucky_recorder.session import rows
from lucky_recorder.session.layout import Chunking, scan_file
from lucky_recorder.storage.space import of_table
from lucky_recorder.storage.write import Staged, stage, stage_json

SCHEMA = pa.schema(
    [
        ("scan_index", pa.int64()),
        (keys.TIMESTAMP, pa.float64()),
        (keys.EPISODE_INDEX, pa.int64()),
        (keys.FRAME_INDEX, pa.int64()),
        ("sensor_position", pa.list_(pa.float64())),
        ("sensor_orientation", pa.list_(pa.float64())),
        ("range", pa.list_(pa.float32())),
        ("geom_id", pa.list_(pa.int32())),
    ]
)


def table(stream: ScanStream, scans: FinishedScans, episode: int, hz: Fraction) -> pa.Table:
    """Build the rows of one lidar's episode: one per scan (spec: Lidar files; the columns are ours).

    Args:
        stream: The lidar.
        scans: Its scans.
        episode: The episode's index.
        hz: The data rate: ``frame_index`` is the row that was current at a scan.
    """
    count = len(scans.ranges)
    columns = [
        np.arange(count, dtype=np.int64),
        clock.ticks_s(count, stream.rate),
        np.full(count, episode, np.int64),
        np.array([int(k * hz / stream.rate) for k in range(count)], np.int64),
        _lists(scans.positions),
        _lists(scans.orientations),
        _lists(scans.ranges),
        _lists(scans.geoms),
    ]
    return pa.Table.from_arrays([pa.array(c) if isinstance(c, np.ndarray) else c for c in columns], schema=SCHEMA)


def _lists(values: NDArray[Any]) -> pa.Array:
    return pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), values.shape[1]).cast(
        pa.list_(pa.from_numpy_dtype(values.dtype))
    )


def stage_scans(
    root: Path, stream: ScanStream, scans: FinishedScans, episode: int, hz: Fraction, chunking: Chunking
) -> list[Staged]:
    """Write one lidar's files of an episode under temporary names.

    The Parquet comes last: they are renamed in this order, and readers take it as the sign that there are scans.

    Raises:
        StorageError: If the file system refuses.
    """
    built = table(stream, scans, episode, hz)

    def path(suffix: str) -> Path:
        return root / scan_file(stream.name, episode, chunking.files_per_chunk, suffix)

    staged = [
        stage_json(path(".json"), stream.description),
        stage(
            path(".parquet"),
            lambda p: pq.write_table(
                built,
                p,
                compression="zstd",
                use_dictionary=[keys.EPISODE_INDEX, "geom_id.list.element"],
                write_page_checksum=True,
            ),
            lambda p: rows.verify(p, built.num_rows),
            of_table(built),
        ),
    ]
    if scans.proxy is not None:
        staged.insert(0, Staged(path(".mp4"), scans.proxy.path))
    return staged


def to_points(
    ranges: NDArray[np.float32], directions: NDArray[np.float64], position: NDArray[Any], orientation: NDArray[Any]
) -> NDArray[np.float64]:
    """Turn one scan into points in the world.

    Args:
        ranges: Metres along each ray, shape ``(rays,)``; infinity where nothing came back.
        directions: The rays' unit vectors in the sensor's frame, shape ``(rays, 3)``.
        position: The sensor's position, metres, shape ``(3,)``.
        orientation: Its orientation, quaternion w x y z, shape ``(4,)``.

    Returns:
        Metres, float64, shape ``(returns, 3)``: a point for each ray that came back.
    """
    came_back = np.isfinite(ranges)
    rays = directions[came_back] * ranges[came_back, None].astype(np.float64)
    return rays @ rotation(orientation).T + np.asarray(position, np.float64)


def rotation(quaternion: NDArray[Any]) -> NDArray[np.float64]:
    """Return the rotation matrix of a unit quaternion w x y z, shape ``(3, 3)``."""
    w, x, y, z = np.asarray(quaternion, np.float64)
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )
