"""Full states: all that the next step of a simulation depends on, and whether it does depend on nothing else."""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from lucky_recorder.capture.mujoco import callbacks
from lucky_recorder.capture.mujoco.plugins import plugins_of
from lucky_recorder.capture.mujoco.saved import model_bytes
from lucky_recorder.capture.mujoco.simulation import Simulation
from lucky_recorder.episode.record import Model

EVERYTHING = int(mujoco.mjtState.mjSTATE_INTEGRATION)
# What a step makes of a state. The rest of it is given to the step: commands, forces, what mocap bodies follow.
_MADE = int(mujoco.mjtState.mjSTATE_FULLPHYSICS) | int(mujoco.mjtState.mjSTATE_WARMSTART)
_SIZES = ("nq", "nv", "na", "nu", "nbody", "nmocap", "neq", "nuserdata", "npluginstate")
# What a state is put together of, in its order. Versions have more or fewer parts, so none is named here, but where
# MuJoCo has another word for it in its data.
_WORDS = {"WARMSTART": "qacc_warmstart", "PLUGIN": "plugin_state"}
_PARTS = {
    _WORDS.get(name.removeprefix("mjSTATE_"), name.removeprefix("mjSTATE_").lower()): int(bit)
    for name, bit in sorted(mujoco.mjtState.__members__.items(), key=lambda one: int(one[1]))
    if name.startswith("mjSTATE_") and int(bit) & EVERYTHING and int(bit).bit_count() == 1
}
# With these, MuJoCo keeps something from step to step that is part of no state. Earlier versions have not all of them.
_REMEMBERING = {"mjENBL_SLEEP": "flag sleep", "mjENBL_IPC": "flag ipc"}
# More than these are no tick of a simulation, but two times of nothing.
MOST_STEPS = 100_000
# Between so many of them an interrupt is heard.
_AT_ONCE = 100


def parts(model: mujoco.MjModel) -> dict[str, slice]:
    """Return where the parts of a state are, by MuJoCo's names in `MjData`; in their order, and none is left out."""
    found, first = {}, 0
    for name, bit in _PARTS.items():
        stop = first + int(mujoco.mj_stateSize(model, bit))
        found[name], first = slice(first, stop), stop
    return found


class Stepper:
    """Steps states of a model anew, each in data that know nothing of what came before.

    Attributes:
        made: Which values of a state a step makes, bool, shape ``(n,)``.

    Args:
        model: The model.
    """

    def __init__(self, model: mujoco.MjModel) -> None:
        self._model = model
        self._data = mujoco.MjData(model)
        self.made = np.zeros(mujoco.mj_stateSize(model, EVERYTHING), bool)
        for name, place in parts(model).items():
            self.made[place] = bool(_PARTS[name] & _MADE)

    def step(
        self, before: NDArray[np.float64], commands: NDArray[np.float64], until: float
    ) -> NDArray[np.float64] | None:
        """Step a state until a time with some commands, and return the state that comes of it.

        Args:
            before: The state.
            commands: The commands, shape ``(nu,)``.
            until: The time, in seconds.

        Returns:
            The state; None, and nothing is stepped, where that were more than `MOST_STEPS` steps.
        """
        model = self._model
        left = steps_between(float(before[0]), until, float(model.opt.timestep))
        if left > MOST_STEPS:
            return None
        if model.nplugin:
            # What a plugin has allocated for itself is not reset with the data.
            self._data = mujoco.MjData(model)
        else:
            mujoco.mj_resetData(model, self._data)
        data = self._data
        mujoco.mj_setState(model, data, before, EVERYTHING)
        data.ctrl[:] = commands
        while left > 0:
            mujoco.mj_step(model, data, nstep=min(left, _AT_ONCE))
            left -= _AT_ONCE
        after = np.empty(len(self.made))
        mujoco.mj_getState(model, data, after, EVERYTHING)
        return after


def steps_between(first: float, last: float, timestep: float) -> int:
    """Return how many steps of the physics lie between two times, in seconds; 0 where it is none."""
    count = (last - first) / timestep if timestep > 0 else 0.0
    # As a number that can be rounded: what is no number is none of it.
    return round(min(count, 10.0 * MOST_STEPS)) if count > 0 else 0


class StateReader:
    """Reads the full integration state of a simulation, and its commands.

    Attributes:
        size: Values of a state.
        commands: The commands of the simulation, always up to date, float64, shape ``(nu,)``.

    Args:
        simulation: The user's model and data; they are only ever read.
    """

    def __init__(self, simulation: Simulation) -> None:
        self._model, self._data = simulation.model, simulation.data
        self.size = int(mujoco.mj_stateSize(self._model, EVERYTHING))
        self.commands: NDArray[np.float64] = self._data.ctrl
        self._stepper: Stepper | None = None
        self._known: Model | None = None

    def read(self, state: NDArray[np.float64]) -> None:
        """Copy the present state into an array of shape ``(size,)``; its first value is the time, in seconds."""
        mujoco.mj_getState(self._model, self._data, state, EVERYTHING)

    def model(self) -> Model:
        """Return the model as it is now, as an MJB file: the same object as long as nothing of it has changed."""
        content = model_bytes(self._model)
        if self._known is None or self._known.content != content:
            self._known = Model(content)
        return self._known

    def callbacks(self) -> tuple[str, ...]:
        """Return the names of the user's callbacks that are installed."""
        return callbacks.installed()

    def memory(self) -> tuple[str, ...]:
        """Return what the simulation may remember from step to step that is part of no state."""
        flags, plugins = int(self._model.opt.enableflags), plugins_of(self._model)
        kept = [said for bit, said in _REMEMBERING.items() if flags & int(getattr(mujoco.mjtEnableBit, bit, 0))]
        return (*kept, *(f"plugin {name or 'whose name is not known'}" for name in dict.fromkeys(plugins)))

    def about(self) -> dict[str, Any]:
        """Return what a state is of, as plain JSON values."""
        sizes = {name: int(getattr(self._model, name)) for name in _SIZES}
        return {
            "mujoco": mujoco.__version__,
            "state": "mjSTATE_INTEGRATION",
            "sizes": {"state": self.size, **sizes},
            "parts": {name: place.stop - place.start for name, place in parts(self._model).items()},
            "timestep": float(self._model.opt.timestep),
            "plugins": list(plugins_of(self._model)),
        }

    def follows(
        self, before: NDArray[np.float64], commands: NDArray[np.float64], after: NDArray[np.float64]
    ) -> bool | None:
        """Tell whether a state follows from the one before it and the commands, to the bit: it is stepped there anew.

        Where a callback of the user's is installed, which that would call, nothing is stepped, and the answer is None.
        The steps are taken in data of its own, which know nothing of the ticks before.
        """
        if callbacks.are_installed():
            return None
        stepper = self._stepper = self._stepper or Stepper(self._model)
        stepped = stepper.step(before, commands, float(after[0]))
        return None if stepped is None else stepped[stepper.made].tobytes() == after[stepper.made].tobytes()
