"""MuJoCo's global callbacks: user code that MuJoCo runs inside its own computations, whoever has asked for them.

A controller in ``mjcb_control`` has a state, such as the sum of an integral term. If `mj_forward` in the private data
called it as well, it would run twice a tick, and the run would be another one than without the recorder. So what is
computed here never calls one: the stages that place bodies do not, and where the others would, they are refused.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Any

import mujoco

from lucky_recorder.errors import CaptureError

NAMES = tuple(sorted(name.removeprefix("get_") for name in dir(mujoco) if name.startswith("get_mjcb_")))
# Its pointer says nothing: where nobody has set one, it is MuJoCo's own clock.
_CLOCK = "mjcb_time"


def library() -> ctypes.CDLL | None:
    """Return the module of MuJoCo's functions, through which its library's own variables are found."""
    try:
        return ctypes.CDLL(str(sys.modules[mujoco.mj_forward.__module__].__file__))
    except (OSError, KeyError, AttributeError):
        return None


def _pointers() -> dict[str, ctypes.c_void_p]:
    """Return the variables that hold the callbacks' addresses; those that cannot be found are left out."""
    loaded, found = library(), {}
    for name in NAMES:
        # ValueError: a platform whose loader does not look into the libraries that a module is linked to.
        try:
            if loaded is not None and name != _CLOCK:
                found[name] = ctypes.c_void_p.in_dll(loaded, name)
        except ValueError:
            continue
    return found


# The variables and not `get_mjcb_control`: that knows what was set from Python, but not what a C library has set.
_POINTERS = _pointers()
_GETTERS: dict[str, Callable[[], Any]] = {n: getattr(mujoco, f"get_{n}") for n in NAMES if n not in _POINTERS}
_EVERY_POINTER, _EVERY_GETTER = tuple(_POINTERS.values()), tuple(_GETTERS.values())


def are_installed() -> bool:
    """Tell whether any callback is installed, of Python's or of C's. This is asked at every tick."""
    if any(_EVERY_POINTER):
        return True
    # A list and no generator, which would take longer than all the rest.
    found = [get() for get in _EVERY_GETTER]
    return found.count(None) < len(found)


def installed() -> tuple[str, ...]:
    """Return the names of the callbacks that are installed, such as ``mjcb_control``."""
    return tuple(n for n in NAMES if (_POINTERS[n] if n in _POINTERS else _GETTERS[n]() is not None))


def called_twice(names: tuple[str, ...]) -> str:
    """Say why a computation that would call some callbacks is refused."""
    return (
        f"this needs a computation of MuJoCo's that calls {' and '.join(names)}, which is installed: looking would run "
        "your code a second time, and the run would not be the one without the recorder"
    )


# What to do about a callback that came after the recording had begun.
TAKE_AWAY = (
    "take the callback away (a controller can be called in your own loop, inside `with observer.step():`), or set "
    "otherwise what needs the computation"
)


def _refused(names: tuple[str, ...]) -> CaptureError:
    return CaptureError(f"{called_twice(names)}; {TAKE_AWAY}")


def forward(model: mujoco.MjModel, data: mujoco.MjData) -> None:
    """Compute everything that follows from a state.

    Raises:
        CaptureError: If a callback is installed, which this would call.
    """
    if are_installed():
        raise _refused(installed())
    mujoco.mj_forward(model, data)


def calls_user_sensors(model: mujoco.MjModel) -> bool:
    """Tell whether the sensors that follow from positions include one that ``mjcb_sensor`` computes."""
    is_user = model.sensor_type == int(mujoco.mjtSensor.mjSENS_USER)
    return bool((is_user & (model.sensor_needstage == int(mujoco.mjtStage.mjSTAGE_POS))).any())


def sensors_of_positions(model: mujoco.MjModel, data: mujoco.MjData) -> None:
    """Compute the sensors that follow from positions, of a model where `calls_user_sensors`.

    Raises:
        CaptureError: If ``mjcb_sensor`` is installed, which this would call.
    """
    if "mjcb_sensor" in installed():
        raise _refused(("mjcb_sensor",))
    mujoco.mj_sensorPos(model, data)
