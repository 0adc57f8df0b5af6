"""Lidar: a model that is changed is scanned as it is, and nothing of the user's is touched."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest

import lucky_recorder as lr
from lucky_recorder.capture.mujoco import bounds
from lucky_recorder.envs import scene_path
from lucky_recorder.testing import check_session
from tests.capture.models import contents, state
from tests.capture.mujoco.room import GRID, room, scan_of

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
