"""Lidar: rays cast in the worker, on a model and a state of its own."""

from __future__ import annotations

from typing import Any, NamedTuple

import mujoco
import numpy as np
from numpy.typing import NDArray

from lucky_recorder.capture.mujoco import names
from lucky_recorder.capture.mujoco.simulation import kinematics
from lucky_recorder.capture.mujoco.soft import FlexSurface, seen_flexes
from lucky_recorder.settings.lidar import Lidar

NO_GEOM = -1
_NO_BODY = -1


class Scan(NamedTuple):
    """One scan.

    Attributes:
        position: The sensor's position in the world, metres, float64, shape ``(3,)``.
        orientation: The sensor's orientation in the world, quaternion w x y z, shape ``(4,)``.
        ranges: Metres along each ray, float32, shape ``(rays,)``; infinity where nothing came back.
        geoms: The geom each ray hit, int32, shape ``(rays,)``; -1 where none, and where a flex was hit.
    """

    position: NDArray[np.float64]
    orientation: NDArray[np.float64]
    ranges: NDArray[np.float32]
    geoms: NDArray[np.int32]


def site_of(model: mujoco.MjModel, lidar: Lidar) -> int:
    """Return the id of the site that a lidar is mounted on.

    Raises:
        SettingsError: If the model has none of that name.
    """
    return names.id_of(model, "site", lidar.site, f"lidar {lidar.name!r}: site")


def flexes_of(model: mujoco.MjModel, lidar: Lidar) -> list[str]:
    """Return the names of the flexes that a lidar's rays can meet."""
    return [names.name_of(model, "flex", f) for f in seen_flexes(model, _excluded(model, site_of(model, lidar)))]


def _excluded(model: mujoco.MjModel, site: int) -> int:
    """Return the body that rays from a site do not see: the one that carries the sensor."""
    # The world is left in: the floor belongs to it.
    return int(model.site_bodyid[site]) or _NO_BODY


class Caster:
    """Casts one lidar's rays into states of a simulation: made in the caller's thread, used in the worker's alone.

    Args:
        lidar: The sensor.
        model: A private copy of the model; it is only read.
    """

    def __init__(self, lidar: Lidar, model: mujoco.MjModel) -> None:
        self._lidar = lidar
        self._model = model
        self._data = mujoco.MjData(model)
        self._stages = kinematics(model)
        self._site = site_of(model, lidar)
        self._body = _excluded(model, self._site)
        self._rays = lidar.directions()
        self._geoms = np.empty(len(self._rays), np.int32)
        self._distances = np.empty(len(self._rays))
        self._flexes = [FlexSurface(model, flex) for flex in seen_flexes(model, self._body)]

    def cast(self, state: NDArray[np.float64], noise: np.random.Generator) -> Scan:
        """Cast every ray into a state.

        Args:
            state: MuJoCo's full integration state, float64, shape ``(n,)``.
            noise: The scan's source of randomness.
        """
        model, data = self._model, self._data
        mujoco.mj_setState(model, data, state, int(mujoco.mjtState.mjSTATE_INTEGRATION))
        for stage in self._stages:
            stage(model, data)
        position = data.site_xpos[self._site].copy()
        frame = data.site_xmat[self._site].reshape(3, 3)
        orientation = np.empty(4)
        mujoco.mju_mat2Quat(orientation, data.site_xmat[self._site])
        directions = np.ascontiguousarray(self._rays @ frame.T)
        self._trace(position, directions)
        self._trace_flexes(position, directions)
        return Scan(position, orientation, *self._measure(noise))

    def _trace(self, origin: NDArray[np.float64], directions: NDArray[np.float64]) -> None:
        arguments: dict[str, Any] = {
            "m": self._model,
            "d": self._data,
            "pnt": origin,
            "vec": directions.reshape(-1),
            "geomgroup": None,
            "flg_static": 1,
            "bodyexclude": self._body,
            "geomid": self._geoms,
            "dist": self._distances,
            "nray": len(self._rays),
            "cutoff": self._lidar.max_range_m,
        }
        # Newer versions of MuJoCo take one argument more. Their functions have no signature to ask, only this text.
        if "normal" in (mujoco.mj_multiRay.__doc__ or ""):
            arguments["normal"] = None
        mujoco.mj_multiRay(**arguments)

    def _trace_flexes(self, origin: NDArray[np.float64], directions: NDArray[np.float64]) -> None:
        """Put in what `mj_multiRay` does not see: flexes before the geoms that were hit."""
        # It gives -1 for a ray that hits nothing.
        self._distances[self._geoms < 0] = np.inf
        for flex in self._flexes:
            farthest = self._lidar.max_range_m
            distances = flex.distances(self._data.flexvert_xpos, origin, directions, farthest)
            is_nearer = distances < self._distances
            self._distances[is_nearer] = distances[is_nearer]
            self._geoms[is_nearer] = NO_GEOM

    def _measure(self, noise: np.random.Generator) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
        """Return ranges and geoms with the sensor's noise and limits; out of range counts as having hit nothing."""
        lidar, ranges, geoms = self._lidar, self._distances.copy(), self._geoms.copy()
        is_hit = np.isfinite(ranges)
        if lidar.noise_m:
            # A number for every ray, whether it hit or not: what one ray meets does not change the noise of the others.
            ranges += lidar.noise_m * noise.standard_normal(len(ranges))
        is_hit &= (ranges >= lidar.min_range_m) & (ranges <= lidar.max_range_m)
        ranges[~is_hit] = np.inf
        geoms[~is_hit] = NO_GEOM
        return ranges.astype(np.float32), geoms
