"""The door to MuJoCo: all that the rest may use of the rooms that import it, imported when it is first used.

An environment without MuJoCo is recorded without it.
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
