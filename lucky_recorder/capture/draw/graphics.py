"""What the renderers of a recording share: a GL context, and a rendering context for each model content there is.

A rendering context holds a model's textures, meshes and what else is loaded; it takes time to make, and memory. The
environments of a vector environment mostly have the same model, and are drawn with the same one. Where one of them
changes its textures, it gets its own.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import mujoco
import numpy as np
from numpy.typing import NDArray

from lucky_recorder.capture.draw import context as gl
from lucky_recorder.capture.draw.collections import CollectionGuard
from lucky_recorder.capture.mujoco import assets
from lucky_recorder.capture.snapshot import SceneSnapshot

Pixels = NDArray[np.uint8]


class Surfaces(NamedTuple):
    """What one pass shows of the surfaces in a snapshot; bottom row first, valid until the next pass.

    Attributes:
        z: The z-buffer, float32, shape ``(height, width)``: 0 at the far plane, 1 at the near plane.
        segments: Segment ids in three bytes, uint8, shape ``(height, width, 3)``.
    """

    z: NDArray[np.float32]
    segments: Pixels


@dataclass
class Contexts:
    """The rendering contexts of one content.

    Attributes:
        model: A private copy of a model that has it.
        content: What it is.
        color: Draws colours.
        is_plain: Whether the colour pass may leave the z-buffer that the pass of surfaces would.
        surface: Draws surfaces; None before the first pass.
        users: How many renderers draw with it.
    """

    model: mujoco.MjModel
    content: assets.Content
    color: mujoco.MjrContext
    is_plain: bool
    surface: mujoco.MjrContext | None = None
    users: int = 0


class Graphics:
    """The GL context, the buffers and the rendering contexts; of one thread.

    Attributes:
        gl: The GL context; None where it is not open.
        pixels: A buffer for each size, ``(height, width)``.
        surfaces: As above.
        last_pass: The snapshot whose surfaces were drawn last, and they.

    Args:
        sizes: The sizes of the cameras' pictures.
        quality: ``model``, ``fast`` or ``fastest``.
    """

    def __init__(self, sizes: Iterable[tuple[int, int]], quality: str) -> None:
        self._quality = quality
        self.pixels = {size: np.empty((*size, 3), np.uint8) for size in sizes}
        self.surfaces = {
            size: Surfaces(np.empty(size, np.float32), np.empty((*size, 3), np.uint8)) for size in self.pixels
        }
        self.last_pass: tuple[SceneSnapshot, Surfaces] | None = None
        self.gl: gl.Context | None = None
        self._guard: CollectionGuard | None = None
        self._users: set[int] = set()
        self._by_key: dict[bytes, Contexts] = {}

    def open(self, user: Any) -> None:
        """Make the GL context if there is none yet, for a renderer that will draw with it.

        Raises:
            GLError: If this machine cannot make one.
        """
        if self.gl is None:
            self.gl = gl.make_context()
            self._guard = CollectionGuard(self.gl)
        self._users.add(id(user))

    def contexts_of(self, model: mujoco.MjModel) -> Contexts:
        """Return what draws a model's content, which is made if nothing does yet.

        Args:
            model: A private copy of the model; it is kept.
        """
        return self._of(model, assets.Content(model))

    def _of(self, model: mujoco.MjModel, content: assets.Content) -> Contexts:
        contexts = self._by_key.get(content.key)
        if contexts is None:
            contexts = Contexts(model, content, *self._color(model))
            self._by_key[content.key] = contexts
        contexts.users += 1
        return contexts

    def changed(self, before: Contexts, change: assets.AssetChange) -> Contexts:
        """Return what draws a model that has changed, of which a renderer has drawn the content before."""
        is_alone = before.users == 1
        model = before.model if is_alone else copy.copy(before.model)
        content = before.content if is_alone else copy.deepcopy(before.content)
        known_as = before.content.key
        assets.apply(model, change)
        content.follow(model, change)
        if is_alone and content.key not in self._by_key:
            # It stays known, so that it is freed in the end, also where it cannot be brought up.
            self._by_key[content.key] = self._by_key.pop(known_as)
            self._bring_up(before, change)
            return before
        self.let_go(before)
        return self._of(model, content)

    def _bring_up(self, contexts: Contexts, change: assets.AssetChange) -> None:
        """Bring contexts to what their model says now."""
        if change.is_deep:
            self._free(contexts)
            contexts.color, contexts.is_plain = self._color(contexts.model)
            return
        self.last_pass = None
        for context in (contexts.color, contexts.surface):
            if context is None:
                continue
            for texture in change.textures:
                mujoco.mjr_uploadTexture(contexts.model, context, texture)
            for mesh in change.meshes:
                mujoco.mjr_uploadMesh(contexts.model, context, mesh)
            for hfield in change.hfields:
                mujoco.mjr_uploadHField(contexts.model, context, hfield)

    def surface_of(self, contexts: Contexts) -> mujoco.MjrContext:
        """Return what draws surfaces."""
        # Not made before it is asked for: without depth and masks it would only hold the model's textures once more.
        if contexts.surface is None:
            contexts.surface = self._context(contexts.model, "fastest")
            contexts.surface.readDepthMap = int(mujoco.mjtDepthMap.mjDEPTH_ZEROFAR)
        return contexts.surface

    def _color(self, model: mujoco.MjModel) -> tuple[mujoco.MjrContext, bool]:
        """Make what draws colours; also returns whether its z-buffer may be that of the surfaces."""
        context = self._context(model, self._quality)
        # As in mujoco.Renderer: `metres` expects 0 at the far plane.
        context.readDepthMap = int(mujoco.mjtDepthMap.mjDEPTH_ZEROFAR)
        return context, context.offSamples == 0 and _has_plain_textures(model)

    def _context(self, model: mujoco.MjModel, quality: str) -> mujoco.MjrContext:
        """Make a rendering context, large enough for every camera whatever the model's offscreen buffer says."""
        # A copy: sizes and quality are this context's alone, and the next one starts from the model's own values again.
        model = copy.copy(model)
        model.vis.global_.offheight, model.vis.global_.offwidth = map(max, zip(*self.pixels, strict=True))
        if quality != "model":
            model.vis.quality.offsamples = 0
            shadows = 0 if quality == "fastest" else min(model.vis.quality.shadowsize, 1024)
            model.vis.quality.shadowsize = shadows
        return mujoco.MjrContext(model, int(mujoco.mjtFontScale.mjFONTSCALE_100))

    def let_go(self, contexts: Contexts) -> None:
        """Free contexts that nobody draws with any more."""
        contexts.users -= 1
        if contexts.users == 0:
            self._by_key = {key: one for key, one in self._by_key.items() if one is not contexts}
            self._free(contexts)

    def _free(self, contexts: Contexts) -> None:
        for context in (contexts.color, contexts.surface):
            if context is not None:
                context.free()
        contexts.surface = self.last_pass = None

    def close(self, user: Any) -> None:
        """Let go of the GL context, where the renderer was the last that draws with it."""
        self._users.discard(id(user))
        if self._users:
            return
        # In this order. Rendering contexts delete what they hold in the GL context, which must still be there. A guard
        # that outlived the GL context would make it current again at the next collection.
        for contexts in self._by_key.values():
            self._free(contexts)
        self._by_key.clear()
        if self._guard is not None:
            self._guard.remove()
        if self.gl is not None:
            self.gl.gl.free()
        self.gl = self._guard = None


def _has_plain_textures(model: mujoco.MjModel) -> bool:
    """Tell whether a model has neither a skybox nor a texture with an alpha channel."""
    skybox = int(mujoco.mjtTexture.mjTEXTURE_SKYBOX)
    return not any(int(t) == skybox for t in model.tex_type) and all(int(n) <= 3 for n in model.tex_nchannel)
