"""Stepping recorded states anew, and saying where what comes of it is another state."""

from __future__ import annotations

from typing import NamedTuple

import mujoco
import numpy as np
from numpy.typing import NDArray

from lucky_recorder.capture.mujoco.given import named
from lucky_recorder.capture.mujoco.saved import model_of
from lucky_recorder.capture.mujoco.states import EVERYTHING, made, next_state

# The parts of a state that a step makes, by MuJoCo's names; the earlier versions have not all of them.
_PARTS = {
    "time": "TIME",
    "qpos": "QPOS",
    "qvel": "QVEL",
    "act": "ACT",
    "history": "HISTORY",
    "qacc_warmstart": "WARMSTART",
    "plugin_state": "PLUGIN",
}


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

    Raises:
        FormatError: If MuJoCo does not read it.
    """

    def __init__(self, content: bytes, version: str) -> None:
        self._model = model_of(content, version)
        self._data = mujoco.MjData(self._model)
        self.sizes = (int(mujoco.mj_stateSize(self._model, EVERYTHING)), int(self._data.ctrl.size))

    def step(
        self, before: NDArray[np.float64], commands: NDArray[np.float64], after: NDArray[np.float64]
    ) -> Unlike | None:
        """Step a state with its commands until the time of the next, and compare; None where they are the same."""
        model, data = self._model, self._data
        if next_state(model, data, before, commands, float(after[0])) == made(model, data, after):
            return None
        # Once more, since the comparison has put the recorded state in the place of what was stepped.
        next_state(model, data, before, commands, float(after[0]))
        stepped = {part: self._part(part) for part in _PARTS}
        mujoco.mj_setState(model, data, after, EVERYTHING)
        for part, replayed in stepped.items():
            recorded = self._part(part)
            for k in range(len(replayed)):
                if replayed[k : k + 1].tobytes() != recorded[k : k + 1].tobytes():
                    return Unlike(named(model, part, k), float(recorded[k]), float(replayed[k]))
        raise AssertionError

    def _part(self, part: str) -> NDArray[np.float64]:
        what = getattr(mujoco.mjtState, f"mjSTATE_{_PARTS[part]}", None)
        values = np.empty(0 if what is None else mujoco.mj_stateSize(self._model, int(what)))
        if what is not None:
            mujoco.mj_getState(self._model, self._data, values, int(what))
        return values
