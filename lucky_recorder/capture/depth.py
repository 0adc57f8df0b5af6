"""Depth: from a z-buffer to planar metres, through a sensor's model, to 16-bit codes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lucky_recorder.settings.camera import Camera
from lucky_recorder.settings.sensors import DEPTH_SENSORS, MOST_CODES, View

if TYPE_CHECKING:
    import mujoco

Floats = NDArray[np.float32]


class Frustum(NamedTuple):
    """A camera's clipping planes and what a pixel subtends, as the scene has them.

    Attributes:
        near: Metres to the near plane.
        far: Metres to the far plane.
        focal: Horizontal focal length in pixels; 0 for parallel rays.
        is_orthographic: Whether rays are parallel.
    """

    near: np.float32
    far: np.float32
    focal: float
    is_orthographic: bool

    @classmethod
    def of(cls, scene: mujoco.MjvScene, width: int, height: int) -> Frustum:
        """Read the frustum of a scene's camera, for pictures of so many pixels."""
        # A scene holds two cameras, for stereo; without stereo both are the same.
        camera = scene.camera[0]
        near, opening = float(camera.frustum_near), float(camera.frustum_top - camera.frustum_bottom)
        is_orthographic = bool(camera.orthographic)
        # Where the scene gives no half width, pixels are square.
        pixels, span = (width, 2 * float(camera.frustum_width)) if camera.frustum_width else (height, opening)
        focal = 0.0 if is_orthographic else pixels * near / span
        return cls(np.float32(near), np.float32(camera.frustum_far), focal, is_orthographic)


def metres(z: Floats, frustum: Frustum) -> Floats:
    """Turn a z-buffer, 0 at the far plane and 1 at the near plane, into planar metres; 0 where nothing was drawn.

    The coefficients are computed in float32, as OpenGL computes its matrix, and what is done with ``z`` in float64. So
    the result is the same as that of MuJoCo's own renderer, bit for bit: do not reorder the arithmetic.

    Returns:
        float32 metres, of the shape of ``z``, rows in the same order.
    """
    near, far = frustum.near, frustum.far
    deep = z.astype(np.float64)
    if frustum.is_orthographic:
        depth = (far - deep * (far - near)).astype(np.float32)
    else:
        scale = np.float32(-0.5) * (-(far + near) / (far - near)) - np.float32(0.5)
        offset = np.float32(-0.5) * (-(np.float32(2) * far * near) / (far - near))
        depth = (offset / (deep + scale)).astype(np.float32)
    depth[z <= 0] = 0
    return depth


def codes(depth: Floats, scale: float) -> NDArray[np.uint16]:
    """Turn metres into depth codes, ``round(metres / scale)``.

    0 stands for no measurement, and for a distance whose code would not fit: codes never saturate.

    Args:
        depth: Metres, 0 where nothing was measured.
        scale: Metres of one code.
    """
    # A small scale may give infinity. It does not fit either, and becomes 0.
    with np.errstate(over="ignore"):
        exact = np.rint(depth.astype(np.float64) / scale)
    exact[~((exact >= 1) & (exact <= MOST_CODES))] = 0
    return exact.astype(np.uint16)


def sensor_codes(camera: Camera, view: View) -> NDArray[np.uint16]:
    """Return the codes that a camera's sensor gives of a view, uint16, shape ``(height, width)``, top row first."""
    sensor = DEPTH_SENSORS[camera.sensor_model]
    if camera.debug_channel is not None:
        return sensor.diagnostics[camera.debug_channel].show(view, camera.calibration)
    return codes(sensor.measure(view, camera.calibration), camera.depth_scale)
