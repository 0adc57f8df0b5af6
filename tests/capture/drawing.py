"""What the recorder draws, frame by frame, and what MuJoCo's own renderer draws of the same state."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import mujoco
import numpy as np

from lucky_recorder.capture.snapshot import SceneSnapshot
from lucky_recorder.capture.source import Source, open_source
from tests.capture.models import WHOLE_STATE, settings, state

WIDTH, HEIGHT = 64, 48
Pixels = np.ndarray[Any, np.dtype[np.uint8]]


class Film:
    """A source whose pictures are drawn as in a recording: in a thread of its own, one GL context for all of them."""

    def __init__(self, model: mujoco.MjModel, data: mujoco.MjData, cameras: Sequence[Any], **fields: Any) -> None:
        fields = {"mode": "full_scene", **fields}
        self.source: Source = open_source(settings(cameras=cameras, **fields), model, data)
        self._thread = ThreadPoolExecutor(1)
        self.open()

    def open(self) -> None:
        """Draw with the source's model from here on."""
        assert self.source.renderer is not None
        self.in_worker(self.source.renderer.open, self.source.model_copy())

    def in_worker(self, job: Any, *arguments: Any) -> Any:
        return self._thread.submit(job, *arguments).result()

    def begin(self) -> Any:
        """What happens at an episode's beginning; returns what had changed."""
        change = self.source.asset_change()
        if change is not None:
            self.in_worker(self.source.renderer.update, change)
        return change

    def look(self) -> list[SceneSnapshot]:
        """Take the snapshots of one tick."""
        if self.source.sync is not None:
            self.source.sync()
        assert self.source.snapshot is not None
        return self.source.snapshot(0)

    def draw(self, pictures: list[SceneSnapshot]) -> list[Pixels]:
        """Draw snapshots, top row first."""
        drawn = []
        for picture in pictures:
            try:
                pixels, bottom_up = self.in_worker(self.source.renderer.color, picture)
                drawn.append((pixels[::-1] if bottom_up else pixels).copy())
            finally:
                picture.release()
        return drawn

    def surfaces(self, picture: SceneSnapshot) -> tuple[Any, Any]:
        """Draw planar metres, and label ids if there are any, top row first; the picture stays with the caller."""
        renderer = self.source.renderer
        assert renderer is not None
        depth = self.in_worker(renderer.depth, picture)[0].copy()
        labels = self.in_worker(renderer.labels, picture)[0][::-1].copy() if picture.labels else None
        return depth, labels

    def frame(self) -> list[Pixels]:
        return self.draw(self.look())

    def close(self) -> None:
        self.in_worker(self.source.renderer.close)
        self._thread.shutdown()

    def __enter__(self) -> Film:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()


def reference(
    model: mujoco.MjModel, data: mujoco.MjData, camera: Any, width: int = WIDTH, height: int = HEIGHT
) -> Pixels:
    """What MuJoCo's own renderer draws of a state. The caller's model and data stay as they are."""
    model = copy.copy(model)
    shown = mujoco.MjData(model)
    mujoco.mj_setState(model, shown, state(model, data), WHOLE_STATE)
    mujoco.mj_forward(model, shown)
    model.vis.global_.offwidth, model.vis.global_.offheight = width, height
    with mujoco.Renderer(model, height, width) as renderer:
        # A scene lays infinite planes out around the camera it was last filled with.
        for _ in range(2):
            renderer.update_scene(shown, camera)
        pixels: Pixels = renderer.render()
        return pixels


def free_camera(model: mujoco.MjModel, **view: Any) -> mujoco.MjvCamera:
    """A free camera as a user of MuJoCo sets it up."""
    camera = mujoco.MjvCamera()
    mujoco.mjv_defaultFreeCamera(model, camera)
    for name, value in view.items():
        setattr(camera, name, value)
    return camera
