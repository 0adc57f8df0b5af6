"""Assets: what a rendering context copies from a model, watched so that changes between episodes reach the pictures.

Colours, lights, cameras and poses are in every scene. Textures, meshes, height fields, skins, planes, the textures of
materials and a few visual settings are copied when a context is made; they are compared when an episode begins.
"""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple

import mujoco
import numpy as np
from numpy.typing import NDArray

Arrays = dict[str, NDArray[Any]]

# The arrays of meshes, each with the name of the address that says where a mesh begins in it (mesh_vertadr, …).
_MESHES = {
    "mesh_vert": "vert",
    "mesh_normal": "normal",
    "mesh_texcoord": "texcoord",
    "mesh_face": "face",
    "mesh_facenormal": "face",
    "mesh_facetexcoord": "face",
}
# What can be uploaded into a context that exists.
_UPLOADED = ("tex_data", *_MESHES, "hfield_data")
# A context compiles every plane from its size and material. Of other geoms both are in every scene, so of these two
# arrays only the planes' entries are compared.
_OF_PLANES = ("geom_size", "geom_matid")
# What a context copies only when it is made: a change needs a new context.
_HELD = ("mat_texid", "mat_texuniform", "mat_texrepeat", "skin_texcoord", "skin_face", "hfield_size", *_OF_PLANES)
# More than a context holds of a model, to be on the safe side: what is loaded from files, and all that is soft.
_HELD_WHOLE = ("tex_", "mesh_", "hfield_", "skin_", "flex_")
_DIGEST_BYTES = 16
_VISUAL = {
    "global_": ("linewidth",),
    "map": ("fogstart", "fogend", "shadowclip", "shadowscale", "zfar"),
    "rgba": ("fog",),
    "quality": ("shadowsize", "offsamples", "numslices", "numstacks", "numquads"),
    "stat": ("extent",),
}


class AssetChange(NamedTuple):
    """What changed in a model since it was last looked at.

    Attributes:
        arrays: The new content of model arrays.
        visual: The new values of visual settings, by group and name.
        textures: Ids to upload again.
        meshes: Ids to upload again.
        hfields: Ids to upload again.
        is_deep: Whether uploads will not do and the context must be made anew.
    """

    arrays: Arrays
    visual: dict[tuple[str, str], Any]
    textures: tuple[int, ...] = ()
    meshes: tuple[int, ...] = ()
    hfields: tuple[int, ...] = ()
    is_deep: bool = False


class AssetWatch:
    """Remembers what the worker's context was last told of a model."""

    def __init__(self, model: mujoco.MjModel) -> None:
        self._model = model
        self._planes = np.flatnonzero(model.geom_type == int(mujoco.mjtGeom.mjGEOM_PLANE))
        self._arrays = {name: np.array(getattr(model, name)) for name in (*_UPLOADED, *_HELD) if hasattr(model, name)}
        self._visual = _visual(model)

    def change(self) -> AssetChange | None:
        """Return what has changed since the last call, or since this was made; None if nothing has.

        It holds copies, because the worker reads them while the environment may go on changing its model.
        """
        arrays = {n: np.array(getattr(self._model, n)) for n, old in self._arrays.items() if self._differs(n, old)}
        visual = {k: v for k, v in _visual(self._model).items() if not np.array_equal(v, self._visual[k])}
        if not arrays and not visual:
            return None
        change = self._describe(arrays, visual)
        self._arrays |= arrays
        self._visual |= visual
        return change

    def _differs(self, name: str, old: NDArray[Any]) -> bool:
        new = getattr(self._model, name)
        if name in _OF_PLANES:
            new, old = new[self._planes], old[self._planes]
        return not np.array_equal(new, old)

    def _describe(self, arrays: Arrays, visual: dict[tuple[str, str], Any]) -> AssetChange:
        model = self._model
        changed = {name: _changed_places(new, self._arrays[name]) for name, new in arrays.items()}
        textures = _hit(changed.get("tex_data"), model.tex_adr, model.ntex)
        hfields = _hit(changed.get("hfield_data"), model.hfield_adr, model.nhfield)
        meshes = {
            mesh
            for name, counted in _MESHES.items()
            for mesh in _hit(changed.get(name), getattr(model, f"mesh_{counted}adr"), model.nmesh)
        }
        is_deep = bool(visual) or any(name not in _UPLOADED for name in arrays)
        return AssetChange(arrays, visual, textures, tuple(sorted(meshes)), hfields, is_deep)


