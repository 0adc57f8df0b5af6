"""Lidar: what rays hit is where it says, and the files are where the format says."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pyarrow.parquet as pq
import pytest

import lucky_recorder as lr
from lucky_recorder.capture.mujoco import bounds
from lucky_recorder.capture.mujoco.lidar import Caster, Scan
from lucky_recorder.envs import scene_path
from lucky_recorder.settings import sensors
from lucky_recorder.testing import check_session
from lucky_recorder.video.decode import decode_all
from tests.capture.models import contents, scene, state

ROOM = """
<mujoco>
  <worldbody>
    <geom name="floor" type="plane" size="20 20 0.1"/>
    <site name="corner" pos="0 0 1"/>
    <body name="rover" pos="0 0 0.5">
      <freejoint name="rover"/>
      <geom name="hull" type="box" size="0.3 0.2 0.1" mass="1"/>
      <site name="lidar" pos="0 0 0.05" euler="0 0 30"/>
      <body name="arm" pos="0 0 0.4"><joint name="arm"/><geom name="mast" type="capsule" size="0.03 0.1"/></body>
    </body>
    <body name="box" pos="3 0.4 0.8" euler="10 20 30">
      <geom name="box" type="box" size="0.5 0.4 0.3"/>
      <geom name="knob" type="sphere" size="0.2" pos="0 0 0.2"/>
      <geom name="lid" type="box" size="0.6 0.5 0.02" pos="0 0 0.5" euler="0 0 5"/>
    </body>
    <body name="ball" pos="-2 -2 0.5"><geom name="ball" size="0.5"/></body>
  </worldbody>
</mujoco>
"""
GRID: dict[str, Any] = {"azimuth": (-180, 180, 90), "elevation": (-20, 20, 9)}


def room() -> tuple[mujoco.MjModel, mujoco.MjData]:
    model = mujoco.MjModel.from_xml_string(ROOM)
    data = mujoco.MjData(model)
    data.qpos[:3] = 0.1, -0.2, 0.6
    data.qpos[3:7] = np.array([0.9, 0.1, -0.2, 0.3]) / np.linalg.norm([0.9, 0.1, -0.2, 0.3])
    return model, data


def scan_of(model: mujoco.MjModel, data: mujoco.MjData, frame: int = 0, **fields: Any) -> Scan:
    lidar = lr.Lidar("Top", **{"site": "lidar", **GRID, **fields})
    private = copy.copy(model)
    bounds.refresh(private)
    noise = sensors.noise(0, "seed 0", "lidar-Top", frame)
    return Caster(lidar, private).cast(state(model, data), noise)


def on_the_box(model: mujoco.MjModel, data: mujoco.MjData, points: np.ndarray, geom: str) -> np.ndarray:
    """How far points are from a box's surface, metres."""
    placed = mujoco.MjData(model)
    mujoco.mj_setState(model, placed, state(model, data), int(mujoco.mjtState.mjSTATE_INTEGRATION))
    mujoco.mj_forward(model, placed)
    number = model.geom(geom).id
    inside = (points - placed.geom_xpos[number]) @ placed.geom_xmat[number].reshape(3, 3)
    excess = np.abs(inside) - model.geom_size[number]
    outside = np.linalg.norm(np.maximum(excess, 0), axis=1)
    return np.where(excess.max(axis=1) > 0, outside, -excess.max(axis=1))


def record(tmp_path: Path, model: mujoco.MjModel, data: mujoco.MjData, ticks: int = 3, **settings: Any) -> lr.Session:
    fields: dict[str, Any] = {"data_hz": 50, "mode": "full_scene", "lidars": [{"name": "Top", "site": "lidar", **GRID}]}
    observer = lr.Observer(output_dir=tmp_path, model=model, data=data, **{**fields, **settings})
    observer.start_recording()
    for _ in range(ticks):
        observer.tick()
        mujoco.mj_step(model, data, 10)
    observer.end_current_episode(success=True)
    observer.stop_recording()
    assert observer.session_path is not None
    return check_session(observer.session_path)


def test_the_points_of_a_scan_of_a_box_lie_on_the_box(tmp_path: Path) -> None:
    """Ranges are float32: half a unit in their last place is 2.4e-7 m up to 4 m."""
    model, data = room()
    model.opt.gravity[:] = 0
    states = []
    for _ in range(3):
        states.append(copy.copy(data))
        mujoco.mj_step(model, data, 10)
    model, data = room()
    model.opt.gravity[:] = 0
    scans = record(tmp_path, model, data).episode(0).scans("Top")
    assert len(scans) == 3
    for k, then in enumerate(states):
        hits = np.array(scans.table["geom_id"][k].as_py())
        came_back = np.isfinite(np.array(scans.table["range"][k].as_py()))
        assert (came_back == (hits >= 0)).all()
        points = scans.to_points(k)
        assert points.dtype == np.float64
        assert points.shape == (came_back.sum(), 3)
        box = points[hits[came_back] == model.geom("box").id]
        assert len(box) > 10
        assert np.abs(on_the_box(model, then, box, "box")).max() < 1e-6
        floor = points[hits[came_back] == model.geom("floor").id]
        assert len(floor) > 50
        ranges = np.linalg.norm(floor - np.array(scans.table["sensor_position"][k].as_py()), axis=1)
        assert (np.abs(floor[:, 2]) <= np.spacing(ranges.astype(np.float32)) / 2 + 1e-9).all()


