from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from lucky_recorder.episode import clock
from lucky_recorder.errors import CaptureError, StorageError
from lucky_recorder.koyu import bundle as bundles
from lucky_recorder.koyu.bundle import Bundle
from lucky_recorder.koyu.rows import as_float32
from tests.koyu.making import read_bundle

ID = "0" * 31 + "f"


def make(rows: int = 4, **videos: Path) -> Bundle:
    state = (np.arange(rows * 6) / 3).astype(np.float32).reshape(rows, 2, 3)
    return Bundle(ID, np.arange(rows) * 20_000_000 + 7000, {"pose": state}, {"schema_version": 1}, videos)


def test_columns_and_types_are_the_formats(tmp_path: Path) -> None:
    bundle = make()
    assert bundle.id == f"ep_{ID}"
    bundles.write(tmp_path / "made", bundle)
    read = read_bundle(tmp_path / "made")
    assert list(read.types) == ["step", "timestamp", "pose"]
    assert read.types["step"] == read.types["timestamp"] == "int64"
    assert read.types["pose"].startswith("list<")
    assert read.types["pose"].endswith(": float>")
    assert read.rows["step"].tolist() == [0, 1, 2, 3]
    assert read.rows["timestamp"].tolist() == bundle.timestamps.tolist()
    assert np.array_equal(read.rows["pose"], bundle.vectors["pose"].reshape(4, 6))
    assert read.sidecar == {"schema_version": 1}


def test_an_array_in_any_order_is_written_row_by_row(tmp_path: Path) -> None:
    rows = np.asfortranarray(np.arange(12, dtype=np.float32).reshape(4, 3))
    bundles.write(tmp_path / "made", Bundle(ID, np.arange(4), {"x": rows[::-1]}, {}))
    assert np.array_equal(read_bundle(tmp_path / "made").rows["x"], rows[::-1])


@pytest.mark.parametrize("links", [True, False], ids=["linked", "copied"])
def test_a_video_is_linked_or_else_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool) -> None:
    def refuse(*paths: object) -> None:
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    if not links:
        monkeypatch.setattr(os, "link", refuse)
    video = tmp_path / "video.tmp"
    video.write_bytes(b"pictures")
    bundles.write(tmp_path / "made", make(**{"observation.images.front": video}))
    made = tmp_path / "made/observation.images.front.mp4"
    assert made.read_bytes() == b"pictures"
    assert (made.stat().st_ino == video.stat().st_ino) is links
    assert video.exists()


def test_a_folder_that_is_there_is_no_new_bundle(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="File exists"):
        bundles.write(tmp_path, make())


def test_a_file_without_its_end_is_found_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    working, path = pq.ParquetWriter.close, tmp_path / "made/data.parquet"

    def cut(self: pq.ParquetWriter) -> None:
        is_open = self.is_open
        working(self)
        if is_open:
            path.write_bytes(path.read_bytes()[:-6])

    monkeypatch.setattr(pq.ParquetWriter, "close", cut)
    with pytest.raises(StorageError, match=r"data\.parquet: the file has no readable footer"):
        bundles.write(tmp_path / "made", make())


@pytest.mark.parametrize("dtype", ["float64", "float32", "int16", "uint8", "bool"])
def test_values_are_cast_once(dtype: str) -> None:
    values = np.array([[0, 1], [1, 0]], dtype)
    cast = as_float32(values, None, "episode", "x")
    assert cast.dtype == np.float32
    assert np.array_equal(cast, values)
    tenth = as_float32(np.array([0.1]), None, "episode", "x")
    assert tenth[0] == np.float32(0.1)


@pytest.mark.parametrize(
    ("values", "row", "value"),
    [
        (np.array([0.0, 1.0, 1e39]), 2, r"1e\+39"),
        (np.array([[0.0, 0.0], [5.0, -1e300]]), 1, r"-1e\+300"),
        (np.array([np.inf, -3.5e38]), 1, r"-3\.5e\+38"),
    ],
)
def test_what_overflows_is_named(values: np.ndarray, row: int, value: str) -> None:
    with pytest.raises(CaptureError, match=rf"^episode attempt 7, row {row}, column 'x': {value} does not fit float32"):
        as_float32(values, None, "episode attempt 7", "x")


def test_infinity_and_nan_are_themselves_and_nan_stands_for_what_is_missing() -> None:
    cast = as_float32(np.array([np.inf, np.nan, -np.inf, 3.0]), np.array([False, False, False, True]), "", "x")
    assert cast[0] == np.inf
    assert cast[2] == -np.inf
    assert np.isnan(cast[[1, 3]]).all()


@pytest.mark.parametrize("moment", [0, 1_760_000_000_123_456_000, 10**18 + 999_999_000])
def test_a_moment_is_written_to_the_microsecond(moment: int) -> None:
    written = np.datetime64(clock.moment(moment).removesuffix("+00:00"), "ns")
    assert int(written.astype(np.int64)) == moment
    assert clock.moment(moment).endswith("+00:00")
    assert json.dumps(clock.moment(0)) == '"1970-01-01T00:00:00.000000+00:00"'
