"""MuJoCo's plugins by their names: a model says of each no more than the place at which it was registered.

That place depends on what was loaded, and in which order. Of another plugin there, MuJoCo runs the code.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import mujoco

from lucky_recorder.capture.mujoco import callbacks
from lucky_recorder.errors import FormatError


def _functions() -> tuple[Any, Any] | None:
    """Return what counts the registered plugins, and what finds one; Python's MuJoCo has neither."""
    library = callbacks.library()
    try:
        count, find = (None, None) if library is None else (library.mjp_pluginCount, library.mjp_getPluginAtSlot)
    except AttributeError:  # a platform whose loader does not look into the libraries that a module is linked to
        return None
    if count is None or find is None:
        return None
    count.restype, find.argtypes, find.restype = ctypes.c_int, [ctypes.c_int], ctypes.POINTER(ctypes.c_char_p)
    return count, find


_FUNCTIONS = _functions()


def plugins_of(model: mujoco.MjModel) -> tuple[str | None, ...]:
    """Return the name of each of a model's plugins, as they are registered here; None where there is none, or unknown.

    Args:
        model: The model; nothing of its plugins is called.
    """
    return tuple(_named(int(slot)) for slot in model.plugin)


def _named(slot: int) -> str | None:
    if _FUNCTIONS is None:
        return None
    count, find = _FUNCTIONS
    if not 0 <= slot < count():
        return None
    # The name is the first field of a plugin.
    found = find(slot)
    return found[0].decode("utf-8", "replace") if found and found[0] else None


def require_plugins(model: mujoco.MjModel, said: Sequence[str | None]) -> None:
    """Refuse a model whose plugins are others here, or not known.

    Args:
        model: The model; nothing of its plugins is called.
        said: Their names, as they were when the model was written.

    Raises:
        FormatError: Then; names them.
    """
    here = plugins_of(model)
    if len(here) != len(said):
        raise FormatError(f"its model has {len(here)} plugins, and its states were recorded with {len(said)}")
    for number, (was, now) in enumerate(zip(said, here, strict=True)):
        if was is None or was != now:
            there = f"{now!r} is registered there" if now else "none that is known is registered there"
            raise FormatError(
                f"plugin {number} of its model is {was or 'one whose name is not known'!r}, and here {there}; load the "
                "plugins that were loaded when it was recorded, in the same order"
            )
