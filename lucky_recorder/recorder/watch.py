"""Watching a simulation for what a recording must not pass over: time that runs backwards, a state that reset itself.

Nothing here is written down. What is found ends the take, or warns.
"""

from __future__ import annotations

import math
import warnings
from fractions import Fraction

import numpy as np

from lucky_recorder.capture.source import Source
from lucky_recorder.episode import clock
from lucky_recorder.errors import CaptureError

_CLOCK_TOLERANCE = 0.01


class Watch:
    """Compares the simulation with itself from tick to tick.

    Args:
        source: The simulation.
    """

    def __init__(self, source: Source) -> None:
        self._last_time = -math.inf
        self._first_time = 0.0
        self.attach(source)

    def attach(self, source: Source) -> None:
        """Watch what a source is bound to now."""
        self._time = source.time
        self._instabilities = source.instabilities
        self._note_instabilities()

    def before_step(self, tick: int) -> None:
        """Note the time before a step.

        Raises:
            CaptureError: If it has run backwards.
        """
        if self._time is None:
            return
        now = self._time.time
        if now < self._last_time:
            raise CaptureError(
                f"simulation time ran backwards, from {self._last_time:g} s to {now:g} s, at tick {tick} of the "
                "episode: the simulation was reset, or became unstable (NaN) and reset itself; call mark_reset() after "
                "a reset you mean"
            )
        self._last_time = now

    def after_step(self, tick: int) -> None:
        """See whether the simulation has reset itself in a step, which its time alone does not always show.

        Raises:
            CaptureError: If it has become unstable.
        """
        counts = self._instabilities
        if counts is None or counts.tobytes() == self._known_instabilities:
            return
        known = np.frombuffer(self._known_instabilities, counts.dtype)
        self._note_instabilities()
        # MuJoCo counts up when it resets itself. Counts that fell are a reset that somebody meant.
        if (counts > known).any():
            raise CaptureError(
                "the simulation became unstable (NaN, infinity or a huge value) and reset itself at tick "
                f"{tick} of the episode; lower the time step or the commands, or call mark_reset() if you mean it"
            )

    def elapsed(self) -> float:
        """Return how long the step that was just taken has lasted, in seconds of the simulation's own time."""
        return float(self._time.time - self._last_time) if self._time is not None else 0.0

    def forgive_reset(self) -> None:
        """Let time run backwards before the next tick: somebody has reset the simulation and said so."""
        self._last_time = -math.inf
        self._note_instabilities()

    def compare_clock(self, ticks: int, base: Fraction) -> None:
        """Compare the first two ticks with the rate, so that no time is mislabelled without a word."""
        if self._time is None:
            return
        if ticks == 1:
            self._first_time = self._last_time
            return
        step, expected = self._last_time - self._first_time, float(1 / base)
        if self._last_time > self._first_time >= 0 and abs(step - expected) > _CLOCK_TOLERANCE * expected:
            warnings.warn(
                f"two ticks lie {step:g} s of simulated time apart, but the rate {clock.show(base)} Hz says "
                f"{expected:g} s: timestamps will not be the simulation's; set data_hz",
                RuntimeWarning,
                stacklevel=5,
            )

    def _note_instabilities(self) -> None:
        self._known_instabilities = b"" if self._instabilities is None else self._instabilities.tobytes()