def test_ranges_and_geoms_are_those_of_single_rays() -> None:
    model, data = room()
    scan = scan_of(model, data)
    placed = mujoco.MjData(model)
    mujoco.mj_setState(model, placed, state(model, data), int(mujoco.mjtState.mjSTATE_INTEGRATION))
    mujoco.mj_forward(model, placed)
    site = model.site("lidar").id
    assert np.array_equal(scan.position, placed.site_xpos[site])
    turned = lr.Lidar("Top", **GRID).directions() @ placed.site_xmat[site].reshape(3, 3).T
    assert len(scan.ranges) == len(turned) == 90 * 9
    hit = np.zeros(1, np.int32)
    for k, ray in enumerate(turned):
        body = int(model.site_bodyid[site])
        distance = mujoco.mj_ray(model, placed, scan.position, ray, None, 1, body, hit)
        if 0 <= distance <= 100:
            assert (scan.ranges[k], scan.geoms[k]) == (np.float32(distance), hit[0])
        else:
            assert (scan.ranges[k], scan.geoms[k]) == (np.inf, -1)


def test_the_grid_starts_behind_and_runs_counterclockwise() -> None:
    """Of a level sensor: -180, -90, 0, 90 degrees look back, right, ahead and left."""
    model = mujoco.MjModel.from_xml_string(
        """<mujoco><worldbody><site name="lidar" pos="0 0 1"/>
        <geom name="ahead" type="box" size="0.1 0.2 0.2" pos="2.1 0 1"/>
        <geom name="left" type="box" size="0.2 0.1 0.2" pos="0 3.1 1"/>
        <geom name="back" type="box" size="0.1 0.2 0.2" pos="-4.1 0 1"/>
        <geom name="right" type="box" size="0.2 0.1 0.2" pos="0 -5.1 1"/>
        <geom name="above" type="box" size="0.2 0.2 0.1" pos="0 0 7.1"/>
        <body><joint/><geom size="0.01" pos="50 0 0"/></body></worldbody></mujoco>"""
    )
    data = mujoco.MjData(model)
    around = scan_of(model, data, azimuth=(-180, 180, 4), elevation=(0, 0, 1))
    assert around.ranges.tolist() == [4, 5, 2, 3]
    assert [model.geom(g).name for g in around.geoms] == ["back", "right", "ahead", "left"]
    ahead = scan_of(model, data, pattern="solid_state", azimuth=(-90, 90, 3), elevation=(0, 90, 2))
    assert ahead.ranges.reshape(2, 3)[0].tolist() == [5, 2, 3]
    assert ahead.ranges.reshape(2, 3)[1].tolist() == [6, 6, 6]


def test_its_own_body_is_invisible_and_what_hangs_on_it_is_not() -> None:
    model, data = room()
    scan = scan_of(model, data, azimuth=(-180, 180, 60), elevation=(-90, 90, 19))
    seen = {model.geom(g).name for g in scan.geoms if g >= 0}
    assert "hull" not in seen
    assert {"floor", "mast"} <= seen


def test_what_is_mounted_on_the_world_sees_the_floor() -> None:
    model, data = room()
    scan = scan_of(model, data, site="corner", azimuth=(-180, 180, 4), elevation=(-30, -30, 1))
    floor = scan.geoms == model.geom("floor").id
    assert floor.sum() >= 2
    assert np.allclose(scan.ranges[floor], 2.0, atol=1e-6)


@pytest.mark.parametrize(("nearest", "farthest"), [(0, 100), (2.5, 100), (0, 2.5), (1.0, 3.0)])
def test_beyond_its_limits_nothing_comes_back(nearest: float, farthest: float) -> None:
    model, data = room()
    free = scan_of(model, data)
    scan = scan_of(model, data, min_range_m=nearest, max_range_m=farthest)
    kept = (free.ranges >= nearest) & (free.ranges <= farthest)
    assert kept.any()
    assert (scan.ranges == np.where(kept, free.ranges, np.inf)).all()
    assert (scan.geoms == np.where(kept, free.geoms, -1)).all()


