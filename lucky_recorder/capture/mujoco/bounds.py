"""Bounds: the boxes around geoms by which MuJoCo skips what a ray cannot hit, computed again for a changed model.

MuJoCo computes them when it compiles a model. If a geom is given another size or another place in its body after that,
the old boxes stay, and rays miss what has grown or moved.
"""

from __future__ import annotations

import mujoco
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def refresh(model: mujoco.MjModel) -> None:
    """Compute the bounds of every geom and body of a model again; of a model that was not changed, they stay.

    Meshes keep the bounds of their vertices.

    Args:
        model: A private copy of the model; it is changed.
    """
    _refresh_geoms(model)
    for body in np.flatnonzero(model.body_bvhnum):
        _refresh_body(model, int(body))


def _refresh_geoms(model: mujoco.MjModel) -> None:
    kind = mujoco.mjtGeom
    for geom in range(model.ngeom):
        x, y, z = model.geom_size[geom]
        halves = {
            int(kind.mjGEOM_SPHERE): (x, x, x),
            int(kind.mjGEOM_CAPSULE): (x, x, x + y),
            int(kind.mjGEOM_ELLIPSOID): (x, y, z),
            int(kind.mjGEOM_CYLINDER): (x, x, y),
            int(kind.mjGEOM_BOX): (x, y, z),
        }.get(int(model.geom_type[geom]))
        if halves is not None:
            model.geom_aabb[geom] = (0, 0, 0, *halves)


def _refresh_body(model: mujoco.MjModel, body: int) -> None:
    """Compute the tree of boxes of a body's geoms again, in the frame of its inertia.

    The tree keeps its shape: which geoms share a box was decided when the model was compiled. Where they have moved
    apart, that costs time, but every box still holds what is in it.
    """
    first, count = int(model.body_bvhadr[body]), int(model.body_bvhnum[body])
    boxes, children = model.bvh_aabb[first : first + count], model.bvh_child[first : first + count]
    geoms = model.bvh_nodeid[first : first + count]
    # A parent comes before its children. From the last node to the first, children are always done first.
    for node in reversed(range(count)):
        if geoms[node] >= 0:
            boxes[node] = _box(model, body, int(geoms[node]))
        else:
            boxes[node] = _union(*boxes[children[node]])


def _box(model: mujoco.MjModel, body: int, geom: int) -> Floats:
    """Return a geom's box, centre and half sizes, in the frame of its body's inertia."""
    frame = _rotation(model.body_iquat[body])
    turned = frame.T @ _rotation(model.geom_quat[geom])
    centre = frame.T @ (model.geom_pos[geom] - model.body_ipos[body]) + turned @ model.geom_aabb[geom, :3]
    return np.concatenate([centre, np.abs(turned) @ model.geom_aabb[geom, 3:]])


def _union(one: Floats, other: Floats) -> Floats:
    low = np.minimum(one[:3] - one[3:], other[:3] - other[3:])
    high = np.maximum(one[:3] + one[3:], other[:3] + other[3:])
    return np.concatenate([(low + high) / 2, (high - low) / 2])


def _rotation(quaternion: Floats) -> Floats:
    matrix = np.empty(9)
    mujoco.mju_quat2Mat(matrix, quaternion)
    return matrix.reshape(3, 3)
