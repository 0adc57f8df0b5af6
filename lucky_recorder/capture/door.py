"""The door to MuJoCo: the one way to the rooms that import it. They are imported when they are first used.

So an environment without MuJoCo is recorded without it, and nobody who does not use it waits for its import.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lucky_recorder.lazy import lazy

if TYPE_CHECKING:
    from lucky_recorder.capture import mujoco as simulator
    from lucky_recorder.capture.draw import masks, renderer
else:
    simulator = lazy("lucky_recorder.capture.mujoco")
    renderer = lazy("lucky_recorder.capture.draw.renderer")
    masks = lazy("lucky_recorder.capture.draw.masks")

__all__ = ["masks", "renderer", "simulator"]
