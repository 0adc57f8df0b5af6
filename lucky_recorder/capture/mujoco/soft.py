"""Flexes and skins: what is soft, which bodies it belongs to, and where the surface of a flex is."""

from __future__ import annotations

import mujoco
import numpy as np
from numpy.typing import NDArray


def flex_bodies(model: mujoco.MjModel, flex: int) -> NDArray[np.int32]:
    """Return the bodies that carry a flex, ascending: those of its vertices, or of the nodes that move them."""
    # Of an interpolated flex a few nodes move all vertices; its vertices have no body then.
    nodes = int(model.flex_nodenum[flex]) if hasattr(model, "flex_nodenum") else 0
    part, start, count = ("node", int(model.flex_nodeadr[flex]), nodes) if nodes else _vertices(model, flex)
    bodies: NDArray[np.int32] = np.unique(getattr(model, f"flex_{part}bodyid")[start : start + count])
    return bodies[bodies >= 0]


def _vertices(model: mujoco.MjModel, flex: int) -> tuple[str, int, int]:
    return "vert", int(model.flex_vertadr[flex]), int(model.flex_vertnum[flex])


def skin_bodies(model: mujoco.MjModel, skin: int) -> NDArray[np.int32]:
    """Return the bodies that are the bones of a skin, ascending."""
    start, count = int(model.skin_boneadr[skin]), int(model.skin_bonenum[skin])
    bodies: NDArray[np.int32] = np.unique(model.skin_bonebodyid[start : start + count])
    return bodies
