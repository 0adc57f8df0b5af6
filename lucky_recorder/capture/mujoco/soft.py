"""Flexes and skins: what is soft, which bodies it belongs to, and where rays meet a flex.

A flex is its elements, inflated by its radius: segments become capsules, triangles plates with round edges. Of a solid
one only the triangles around it count. This is the shape that MuJoCo draws and lets collide; its own rays over many
directions pass through it.
"""

from __future__ import annotations

import mujoco
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

# Pairs of a ray and an element that are looked at together: this bounds memory.
_MOST_PAIRS = 500_000


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


def seen_flexes(model: mujoco.MjModel, excluded: int = -1) -> list[int]:
    """Return the flexes that rays meet: not what is wholly transparent, as with geoms, nor on the body left out."""
    return [f for f in range(model.nflex) if not _is_clear(model, f) and not _is_on(model, f, excluded)]


def _is_clear(model: mujoco.MjModel, flex: int) -> bool:
    # MuJoCo's rule for a geom: its own alpha is 0, and so is its material's, if it has one.
    material = int(model.flex_matid[flex])
    return not model.flex_rgba[flex, 3] and (material < 0 or not model.mat_rgba[material, 3])


def _is_on(model: mujoco.MjModel, flex: int, body: int) -> bool:
    return bool((flex_bodies(model, flex) == body).all())


