"""Full states: all that the next step of a simulation depends on, and whether it does depend on nothing else."""

from __future__ import annotations

import time
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from lucky_recorder.capture.mujoco import callbacks
from lucky_recorder.capture.mujoco.saved import model_bytes
from lucky_recorder.capture.mujoco.simulation import Simulation
from lucky_recorder.episode.record import Model

EVERYTHING = int(mujoco.mjtState.mjSTATE_INTEGRATION)
# What a step makes of a state. The rest of it is given to the step: commands, forces, what mocap bodies follow.
_MADE = int(mujoco.mjtState.mjSTATE_FULLPHYSICS) | int(mujoco.mjtState.mjSTATE_WARMSTART)
_SIZES = ("nq", "nv", "na", "nu", "nbody", "nmocap", "neq", "nuserdata", "npluginstate")


class StateReader:
    """Reads the full integration state of a simulation, and its commands.

    Attributes:
        size: Values of a state.
        commands: The commands of the simulation, always up to date, float64, shape ``(nu,)``.
        tried_s: How long it took last to step a state anew, in seconds.

    Args:
        simulation: The user's model and data; they are only ever read.
    """

    def __init__(self, simulation: Simulation) -> None:
        self._model, self._data = simulation.model, simulation.data
        self.size = int(mujoco.mj_stateSize(self._model, EVERYTHING))
        self.commands: NDArray[np.float64] = self._data.ctrl
        self.tried_s = 0.0
        self._tried: mujoco.MjData | None = None
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

    def about(self) -> dict[str, Any]:
        """Return what a state is of, as plain JSON values."""
        sizes = {name: int(getattr(self._model, name)) for name in _SIZES}
        return {
            "mujoco": mujoco.__version__,
            "state": "mjSTATE_INTEGRATION",
            "sizes": {"state": self.size, **sizes},
            "timestep": float(self._model.opt.timestep),
        }

    def follows(self, before: NDArray[np.float64], commands: NDArray[np.float64], after: NDArray[np.float64]) -> bool:
        """Tell whether a state follows from the one before it and the commands, to the bit: it is stepped there anew.

        Where a callback of the user's is installed, which that would call, nothing is stepped, and the answer is True.
        The steps are taken in data of its own.
        """
        model = self._model
        if callbacks.are_installed():
            return True
        began = time.perf_counter()
        if self._tried is None:
            self._tried = mujoco.MjData(model)
        does = next_state(model, self._tried, before, commands, after[0]) == made(model, self._tried, after)
        self.tried_s = time.perf_counter() - began
        return does


def next_state(
    model: mujoco.MjModel,
    data: mujoco.MjData,
    before: NDArray[np.float64],
    commands: NDArray[np.float64],
    until: float,
) -> bytes:
    """Step a state until a time with some commands, and return what the steps have made of it.

    Args:
        model: The model.
        data: Where that is done.
        before: The state.
        commands: The commands, shape ``(nu,)``.
        until: The time, in seconds.
    """
    mujoco.mj_setState(model, data, before, EVERYTHING)
    data.ctrl[:] = commands
    steps = steps_between(float(before[0]), until, float(model.opt.timestep))
    if steps:
        mujoco.mj_step(model, data, nstep=steps)
    return _made(model, data)


def steps_between(first: float, last: float, timestep: float) -> int:
    """Return how many steps of the physics lie between two times, in seconds; 0 where it is none."""
    count = (last - first) / timestep if timestep > 0 else 0.0
    # Beyond that it is no tick of a simulation, but two times of nothing. Nobody could interrupt as many.
    return round(count) if 0 < count < 1e6 else 0


def made(model: mujoco.MjModel, data: mujoco.MjData, state: NDArray[np.float64]) -> bytes:
    """Return what a step makes of a state, of a whole one."""
    mujoco.mj_setState(model, data, state, EVERYTHING)
    return _made(model, data)


def _made(model: mujoco.MjModel, data: mujoco.MjData) -> bytes:
    values = np.empty(mujoco.mj_stateSize(model, _MADE))
    mujoco.mj_getState(model, data, values, _MADE)
    return values.tobytes()
