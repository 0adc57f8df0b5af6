"""An OpenGL context of our own, whatever ``MUJOCO_GL`` says: EGL, else OSMesa.

PyOpenGL binds to one platform per process, so which one will work is found out before it is imported.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

from lucky_recorder import forks
from lucky_recorder.episode.keys import GL_PACKAGES
from lucky_recorder.errors import GLError
from lucky_recorder.lazy import lazy

# PyOpenGL binds to a platform when it is imported, and MuJoCo's own contexts import it: not before one has been chosen.
EGL, GL, osmesa = lazy("OpenGL.EGL"), lazy("OpenGL.GL"), lazy("OpenGL.osmesa")
mujoco_egl, mujoco_osmesa = lazy("mujoco.egl"), lazy("mujoco.osmesa")

_SOFTWARE = ("llvmpipe", "softpipe", "swrast", "software")


class Context(NamedTuple):
    """A context of our own, current in the thread that made it until it is released.

    It stays current in the thread that draws, except during garbage collections: see `CollectionGuard` of
    `lucky_recorder.capture.draw.collections` for the reason.

    Attributes:
        gl: The context object.
        backend: ``egl`` or ``osmesa``.
        renderer: What draws, in the driver's words.
    """

    gl: Any
    backend: str
    renderer: str

    @property
    def is_software(self) -> bool:
        """Whether a CPU draws; only then are pictures the same bytes on every run."""
        return any(word in self.renderer.lower() for word in _SOFTWARE)

    def make_current(self) -> None:
        """Make it current in this thread."""
        self.gl.make_current()

    def release(self) -> None:
        """Leave this thread without a current context."""
        if self.backend == "egl":
            EGL.eglMakeCurrent(mujoco_egl.EGL_DISPLAY, EGL.EGL_NO_SURFACE, EGL.EGL_NO_SURFACE, EGL.EGL_NO_CONTEXT)
        else:
            osmesa.OSMesaMakeCurrent(None, None, GL.GL_FLOAT, 0, 0)


def remedy() -> str:
    """Return what to do where no context can be made."""
    return (
        f"no OpenGL context can be made here, so cameras cannot be drawn; on Debian or Ubuntu: apt-get install "
        f"{' '.join(GL_PACKAGES)} (or libosmesa6), or record without cameras"
    )


def make_context() -> Context:
    """Make a context and make it current in this thread.

    Raises:
        ForkError: In a child forked from a process that had drawn.
        GLError: If neither EGL nor OSMesa works; says what to install.
    """
    forks.refuse_to_draw()
    failures = []
    for backend in _candidates():
        try:
            return make_context_of(backend)
        except Exception as error:  # drivers and PyOpenGL raise whatever they like
            failures.append(f"{backend}: {error or type(error).__name__}")
    raise GLError("; ".join([remedy(), *failures]))


def _candidates() -> list[str]:
    # Set by the user, or by MuJoCo's EGL or OSMesa module when it was imported: PyOpenGL takes no other platform then.
    bound = os.environ.get("PYOPENGL_PLATFORM", "").lower()
    if bound in ("egl", "osmesa"):
        return [bound]
    present = [name for name, is_there in (("egl", _has_egl), ("osmesa", _has_osmesa)) if is_there()]
    if os.environ.get("MUJOCO_GL", "").lower() == "osmesa":
        present.reverse()
    # Only one: when the first is tried, PyOpenGL is bound to it, and the second cannot work any more.
    return present[:1]


def _has_egl() -> bool:
    """Ask EGL itself, without PyOpenGL, whether it has a device to draw on."""
    try:
        library = ctypes.CDLL("libEGL.so.1")
        # Not libGL: MuJoCo's EGL module and PyOpenGL look for GL in this library first.
        ctypes.CDLL("libOpenGL.so.0")
        # Without the type, ctypes cuts the address to 32 bits.
        library.eglGetProcAddress.restype = ctypes.c_void_p
        address = library.eglGetProcAddress(b"eglQueryDevicesEXT")
    except (OSError, AttributeError):
        return False
    if not address:
        return False
    count = ctypes.c_int(0)
    query = ctypes.CFUNCTYPE(ctypes.c_uint, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(address)
    return bool(query(0, None, ctypes.byref(count))) and count.value > 0


def _has_osmesa() -> bool:
    for name in ("libOSMesa.so.8", "libOSMesa.so.6", "libOSMesa.so"):
        try:
            ctypes.CDLL(name)
        except OSError:
            continue
        return True
    return False


def make_context_of(backend: str) -> Context:
    """Make a context of one backend, ``egl`` or ``osmesa``, and make it current in this thread.

    Raises:
        ForkError: In a child forked from a process that had drawn.
        GLError: If its libraries are not installed, it has nothing to draw on, or PyOpenGL is bound to another.
        Exception: Whatever the driver or PyOpenGL raise.
    """
    forks.refuse_to_draw()
    bound = os.environ.get("PYOPENGL_PLATFORM", "").lower()
    if bound not in ("", backend):
        raise GLError(f"PYOPENGL_PLATFORM={bound!r} keeps PyOpenGL from {backend}; unset it, or set it to {backend}")
    if backend == "egl":
        if not _has_egl():
            raise GLError("libEGL or libOpenGL is not installed, or finds no device to draw on")
        module = mujoco_egl
    else:
        if not _has_osmesa():
            raise GLError("libOSMesa is not installed")
        module = mujoco_osmesa
    with _blaming(_bound_platform(), backend):
        # In here: the first attribute that is asked for imports the module, and with it PyOpenGL.
        # The size does not matter: pictures are drawn into the buffers of MuJoCo's rendering contexts.
        context = module.GLContext(64, 64)
        context.make_current()
    return Context(context, backend, renderer_name())


def _bound_platform() -> str:
    """Return what PyOpenGL is bound to, such as ``glx``; empty if nobody has imported it yet."""
    platform = getattr(sys.modules.get("OpenGL.platform"), "PLATFORM", None)
    return "" if platform is None else type(platform).__name__.removesuffix("Platform").lower()


@contextlib.contextmanager
def _blaming(bound: str, backend: str) -> Iterator[None]:
    """Say so where a failure comes from PyOpenGL having been imported for another platform.

    MuJoCo 4 makes an EGL context all the same; earlier versions cannot.
    """
    try:
        yield
    except Exception as error:  # drivers and PyOpenGL raise whatever they like
        if bound in ("", backend):
            raise
        remedy = f"set PYOPENGL_PLATFORM={backend} before Python starts"
        raise GLError(f"PyOpenGL was imported earlier and keeps to {bound}; {remedy}") from error


def renderer_name() -> str:
    """Return what draws in the current context, in the driver's words."""
    name = GL.glGetString(GL.GL_RENDERER)
    return name.decode() if name else "unknown"