class FlexSurface:
    """The surface of one flex, for rays from one point.

    Args:
        model: The model; it is only read.
        flex: The flex.
    """

    def __init__(self, model: mujoco.MjModel, flex: int) -> None:
        dim, (_, first, _) = int(model.flex_dim[flex]), _vertices(model, flex)
        # Of a solid, the triangles around it; else the elements themselves.
        part = "shell" if dim == 3 else "elem"
        corners = min(dim + 1, 3)
        start = int(getattr(model, f"flex_{part}dataadr")[flex])
        count = int(getattr(model, f"flex_{part}num")[flex])
        data = getattr(model, "flex_shell" if dim == 3 else "flex_elem")[start : start + count * corners]
        self._corners = data.reshape(count, corners).astype(np.intp) + first
        self._radius = float(model.flex_radius[flex])

    def distances(self, vertices: Floats, origin: Floats, rays: Floats, farthest: float) -> Floats:
        """Return how far along each ray the flex is.

        Args:
            vertices: Positions of all vertices of the model's flexes in the world, shape ``(n, 3)``.
            origin: Where the rays begin, shape ``(3,)``.
            rays: Unit vectors in the world, shape ``(rays, 3)``.
            farthest: Metres; what is farther does not matter.

        Returns:
            Metres, shape ``(rays,)``; infinity where a ray does not meet it.
        """
        elements = vertices[self._corners] - origin
        nearest = np.full(len(rays), np.inf)
        # The whole of it first: most rays look elsewhere.
        _, ahead = _near(elements.reshape(1, -1, 3), rays, self._radius, farthest)
        step = max(1, _MOST_PAIRS // max(1, len(ahead)))
        for start in range(0, len(elements), step) if len(ahead) else ():
            part = elements[start : start + step]
            element, pair = _near(part, rays[ahead], self._radius, farthest)
            ray = ahead[pair]
            np.minimum.at(nearest, ray, _meet(part[element], rays[ray], self._radius))
        return nearest


def _near(elements: Floats, rays: Floats, radius: float, farthest: float) -> tuple[Indices, Indices]:
    """Return the pairs of elements and rays that may meet: the ray passes through a ball around the element."""
    centres = elements.mean(axis=1)
    away = np.linalg.norm(centres, axis=1)
    # A hair more: a ray that grazes the ball is asked exactly, and no rounding here loses it.
    reach = (np.linalg.norm(elements - centres[:, None], axis=2).max(axis=1) + radius) * (1 + 1e-6) + 1e-9
    # From outside of the ball, a ray passes through it if it goes as far towards the centre as the ball's rim.
    rim = np.sqrt(np.maximum(away**2 - reach**2, 0)) * (1 - 1e-9)
    rim[away <= reach] = -np.inf
    rim[away - reach > farthest] = np.inf
    element, ray = np.nonzero(centres @ rays.T >= rim[:, None])
    return element, ray


def _meet(elements: Floats, rays: Floats, radius: float) -> Floats:
    """Return where rays from the origin meet elements, pair by pair; infinity where they do not."""
    corners = elements.shape[1]
    edges = [(0, 1)] if corners == 2 else [(0, 1), (1, 2), (2, 0)]
    hits = [_meet_plates(elements, rays, radius)] if corners == 3 else []
    if radius or not hits:
        hits += [_meet_capsules(elements[:, a], elements[:, b], rays, radius) for a, b in edges]
    nearest: Floats = np.min(hits, axis=0)
    return nearest


def _meet_plates(triangles: Floats, rays: Floats, radius: float) -> Floats:
    """Return where rays meet the two faces of triangles that are ``2 * radius`` thick."""
    first, second = triangles[:, 1] - triangles[:, 0], triangles[:, 2] - triangles[:, 0]
    normal = np.cross(first, second)
    length = np.linalg.norm(normal, axis=1, keepdims=True)
    # A triangle without area, or seen from its edge, divides by zero; what comes out is no number and meets nothing.
    with np.errstate(all="ignore"):
        normal = normal / length
        slope = np.einsum("ij,ij->i", normal, rays)
        faces = [_face(triangles[:, 0] + s * normal, first, second, normal, rays, slope) for s in {radius, -radius}]
    nearest: Floats = np.min(faces, axis=0)
    return nearest


def _face(corner: Floats, first: Floats, second: Floats, normal: Floats, rays: Floats, slope: Floats) -> Floats:
    """Return where rays meet triangles given by a corner and the two edges from it."""
    distance = np.einsum("ij,ij->i", normal, corner) / slope
    point = rays * distance[:, None] - corner
    area = np.einsum("ij,ij->i", normal, np.cross(first, second))
    u = np.einsum("ij,ij->i", normal, np.cross(point, second)) / area
    v = np.einsum("ij,ij->i", normal, np.cross(first, point)) / area
    # No ray slips between two triangles that share an edge.
    hair = 1e-12
    is_hit = (u >= -hair) & (v >= -hair) & (u + v <= 1 + hair) & (distance >= 0)
    return np.where(is_hit, distance, np.inf)


def _meet_capsules(start: Floats, end: Floats, rays: Floats, radius: float) -> Floats:
    """Return where rays meet capsules."""
    axis = end - start
    squared = np.einsum("ij,ij->i", axis, axis)
    # Of what lies across the axis: |t * ray - start| = radius.
    with np.errstate(all="ignore"):
        share, offset = np.einsum("ij,ij->i", axis, rays) / squared, np.einsum("ij,ij->i", axis, start) / squared
        across, from_start = rays - share[:, None] * axis, start - offset[:, None] * axis
        sides = []
        for distance in _roots(across, from_start, radius):
            place = distance * share - offset
            sides.append(np.where((distance >= 0) & (place >= 0) & (place <= 1), distance, np.inf))
    ends = [np.where(t >= 0, t, np.inf) for centre in (start, end) for t in _roots(rays, centre, radius)]
    nearest: Floats = np.min([*sides, *ends], axis=0)
    return nearest


def _roots(direction: Floats, centre: Floats, radius: float) -> tuple[Floats, Floats]:
    """Return both solutions ``t`` of ``|t * direction - centre| = radius``; NaN where there is none."""
    a = np.einsum("ij,ij->i", direction, direction)
    b = np.einsum("ij,ij->i", direction, centre)
    c = np.einsum("ij,ij->i", centre, centre) - radius**2
    with np.errstate(all="ignore"):
        root = np.sqrt(b * b - a * c)
        return (b - root) / a, (b + root) / a
