"""The cameras and lidars of a session, as the worker has them: what draws their pictures and casts their rays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lucky_recorder.capture.snapshot import SceneSnapshot, Snapshot
from lucky_recorder.recorder.messages import Layout
from lucky_recorder.settings.recorder import RecorderSettings
from lucky_recorder.video.codecs import CODECS

if TYPE_CHECKING:
    import mujoco
    import numpy as np
    from numpy.typing import NDArray

    from lucky_recorder.capture.door import renderer, simulator


class Devices:
    """What draws and scans for every take of a session.

    Attributes:
        settings: The session's settings.
        cameras: The recorded cameras, as snapshots count them.
        renderer: Draws pictures; None without cameras.
        casters: Scan for the lidars, as snapshots count them.
        layout: What rows, frames and scans are. Its rates are known before the first message of a take comes.

    """

    def __init__(self, settings: RecorderSettings, renderer: renderer.Renderer | None, layout: Layout) -> None:
        self.settings = settings
        self.cameras = settings.recorded_cameras
        self.renderer = renderer
        self.casters: tuple[simulator.Caster, ...] = ()
        self.layout = layout

    def open_renderer(self, model: mujoco.MjModel) -> None:
        """Make the GL context if there is none yet, and the rendering context of a model, a private copy.

        Raises:
            GLError: If no GL context can be made.
        """
        assert self.renderer is not None
        self.renderer.open(model)

    def change_assets(self, change: simulator.AssetChange) -> None:
        """Bring what the rendering contexts hold to what the user's model says now."""
        assert self.renderer is not None
        self.renderer.update(change)

    def renew_casters(self, casters: Sequence[simulator.Caster]) -> None:
        """Scan with other casters from here on."""
        self.casters = tuple(casters)

    def lay_out(self, layout: Layout) -> None:
        """Take note of what rows, frames and scans are, now that the rates are known."""
        self.layout = layout

    def developed(self, snapshot: Snapshot) -> Snapshot:
        """Draw the colours of a snapshot now; what is drawn stays with it, and is what will be encoded."""
        if not isinstance(snapshot, SceneSnapshot) or snapshot.pixels is not None or self._color_key(snapshot) is None:
            return snapshot
        assert self.renderer is not None
        pixels, bottom_up = self.renderer.color(snapshot)
        return snapshot._replace(pixels=(pixels[::-1] if bottom_up else pixels).copy())

    def colors(self, snapshots: Sequence[Snapshot]) -> dict[str, NDArray[np.uint8]]:
        """Return copies of the pixels of developed snapshots, by feature key. Called by the caller's thread."""
        drawn = {self._color_key(s): s.pixels for s in snapshots if isinstance(s, SceneSnapshot)}
        return {key: pixels.copy() for key, pixels in drawn.items() if key is not None and pixels is not None}

    def _color_key(self, snapshot: SceneSnapshot) -> str | None:
        """Return the feature key of a picture's colour stream; None if its camera has none."""
        name = self.cameras[snapshot.camera].name
        return next((s.key for s in self.layout.schema.streams if s.camera == name and s.kind == "color"), None)

    def draw_the_same_again(self) -> bool:
        """Tell whether a second run would draw and encode the same bytes: a CPU draws, every encoder gives them.

        Where nothing is drawn, it would; what is drawn later is asked of then.
        """
        if not self.layout.schema.streams:
            return True
        through_render = any(c.source == "render" for c in self.cameras)
        encodes = all(CODECS[s.encoder].reproducible for s in self.layout.schema.streams if s.encoder)
        return self.renderer is not None and self.renderer.is_software and not through_render and encodes

    def close(self) -> None:
        """Let go of the GL context."""
        if self.renderer is not None:
            self.renderer.close()
