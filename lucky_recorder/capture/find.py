"""Finding the simulation inside an environment without the user's help, its control rate, and how it steps."""

from __future__ import annotations

import contextlib
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from lucky_recorder.episode import clock
from lucky_recorder.errors import SettingsError

if TYPE_CHECKING:
    import mujoco

_INWARD = ("unwrapped", "env", "_env", "gym_env", "physics", "_physics", "sim", "_sim")
_PAIRS = (("model", "data"), ("_model", "_data"), ("mj_model", "mj_data"))
_INNER = ("_model", "_data")
# So many objects are looked at and no more: the attributes of a foreign environment may lead on without end.
_DEPTH = 64
_CLOSE = 1e-6
# The method of Gymnasium's own MuJoCo environments that steps their physics.
PHYSICS_STEP = "_step_mujoco_simulation"


class Found(NamedTuple):
    """A model and the data that belongs to it."""

    model: mujoco.MjModel
    data: mujoco.MjData


class Located(NamedTuple):
    """A simulation, and where it was found.

    Attributes:
        found: The model and its data.
        is_still_there: Returns whether the same two objects are still in that place.
    """

    found: Found
    is_still_there: Callable[[], bool]


class Place(NamedTuple):
    """An object inside an environment, and the way to it.

    Attributes:
        value: The object.
        root: An object that stays the same as long as the environment lives.
        path: The attributes that lead from there to ``value``.
    """

    value: Any
    root: Any
    path: tuple[str, ...]

    def inner(self, name: str, value: Any) -> Place:
        """Return the place of an attribute's value."""
        # A gymnasium wrapper never changes what it wraps. Everything else an environment may replace at any time.
        is_fixed = not self.path and name in ("env", "unwrapped") and _is_wrapper(self.value)
        return Place(value, value, ()) if is_fixed else Place(value, self.root, (*self.path, name))


def find_simulation(env: Any) -> Found | None:
    """Return the MuJoCo model and data inside an environment, breadth first, or None.

    Only real `mujoco.MjModel` and `mujoco.MjData` count; dm_control's and robosuite's wrappers of them are opened.
    """
    located = locate_simulation(env)
    return located.found if located else None


def locate_simulation(env: Any) -> Located | None:
    """Return the MuJoCo model and data inside an environment and the place where they stand, or None."""
    for place in _inward(env):
        for pair in _PAIRS:
            (model, to_model), (data, to_data) = (
                _bare(_get(place.value, name), name, inner) for name, inner in zip(pair, _INNER, strict=True)
            )
            if _is_pair(model, data):
                ways = ".".join((*place.path, to_model)), ".".join((*place.path, to_data))
                return Located(Found(model, data), _comparing(place.root, ways, model, data))
    return None


def _comparing(root: Any, ways: tuple[str, str], model: Any, data: Any) -> Callable[[], bool]:
    both = attrgetter(*ways)

    def is_at_hand() -> bool:
        try:
            return root.model is model and root.data is data
        except Exception:  # as for properties: then it is not there any more
            return False

    def is_still_there() -> bool:
        try:
            present_model, present_data = both(root)
        except Exception:  # as above
            return False
        return present_model is model and present_data is data

    # This is asked at every step. Most environments keep both on themselves, where they are found at once.
    return is_at_hand if ways == ("model", "data") else is_still_there


def _inward(env: Any) -> Iterator[Place]:
    """Walk inward, breadth first. Environments that are held under any other attribute come last."""
    # The objects are kept, not only their ids: a new object may get the id of one that is gone.
    seen: dict[int, Any] = {}
    waiting, last = deque([Place(env, env, ())]), deque[Place]()
    while (waiting or last) and len(seen) < _DEPTH:
        place = waiting.popleft() if waiting else last.popleft()
        value = place.value
        if value is None or id(value) in seen:
            continue
        seen[id(value)] = value
        yield place
        waiting.extend(place.inner(name, _get(value, name)) for name in _INWARD)
        held = (_get(value, "__dict__") or {}).items()
        last.extend(place.inner(name, one) for name, one in held if _is_environment(one))


def _is_wrapper(value: Any) -> bool:
    return any(kind.__module__ == "gymnasium.core" and kind.__name__ == "Wrapper" for kind in type(value).__mro__)


def _is_environment(value: Any) -> bool:
    return all(_get(value, name) is not None for name in ("step", "reset", "action_space", "observation_space"))


