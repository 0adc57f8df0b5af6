"""What MuJoCo's own renderer says of the surfaces in a state: planar metres, and the object each pixel shows."""

from __future__ import annotations

import copy
from typing import Any

import mujoco
import numpy as np

from tests.capture.models import WHOLE_STATE

GEOM = int(mujoco.mjtObj.mjOBJ_GEOM)


class Mirror:
    """MuJoCo's renderer on a private copy of a model. The caller's model and data stay as they are."""

    def __init__(self, model: mujoco.MjModel, width: int, height: int) -> None:
        self._model = copy.copy(model)
        self._model.vis.global_.offwidth, self._model.vis.global_.offheight = width, height
        self._data = mujoco.MjData(self._model)
        self._renderer = mujoco.Renderer(self._model, height, width)

    def show(self, state: np.ndarray, camera: Any) -> None:
        """Look at a state through a camera."""
        mujoco.mj_setState(self._model, self._data, state, WHOLE_STATE)
        mujoco.mj_forward(self._model, self._data)
        # A scene lays infinite planes out around the camera it was last filled with.
        for _ in range(2):
            self._renderer.update_scene(self._data, camera)

    def depth(self) -> np.ndarray:
        """Planar metres, float32; the far plane where there is nothing."""
        self._renderer.enable_depth_rendering()
        metres: np.ndarray = self._renderer.render()
        self._renderer.disable_depth_rendering()
        return metres

    def geoms(self) -> np.ndarray:
        """The geom each pixel shows, -1 where it shows none."""
        self._renderer.enable_segmentation_rendering()
        shown = self._renderer.render()
        self._renderer.disable_segmentation_rendering()
        return np.where(shown[..., 1] == GEOM, shown[..., 0], -1)

    def background(self) -> np.ndarray:
        """Where there is no surface at all."""
        self._renderer.enable_segmentation_rendering()
        shown = self._renderer.render()
        self._renderer.disable_segmentation_rendering()
        return shown[..., 1] == -1

    def codes(self, scale: float) -> np.ndarray:
        """Depth codes as the format has them: ``round(metres / scale)``; 0 for nothing, or what does not fit."""
        exact = np.rint(self.depth().astype(np.float64) / scale)
        exact[self.background() | (exact > 65535)] = 0
        return exact.astype(np.uint16)

    def labels(self, objects: list[list[int]]) -> np.ndarray:
        """Label ids: the geoms of each object in turn, later ones win."""
        of_geom = np.zeros(self._model.ngeom + 1, np.uint8)
        for label, geoms in enumerate(objects, 1):
            of_geom[geoms] = label
        return of_geom[self.geoms()]

    def close(self) -> None:
        self._renderer.close()

    def __enter__(self) -> Mirror:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()
