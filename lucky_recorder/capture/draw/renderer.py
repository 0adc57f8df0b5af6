"""Drawing, in the worker thread: pictures, depth and labels of the cameras of one model."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import mujoco
import numpy as np
from numpy.typing import NDArray

from lucky_recorder.capture.depth import Frustum, metres
from lucky_recorder.capture.draw.graphics import Contexts, Graphics, Pixels, Surfaces
from lucky_recorder.capture.intrinsics import Intrinsics
from lucky_recorder.capture.mujoco import assets
from lucky_recorder.capture.snapshot import SceneSnapshot
from lucky_recorder.settings.camera import Camera

logger = logging.getLogger("lucky_recorder")


class Renderer:
    """Draws the pictures of one lane. Every method but the constructor and `share` runs in the worker thread."""

    def __init__(self, cameras: Sequence[Camera], quality: str) -> None:
        self._cameras = tuple(cameras)
        self._graphics = Graphics({(c.height, c.width) for c in cameras}, quality)
        self._contexts: Contexts | None = None
        self._intrinsics: dict[int, Intrinsics] = {}
        self._changed: set[int] = set()

    def share(self, other: Renderer) -> None:
        """Draw with what another renderer of the same cameras draws with, in the same thread; before either is opened.

        Models of the same content are drawn with the same rendering contexts then.
        """
        self._graphics = other._graphics

    @property
    def is_software(self) -> bool:
        """Whether a CPU draws."""
        return self._graphics.gl is not None and self._graphics.gl.is_software

    @property
    def device(self) -> str:
        """What draws, in the driver's words; empty before it is opened."""
        return self._graphics.gl.renderer if self._graphics.gl else ""

    def open(self, model: mujoco.MjModel) -> None:
        """Make the GL context if there is none yet, and the rendering context of a model.

        Args:
            model: A private copy of the model; it is changed.

        Raises:
            GLError: If this machine cannot make a GL context.
        """
        self._graphics.open(self)
        self._let_go()
        self._contexts = self._graphics.contexts_of(model)

    def update(self, change: assets.AssetChange) -> None:
        """Bring what this renderer draws with to what the user's model says now."""
        assert self._contexts is not None
        before, self._contexts = self._contexts, None
        self._contexts = self._graphics.changed(before, change)

    def _let_go(self) -> None:
        contexts, self._contexts = self._contexts, None
        if contexts is not None:
            self._graphics.let_go(contexts)

    def color(self, snapshot: SceneSnapshot) -> tuple[Pixels, bool]:
        """Draw the colours of a snapshot.

        Returns:
            uint8 pixels, shape ``(height, width, 3)``, valid until the next call, and whether the bottom row is first.
        """
        if snapshot.pixels is not None:
            return snapshot.pixels, False
        assert self._contexts is not None
        size, viewport = self._size(snapshot)
        pixels, context = self._graphics.pixels[size], self._contexts.color
        # Each time: both rendering contexts share one GL context, and the other may have set its own buffer.
        mujoco.mjr_setBuffer(int(mujoco.mjtFramebuffer.mjFB_OFFSCREEN), context)
        mujoco.mjr_render(viewport, snapshot.scene, context)
        surfaces = self._graphics.surfaces[size] if self._shares_its_pass(snapshot) else None
        mujoco.mjr_readPixels(pixels, surfaces.z if surfaces else None, viewport, context)
        if surfaces:
            self._graphics.last_pass = snapshot, surfaces
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
        if (
            self._contexts is None
            or not self._contexts.is_plain
            or "depth" not in camera.picture_kinds
            or camera.masks
            or scene is None
        ):
            return False
        if scene.flags[int(mujoco.mjtRndFlag.mjRND_WIREFRAME)]:
            return False
        return all(g.segid >= 0 and g.rgba[3] == 1 and g.reflectance == 0 for g in scene.geoms[: scene.ngeom])

    def surfaces(self, snapshot: SceneSnapshot) -> Surfaces:
        """Draw which surface each pixel shows and how deep it lies, in one pass; a second call for a snapshot is free.

        The pass has a context of its own, without multisampling and shadows: its z-buffer is exact, and it is cheap.
        """
        # Snapshots are compared, not scenes: the pool hands a scene out again with other content.
        graphics = self._graphics
        if graphics.last_pass is not None and graphics.last_pass[0] is snapshot:
            return graphics.last_pass[1]
        assert snapshot.scene is not None
        assert self._contexts is not None
        size, viewport = self._size(snapshot)
        surfaces, flags, context = graphics.surfaces[size], snapshot.scene.flags, graphics.surface_of(self._contexts)
        special = [int(mujoco.mjtRndFlag.mjRND_SEGMENT), int(mujoco.mjtRndFlag.mjRND_IDCOLOR)]
        # The flags are put back: the colours of the same scene may be drawn after this, and the pool uses it again.
        before = flags[special].copy()
        flags[special] = 1
        # What is drawn over is not to be taken for what it was, if this fails.
        graphics.last_pass = None
        try:
            mujoco.mjr_setBuffer(int(mujoco.mjtFramebuffer.mjFB_OFFSCREEN), context)
            mujoco.mjr_render(viewport, snapshot.scene, context)
            mujoco.mjr_readPixels(surfaces.segments, surfaces.z, viewport, context)
        finally:
            flags[special] = before
        graphics.last_pass = snapshot, surfaces
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

    def close(self) -> None:
        """Free the contexts that no other renderer draws with."""
        self._let_go()
        self._graphics.close(self)
