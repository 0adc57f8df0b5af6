"""Lidar: the files are where the format says, with the columns it says, and a site that is not there is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pyarrow.parquet as pq
import pytest

import lucky_recorder as lr
from lucky_recorder.testing import check_session
from lucky_recorder.video.decode import decode_all
from tests.capture.mujoco.room import GRID, record, room


@pytest.mark.parametrize(
    ("fields", "why"), [({"site": "lider"}, "lidar 'Top': site='lider'.*lidar"), ({}, "site='Top'")]
)
def test_a_site_that_is_not_there_is_refused_naming_those_that_are(tmp_path: Path, fields: Any, why: str) -> None:
    model, data = room()
    observer = lr.Observer(output_dir=tmp_path, data_hz=50, model=model, data=data, mode="full_scene",
                           lidars=[{"name": "Top", **fields}])  # fmt: skip
    with pytest.raises(lr.SettingsError, match=why):
        observer.start_recording()
    assert list(tmp_path.iterdir()) == []


def scan_files(path: Path) -> list[str]:
    return sorted(p.relative_to(path).as_posix() for p in path.glob("data/*/lidar-*"))


@pytest.mark.parametrize("proxy", [False, True])
def test_files_are_numbered_by_the_episode_in_the_chunk_of_its_video(tmp_path: Path, proxy: bool) -> None:
    model, data = room()
    observer = lr.Observer(
        output_dir=tmp_path, data_hz=50, mode="full_scene", model=model, data=data,
        files_per_chunk=2, episodes_per_file=2,
        lidars=[
            {"name": "Top", "site": "lidar", "record_video_proxy": proxy, **GRID},
            {"name": "off", "site": "nowhere", "enabled": False},
        ],
    )  # fmt: skip
    observer.start_recording()
    for episode in range(5):
        for _ in range(2 + episode):
            observer.tick()
        observer.end_current_episode(success=episode != 3)
    observer.stop_recording()
    path = observer.session_path
    assert path is not None
    session = check_session(path)
    endings = ("json", "mp4", "parquet") if proxy else ("json", "parquet")
    assert scan_files(path) == [f"data/chunk-{e // 2:03d}/lidar-Top-{e:03d}.{end}" for e in range(5) for end in endings]
    for e in range(5):
        table = pq.read_table(path / f"data/chunk-{e // 2:03d}/lidar-Top-{e:03d}.parquet", partitioning=None)
        assert table["episode_index"].to_pylist() == [e] * (2 + e)
        assert table["scan_index"].to_pylist() == table["frame_index"].to_pylist() == [*range(2 + e)]
        if proxy:
            assert len(decode_all(path / f"data/chunk-{e // 2:03d}/lidar-Top-{e:03d}.mp4")) == 2 + e
    assert session.lidars == ("Top",)
    assert not any("lidar" in name for name in [*session.features, *session.episodes.column_names])
    described = json.loads((path / "data/chunk-000/lidar-Top-000.json").read_text())
    assert described["mount"] == {"site": "lidar"}
    assert described["azimuth_deg"] == lr.Lidar("Top", **GRID).azimuths.tolist()


def test_columns_are_as_the_format_has_them(tmp_path: Path) -> None:
    model, data = room()
    session = record(tmp_path, model, data)
    table = session.episode(0).scans("Top").table
    assert {f.name: str(f.type) for f in table.schema} == {
        "scan_index": "int64", "timestamp": "double", "episode_index": "int64", "frame_index": "int64",
        "sensor_position": "list<element: double>", "sensor_orientation": "list<element: double>",
        "range": "list<element: float>", "geom_id": "list<element: int32>",
    }  # fmt: skip
    assert table["timestamp"].to_pylist() == [0, 0.02, 0.04]


def test_a_discarded_attempt_leaves_nothing(tmp_path: Path) -> None:
    model, data = room()
    observer = lr.Observer(
        output_dir=tmp_path, data_hz=50, mode="full_scene", model=model, data=data, discard_and_retry_failed=True,
        lidars=[{"name": "lidar", "record_video_proxy": True, **GRID}],
    )  # fmt: skip
    observer.start_recording()
    for ticks, success in ((5, False), (2, True), (4, False), (3, True), (6, False)):
        for _ in range(ticks):
            observer.tick()
        observer.end_current_episode(success=success)
    observer.stop_recording()
    path = observer.session_path
    assert path is not None
    session = check_session(path)
    assert [len(e.scans("lidar")) for e in session] == [2, 3]
    assert [p for p in scan_files(path) if "001" in p] == [
        f"data/chunk-000/lidar-lidar-001.{e}" for e in ("json", "mp4", "parquet")
    ]
    assert len(scan_files(path)) == 6
    assert not list(path.rglob("*.tmp"))


def test_a_rate_of_its_own(tmp_path: Path) -> None:
    model, data = room()
    session = record(tmp_path, model, data, ticks=11, lidars=[{"name": "Top", "site": "lidar", "rate": 12.5, **GRID}])
    scans = session.episode(0).scans("Top")
    assert scans.table["frame_index"].to_pylist() == [0, 4, 8]
    assert scans.table["timestamp"].to_pylist() == [0, 0.08, 0.16]
    rows = session.episode(0).rows(["observation.state"])["observation.state"].to_pylist()
    for scan, row in enumerate((0, 4, 8)):
        again = mujoco.MjData(model)
        again.qpos[:] = rows[row]
        mujoco.mj_kinematics(model, again)
        assert np.allclose(scans.table["sensor_position"][scan].as_py(), again.site("lidar").xpos, atol=1e-12)


def test_lidar_records_without_rows_and_without_cameras(tmp_path: Path) -> None:
    model, data = room()
    observer = lr.Observer(output_dir=tmp_path, data_hz=50, model=model, data=data, record_data=False,
                           mode="full_scene", record_cameras=False, lidars=[{"name": "lidar", **GRID}])  # fmt: skip
    observer.start_recording()
    for _ in range(3):
        observer.tick()
    observer.end_current_episode(success=True)
    observer.stop_recording()
    path = observer.session_path
    assert path is not None
    assert sorted(p.relative_to(path).as_posix() for p in path.rglob("*") if p.is_file()) == scan_files(path)
    assert len(pq.read_table(path / scan_files(path)[1])) == 3


def test_no_mujoco_no_lidar(tmp_path: Path) -> None:
    from lucky_recorder.testing import CountEnv

    env = lr.RecordSession(CountEnv(2), output_dir=tmp_path, mode="custom", gym_columns=True, lidars=[{"name": "Top"}])
    with pytest.raises(lr.SettingsError, match="lidars='Top': no MuJoCo model was found"):
        env.reset()
    assert list(tmp_path.iterdir()) == []
