"""Forks and OpenGL: whether this process has inherited a graphics driver that cannot draw here.

A driver draws with threads of its own, and a fork copies none of them. In the child it waits for threads that do not
exist, for good. It does not matter who has drawn in the parent: this package, `mujoco.Renderer`, an environment. So the
package, as soon as it is imported, looks at every fork whether such a driver is running.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys

from lucky_recorder.errors import ForkError

# Threads of Mesa's drivers: those of its software rasterizer, and its queues, called after the program: python:disk$0.
_DRIVER_THREAD = re.compile(r"llvmpipe-\d|.*:(disk\$|cs|sh|shlo|gdrv|gl|zcq|zfq|zpq)\d+$")
# NVIDIA's have no name to know them by. Its library says that the driver is loaded, and EGL that it is in use.
_DRIVER_LIBRARY = re.compile(r"libnvidia-(egl|gl)core")
_EGL_MODULES = ("mujoco.egl", "dm_control._render.pyopengl.egl_renderer", "robosuite.renderers.context.egl_context")
_FORKED_WITHOUT_EXEC = 0x40  # PF_FORKNOEXEC of the kernel


_inherits = False
_ran_at_fork = False


def watch() -> None:
    """Look at every fork from now on. Called once, when the package is imported."""
    global _inherits
    _inherits = _inherited_before_import()
    if hasattr(os, "register_at_fork"):
        # Before the fork, since the threads are gone after it.
        os.register_at_fork(before=_look_before_fork, after_in_child=_inherit)


def refuse_to_draw() -> None:
    """Refuse to make an OpenGL context in the forked child of a process that had a driver running.

    Raises:
        ForkError: In such a child. To draw would hang.
    """
    if _inherits:
        raise ForkError(
            f"this process (pid {os.getpid()}) was forked from one that had drawn with OpenGL, and to draw here would "
            "hang: start processes that record cameras with 'spawn' or 'forkserver', by "
            "multiprocessing.get_context('spawn') or gym.make_vec(..., vector_kwargs={'context': 'spawn'}); a forked "
            "process can record without cameras"
        )


def _runs_driver() -> bool:
    """Tell whether a graphics driver is running in this process."""
    return _has_driver_threads() or (_has_display() and _has_driver_library())


def _has_driver_threads() -> bool:
    with contextlib.suppress(OSError):  # no /proc here, or a thread that has just ended
        for thread in os.listdir("/proc/self/task"):
            path = f"/proc/self/task/{thread}/comm"
            with contextlib.suppress(OSError), open(path, encoding="utf-8", errors="replace") as name:
                if _DRIVER_THREAD.match(name.read().strip()):
                    return True
    return False


def _has_display() -> bool:
    """Tell whether a display of EGL's is initialized, as far as the modules say that are known to do so."""
    return any(bool(getattr(sys.modules.get(name), "EGL_DISPLAY", None)) for name in _EGL_MODULES)


def _has_driver_library() -> bool:
    with contextlib.suppress(OSError), open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        return any(_DRIVER_LIBRARY.search(line) for line in maps)
    return False


def _is_forked() -> bool:
    """Tell whether this process was forked and has not started another program since."""
    with contextlib.suppress(OSError, ValueError, IndexError), open("/proc/self/stat", "rb") as stat:
        # The name of the program stands in brackets, and may hold anything.
        return bool(int(stat.read().rpartition(b")")[2].split()[6]) & _FORKED_WITHOUT_EXEC)
    return False


def _inherited_before_import() -> bool:
    """Tell whether the parent had a driver running, where this package is imported in the child only.

    Nobody looked when it forked. What can be told is this: EGL is initialized, but its driver has no threads. Where the
    child has initialized it itself, they are there.
    """
    return _is_forked() and _has_display() and not _has_driver_threads() and not _has_driver_library()


def _look_before_fork() -> None:
    global _ran_at_fork
    _ran_at_fork = _runs_driver()


def _inherit() -> None:
    global _inherits
    _inherits = _inherits or _ran_at_fork
