"""A bundle: one episode of one robot, as the files of a folder (spec: The format)."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from lucky_recorder.errors import CaptureError, StorageError
from lucky_recorder.koyu import layout
from lucky_recorder.storage.write import storage_errors, sync_file, sync_folder, write_json

MICROSECOND_NS = 1000


@dataclass(frozen=True)
class Bundle:
    """Everything that becomes the files of one bundle.

    Attributes:
        capture_id: 32 hexadecimal digits; the bundle's id is ``ep_`` and these.
        timestamps: Nanoseconds since 1970, int64, shape ``(rows,)``.
        vectors: The other columns by feature key, float32, shape ``(rows, …)``; in the order they are written.
        sidecar: The content of ``episode.json``.
        videos: Finished video files by feature key; they are linked, or copied where links fail.
    """

    capture_id: str
    timestamps: NDArray[np.int64]
    vectors: Mapping[str, NDArray[np.float32]]
    sidecar: Mapping[str, Any]
    videos: Mapping[str, Path] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """The bundle's id, and its folder's name."""
        return layout.bundle_name(self.capture_id)


def as_float32(values: NDArray[Any], missing: NDArray[np.bool_] | None, place: str, column: str) -> NDArray[np.float32]:
    """Cast a column's rows once; NaN stands for what is missing.

    Args:
        values: Shape ``(rows, …)``.
        missing: True where a row has no value, shape ``(rows,)``.
        place: What the rows are, for the error.
        column: The column's name, for the error.

    Raises:
        CaptureError: If a value is too large for float32; names place, row and column.
    """
    with np.errstate(over="ignore"):
        cast = values.astype(np.float32)
    if missing is not None:
        cast[missing] = np.nan
    if values.dtype.kind == "f":
        lost = np.isinf(cast) & np.isfinite(values)
        if lost.any():
            row = int(np.argwhere(lost)[0][0])
            value = values[row][lost[row]] if values.ndim > 1 else values[row]
            raise CaptureError(
                f"{place}, row {row}, column {column!r}: {np.ravel(value)[0]:g} does not fit float32, which koyu "
                "bundles hold; scale the column, or record without koyu"
            )
    return cast


def recorded_at(moment_ns: int) -> str:
    """Write a moment, nanoseconds since 1970 in whole microseconds, as ISO 8601 in UTC."""
    seconds, rest = divmod(moment_ns, 1_000_000_000)
    moment = datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest // MICROSECOND_NS)
    return moment.isoformat(timespec="microseconds")


def write(folder: Path, bundle: Bundle) -> None:
    """Write a bundle's files into a new folder, durably.

    Raises:
        StorageError: If the file system refuses, or a file is not whole afterwards.
    """
    with storage_errors(folder):
        folder.mkdir()
    for key, source in bundle.videos.items():
        link(source, folder / layout.video_name(key))
    _write_table(folder / layout.DATA, _table(bundle))
    write_json(folder / layout.SIDECAR, dict(bundle.sidecar))
    with storage_errors(folder):
        sync_folder(folder)


def link(source: Path, target: Path) -> None:
    """Give a file a second name, or copy it where that fails; its bytes are safe on the disk then.

    Raises:
        StorageError: If the file system refuses.
    """
    with storage_errors(target):
        try:
            os.link(source, target)
        except OSError:  # another disk, or one without links
            shutil.copyfile(source, target)
        sync_file(target)


def _table(bundle: Bundle) -> pa.Table:
    rows = len(bundle.timestamps)
    columns = {
        layout.STEP: pa.array(np.arange(rows, dtype=np.int64)),
        layout.TIMESTAMP: pa.array(bundle.timestamps),
    }
    return pa.table(columns | {key: _lists(values) for key, values in bundle.vectors.items()})


def _lists(values: NDArray[np.float32]) -> pa.Array:
    """Return rows as lists of float32; a value of several dimensions is written row by row."""
    flat = np.ascontiguousarray(values, np.float32).reshape(len(values), -1)
    offsets = np.arange(len(flat) + 1, dtype=np.int32) * np.int32(flat.shape[1])
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(flat.reshape(-1)))


def _write_table(path: Path, table: pa.Table) -> None:
    # Without dictionaries: hardly a measured value comes twice.
    options = {"compression": "zstd", "use_dictionary": False, "write_page_checksum": True}
    with storage_errors(path):
        pq.write_table(table, path, row_group_size=max(1, table.num_rows), **options)
        sync_file(path)
        try:
            held = pq.read_metadata(path).num_rows
        except pa.ArrowException as error:
            raise StorageError(f"{path}: the file has no readable footer after it was closed ({error})") from error
    if held != table.num_rows:
        raise StorageError(f"{path}: holds {held} rows after it was closed, {table.num_rows} were written")
