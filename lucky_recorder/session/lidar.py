"""Lidar files: a Parquet per sensor and episode in ``data/``, and a JSON file that describes it (spec: Lidar files)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from lucky_recorder.episode import clock, keys
from lucky_recorder.episode.parts import let_go, parts
from lucky_recorder.episode.record import FinishedScans
from lucky_recorder.episode.schema import ScanStream
from lucky_recorder.session import rows
from lucky_recorder.session.layout import Chunking, scan_file
from lucky_recorder.storage import named
from lucky_recorder.storage.space import of_rows
from lucky_recorder.storage.write import Staged, stage, stage_json

# What a row group holds of scans. Turning them into lists takes several copies.
_PART_BYTES = 4 << 20
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


def tables(stream: ScanStream, scans: FinishedScans, episode: int, hz: Fraction) -> Iterator[pa.Table]:
    """Build the rows of one lidar's episode: one per scan (spec: Lidar files; the columns are ours).

    Args:
        stream: The lidar.
        scans: Its scans.
        episode: The episode's index.
        hz: The data rate: ``frame_index`` is the row that was current at a scan.

    Yields:
        Part after part, as many as it takes where there are too many scans for the memory.
    """
    columns = (scans.positions, scans.orientations, scans.ranges, scans.geoms)
    for part in parts(len(scans.ranges), _bytes_of_each(scans), _PART_BYTES):
        yield table(stream, part, [column[part] for column in columns], episode, hz)
        let_go(scans.ranges)


def _bytes_of_each(scans: FinishedScans) -> int:
    return sum(column[:1].nbytes for column in (scans.positions, scans.orientations, scans.ranges, scans.geoms))


def table(stream: ScanStream, part: slice, columns: Sequence[NDArray[Any]], episode: int, hz: Fraction) -> pa.Table:
    """Build the rows of some scans: of those of ``part``, whose poses, ranges and geoms are ``columns``."""
    index = np.arange(part.start, part.stop, dtype=np.int64)
    numbers = [
        index,
        clock.ticks_s(len(index), stream.rate, part.start),
        np.full(len(index), episode, np.int64),
        np.array([int(k * hz / stream.rate) for k in index.tolist()], np.int64),
    ]
    arrays = [*map(pa.array, numbers), *map(_lists, columns)]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


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

    def path(suffix: str) -> Path:
        return root / scan_file(stream.name, episode, chunking.files_per_chunk, suffix)

    described = stage_json(path(".json"), stream.description)
    try:
        measured = stage(
            path(".parquet"),
            lambda p: _write(p, tables(stream, scans, episode, hz)),
            lambda p: rows.verify(p, len(scans.ranges)),
            of_rows(len(scans.ranges), _bytes_of_each(scans), len(SCHEMA)),
        )
    except BaseException:  # no temporary file must stay behind, whatever was raised
        described.discard()
        raise
    proxies = [] if scans.proxy is None else [Staged(path(".mp4"), scans.proxy.path)]
    return [*proxies, described, measured]


def _write(path: Path, built: Iterable[pa.Table]) -> None:
    options = {
        "compression": "zstd",
        "use_dictionary": [keys.EPISODE_INDEX, "geom_id.list.element"],
        "write_page_checksum": True,
    }
    with named.writable(path) as file, pq.ParquetWriter(file, SCHEMA, **options) as writer:
        for part in built:
            writer.write_table(part)


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
