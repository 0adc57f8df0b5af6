"""Where the parts of a state stand in MuJoCo's vectors, for those who have states that nobody steps here."""

from __future__ import annotations

from typing import NamedTuple

import mujoco
import numpy as np
from numpy.typing import NDArray

from lucky_recorder.capture.mujoco import names
from lucky_recorder.capture.mujoco.states import EVERYTHING
from lucky_recorder.errors import SettingsError

_PREFIX = "mjSTATE_"
# What people have: all that the next step depends on, or what simulating makes of it.
_WHOLE = ("INTEGRATION", "FULLPHYSICS")
_BITS = {int(getattr(mujoco.mjtState, name)): name for name in dir(mujoco.mjtState) if name.startswith(_PREFIX)}


class Place(NamedTuple):
    """Where some values of one vector stand in another.

    Attributes:
        given: Where they are in the one.
        full: Where they are in the other, a full state.
    """

    given: slice
    full: slice


class StateLayout:
    """The full state of a model, part by part; what is not given of it is as in fresh data.

    Attributes:
        model: The model.
        parts: Of each part that has values, by its name (``time``, ``qpos``, ``mocap_pos``), where it stands.
        fresh: The state of fresh data, float64, shape ``(size,)``.

    Args:
        model: As above.

    Raises:
        SettingsError: If it is no model.
    """

    def __init__(self, model: mujoco.MjModel) -> None:
        if not isinstance(model, mujoco.MjModel):
            raise SettingsError.of("model", model, "give a mujoco.MjModel, such as MjModel.from_xml_path('scene.xml')")
        self.model = model
        self.parts = {name: place.full for name, place in _places(model, EVERYTHING).items()}
        self.fresh = np.empty(mujoco.mj_stateSize(model, EVERYTHING))
        mujoco.mj_getState(model, mujoco.MjData(model), self.fresh, EVERYTHING)

    @property
    def sizes(self) -> dict[str, int]:
        """How many values the states have that MuJoCo knows by name: whole ones, and those of the physics."""
        return {f"{_PREFIX}{name}": int(mujoco.mj_stateSize(self.model, _bits(name))) for name in _WHOLE}

    def places(self, size: int) -> list[Place]:
        """Return where a vector's values stand in a full state, by how many it has; nothing where none has so many.

        Args:
            size: The number of values.
        """
        for name in _WHOLE:
            bits = _bits(name)
            if mujoco.mj_stateSize(self.model, bits) == size:
                # Neighbours stay together: a whole state is one copy.
                return _joined([*_places(self.model, bits).values()])
        return []

    def named(self, number: int) -> str:
        """Return what a value of a full state is called, such as ``qpos of joint 'elbow'``."""
        part = next(name for name, place in self.parts.items() if place.start <= number < place.stop)
        return named(self.model, part, number - self.parts[part].start)


def _bits(name: str) -> int:
    return int(getattr(mujoco.mjtState, _PREFIX + name))


def _places(model: mujoco.MjModel, chosen: int) -> dict[str, Place]:
    """Return where the parts of a vector with some of a state's parts stand in it, and in a full state."""
    places, given, full = {}, 0, 0
    for bit in (1 << k for k in range(EVERYTHING.bit_length())):
        size = int(mujoco.mj_stateSize(model, bit)) if EVERYTHING & bit else 0
        if size and chosen & bit:
            name = _BITS[bit].removeprefix(_PREFIX).lower()
            places[name] = Place(slice(given, given + size), slice(full, full + size))
            given += size
        full += size
    return places


def _joined(places: list[Place]) -> list[Place]:
    joined: list[Place] = []
    for place in places:
        last = joined[-1] if joined else None
        if last is not None and last.full.stop == place.full.start:
            joined[-1] = Place(slice(last.given.start, place.given.stop), slice(last.full.start, place.full.stop))
        else:
            joined.append(place)
    return joined


def named(model: mujoco.MjModel, part: str, number: int) -> str:
    """Return what a value of a part of a state is called, by its place in that part."""
    if part == "qpos":
        joint = int(np.flatnonzero(model.jnt_qposadr <= number)[-1])
    elif part in ("qvel", "warmstart", "qacc_warmstart"):
        joint = int(model.dof_jntid[number])
    else:
        return part if part == "time" else f"{part}[{number}]"
    return f"{part} of joint {names.name_of(model, 'joint', joint)!r}"


class Mover:
    """Data of its own that are put into states, or stepped.

    Attributes:
        data: The data.

    Args:
        model: The model.
    """

    def __init__(self, model: mujoco.MjModel) -> None:
        self._model = model
        self.data = mujoco.MjData(model)

    def put(self, state: NDArray[np.float64]) -> None:
        """Put the data into a full state, shape ``(size,)``; what follows from a state is not computed."""
        mujoco.mj_setState(self._model, self.data, state, EVERYTHING)

    def command(self, commands: NDArray[np.float64]) -> None:
        """Set the commands, shape ``(nu,)``."""
        self.data.ctrl[:] = commands

    def rest(self, places: NDArray[np.intp], positions: NDArray[np.float64]) -> None:
        """Begin anew at rest, with some of ``qpos`` where they are said to be, and all else as the model has it."""
        mujoco.mj_resetData(self._model, self.data)
        self.data.qpos[places] = positions

    def step(self, steps: int) -> None:
        """Step the physics so many times."""
        mujoco.mj_step(self._model, self.data, nstep=steps)
