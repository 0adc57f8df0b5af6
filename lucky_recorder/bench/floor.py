"""The bare floor of a film: scene, picture, pixels, encoded frame, by hand and in one thread."""

from __future__ import annotations

import copy
from fractions import Fraction
from pathlib import Path

import mujoco
import numpy as np

from lucky_recorder.capture.draw.context import make_context
from lucky_recorder.envs import scene_path
from lucky_recorder.video.encoder import VideoEncoder

HZ = 50
_GEOMS = 2000


class Scene:
    """The sample arm, driven along a course of its own.

    Attributes:
        model: The model.
        data: Its data.
    """

    def __init__(self) -> None:
        self.model = mujoco.MjModel.from_xml_path(str(scene_path("pick_cube")))
        self.data = mujoco.MjData(self.model)

    def restart(self) -> None:
        """Go back to the beginning."""
        mujoco.mj_resetData(self.model, self.data)

    def drive(self, k: int) -> None:
        """Take the commands of a tick, and step it."""
        self.data.ctrl[:] = 0.5 * np.sin(k / 15 + np.arange(self.model.nu))
        mujoco.mj_step(self.model, self.data, 10)


class Floor:
    """What cannot be left out.

    Attributes:
        drawn_by: What draws, in the driver's words.

    Args:
        scene: What is filmed.
        width: Pixels.
        height: Pixels.

    Raises:
        GLError: If there is no OpenGL.
    """

    def __init__(self, scene: Scene, width: int, height: int) -> None:
        self._scene, self._size = scene, (width, height)
        self._gl = make_context()
        self.drawn_by = self._gl.renderer
        prepared = copy.copy(scene.model)
        prepared.vis.global_.offwidth, prepared.vis.global_.offheight = width, height
        self._context = mujoco.MjrContext(prepared, mujoco.mjtFontScale.mjFONTSCALE_100)
        self._drawn = mujoco.MjvScene(scene.model, _GEOMS)
        self._pixels = np.empty((height, width, 3), np.uint8)
        self._viewport = mujoco.MjrRect(0, 0, width, height)
        self._camera = mujoco.MjvCamera()
        self._camera.type, self._camera.fixedcamid = mujoco.mjtCamera.mjCAMERA_FIXED, 0
        self._option = mujoco.MjvOption()

    def film(self, frames: int, path: Path) -> None:
        """Drive, draw and encode so many frames."""
        self._gl.make_current()
        width, height = self._size
        encoder = VideoEncoder(path, width=width, height=height, fps=Fraction(HZ))
        model, data = self._scene.model, self._scene.data
        for k in range(frames):
            self._scene.drive(k)
            mujoco.mjv_updateScene(
                model, data, self._option, None, self._camera, mujoco.mjtCatBit.mjCAT_ALL, self._drawn
            )
            mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, self._context)
            mujoco.mjr_render(self._viewport, self._drawn, self._context)
            mujoco.mjr_readPixels(self._pixels, None, self._viewport, self._context)
            encoder.write(self._pixels, bottom_up=True)
        encoder.close()

    def close(self) -> None:
        """Give everything back."""
        self._gl.make_current()
        self._context.free()
        self._gl.gl.free()
