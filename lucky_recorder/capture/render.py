"""The environment's own ``render()`` as a camera.

It is called in the caller's thread, because the environment's graphics belong to the thread that steps it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_recorder.capture.schedule import Capture
from lucky_recorder.capture.snapshot import SceneSnapshot
from lucky_recorder.errors import StreamError
from lucky_recorder.settings.camera import Camera


def capture_render(render: Callable[[], Any], camera: Camera, index: int) -> Capture:
    """Return the capture of the environment's own ``render()``, drawn in the caller's thread."""

    def capture() -> SceneSnapshot:
        return SceneSnapshot(index, pixels=rendered(render, camera))

    return capture


def rendered(render: Callable[[], Any], camera: Camera) -> NDArray[np.uint8]:
    """Return a copy of what ``env.render()`` gives, uint8, shape ``(height, width, 3)``, top row first.

    Raises:
        StreamError: If it raises, or gives no picture of the camera's size.
    """
    try:
        picture = render()
    except Exception as error:  # an environment may raise anything
        raise StreamError(f"camera {camera.name!r}: env.render() failed: {type(error).__name__}: {error}") from error
    if isinstance(picture, list):
        raise StreamError(f"camera {camera.name!r}: env.render() gives a list of frames; use render_mode='rgb_array'")
    pixels = np.asarray(picture)
    expected = (camera.height, camera.width, 3)
    if pixels.dtype != np.uint8 or pixels.shape != expected:
        size = f"; set width={pixels.shape[1]}, height={pixels.shape[0]}" if pixels.ndim == 3 else ""
        raise StreamError(
            f"camera {camera.name!r}: env.render() gives {pixels.dtype} {pixels.shape}, expected uint8 {expected}{size}"
        )
    # An environment may draw its next picture into the same array while this one still waits in the queue.
    return pixels.copy()
