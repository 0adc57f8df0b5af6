"""Intrinsics: how a camera turns what is before it into pixels, as the scene that is drawn has it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import mujoco

AXES = "x right, y down, z forward (OpenCV)"
_FORMULA = {
    "perspective": "u = fx * x / z + cx, v = fy * y / z + cy",
    "orthographic": "u = fx * x + cx, v = fy * y + cy",
}


class Intrinsics(NamedTuple):
    """A projection in pixels.

    A pixel's coordinates are those of its centre, as in OpenCV: the centre of the picture's top left pixel is (0, 0),
    u counts to the right and v down.

    Attributes:
        fx: Horizontal focal length in pixels; of parallel rays, pixels per metre.
        fy: The same, vertical.
        cx: Where the optical axis meets the picture, pixels.
        cy: The same, vertical.
        is_orthographic: Whether rays are parallel.
    """

    fx: float
    fy: float
    cx: float
    cy: float
    is_orthographic: bool

    @classmethod
    def of(cls, scene: mujoco.MjvScene, width: int, height: int) -> Intrinsics:
        """Read the projection of a scene's camera, for pictures of so many pixels."""
        # A scene holds two cameras, for stereo; what is read here is the same in both.
        camera = scene.camera[0]
        bottom, top = float(camera.frustum_bottom), float(camera.frustum_top)
        # Where the scene gives no half width, pixels are square.
        half = float(camera.frustum_width) or (top - bottom) / 2 * width / height
        # Shares of the picture that lie left of and above the optical axis: its left side is at the centre minus half.
        left, above = 0.5 - float(camera.frustum_center) / (2 * half), top / (top - bottom)
        is_orthographic = bool(camera.orthographic)
        # The frustum's sides are given at the near plane; of parallel rays, at any distance.
        near = 1.0 if is_orthographic else float(camera.frustum_near)
        across, down = width / (2 * half), height / (top - bottom)
        return cls(near * across, near * down, width * left - 0.5, height * above - 0.5, is_orthographic)

    def is_like(self, other: Intrinsics) -> bool:
        """Tell whether another projection gives the same pixels, as far as the scene's float32 can tell."""
        return all(math.isclose(a, b, rel_tol=1e-5, abs_tol=1e-3) for a, b in zip(self, other, strict=True))

    def described(self, width: int, height: int) -> dict[str, Any]:
        """Return what ``info`` says of it, for pictures of so many pixels."""
        projection = "orthographic" if self.is_orthographic else "perspective"
        above, below = (self.cy + 0.5) / self.fy, (height - 0.5 - self.cy) / self.fy
        size = (
            {"height_m": height / self.fy}
            if self.is_orthographic
            # The scene has it in float32, which is good for seven digits.
            else {"fovy_deg": round(math.degrees(math.atan(above) + math.atan(below)), 5)}
        )
        return {
            "projection": projection,
            "matrix": [[self.fx, 0.0, self.cx], [0.0, self.fy, self.cy], [0.0, 0.0, 1.0]],
            "width": width,
            "height": height,
            **size,
            "formula": f"{_FORMULA[projection]}; x, y, z in the camera's frame: {AXES}",
            "pixels": "(u, v) = (0, 0) is the centre of the top left pixel; u counts to the right, v down",
        }
