"""The scans of one open episode, and their picture."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lucky_recorder.capture.mujoco.lidar import Scan
from lucky_recorder.episode.schema import ScanStream
from lucky_recorder.recorder.scans import ScanTrack, range_picture
from lucky_recorder.video.decode import decode_all


def stream(proxy: bool = True, columns: int = 8) -> ScanStream:
    return ScanStream("Top", Fraction(10), 4 * columns, columns, {"max_range_m": 10.0}, proxy)


def scan(metres: float, columns: int = 8) -> Scan:
    rays = 4 * columns
    return Scan(
        np.full(3, metres), np.array([1.0, 0, 0, 0]), np.full(rays, metres, np.float32), np.zeros(rays, np.int32)
    )


def track(tmp_path: Path, **fields: Any) -> ScanTrack:
    return ScanTrack(stream(**fields), tmp_path / "data" / "lidar-Top.mp4.tmp", "ultrafast")


def test_scans_are_kept_in_order_and_filmed(tmp_path: Path) -> None:
    one = track(tmp_path)
    for k in range(5):
        one.add(scan(1.0 + k))
    assert one.count == 5
    finished = one.finish()
    assert finished is not None
    assert finished.ranges.shape == finished.geoms.shape == (5, 32)
    assert (finished.ranges.dtype, finished.geoms.dtype) == (np.float32, np.int32)
    assert finished.ranges[:, 0].tolist() == finished.positions[:, 0].tolist() == [1, 2, 3, 4, 5]
    assert finished.orientations.shape == (5, 4)
    assert finished.proxy is not None
    film = decode_all(finished.proxy.path)
    assert finished.proxy.frames == len(film) == 5
    means = film.reshape(5, -1).mean(axis=1)
    assert (np.diff(means) < 0).all(), "farther is darker"


def test_without_a_proxy_nothing_is_on_the_disk(tmp_path: Path) -> None:
    one = track(tmp_path, proxy=False)
    one.add(scan(1.0))
    finished = one.finish()
    assert finished is not None
    assert finished.proxy is None
    assert list(tmp_path.iterdir()) == []


def test_without_a_scan_there_is_nothing(tmp_path: Path) -> None:
    assert track(tmp_path).finish() is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("ends", ["abort", "finish"])
def test_what_has_failed_leaves_no_file(tmp_path: Path, ends: str) -> None:
    from lucky_recorder.errors import StreamError

    one = track(tmp_path)
    one.add(scan(1.0))
    one.error = StreamError("gone")
    assert getattr(one, ends)() is None
    one.abort()
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == []


def test_near_is_bright_and_nothing_is_black() -> None:
    ranges = np.array([[0.1, 1, 5, 10, np.inf, 20]], np.float32)
    picture = range_picture(ranges, 10.0)
    assert picture.dtype == np.uint8
    # A ray's pixels, in the order of azimuths: the picture runs from left to right, azimuths to the left.
    width = picture.shape[1] // 6
    colours = picture[0, ::width].astype(int)[::-1]
    brightness = colours.sum(axis=1)
    assert (np.diff(brightness[:4]) < 0).all()
    assert brightness[3] == brightness[5] > 0
    assert brightness[4] == 0


def test_the_highest_row_is_on_top() -> None:
    ranges = np.full((3, 4), 9.0, np.float32)
    ranges[2] = 0.1
    picture = range_picture(ranges, 10.0).astype(int).sum(axis=2)
    assert picture[0, 0] > picture[-1, 0]


@pytest.mark.parametrize("shape", [(1, 1), (1, 360), (16, 360), (3, 7), (200, 5), (64, 64)])
def test_every_ray_is_a_pixel_and_sizes_are_even(shape: tuple[int, int]) -> None:
    height, width, channels = range_picture(np.ones(shape, np.float32), 10.0).shape
    assert channels == 3
    assert height % 2 == width % 2 == 0
    assert height >= max(64, shape[0])
    assert width >= max(64, shape[1])