class Content:
    """What a rendering context holds of a model, by digests: models of the same content can share one.

    Args:
        model: The model.
    """

    def __init__(self, model: mujoco.MjModel) -> None:
        names = [name for name in dir(model) if name.startswith(_HELD_WHOLE)]
        arrays = {name for name in names if isinstance(getattr(model, name), np.ndarray)}
        self._digests = {name: _digest(model, name) for name in sorted(arrays | {*_UPLOADED, *_HELD})}
        self._visual = _visual_digest(model)

    @property
    def key(self) -> bytes:
        """The same for models of the same content."""
        return b"".join((*self._digests.values(), self._visual))

    def follow(self, model: mujoco.MjModel, change: AssetChange) -> None:
        """Take note of a change that the model has taken."""
        self._digests |= {name: _digest(model, name) for name in change.arrays}
        if change.visual:
            self._visual = _visual_digest(model)


def _digest(model: mujoco.MjModel, name: str) -> bytes:
    values = getattr(model, name, None)
    if values is None:
        return b""
    if name in _OF_PLANES:
        values = values[model.geom_type == int(mujoco.mjtGeom.mjGEOM_PLANE)]
    values = np.ascontiguousarray(values)
    # The shape too: arrays of no values may have other numbers of them.
    told = hashlib.blake2b(str(values.shape).encode(), digest_size=_DIGEST_BYTES)
    told.update(values.tobytes() if values.size == 0 else values.view(np.uint8).data)
    return told.digest()


def _visual_digest(model: mujoco.MjModel) -> bytes:
    values = _visual(model)
    held = b"".join(np.ascontiguousarray(values[key]).tobytes() for key in sorted(values))
    return hashlib.blake2b(held, digest_size=_DIGEST_BYTES).digest()


def _visual(model: mujoco.MjModel) -> dict[tuple[str, str], Any]:
    return {
        (group, name): np.array(getattr(_owner(model, group), name))
        for group, names in _VISUAL.items()
        for name in names
    }


def _changed_places(new: NDArray[Any], old: NDArray[Any]) -> NDArray[np.intp]:
    return np.flatnonzero((new != old).reshape(len(new), -1).any(axis=1))


def _owner(model: mujoco.MjModel, group: str) -> Any:
    return model.stat if group == "stat" else getattr(model.vis, group)


def _hit(changed: NDArray[np.intp] | None, addresses: NDArray[Any], count: int) -> tuple[int, ...]:
    """Return the ids of the things that own the changed places of an array."""
    if changed is None or not count:
        return ()
    starts = np.asarray(addresses, np.int64)
    # A mesh without texture coordinates has the address -1 among theirs, and owns none of them.
    owners = sorted((int(s), i) for i, s in enumerate(starts) if s >= 0)
    places = np.searchsorted([s for s, _ in owners], changed, side="right") - 1
    return tuple(sorted({owners[p][1] for p in np.unique(places) if p >= 0}))


def apply(model: mujoco.MjModel, change: AssetChange) -> None:
    """Write a change into another copy of the model."""
    for name, values in change.arrays.items():
        getattr(model, name)[...] = values
    for (group, name), value in change.visual.items():
        owner = _owner(model, group)
        if value.ndim:
            getattr(owner, name)[...] = value
        else:
            setattr(owner, name, value.item())
