"""A simulation brought back from a model's file and recorded states, to be looked at as if it were running."""

from __future__ import annotations

from collections.abc import Sequence

import mujoco
import numpy as np
from numpy.typing import NDArray

from lucky_recorder.capture.mujoco.saved import model_of
from lucky_recorder.capture.mujoco.states import EVERYTHING


class Restored:
    """A model and data that show whatever state they are given; nothing is stepped.

    Attributes:
        model: The model.
        data: Its data: what is given to a step, time, positions, velocities, and nothing that follows from them.
        size: Values of a state.

    Args:
        content: The model, the bytes of an MJB file.
        version: The version of MuJoCo that wrote it.
        plugins: The names of its plugins, as they were when it was written; None where one is not known.

    Raises:
        FormatError: If MuJoCo does not read it, or its plugins are not registered here at the places where they were.
    """

    def __init__(self, content: bytes, version: str, plugins: Sequence[str | None] = ()) -> None:
        self.model = model_of(content, version, plugins)
        self.data = mujoco.MjData(self.model)
        self.size = int(mujoco.mj_stateSize(self.model, EVERYTHING))

    def show(self, state: NDArray[np.float64]) -> None:
        """Take a state, float64, shape ``(size,)``."""
        mujoco.mj_setState(self.model, self.data, state, EVERYTHING)
