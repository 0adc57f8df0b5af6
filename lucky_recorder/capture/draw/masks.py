"""Masks: which labelled object each pixel shows."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import mujoco
import numpy as np
from numpy.typing import NDArray

from lucky_recorder.capture.mujoco import names
from lucky_recorder.capture.mujoco.soft import flex_bodies, skin_bodies
from lucky_recorder.episode.keys import MOST_LABELS
from lucky_recorder.errors import SettingsError


class Labels:
    """The objects of a mask stream and the ids their pixels get.

    An object is a body, with everything below it, or a single geom, flex or skin. A flex belongs to the bodies of its
    vertices, a skin to those of its bones. Ids count from 1 in the order given; where objects overlap, the later one
    wins. 0 is everything else.

    It is made in the caller's thread. `ids` runs in the worker's and reads only a table of its own and the scene.

    Args:
        model: The model.
        objects: Names of bodies, geoms, flexes or skins.
        field: The setting's name, for the error.
        hidden: What the camera never shows, ``flex`` or ``skin``: it needs no label.

    Raises:
        SettingsError: If a name is none of these, there are more than 255, or a flex or skin would be in two objects.
    """

    def __init__(self, model: mujoco.MjModel, objects: Sequence[str], field: str, hidden: Collection[str] = ()) -> None:
        if not 0 < len(objects) <= MOST_LABELS:
            raise SettingsError.of(field, tuple(objects), f"name 1 to {MOST_LABELS} bodies, geoms, flexes or skins")
        painted = _Painted(model)
        for label, name in enumerate(objects, 1):
            painted.paint(name, label, field)
        # By the type of object that MuJoCo gives what it draws, then by its id.
        self._of_object = {
            int(mujoco.mjtObj.mjOBJ_GEOM): painted.geoms,
            int(mujoco.mjtObj.mjOBJ_FLEX): painted.whole("flex", field, "flex" in hidden),
            int(mujoco.mjtObj.mjOBJ_SKIN): painted.whole("skin", field, "skin" in hidden),
        }

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
        labels = np.zeros(scene.ngeom + 1, np.uint8)
        for geom in scene.geoms[: scene.ngeom]:
            known = self._of_object.get(int(geom.objtype))
            if geom.segid >= 0 and known is not None:
                labels[geom.segid + 1] = known[geom.objid]
        return labels


def check_names(model: mujoco.MjModel, objects: Sequence[str], field: str) -> None:
    """Look the objects of a mask up that is not recorded: a name that is wrong now would be wrong then.

    Raises:
        SettingsError: If a name is none of a body, geom, flex or skin.
    """
    painted = _Painted(model)
    for name in objects:
        painted.find(name, field)


class _Painted:
    """The label of every geom, and of every body that a flex or skin hangs on, one object after the other."""

    def __init__(self, model: mujoco.MjModel) -> None:
        self._model = model
        self.geoms = np.zeros(model.ngeom, np.uint8)
        self._bodies = {
            "flex": [flex_bodies(model, i) for i in range(model.nflex)],
            "skin": [skin_bodies(model, i) for i in range(model.nskin)],
        }
        self._labels = {kind: [np.zeros(len(b), np.uint8) for b in of] for kind, of in self._bodies.items()}

    def paint(self, name: str, label: int, field: str) -> None:
        """Give an object its label."""
        kind, index = self.find(name, field)
        if kind == "body":
            self._paint_body(index, label)
        elif kind == "geom":
            self.geoms[index] = label
        else:
            self._labels[kind][index][:] = label

    def find(self, name: str, field: str) -> tuple[str, int]:
        """Return an object's kind and its index.

        Raises:
            SettingsError: If there is none of that name.
        """
        model = self._model
        for kind in ("body", "geom"):
            index = int(mujoco.mj_name2id(model, names.object_of(kind), name))
            if index >= 0:
                return kind, index
        for kind, all_bodies in self._bodies.items():
            # Also by the name that stands for none, ``skin_0``: a refusal may have asked for it.
            called = [names.name_of(model, kind, i) for i in range(len(all_bodies))]
            if name in called:
                return kind, called.index(name)
        raise SettingsError.of(field, name, "the model has neither a body nor a geom, flex or skin of that name")

    def _paint_body(self, root: int, label: int) -> None:
        model = self._model
        below = np.array([names.is_within(model, body, root) for body in range(model.nbody)])
        self.geoms[below[model.geom_bodyid]] = label
        for kind, all_bodies in self._bodies.items():
            for labels, bodies in zip(self._labels[kind], all_bodies, strict=True):
                labels[below[bodies]] = label

    def whole(self, kind: str, field: str, is_hidden: bool) -> NDArray[np.uint8]:
        """Return the one label of each flex or skin: it is drawn as one thing, so it cannot have two.

        Raises:
            SettingsError: If the bodies it belongs to are of several objects, and it is drawn at all.
        """
        every = list(enumerate(self._labels[kind]))
        split = [index for index, labels in every if len(np.unique(labels)) > 1]
        if split and not is_hidden:
            raise self._of_several(kind, split[0], field)
        whole = [labels[0] if len(labels) and index not in split else 0 for index, labels in every]
        return np.array(whole, np.uint8)

    def _of_several(self, kind: str, index: int, field: str) -> SettingsError:
        labels, bodies = self._labels[kind][index], self._bodies[kind][index]
        name = names.name_of(self._model, kind, index)
        inside, outside = (
            names.name_of(self._model, "body", int(bodies[i])) for i in (labels.argmax(), labels.argmin())
        )
        remedy = (
            f"it belongs to the bodies {inside} and {outside}, which are not of one object of the mask, and it "
            f"is drawn as one; name {name!r} itself in masks, after them"
        )
        return SettingsError.of(field, f"{kind} {name}", remedy)