def test_noise_has_its_deviation_and_is_the_scans_own() -> None:
    model, data = room()
    grid = {"azimuth": (-180, 180, 360), "elevation": (-20, -5, 40)}
    free = scan_of(model, data, **grid)
    hit = np.isfinite(free.ranges)
    noisy = scan_of(model, data, noise_m=0.02, **grid)
    error = noisy.ranges[hit] - free.ranges[hit]
    assert len(error) > 5000
    assert np.std(error) == pytest.approx(0.02, rel=0.05)
    assert abs(np.mean(error)) < 0.001
    assert scan_of(model, data, noise_m=0.02, **grid).ranges.tobytes() == noisy.ranges.tobytes()
    assert (scan_of(model, data, frame=1, noise_m=0.02, **grid).ranges != noisy.ranges)[hit].mean() > 0.9
    assert scan_of(model, data, noise_m=5.0, **grid).ranges.min() >= 0


# A model that is changed.

CHANGES: dict[str, Any] = {
    "larger box": lambda m: m.geom("box").size.__setitem__(slice(None), (1.2, 1.0, 0.9)),
    "larger ball": lambda m: m.geom("ball").size.__setitem__(0, 1.6),
    "smaller box": lambda m: m.geom("box").size.__setitem__(slice(None), 0.1),
    "moved body": lambda m: m.body("box").pos.__setitem__(slice(None), (0, 3, 1)),
    "moved geom": lambda m: m.geom("knob").pos.__setitem__(slice(None), (-1, 0, -0.2)),
    "turned geom": lambda m: m.geom("lid").quat.__setitem__(slice(None), (0.7, 0, 0.7, 0)),
    "moved site": lambda m: m.site("lidar").pos.__setitem__(slice(None), (0, 0, 0.9)),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_model_is_scanned_as_single_rays_would(change: str) -> None:
    """What MuJoCo culls rays by is computed when a model is compiled; it must not hide what has grown or moved."""
    model, data = room()
    before = scan_of(model, data, **GRID)
    CHANGES[change](model)
    scan = scan_of(model, data, **GRID)
    assert (before.ranges != scan.ranges).any()
    placed = mujoco.MjData(model)
    mujoco.mj_setState(model, placed, state(model, data), int(mujoco.mjtState.mjSTATE_INTEGRATION))
    mujoco.mj_forward(model, placed)
    site = model.site("lidar").id
    turned = lr.Lidar("Top", **GRID).directions() @ placed.site_xmat[site].reshape(3, 3).T
    hit = np.zeros(1, np.int32)
    body = int(model.site_bodyid[site])
    known = np.array([mujoco.mj_ray(model, placed, scan.position, ray, None, 1, body, hit) for ray in turned])
    known[(known < 0) | (known > 100)] = np.inf
    assert np.array_equal(scan.ranges, known.astype(np.float32))


@pytest.mark.parametrize("name", ["pick_cube", "joint_zoo", "twin_arms", "room"])
def test_bounds_of_a_model_that_was_not_changed_stay(name: str) -> None:
    model = room()[0] if name == "room" else mujoco.MjModel.from_xml_path(str(scene_path(name)))
    private = copy.copy(model)
    bounds.refresh(private)
    assert np.allclose(private.geom_aabb, model.geom_aabb, atol=1e-12)
    assert np.allclose(private.bvh_aabb, model.bvh_aabb, rtol=1e-9, atol=1e-12)


def test_changes_between_episodes_show_in_the_next_ones_scans(tmp_path: Path) -> None:
    model, data = room()
    observer = lr.Observer(
        output_dir=tmp_path, data_hz=50, mode="full_scene", model=model, data=data, lidars=[{"name": "lidar", **GRID}]
    )
    observer.start_recording()
    known = []
    for size, place in ((0.5, 3.0), (0.5, 5.0), (1.4, 5.0)):
        observer.end_current_episode(success=True)
        model.geom("box").size[:] = size
        model.body("box").pos[0] = place
        known.append(scan_of(model, data).ranges)
        observer.tick()
    observer.end_current_episode(success=True)
    observer.stop_recording()
    session = check_session(observer.session_path)
    for k, ranges in enumerate(known):
        assert np.array_equal(np.array(session.episode(k).scans("lidar").table["range"][0].as_py(), np.float32), ranges)
    assert len({ranges.tobytes() for ranges in known}) == 3


def test_scanning_touches_nothing_of_the_users(tmp_path: Path) -> None:
    model, data = room()
    before = contents(model), contents(data)
    observer = lr.Observer(
        output_dir=tmp_path, data_hz=50, mode="full_scene", model=model, data=data, lidars=[{"name": "lidar", **GRID}]
    )
    observer.start_recording()
    observer.tick()
    observer.stop_recording()
    assert (contents(model), contents(data)) == before


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


# The files.


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


def test_a_scene_of_the_package_is_scanned_where_its_site_is() -> None:
    model = scene("joint_zoo")
    scan = scan_of(model, mujoco.MjData(model), site="tip")
    assert scan.ranges.dtype == np.float32
    assert scan.geoms.dtype == np.int32
    assert np.isfinite(scan.ranges).any()
