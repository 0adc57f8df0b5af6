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
import time

from lucky_recorder.errors import ForkError

# Threads of Mesa's drivers: those of its software rasterizer, and its queues, called after the program: python:disk$0.
_DRIVER_THREAD = re.compile(r"llvmpipe-\d|.*:(disk\$|cs|sh|shlo|gdrv|gl|zcq|zfq|zpq)\d+$")
# NVIDIA's have no name to know them by. Its library says that the driver is loaded.
_DRIVER_LIBRARY = re.compile(r"libnvidia-(egl|gl)core")
_EGL_MODULES = ("mujoco.egl", "dm_control._render.pyopengl.egl_renderer", "robosuite.renderers.context.egl_context")
_MESA_LIBRARY = re.compile(r"libgallium|libOSMesa|_dri\.so")
_FORKED_WITHOUT_EXEC = 0x40  # PF_FORKNOEXEC of the kernel
# Fields of /proc/PID/stat, counted from the one after the name: the flags, and when it began, in ticks since the boot.
_FLAGS, _STARTED = 6, 19
_YOUNG_S, _BETWEEN_LOOKS_S, _LOOKS = 0.05, 0.005, 20

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
    """Tell whether a graphics driver is running in this process.

    A display says so by itself. Where none is known, as for OSMesa and for windows, the threads tell. A thread gives
    itself its name when it first runs: on a busy machine that may be after the fork, so young ones without a name of
    their own are waited for.
    """
    if _has_display():
        return True
    for _ in range(_LOOKS):
        if _has_driver_threads():
            return True
        if not (_has_mesa() and _has_young_threads()):
            break
        time.sleep(_BETWEEN_LOOKS_S)
    return False


def _has_driver_threads() -> bool:
    return any(_DRIVER_THREAD.match(_text(f"/proc/self/task/{thread}/comm").strip()) for thread in _threads())


def _has_young_threads() -> bool:
    """Tell whether a thread has begun just now and has had no time to name itself."""
    program = _text("/proc/self/comm")
    young = time.clock_gettime(time.CLOCK_BOOTTIME) - _YOUNG_S
    for thread in _threads():
        if int(thread) != os.getpid() and _text(f"/proc/self/task/{thread}/comm") == program:
            # The name of the program stands in brackets, and may hold anything.
            fields = _text(f"/proc/self/task/{thread}/stat").rpartition(")")[2].split()
            if len(fields) > _STARTED and int(fields[_STARTED]) / os.sysconf("SC_CLK_TCK") > young:
                return True
    return False


def _threads() -> list[str]:
    with contextlib.suppress(OSError):  # no /proc here
        return os.listdir("/proc/self/task")
    return []


def _text(path: str) -> str:
    """Return what a file of the kernel's says; nothing where there is none, or of a thread that has just ended."""
    with contextlib.suppress(OSError), open(path, encoding="utf-8", errors="replace") as file:
        return file.read()
    return ""


def _has_display() -> bool:
    """Tell whether a display of EGL's is initialized, as far as the modules say that are known to do so."""
    return any(bool(getattr(sys.modules.get(name), "EGL_DISPLAY", None)) for name in _EGL_MODULES)


def _has_driver_library() -> bool:
    return _DRIVER_LIBRARY.search(_text("/proc/self/maps")) is not None


def _has_mesa() -> bool:
    return _MESA_LIBRARY.search(_text("/proc/self/maps")) is not None


def _is_forked() -> bool:
    """Tell whether this process was forked and has not started another program since."""
    fields = _text("/proc/self/stat").rpartition(")")[2].split()
    return len(fields) > _FLAGS and bool(int(fields[_FLAGS]) & _FORKED_WITHOUT_EXEC)


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
