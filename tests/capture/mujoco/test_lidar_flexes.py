"""Lidars see flexes: a ray meets one where it meets the same shape made of geoms."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest

import lucky_recorder as lr
from lucky_recorder.capture.mujoco.soft import FlexSurface
from lucky_recorder.session.check import check_session as faults_of
from tests.capture.mujoco.room import record, scan_of

FLEX = 'name="tent" spacing=".2 .2 .2" mass="0.2"'
KINDS = {
    "rope": f'<flexcomp {FLEX} type="grid" count="7 1 1" radius=".05" dim="1"/>',
    "cloth": f'<flexcomp {FLEX} type="grid" count="5 5 1" radius=".03" dim="2"/>',
    "thin cloth": f'<flexcomp {FLEX} type="grid" count="5 5 1" radius="0" dim="2"/>',
    "sponge": f'<flexcomp {FLEX} type="grid" count="3 3 3" radius=".02" dim="3"/>',
    "rigid cloth": f'<flexcomp {FLEX} type="grid" count="4 4 1" radius=".04" dim="2" rigid="true"/>',
    "trilinear sponge": f'<flexcomp {FLEX} type="grid" count="3 3 3" radius="0" dim="3" dof="trilinear"/>',
}
GRID: dict[str, Any] = {"azimuth": (-180, 180, 120), "elevation": (-80, 0, 41)}
pytestmark = pytest.mark.filterwarnings("ignore")


def tent(kind: str, inside: str = "") -> tuple[mujoco.MjModel, mujoco.MjData]:
    """A flex that falls and turns, above a floor and below a lidar."""
    joint = "<freejoint/>" if "rigid" in kind else ""
    model = mujoco.MjModel.from_xml_string(
        f"""<mujoco><worldbody><geom name="floor" type="plane" size="20 20 .1"/>
        <body name="eye" pos=".1 -.3 2"><joint type="slide"/><geom size=".01"/><site name="lidar"/></body>
        <body name="tent" pos="0 0 1" euler="20 10 0">{joint}<geom size=".01" mass="1"/>
        {KINDS[kind]}{inside}</body>
        </worldbody></mujoco>"""
    )
    data = mujoco.MjData(model)
    generator = np.random.default_rng(0)
    data.qvel[:] = generator.normal(0, 1, model.nv)
    mujoco.mj_step(model, data, 20)
    mujoco.mj_forward(model, data)
    return model, data


def twin(model: mujoco.MjModel, data: mujoco.MjData) -> mujoco.MjModel:
    """The same surface as geoms: a capsule for every edge, a prism of thin triangles for every plate."""
    radius, dim = float(model.flex_radius[0]), int(model.flex_dim[0])
    corners = min(dim + 1, 3)
    elements = (model.flex_shell if dim == 3 else model.flex_elem).reshape(-1, corners)
    spec = mujoco.MjSpec()
    for number, element in enumerate(elements):
        points = data.flexvert_xpos[element]
        if radius:
            for a, b in {tuple(sorted(pair)) for pair in itertools.combinations(range(corners), 2)}:
                geom = spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_CAPSULE, size=[radius, 0, 0])
                geom.fromto = [*points[a], *points[b]]
        if corners == 3:
            normal = np.cross(points[1] - points[0], points[2] - points[0])
            normal *= max(radius, 1e-7) / np.linalg.norm(normal)
            prism = np.concatenate([points - normal, points + normal])
            sides = [0, 2, 1, 3, 4, 5, 0, 1, 4, 0, 4, 3, 1, 2, 5, 1, 5, 4, 2, 0, 3, 2, 3, 5]
            mesh = spec.add_mesh(name=f"m{number}", uservert=prism.reshape(-1), userface=sides)
            mesh.inertia = mujoco.mjtMeshInertia.mjMESH_INERTIA_SHELL
            spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_MESH, meshname=mesh.name)
    return spec.compile()


def rays_at(model: mujoco.MjModel, origin: np.ndarray, rays: np.ndarray) -> np.ndarray:
    """How far along each ray the geoms of a model are, one ray at a time; infinity for none."""
    data, hit = mujoco.MjData(model), np.zeros(1, np.int32)
    mujoco.mj_forward(model, data)
    found = np.array([mujoco.mj_ray(model, data, origin, ray, None, 1, -1, hit) for ray in rays])
    return np.where(found < 0, np.inf, found)


@pytest.mark.parametrize("kind", KINDS)
def test_a_scan_over_it_is_that_of_the_same_shape_made_of_geoms(kind: str) -> None:
    model, data = tent(kind)
    scan = scan_of(model, data, **GRID)
    rays = lr.Lidar("x", **GRID).directions()
    expected = rays_at(twin(model, data), scan.position, rays)
    floor = scan.position[2] / np.maximum(-rays[:, 2], 1e-12)
    on_it = np.isfinite(expected) & (expected < floor) & (scan.geoms == -1)
    assert on_it.sum() > 60
    np.testing.assert_allclose(scan.ranges[on_it], expected[on_it], atol=2e-5)
    # No ray goes elsewhere, but for those that graze an edge: a mesh has its corners in float32.
    came_back_of_none = np.isfinite(scan.ranges) & (scan.geoms == -1)
    assert (came_back_of_none != on_it).sum() + (np.isfinite(expected) & (expected < floor) & ~on_it).sum() <= 3 + 12


@pytest.mark.parametrize(
    "origin", [(0.1, -0.3, 2), (0.05, 0.1, -0.5), (0.9, 0.2, 1), (0.02, 0.03, 1.12), (-0.1, 0, 0.85)]
)
@pytest.mark.parametrize("kind", KINDS)
def test_from_every_side_and_from_near_it_is_met_where_the_geoms_are(
    kind: str, origin: tuple[float, float, float]
) -> None:
    model, data = tent(kind)
    rays = lr.Lidar("x", azimuth=(-180, 180, 40), elevation=(-85, 85, 30)).directions()
    found = FlexSurface(model, 0).distances(data.flexvert_xpos, np.array(origin, float), rays, 100)
    expected = rays_at(twin(model, data), np.array(origin, float), rays)
    both = np.isfinite(found) & np.isfinite(expected)
    assert both.sum() > 2
    # A ray that grazes an edge may miss one of the two: a mesh has its corners in float32.
    assert (np.isfinite(found) != np.isfinite(expected)).sum() <= 2
    is_close = np.abs(found[both] - expected[both]) < 1e-4
    assert (~is_close).sum() <= 2


@pytest.mark.parametrize("kind", ["thin cloth", "trilinear sponge"])
def test_without_a_radius_rays_are_mujocos_own(kind: str) -> None:
    model, data = tent(kind)
    origin = np.array([0.1, -0.3, 2.0])
    rays = lr.Lidar("x", **GRID).directions()
    found = FlexSurface(model, 0).distances(data.flexvert_xpos, origin, rays, 100)
    own = np.array([mujoco.mj_rayFlex(model, data, 0, False, False, True, False, 0, origin, ray) for ray in rays])
    assert (own >= 0).sum() > 60
    np.testing.assert_allclose(found, np.where(own < 0, np.inf, own), atol=1e-9)


def test_the_nearer_of_a_flex_and_a_geom_is_met() -> None:
    model, data = tent("cloth", '<geom name="lid" type="box" pos="0 0 .5" size=".12 .12 .02" mass="0.1"/>')
    scan = scan_of(model, data, **GRID)
    lid = model.geom("lid").id
    assert {-1, lid, model.geom("floor").id} <= set(scan.geoms.tolist())
    model.flex_rgba[0, 3] = 0
    bare = scan_of(model, data, **GRID)
    assert (scan.ranges <= bare.ranges).all()
    assert (scan.ranges < bare.ranges).sum() > 30
    is_same = scan.ranges == bare.ranges
    assert (scan.geoms[is_same] == bare.geoms[is_same]).all()
    assert (scan.geoms[~is_same] == -1).all()


@pytest.mark.parametrize(("limit", "sees"), [({"max_range_m": 0.4}, False), ({"min_range_m": 5}, False), ({}, True)])
def test_out_of_range_is_lost(limit: dict[str, float], sees: bool) -> None:
    model, data = tent("cloth")
    scan = scan_of(model, data, **GRID, **limit)
    assert (np.isfinite(scan.ranges) & (scan.geoms == -1)).any() == sees


def test_a_flex_on_the_sensors_own_body_and_a_clear_one_are_not_seen(tmp_path: Path) -> None:
    model, data = tent("rigid cloth", '<site name="own" pos="0 0 .5"/>')
    mine = scan_of(model, data, **{**GRID, "site": "own"})
    assert (np.isfinite(mine.ranges) == (mine.geoms >= 0)).all()
    model.flex_rgba[0, 3] = 0
    clear = scan_of(model, data, **GRID)
    assert (np.isfinite(clear.ranges) == (clear.geoms >= 0)).all()


def test_the_files_say_which_flexes_a_lidar_sees_and_the_check_believes_them(tmp_path: Path) -> None:
    model, data = tent("rope")
    session = record(tmp_path, model, data, lidars=[{"name": "Top", "site": "lidar", **GRID}])
    scans = session.episode(0).scans("Top")
    ranges, geoms = (np.array(scans.table[name][0].as_py()) for name in ("range", "geom_id"))
    assert (np.isfinite(ranges) & (geoms == -1)).sum() > 10
    twin_file = session.path / "data/chunk-000/lidar-Top-000.json"
    said = json.loads(twin_file.read_text())
    assert said["flexes"] == ["tent"]
    assert said["geom_id"] == "the geom a ray hit; -1 for none, and for a ray that hit a flex"
    del said["flexes"]
    twin_file.write_text(json.dumps(said))
    assert any("geom_id" in fault.message for fault in faults_of(session.path))
