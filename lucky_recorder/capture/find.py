"""Finding the simulation inside an environment without the user's help, its control rate, and how it steps."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

from lucky_recorder.episode import clock

if TYPE_CHECKING:
    import mujoco

_INWARD = ("unwrapped", "env", "_env", "gym_env", "physics", "_physics", "sim", "_sim")
_PAIRS = (("model", "data"), ("_model", "_data"), ("mj_model", "mj_data"))
_INNER = ("_model", "_data")
# So many objects are looked at and no more: the attributes of a foreign environment may lead on without end.
_DEPTH = 64
# The method of Gymnasium's own MuJoCo environments that steps their physics.
PHYSICS_STEP = "_step_mujoco_simulation"


class Found(NamedTuple):
    """A model and the data that belongs to it."""

    model: mujoco.MjModel
    data: mujoco.MjData


def find_simulation(env: Any) -> Found | None:
    """Return the MuJoCo model and data inside an environment, breadth first, or None.

    Only real `mujoco.MjModel` and `mujoco.MjData` count; dm_control's and robosuite's wrappers of them are opened.
    """
    for place in _inward(env):
        for pair in _PAIRS:
            model, data = (_bare(_get(place, name), inner) for name, inner in zip(pair, _INNER, strict=True))
            if _is_pair(model, data):
                return Found(model, data)
    return None


def _inward(env: Any) -> Iterator[Any]:
    """Walk inward, breadth first. Environments that are held under any other attribute come last."""
    # The objects are kept, not only their ids: a new object may get the id of one that is gone.
    seen: dict[int, Any] = {}
    waiting, last = deque([env]), deque[Any]()
    while (waiting or last) and len(seen) < _DEPTH:
        place = waiting.popleft() if waiting else last.popleft()
        if place is None or id(place) in seen:
            continue
        seen[id(place)] = place
        yield place
        waiting.extend(_get(place, name) for name in _INWARD)
        last.extend(held for held in (_get(place, "__dict__") or {}).values() if _is_environment(held))


def _is_environment(value: Any) -> bool:
    return all(_get(value, name) is not None for name in ("step", "reset", "action_space", "observation_space"))


def _get(place: Any, name: str) -> Any:
    try:
        return getattr(place, name, None)
    except Exception:  # properties of foreign environments may raise anything
        return None


def _bare(wrapped: Any, inner: str) -> Any:
    """Open dm_control's ``.ptr`` and robosuite's ``._model`` and ``._data``."""
    if _is_native(wrapped):
        return wrapped
    return next((one for one in (_get(wrapped, "ptr"), _get(wrapped, inner)) if _is_native(one)), None)


def _is_native(value: Any) -> bool:
    return type(value).__module__.partition(".")[0] == "mujoco"


def _is_pair(model: Any, data: Any) -> bool:
    if model is None or data is None:
        return False
    # Not imported here: whoever holds such an object has imported MuJoCo, and nobody else needs it.
    mujoco = sys.modules["mujoco"]
    return isinstance(model, mujoco.MjModel) and isinstance(data, mujoco.MjData)


def control_rate(env: Any) -> Fraction | None:
    """Return the rate at which ``env.step`` is called, in Hz, as the environment itself says; None if it does not."""
    for place in _inward(env):
        for seconds in (_get(place, "dt"), _called(_get(place, "control_timestep")), _get(place, "control_dt")):
            if _is_number(seconds):
                return clock.rate_of_step(float(seconds))
        for name in ("control_freq", "control_frequency"):
            frequency: Any = _get(place, name)
            if _is_number(frequency):
                return clock.rate(float(frequency), name)
    return None


def frame_rate(env: Any) -> Fraction | None:
    """Return ``metadata["render_fps"]``: the rate of an environment that has no other clock."""
    fps: Any = (_get(env, "metadata") or {}).get("render_fps")
    return clock.rate(float(fps), "render_fps") if _is_number(fps) else None


def most_parts(env: Any) -> int:
    """Return in how many parts a step of an environment can be taken; 1 where it cannot be divided.

    It can where the environment is a Gymnasium `MujocoEnv` that steps its physics in the base class's own way.
    """
    bare = env.unwrapped
    hook, frames = getattr(bare, PHYSICS_STEP, None), getattr(bare, "frame_skip", None)
    function = getattr(hook, "__func__", None)
    # A subclass that overrides the method may do more in it than step the physics.
    is_gymnasiums = getattr(function, "__module__", "") == "gymnasium.envs.mujoco.mujoco_env"
    return frames if is_gymnasiums and isinstance(frames, int) and frames > 0 else 1


def _called(method: Any) -> Any:
    try:
        return method() if callable(method) else method
    except Exception:  # as for properties
        return None


def _is_number(value: Any) -> bool:
    try:
        return not isinstance(value, bool) and not callable(value) and float(value) > 0
    except (TypeError, ValueError):
        return False
