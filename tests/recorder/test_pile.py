"""The scans of a long episode: those that are more than the memory is to hold wait in a file without a name."""

from __future__ import annotations

import errno
import os
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from lucky_recorder.capture.mujoco.lidar import Scan
from lucky_recorder.episode import limits
from lucky_recorder.episode.record import FinishedScans
from lucky_recorder.episode.schema import ScanStream
from lucky_recorder.errors import FormatError
from lucky_recorder.recorder import scans as module
from lucky_recorder.recorder.scans import Pile
from lucky_recorder.session import lidar
from lucky_recorder.session.layout import Chunking
from lucky_recorder.session.opened import Scans
from lucky_recorder.storage import spill
from lucky_recorder.storage.untrusted import Folder

RAYS = 6
GRID = {"rate": "100/3", "azimuth_deg": [0, 60, 120, 180, 240, 300], "elevation_deg": [0]}
STREAM = ScanStream("Top", Fraction(100, 3), RAYS, RAYS, {"max_range_m": 10.0} | GRID)
BYTES = 7 * 8 + RAYS * 8


def scan(number: int) -> Scan:
    random = np.random.default_rng(number)
    ranges = random.uniform(0, 9, RAYS).astype(np.float32)
    return Scan(random.normal(size=3), random.normal(size=4), ranges, random.integers(-1, 5, RAYS, np.int32))


def piled(folder: Path, count: int) -> FinishedScans:
    pile = Pile(folder)
    for number in range(count):
        pile.add(scan(number))
    assert pile.count == count
    return pile.finish()


def same(one: FinishedScans, other: FinishedScans) -> bool:
    pairs = list(zip(one[:4], other[:4], strict=True))
    return all(a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes() for a, b in pairs)  # type: ignore[union-attr]


@pytest.fixture(params=[0, 1, 4])
def few(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """So many scans are held in memory."""
    monkeypatch.setattr(module, "MOST_HELD_BYTES", request.param * BYTES)
    return int(request.param)


@pytest.mark.parametrize("count", [1, 3, 4, 5, 6, 10, 11, 23])
def test_scans_are_the_same_wherever_they_have_waited(tmp_path: Path, few: int, count: int) -> None:
    scans = piled(tmp_path, count)
    expected = FinishedScans(*(np.stack([scan(k)[part] for k in range(count)]) for part in range(4)))  # type: ignore[arg-type]
    assert same(scans, expected)
    assert scans.ranges.flags.writeable == (count <= few), "those in a file cannot be written to"


def test_the_file_has_no_name_and_is_where_the_session_is(tmp_path: Path, few: int, monkeypatch: Any) -> None:
    folders: list[Path] = []
    make = spill.Spill.__init__
    monkeypatch.setattr(spill.Spill, "__init__", lambda self, folder: (folders.append(folder), make(self, folder))[1])
    piled(tmp_path / "data", 10)
    assert folders == [tmp_path / "data"]
    assert list((tmp_path / "data").iterdir()) == []


@pytest.mark.parametrize("fails_at", [0, 1, 2])
@pytest.mark.parametrize("broken", ["__init__", "append", "whole"])
def test_a_disk_that_refuses_costs_no_scan(
    tmp_path: Path, few: int, broken: str, fails_at: int, monkeypatch: Any
) -> None:
    working, calls = getattr(spill.Spill, broken), iter(range(100))

    def refuse(self: spill.Spill, *given: Any) -> Any:
        if next(calls) >= fails_at:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return working(self, *given)

    monkeypatch.setattr(spill.Spill, broken, refuse)
    scans = piled(tmp_path, 23)
    monkeypatch.undo()
    assert same(scans, piled(tmp_path, 23))


def test_an_episode_of_few_scans_is_one_row_group_and_one_of_many_reads_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(name: str, scans: FinishedScans) -> Path:
        for staged in lidar.stage_scans(tmp_path / name, STREAM, scans, 3, Fraction(50), Chunking(1000, 1)):
            staged.commit()
        return next((tmp_path / name).rglob("*.parquet"))

    whole = write("whole", piled(tmp_path, 23))
    assert pq.read_metadata(whole).num_row_groups == 1
    monkeypatch.setattr(module, "MOST_HELD_BYTES", 4 * BYTES)
    assert write("spilled", piled(tmp_path, 23)).read_bytes() == whole.read_bytes()
    monkeypatch.setattr(lidar, "_PART_BYTES", 5 * BYTES)
    cut = write("cut", piled(tmp_path, 23))
    metadata = pq.read_metadata(cut)
    assert [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)] == [5, 5, 5, 5, 3]
    assert pq.read_table(cut) == pq.read_table(whole)
    assert pq.read_table(cut)["frame_index"].to_pylist() == [k * 3 // 2 for k in range(23)]
    names = {path: Folder(path.parent) for path in (whole, cut)}
    opened = [Scans(folder, path.stem) for path, folder in names.items()]
    assert [len(one) for one in opened] == [23, 23]
    assert opened[0].table == opened[1].table
    for index in (0, 4, 5, 22, -1, -23, 9, 10, 11, 3):
        assert opened[0].ranges(index).tolist() == opened[1].ranges(index).tolist()
        assert opened[0].to_points(index).tolist() == opened[1].to_points(index).tolist()
    for one in opened:
        for index in (23, -24):
            with pytest.raises(IndexError):
                one.ranges(index)


def test_scans_that_are_too_many_to_be_read_at_once_are_read_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lidar, "_PART_BYTES", 5 * BYTES)
    monkeypatch.setattr(limits, "MOST_TABLE_BYTES", 3000)
    monkeypatch.setattr(limits, "TABLE_BYTES_PER_FILE_BYTE", 0)
    for staged in lidar.stage_scans(tmp_path, STREAM, piled(tmp_path, 23), 3, Fraction(50), Chunking(1000, 1)):
        staged.commit()
    path = next(tmp_path.rglob("*.parquet"))
    scans = Scans(Folder(path.parent), path.stem)
    expected = [scan(k).ranges.tolist() for k in range(23)]
    assert [scans.ranges(k).tolist() for k in range(23)] == expected
    with pytest.raises(FormatError, match="are read of such a file"):
        _ = scans.table


def test_a_file_that_cannot_be_written_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*given: Any) -> Any:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(lidar, "table", refuse)
    with pytest.raises(OSError, match="Input/output"):
        lidar.stage_scans(tmp_path, STREAM, piled(tmp_path, 3), 0, Fraction(50), Chunking(1000, 1))
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
