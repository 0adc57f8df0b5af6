"""Lidar: what rays hit is where it says, as far as the sensor sees, and with its noise."""

from __future__ import annotations

import copy
from pathlib import Path

import mujoco
import numpy as np
import pytest

import lucky_recorder as lr
from tests.capture.models import scene, state
from tests.capture.mujoco.room import GRID, record, room, scan_of


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


def test_a_scene_of_the_package_is_scanned_where_its_site_is() -> None:
    model = scene("joint_zoo")
    scan = scan_of(model, mujoco.MjData(model), site="tip")
    assert scan.ranges.dtype == np.float32
    assert scan.geoms.dtype == np.int32
    assert np.isfinite(scan.ranges).any()


WALL = """
<mujoco>
  <worldbody>
    <site name="lidar"/>
    <geom name="wall" type="box" pos="2.5 0 0" size="0.5 1 1"/>
  </worldbody>
</mujoco>
"""


@pytest.mark.parametrize(
    ("limits", "is_seen"),
    [
        ({"min_range_m": 2.0}, True),
        ({"min_range_m": float(np.nextafter(2.0, 3.0))}, False),
        ({"max_range_m": 2.0}, True),
        ({"max_range_m": float(np.nextafter(2.0, 1.0))}, False),
    ],
)
def test_what_stands_at_a_limit_is_seen(limits: dict[str, float], is_seen: bool) -> None:
    model = mujoco.MjModel.from_xml_string(WALL)
    scan = scan_of(model, mujoco.MjData(model), azimuth=(0, 0, 1), elevation=(0, 0, 1), **limits)
    assert (float(scan.ranges[0]), int(scan.geoms[0])) == ((2.0, 0) if is_seen else (np.inf, -1))
