"""Drawing, in the worker thread: a GL context of our own, and a rendering context shared by every camera of a model."""

from __future__ import annotations

import copy
import logging
from collections.abc import Sequence
from typing import NamedTuple

import mujoco
import numpy as np
from numpy.typing import NDArray

from lucky_recorder.capture.depth import Frustum, metres
from lucky_recorder.capture.draw import context as gl
from lucky_recorder.capture.draw.collections import CollectionGuard
from lucky_recorder.capture.intrinsics import Intrinsics
from lucky_recorder.capture.mujoco import assets
from lucky_recorder.capture.snapshot import SceneSnapshot
from lucky_recorder.settings.camera import Camera

logger = logging.getLogger("lucky_recorder")

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
        self._largest = max(c.width for c in cameras), max(c.height for c in cameras)
        sizes = {(c.height, c.width) for c in cameras}
        self._pixels = {size: np.empty((*size, 3), np.uint8) for size in sizes}
        self._surfaces = {size: Surfaces(np.empty(size, np.float32), np.empty((*size, 3), np.uint8)) for size in sizes}
        self._gl: gl.Context | None = None
        self._guard: CollectionGuard | None = None
        self._model: mujoco.MjModel | None = None
        self._color_context: mujoco.MjrContext | None = None
        self._surface_context: mujoco.MjrContext | None = None
        self._is_plain = False
        self._last_pass: tuple[SceneSnapshot, Surfaces] | None = None
        self._intrinsics: dict[int, Intrinsics] = {}
        self._changed: set[int] = set()

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
        self._free_contexts()
        self._color_context = self._context(self._quality)
        # As in mujoco.Renderer: `metres` expects 0 at the far plane.
        self._color_context.readDepthMap = int(mujoco.mjtDepthMap.mjDEPTH_ZEROFAR)
        self._is_plain = self._color_context.offSamples == 0 and _has_plain_textures(self._model)

    def _context(self, quality: str) -> mujoco.MjrContext:
        """Make a rendering context, large enough for every camera whatever the model's offscreen buffer says."""
        # A copy: sizes and quality are this context's alone, and the next one starts from the model's own values again.
        model: mujoco.MjModel = copy.copy(self._model)
        model.vis.global_.offwidth, model.vis.global_.offheight = self._largest
        if quality != "model":
            model.vis.quality.offsamples = 0
            shadows = 0 if quality == "fastest" else min(model.vis.quality.shadowsize, 1024)
            model.vis.quality.shadowsize = shadows
        return mujoco.MjrContext(model, int(mujoco.mjtFontScale.mjFONTSCALE_100))

    def update(self, change: assets.AssetChange) -> None:
        """Bring what the contexts hold to what the user's model says now."""
        assert self._model is not None
        assets.apply(self._model, change)
        if change.is_deep:
            self._make_contexts()
            return
        for context in (self._color_context, self._surface_context):
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
        size, viewport = self._size(snapshot)
        pixels = self._pixels[size]
        # Each time: both rendering contexts share one GL context, and the other may have set its own buffer.
        mujoco.mjr_setBuffer(int(mujoco.mjtFramebuffer.mjFB_OFFSCREEN), self._color_context)
        mujoco.mjr_render(viewport, snapshot.scene, self._color_context)
        surfaces = self._surfaces[size] if self._shares_its_pass(snapshot) else None
        mujoco.mjr_readPixels(pixels, surfaces.z if surfaces else None, viewport, self._color_context)
        if surfaces:
            self._last_pass = snapshot, surfaces
        return pixels, True

    def _shares_its_pass(self, snapshot: SceneSnapshot) -> bool:
        """Tell whether the colour pass leaves the z-buffer that the pass of surfaces would.

        A depth camera costs a second pass. Where both passes give the same z-buffer to the bit, one is enough. They
        differ where several samples of a pixel are merged, where a skybox fills the background, where something is
        transparent, where a mirror draws the scene again, where only edges are drawn (``wireframe``), and where
        decoration is drawn, such as a rangefinder's ray, which is no surface. A mask needs the pass of surfaces anyway,
        for the segments.
        """
        camera, scene = self._cameras[snapshot.camera], snapshot.scene
        if not self._is_plain or "depth" not in camera.picture_kinds or camera.masks or scene is None:
            return False
        if scene.flags[int(mujoco.mjtRndFlag.mjRND_WIREFRAME)]:
            return False
        return all(g.segid >= 0 and g.rgba[3] == 1 and g.reflectance == 0 for g in scene.geoms[: scene.ngeom])

    def surfaces(self, snapshot: SceneSnapshot) -> Surfaces:
        """Draw which surface each pixel shows and how deep it lies, in one pass; a second call for a snapshot is free.

        The pass has a context of its own, without multisampling and shadows: its z-buffer is exact, and it is cheap.
        """
        # Snapshots are compared, not scenes: the pool hands a scene out again with other content.
        if self._last_pass is not None and self._last_pass[0] is snapshot:
            return self._last_pass[1]
        # Not made before it is asked for: without depth and masks it would only hold the model's textures once more.
        if self._surface_context is None:
            self._surface_context = self._context("fastest")
            self._surface_context.readDepthMap = int(mujoco.mjtDepthMap.mjDEPTH_ZEROFAR)
        assert snapshot.scene is not None
        size, viewport = self._size(snapshot)
        surfaces, flags = self._surfaces[size], snapshot.scene.flags
        special = [int(mujoco.mjtRndFlag.mjRND_SEGMENT), int(mujoco.mjtRndFlag.mjRND_IDCOLOR)]
        # The flags are put back: the colours of the same scene may be drawn after this, and the pool uses it again.
        before = flags[special].copy()
        flags[special] = 1
        try:
            mujoco.mjr_setBuffer(int(mujoco.mjtFramebuffer.mjFB_OFFSCREEN), self._surface_context)
            mujoco.mjr_render(viewport, snapshot.scene, self._surface_context)
            mujoco.mjr_readPixels(surfaces.segments, surfaces.z, viewport, self._surface_context)
        finally:
            flags[special] = before
        self._last_pass = snapshot, surfaces
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
        camera = self._cameras[snapshot.camera]
        self._compare_intrinsics(snapshot, camera)
        return (camera.height, camera.width), mujoco.MjrRect(0, 0, camera.width, camera.height)

    def _compare_intrinsics(self, snapshot: SceneSnapshot, camera: Camera) -> None:
        """Say once if a camera does not project any more as it did at first: metadata holds only that."""
        if snapshot.camera in self._changed or snapshot.scene is None:
            return
        now = Intrinsics.of(snapshot.scene, camera.width, camera.height)
        if not self._intrinsics.setdefault(snapshot.camera, now).is_like(now):
            self._changed.add(snapshot.camera)
            logger.warning(
                "camera %r: it projects otherwise than when the session began, and info.json has the intrinsics of "
                "that time only; record what changes as a column of your own",
                camera.name,
            )

    def _free_contexts(self) -> None:
        for context in (self._color_context, self._surface_context):
            if context is not None:
                context.free()
        self._color_context = self._surface_context = self._last_pass = None

    def close(self) -> None:
        """Free the contexts."""
        # In this order. Rendering contexts delete what they hold in the GL context, which must still be there. A guard
        # that outlived the GL context would make it current again at the next collection.
        self._free_contexts()
        if self._guard is not None:
            self._guard.remove()
        if self._gl is not None:
            self._gl.gl.free()
        self._gl = self._guard = None


def _has_plain_textures(model: mujoco.MjModel) -> bool:
    """Tell whether a model has neither a skybox nor a texture with an alpha channel."""
    skybox = int(mujoco.mjtTexture.mjTEXTURE_SKYBOX)
    return not any(int(t) == skybox for t in model.tex_type) and all(int(n) <= 3 for n in model.tex_nchannel)