def _get(place: Any, name: str) -> Any:
    try:
        return getattr(place, name, None)
    except Exception:  # properties of foreign environments may raise anything
        return None


def _bare(wrapped: Any, name: str, inner: str) -> tuple[Any, str]:
    """Open dm_control's ``.ptr`` and robosuite's ``._model`` and ``._data``; returns the way to what is inside, too."""
    if _is_native(wrapped):
        return wrapped, name
    inside = ((_get(wrapped, opened), f"{name}.{opened}") for opened in ("ptr", inner))
    return next(((one, way) for one, way in inside if _is_native(one)), (None, name))


def _is_native(value: Any) -> bool:
    return type(value).__module__.partition(".")[0] == "mujoco"


def _is_pair(model: Any, data: Any) -> bool:
    if model is None or data is None:
        return False
    # Not imported here: whoever holds such an object has imported MuJoCo, and nobody else needs it.
    mujoco = sys.modules["mujoco"]
    return isinstance(model, mujoco.MjModel) and isinstance(data, mujoco.MjData)


class Statement(NamedTuple):
    """What an environment says of how long its steps last.

    Attributes:
        text: As it says it: ``dt=0.02``.
        hz: The control rate that follows.
        is_rounded: Whether it says a whole number, as near as one is.
    """

    text: str
    hz: Fraction
    is_rounded: bool = False

    def holds(self, control: Fraction) -> bool:
        """Tell whether it is true of a control rate: a float32 is right to 1e-7, a rounded number to a half."""
        if self.is_rounded:
            return abs(self.hz - control) <= Fraction(1, 2)
        return abs(float(self.hz / control) - 1) < _CLOSE


def control_rate(env: Any) -> Fraction | None:
    """Return the rate at which ``env.step`` is called, in Hz, as the environment itself says; None if it does not.

    Raises:
        SettingsError: If what it says is no rate.
    """
    return next((said.hz for place in _inward(env) for said in _stated(place.value)), None)


def statements(env: Any) -> tuple[Statement, ...]:
    """Return all that an environment says of how long its steps last: of each attribute what stands outermost.

    What is no rate says nothing.
    """
    known: dict[str, Statement] = {}
    for place in _inward(env):
        with contextlib.suppress(SettingsError):
            for said in (*_stated(place.value), *_pictured(place.value)):
                known.setdefault(said.text.partition("=")[0], said)
    return tuple(known.values())


def _stated(place: Any) -> Iterator[Statement]:
    lasts: Any
    for name, lasts in (
        ("dt", _get(place, "dt")),
        ("control_timestep", _called(_get(place, "control_timestep"))),
        ("control_dt", _get(place, "control_dt")),
    ):
        if _is_number(lasts):
            yield Statement(f"{name}={float(lasts):g}", clock.rate_of_step(float(lasts)))
    for name in ("control_freq", "control_frequency"):
        frequency: Any = _get(place, name)
        if _is_number(frequency):
            yield Statement(f"{name}={float(frequency):g}", clock.rate(float(frequency), name))


def _pictured(place: Any) -> Iterator[Statement]:
    metadata = _get(place, "metadata")
    fps: Any = metadata.get("render_fps") if isinstance(metadata, Mapping) else None
    if _is_number(fps):
        yield Statement(f"render_fps={float(fps):g}", clock.rate(float(fps), "render_fps"), is_rounded=True)


def frame_rate(env: Any) -> Fraction | None:
    """Return ``metadata["render_fps"]``: the rate of an environment that has no other clock."""
    return next((said.hz for said in _pictured(env)), None)


def physics_rate(env: Any) -> Fraction | None:
    """Return the control rate of an environment whose steps can be taken in parts, by its physics; else None."""
    return None if most_parts(env) == 1 else step_rate(env)


def step_rate(env: Any) -> Fraction:
    """Return the control rate of a Gymnasium `MujocoEnv` by its physics: a step is so many frames of it."""
    bare = env.unwrapped
    return clock.rate_of_step(float(bare.model.opt.timestep) * bare.frame_skip)


def is_taken_in_parts(env: Any) -> bool:
    """Tell whether another recorder takes the steps of an environment in parts already: no second one can."""
    return hasattr(getattr(env.unwrapped, PHYSICS_STEP, None), "takes_parts")


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
