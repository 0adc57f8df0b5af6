"""The pulse of a MuJoCo simulation: MuJoCo counts its physics steps, from 0 whenever the data is reset."""

from __future__ import annotations

from functools import partial

import mujoco

from lucky_recorder.capture.pulse import Pulse


def pulse_of(data: mujoco.MjData) -> Pulse:
    """Return where a simulation's time and its count of physics steps are read."""
    # An array that always shows the present counts. One call reads a number of it as Python's own.
    counts = data.timer.number
    return Pulse(data, partial(counts.item, int(mujoco.mjtTimer.mjTIMER_STEP)))
