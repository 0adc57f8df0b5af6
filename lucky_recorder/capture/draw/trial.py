"""A trial picture: two walls of known colours, drawn by one GL backend.

A driver may crash: as a program, ``python -m lucky_recorder.capture.draw.trial [BACKEND]``, it has its own process.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lucky_recorder.capture.draw import context as gl
from lucky_recorder.errors import GLError
from lucky_recorder.lazy import lazy

if TYPE_CHECKING:
    import mujoco
else:
    # When MuJoCo is imported, it imports the GL platform that MUJOCO_GL names. Lazy, so that the context is made first:
    # where the platform is missing, its error says what to install.
    mujoco = lazy("mujoco")
# Only one of the backends needs GLFW, and it may be missing.
glfw, mujoco_glfw = lazy("glfw"), lazy("mujoco.glfw")

LEFT, RIGHT = (255, 0, 0), (0, 255, 255)
WIDTH, HEIGHT = 64, 48
_TOLERANCE = 3
# The walls shine by themselves at full strength, so no light changes their colours.
_WALLS = """
<mujoco>
  <visual><headlight active="0"/><quality shadowsize="0" offsamples="0"/><global offwidth="64" offheight="48"/></visual>
  <asset><material name="glow" emission="1" specular="0" shininess="0"/></asset>
  <worldbody>
    <camera name="front" pos="0 0 2"/>
    <geom type="box" size="2 4 .1" pos="-2 0 0" material="glow" rgba="1 0 0 1"/>
    <geom type="box" size="2 4 .1" pos="2 0 0" material="glow" rgba="0 1 1 1"/>
  </worldbody>
</mujoco>
"""


class Drawn(NamedTuple):
    """What came of a trial.

    Attributes:
        backend: ``egl``, ``osmesa`` or ``glfw``.
        renderer: What drew, in the driver's words.
        is_software: Whether a CPU drew.
    """

    backend: str
    renderer: str
    is_software: bool


def draw(backend: str | None = None) -> Drawn:
    """Draw the walls and look at the pixels.

    Args:
        backend: ``egl``, ``osmesa`` or ``glfw``; None for the one that the recorder takes here.

    Raises:
        GLError: If no context can be made, or the picture is wrong.
    """
    context = _context(backend)
    try:
        _judge(_picture(), context.renderer)
    finally:
        context.gl.free()
    return Drawn(context.backend, context.renderer, context.is_software)


def _judge(pixels: NDArray[np.uint8], renderer: str) -> None:
    for wall, x, wanted in (("left", WIDTH // 4, LEFT), ("right", 3 * WIDTH // 4, RIGHT)):
        seen = tuple(pixels[HEIGHT // 2, x].tolist())
        if np.abs(np.subtract(seen, wanted)).max() > _TOLERANCE:
            raise GLError(f"{renderer} draws wrong pictures: the {wall} wall is {seen}, expected {wanted}")


def _context(backend: str | None) -> gl.Context:
    if backend == "glfw":
        return _windowed()
    return gl.make_context_of(backend) if backend else gl.make_context()


def _windowed() -> gl.Context:
    if not glfw.init():
        raise GLError("GLFW found no display to open a window on")
    context = mujoco_glfw.GLContext(WIDTH, HEIGHT)
    context.make_current()
    return gl.Context(context, "glfw", gl.renderer_name())


def _picture() -> NDArray[np.uint8]:
    """Return uint8 pixels, shape ``(48, 64, 3)``; left is left, whichever row is first."""
    model = mujoco.MjModel.from_xml_string(_WALLS)
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    camera = mujoco.MjvCamera()
    camera.type, camera.fixedcamid = int(mujoco.mjtCamera.mjCAMERA_FIXED), 0
    scene = mujoco.MjvScene(model, 10)
    mujoco.mjv_updateScene(model, data, mujoco.MjvOption(), None, camera, int(mujoco.mjtCatBit.mjCAT_ALL), scene)
    context = mujoco.MjrContext(model, int(mujoco.mjtFontScale.mjFONTSCALE_100))
    viewport = mujoco.MjrRect(0, 0, WIDTH, HEIGHT)
    pixels = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
    mujoco.mjr_setBuffer(int(mujoco.mjtFramebuffer.mjFB_OFFSCREEN), context)
    mujoco.mjr_render(viewport, scene, context)
    mujoco.mjr_readPixels(pixels, None, viewport, context)
    context.free()
    return pixels


if __name__ == "__main__":
    print(json.dumps(draw(*sys.argv[1:])._asdict()))
