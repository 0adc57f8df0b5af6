"""Drawing, in the worker thread: a GL context of our own, and a rendering context shared by every camera of a model."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lucky_recorder.capture.draw import context as gl
from lucky_recorder.capture.draw.collections import CollectionGuard
from lucky_recorder.capture.draw.depth import Frustum, metres
from lucky_recorder.capture.mujoco import assets
from lucky_recorder.capture.snapshot import SceneSnapshot
from lucky_recorder.settings.bindings import Camera

if TYPE_CHECKING:
    import mujoco

Pixels = NDArray[np.uint8]


class Surfaces(NamedTuple):
    """What one pass shows of the surfaces in a snapshot; bottom row first, valid until the next pass.

    Attributes:
        z: The z-buffer, float32, shape ``(height, width)``: 0 at the far plane, 1 at the near plane.
        segments: Segment ids in three bytes, uint8, shape ``(height, width, 3)``.
    """

    z: NDArray[np.float32]
    segments: Pixels


class Renderer:
    """Draws the pictures of one recording. Every method but the constructor runs in the worker thread."""

    def __init__(self, cameras: Sequence[Camera], quality: str) -> None:
        self._cameras = tuple(cameras)
        self._quality = quality
        self._width = max(c.width for c in cameras)
        self._height = max(c.height for c in cameras)
        sizes = {(c.height, c.width) for c in cameras}
        self._pixels = {size: np.empty((*size, 3), np.uint8) for size in sizes}
        self._surfaces = {size: Surfaces(np.empty(size, np.float32), np.empty((*size, 3), np.uint8)) for size in sizes}
        self._gl: gl.Context | None = None
        self._guard: CollectionGuard | None = None
        self._model: mujoco.MjModel | None = None
        self._color: mujoco.MjrContext | None = None
        self._surface: mujoco.MjrContext | None = None
        self._is_plain = False
        self._seen: tuple[SceneSnapshot, Surfaces] | None = None

    @property
    def is_software(self) -> bool:
        """Whether a CPU draws."""
        return self._gl is not None and self._gl.is_software

    @property
    def device(self) -> str:
        """What draws, in the driver's words; empty before it is opened."""
        return self._gl.renderer if self._gl else ""

    def open(self, model: mujoco.MjModel) -> None:
        """Make the GL context if there is none yet, and the rendering context of a model.

        Args:
            model: A private copy of the model; it is changed.

        Raises:
            GLError: If this machine cannot make a GL context.
        """
        if self._gl is None:
            self._gl = gl.make_context()
            self._guard = CollectionGuard(self._gl)
        self._model = model
        self._make_contexts()

    def _make_contexts(self) -> None:
        import mujoco

        self._free_contexts()
        self._color = self._context(self._quality)
        self._color.readDepthMap = int(mujoco.mjtDepthMap.mjDEPTH_ZEROFAR)
        self._is_plain = self._color.offSamples == 0 and _has_plain_textures(self._model)

    def _context(self, quality: str) -> mujoco.MjrContext:
        """Make a rendering context, large enough for every camera whatever the model's offscreen buffer says."""
        import mujoco

        model: mujoco.MjModel = copy.copy(self._model)
        model.vis.global_.offwidth, model.vis.global_.offheight = self._width, self._height
        if quality != "model":
            model.vis.quality.offsamples = 0
            shadows = 0 if quality == "fastest" else min(model.vis.quality.shadowsize, 1024)
            model.vis.quality.shadowsize = shadows
        return mujoco.MjrContext(model, int(mujoco.mjtFontScale.mjFONTSCALE_100))

    def update(self, change: assets.AssetChange) -> None:
        """Bring what the contexts hold to what the user's model says now."""
        import mujoco

        assert self._model is not None
        assets.apply(self._model, change)
        if change.is_deep:
            self._make_contexts()
            return
        for context in (self._color, self._surface):
            if context is None:
                continue
            for texture in change.textures:
                mujoco.mjr_uploadTexture(self._model, context, texture)
            for mesh in change.meshes:
                mujoco.mjr_uploadMesh(self._model, context, mesh)
            for hfield in change.hfields:
                mujoco.mjr_uploadHField(self._model, context, hfield)

    def color(self, snapshot: SceneSnapshot) -> tuple[Pixels, bool]:
        """Draw the colours of a snapshot.

        Returns:
            uint8 pixels, shape ``(height, width, 3)``, valid until the next call, and whether the bottom row is first.
        """
        if snapshot.pixels is not None:
            return snapshot.pixels, False
        import mujoco

        size, viewport = self._size(snapshot)
        pixels = self._pixels[size]
        mujoco.mjr_setBuffer(int(mujoco.mjtFramebuffer.mjFB_OFFSCREEN), self._color)
        mujoco.mjr_render(viewport, snapshot.scene, self._color)
        shares = self._shares_its_pass(snapshot)
        surfaces = self._surfaces[size]
        mujoco.mjr_readPixels(pixels, surfaces.z if shares else None, viewport, self._color)
        if shares:
            self._seen = snapshot, surfaces
        return pixels, True

    def _shares_its_pass(self, snapshot: SceneSnapshot) -> bool:
        """Tell whether the colour pass leaves the z-buffer that a pass of its own would.

        Only then is it read along: without multisampling, skybox and transparent textures, where every geom is opaque,
        reflects nothing, and is more than decoration.
        """
        camera, scene = self._cameras[snapshot.camera], snapshot.scene
        if not self._is_plain or "depth" not in camera.picture_kinds or camera.masks or scene is None:
            return False
        return all(g.segid >= 0 and g.rgba[3] == 1 and g.reflectance == 0 for g in scene.geoms[: scene.ngeom])

    def surfaces(self, snapshot: SceneSnapshot) -> Surfaces:
        """Draw which surface each pixel shows and how deep it lies, in one pass; a second call for a snapshot is free.

        The pass has a context of its own, without multisampling and shadows: its z-buffer is exact, and it is cheap.
        """
        if self._seen is not None and self._seen[0] is snapshot:
            return self._seen[1]
        import mujoco

        if self._surface is None:
            self._surface = self._context("fastest")
            self._surface.readDepthMap = int(mujoco.mjtDepthMap.mjDEPTH_ZEROFAR)
        assert snapshot.scene is not None
        size, viewport = self._size(snapshot)
        surfaces, flags = self._surfaces[size], snapshot.scene.flags
        special = [int(mujoco.mjtRndFlag.mjRND_SEGMENT), int(mujoco.mjtRndFlag.mjRND_IDCOLOR)]
        before = flags[special].copy()
        flags[special] = 1
        try:
            mujoco.mjr_setBuffer(int(mujoco.mjtFramebuffer.mjFB_OFFSCREEN), self._surface)
            mujoco.mjr_render(viewport, snapshot.scene, self._surface)
            mujoco.mjr_readPixels(surfaces.segments, surfaces.z, viewport, self._surface)
        finally:
            flags[special] = before
        self._seen = snapshot, surfaces
        return surfaces

    def depth(self, snapshot: SceneSnapshot) -> tuple[NDArray[np.float32], Frustum]:
        """Draw planar metres, float32, shape ``(height, width)``, top row first; 0 where there is no surface."""
        assert snapshot.scene is not None
        camera = self._cameras[snapshot.camera]
        frustum = Frustum.of(snapshot.scene, camera.width, camera.height)
        return metres(self.surfaces(snapshot).z, frustum)[::-1], frustum

    def labels(self, snapshot: SceneSnapshot) -> tuple[Pixels, bool]:
        """Draw label ids, uint8, shape ``(height, width)``, and whether the bottom row is first."""
        assert snapshot.labels is not None
        assert snapshot.scene is not None
        return snapshot.labels.ids(self.surfaces(snapshot).segments, snapshot.scene), True

    def _size(self, snapshot: SceneSnapshot) -> tuple[tuple[int, int], mujoco.MjrRect]:
        import mujoco

        camera = self._cameras[snapshot.camera]
        return (camera.height, camera.width), mujoco.MjrRect(0, 0, camera.width, camera.height)

    def _free_contexts(self) -> None:
        for context in (self._color, self._surface):
            if context is not None:
                context.free()
        self._color = self._surface = self._seen = None

    def close(self) -> None:
        """Free the contexts."""
        self._free_contexts()
        if self._guard is not None:
            self._guard.lower()
        if self._gl is not None:
            self._gl.gl.free()
        self._gl = self._guard = None


def _has_plain_textures(model: mujoco.MjModel) -> bool:
    """Tell whether a model has neither a skybox nor a texture with an alpha channel."""
    import mujoco

    skybox = int(mujoco.mjtTexture.mjTEXTURE_SKYBOX)
    return not any(int(t) == skybox for t in model.tex_type) and all(int(n) <= 3 for n in model.tex_nchannel)
