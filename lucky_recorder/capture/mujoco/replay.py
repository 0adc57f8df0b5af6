"""Stepping recorded states anew, and saying where what comes of it is another state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import mujoco
import numpy as np
from numpy.typing import NDArray

from lucky_recorder.capture.mujoco.given import named
from lucky_recorder.capture.mujoco.saved import model_of, unreadable
from lucky_recorder.capture.mujoco.states import MOST_STEPS, Stepper, parts
from lucky_recorder.errors import FormatError


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
        self._model = model_of(content, version, plugins)
        try:
            self._stepper = Stepper(self._model)
        except (ValueError, mujoco.FatalError) as error:
            raise unreadable(version, error) from error
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
        part, place = next((part, place) for part, place in self._parts.items() if place.start <= value < place.stop)
        return named(self._model, part, value - place.start)
