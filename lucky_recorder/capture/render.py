"""Drawing, in the worker thread: a GL context of our own, one MjrContext shared by every camera of a model."""

from __future__ import annotations

import contextlib
import copy
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lucky_recorder.capture import gl, holdings
from lucky_recorder.capture.snapshot import Picture
from lucky_recorder.schema import Stream

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import mujoco

Pixels = NDArray[np.uint8]


class Painter:
    """Draws the pictures of one recording. Every method but the constructor runs in the worker thread.

    Attributes:
        is_software: Whether a CPU draws; known once opened.
        renderer: What draws, in the driver's words.
    """

    def __init__(self, streams: Sequence[Stream], quality: str) -> None:
        self._streams = tuple(streams)
        self._quality = quality
        self._width = max(s.width for s in streams)
        self._height = max(s.height for s in streams)
        self._pixels = {(s.height, s.width): np.empty((s.height, s.width, 3), np.uint8) for s in streams}
        self._gl: gl.Context | None = None
        self._context: mujoco.MjrContext | None = None
        self._model: mujoco.MjModel | None = None

    @property
    def is_software(self) -> bool:
        """Whether a CPU draws."""
        return self._gl is not None and self._gl.is_software

    @property
    def renderer(self) -> str:
        """What draws, in the driver's words; empty before it is opened."""
        return self._gl.renderer if self._gl else ""

    def open(self, model: mujoco.MjModel) -> None:
        """Make the GL context if there is none yet, and a rendering context for a model.

        Args:
            model: A private copy of the model; it is changed.

        Raises:
            GLError: If this machine cannot make a GL context.
        """
        self._model = model
        if self._gl is None:
            self._gl = gl.make_context()
            self._gl.release()
        self._make_context()

    def _make_context(self) -> None:
        import mujoco

        assert self._model is not None
        prepared = copy.copy(self._model)
        self._set_up(prepared)
        with self._current():
            if self._context is not None:
                self._context.free()
            self._context = mujoco.MjrContext(prepared, int(mujoco.mjtFontScale.mjFONTSCALE_100))

    @contextlib.contextmanager
    def _current(self) -> Iterator[None]:
        assert self._gl is not None
        self._gl.make_current()
        try:
            yield
        finally:
            self._gl.release()

    def _set_up(self, model: mujoco.MjModel) -> None:
        """Set the size and the quality of the context that is about to be made."""
        model.vis.global_.offwidth, model.vis.global_.offheight = self._width, self._height
        quality = model.vis.quality
        if self._quality != "model":
            quality.offsamples = 0
            quality.shadowsize = 0 if self._quality == "fastest" else min(quality.shadowsize, 1024)

    def change(self, change: holdings.Change) -> None:
        """Bring what the context holds to what the user's model says now."""
        import mujoco

        assert self._model is not None
        holdings.apply(self._model, change)
        if change.is_deep:
            self._make_context()
            return
        with self._current():
            for texture in change.textures:
                mujoco.mjr_uploadTexture(self._model, self._context, texture)
            for mesh in change.meshes:
                mujoco.mjr_uploadMesh(self._model, self._context, mesh)
            for hfield in change.hfields:
                mujoco.mjr_uploadHField(self._model, self._context, hfield)

    def draw(self, picture: Picture) -> tuple[Pixels, bool]:
        """Draw a picture and give its scene back.

        Returns:
            uint8 pixels, shape ``(height, width, 3)``, valid until the next call, and whether the bottom row is first.
        """
        if picture.pixels is not None:
            return picture.pixels, False
        import mujoco

        stream = self._streams[picture.stream]
        pixels = self._pixels[stream.height, stream.width]
        viewport = mujoco.MjrRect(0, 0, stream.width, stream.height)
        offscreen = int(mujoco.mjtFramebuffer.mjFB_OFFSCREEN)
        try:
            with self._current():
                mujoco.mjr_setBuffer(offscreen, self._context)
                mujoco.mjr_render(viewport, picture.scene, self._context)
                mujoco.mjr_readPixels(pixels, None, viewport, self._context)
        finally:
            picture.release()
        return pixels, True

    def close(self) -> None:
        """Free the contexts."""
        if self._context is not None:
            with self._current():
                self._context.free()
        if self._gl is not None:
            self._gl.gl.free()
        self._context = self._gl = None
