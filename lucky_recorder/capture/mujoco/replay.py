"""Stepping recorded states anew, and saying where what comes of it is another state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import mujoco
import numpy as np
from numpy.typing import NDArray

from lucky_recorder.capture.mujoco import names
from lucky_recorder.capture.mujoco.plugins import plugins_of
from lucky_recorder.capture.mujoco.states import MOST_STEPS, Stepper, parts
from lucky_recorder.errors import FormatError

_MODEL = "model.mjb"


class Unlike(NamedTuple):
    """The first value of a state that is another when it is stepped anew.

    Attributes:
        what: Which value, such as ``qpos of joint 'elbow'``.
        recorded: What is recorded.
        replayed: What has come of the step.
    """

    what: str
    recorded: float
    replayed: float


class Replay:
    """Steps the states of an episode anew, one after the other.

    Args:
        content: The model, the bytes of an MJB file.
        version: The version of MuJoCo that wrote it.
        plugins: The names of its plugins, as they were when it was written; None where one is not known.

    Raises:
        FormatError: If MuJoCo does not read it, or its plugins are not registered here at the places where they were.
    """

    def __init__(self, content: bytes, version: str, plugins: Sequence[str | None] = ()) -> None:
        try:
            self._model = mujoco.MjModel.from_binary_path(_MODEL, {_MODEL: content})
            # Before there are data: of what is registered in a plugin's place, MuJoCo would run the code.
            _require_plugins(self._model, plugins)
            self._stepper = Stepper(self._model)
        except (ValueError, mujoco.FatalError) as error:
            remedy = f"install mujoco=={version}, which reads it"
            if version == mujoco.__version__:
                remedy = "that is the version that wrote it, so the model is broken"
            raise FormatError(
                f"the model of MuJoCo {version} cannot be read by {mujoco.__version__} ({error}); {remedy}"
            ) from error
        self._parts = parts(self._model)
        self.sizes = len(self._stepper.made), int(self._model.nu)

    def step(
        self, before: NDArray[np.float64], commands: NDArray[np.float64], after: NDArray[np.float64]
    ) -> Unlike | None:
        """Step a state with its commands until the time of the next, and compare; None where they are the same.

        Raises:
            FormatError: If no simulation steps for so long.
        """
        stepped = self._stepper.step(before, commands, float(after[0]))
        if stepped is None:
            raise FormatError(f"it leads from {before[0]:g} s to {after[0]:g} s, more than {MOST_STEPS} steps")
        made = self._stepper.made
        if stepped[made].tobytes() == after[made].tobytes():
            return None
        # As numbers of 64 bits: what is no number differs from itself, and 0 is the same as -0.
        [k, *_] = np.flatnonzero(made & (stepped.view(np.int64) != after.view(np.int64)))
        return Unlike(self._named(int(k)), float(after[k]), float(stepped[k]))

    def _named(self, value: int) -> str:
        """Return the name of a value of a state, by its place."""
        model = self._model
        part, place = next((part, place) for part, place in self._parts.items() if place.start <= value < place.stop)
        number = value - place.start
        if part == "qpos":
            joint = int(np.flatnonzero(model.jnt_qposadr <= number)[-1])
        elif part in ("qvel", "qacc_warmstart"):
            joint = int(model.dof_jntid[number])
        else:
            return part if part == "time" else f"{part}[{number}]"
        return f"{part} of joint {names.name_of(model, 'joint', joint)!r}"


def _require_plugins(model: mujoco.MjModel, said: Sequence[str | None]) -> None:
    """Refuse a model whose plugins are others here, or not known.

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
