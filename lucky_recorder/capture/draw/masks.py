"""Masks: which labelled object each pixel shows."""

from __future__ import annotations

from collections.abc import Sequence

import mujoco
import numpy as np
from numpy.typing import NDArray

from lucky_recorder.capture.mujoco import names
from lucky_recorder.episode.keys import MOST_LABELS
from lucky_recorder.errors import SettingsError


class Labels:
    """The objects of a mask stream and the ids their pixels get.

    An object is a body, with everything below it, or a single geom. Ids count from 1 in the order given; where
    objects overlap, the later one wins. 0 is everything else.

    It is made in the caller's thread. `ids` runs in the worker's and reads only a table of its own and the scene.

    Args:
        model: The model.
        objects: Names of bodies or geoms.
        field: The setting's name, for the error.

    Raises:
        SettingsError: If a name is neither a body's nor a geom's, or there are more than 255.
    """

    def __init__(self, model: mujoco.MjModel, objects: Sequence[str], field: str) -> None:
        if not 0 < len(objects) <= MOST_LABELS:
            raise SettingsError.of(field, tuple(objects), f"name 1 to {MOST_LABELS} bodies or geoms")
        self._of_geom = np.zeros(model.ngeom + 1, np.uint8)
        for label, name in enumerate(objects, 1):
            self._of_geom[_geoms(model, name, field)] = label

    def ids(self, segments: NDArray[np.uint8], scene: mujoco.MjvScene) -> NDArray[np.uint8]:
        """Turn a segmentation pass into label ids.

        Args:
            segments: What was drawn with segment ids for colours, uint8, shape ``(height, width, 3)``.
            scene: The scene that was drawn.

        Returns:
            Label ids, uint8, shape ``(height, width)``, rows in the same order.
        """
        # MuJoCo draws a segment id plus one as a colour, its low byte in red. 8-bit values cannot be shifted that far.
        wide = segments.astype(np.uint32)
        drawn = wide[..., 0] | wide[..., 1] << 8 | wide[..., 2] << 16
        labels: NDArray[np.uint8] = self._of_segments(scene)[drawn]
        return labels

    def _of_segments(self, scene: mujoco.MjvScene) -> NDArray[np.uint8]:
        """Return the label of each segment id; 0 is the background's."""
        geom_type = int(mujoco.mjtObj.mjOBJ_GEOM)
        labels = np.zeros(scene.ngeom + 1, np.uint8)
        for geom in scene.geoms[: scene.ngeom]:
            if geom.segid >= 0 and int(geom.objtype) == geom_type:
                labels[geom.segid + 1] = self._of_geom[geom.objid]
        return labels


def _geoms(model: mujoco.MjModel, name: str, field: str) -> list[int]:
    body = int(mujoco.mj_name2id(model, int(mujoco.mjtObj.mjOBJ_BODY), name))
    if body >= 0:
        return [g for g in range(model.ngeom) if names.is_within(model, int(model.geom_bodyid[g]), body)]
    geom = int(mujoco.mj_name2id(model, int(mujoco.mjtObj.mjOBJ_GEOM), name))
    if geom < 0:
        raise SettingsError.of(field, name, "the model has neither a body nor a geom of that name")
    return [geom]
