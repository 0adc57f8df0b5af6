"""Windows over time: which ticks and which frames lie some seconds before or after a tick, exactly."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lucky_recorder.errors import SettingsError

# As far as seconds may be from a tick, in seconds: LeRobot's tolerance.
_TOLERANCE_S = Fraction(1, 10_000)
_MOST, _LONGEST_S = 100_000, 1e6
_FIELD = "delta_seconds"


class Places(NamedTuple):
    """Where the values of a window are, and which of them lie outside of the episode.

    Attributes:
        indices: Ticks or frames, int64, shape ``(n,)``; outside of the episode the nearest that is in it.
        is_pad: True outside of the episode, bool, shape ``(n,)``.
    """

    indices: NDArray[np.int64]
    is_pad: NDArray[np.bool_]


class Window:
    """The ticks of a rate that lie some seconds from a data tick.

    Times are whole counts of a unit that both rates share: nothing is rounded. Between two frames the earlier one is
    what was to be seen.

    Args:
        key: What it is a window of, for the error.
        seconds: Seconds from the tick at hand, negative for what was before.
        hz: The rate of the data ticks.
        rate: The rate of what is looked up: a camera's, or the data's own.

    Raises:
        SettingsError: If there are none, or too many, or one does not fall on a tick of either rate.
    """

    def __init__(self, key: str, seconds: Sequence[float], hz: Fraction, rate: Fraction) -> None:
        # A data tick is so many units, and what is looked up so many.
        self._tick, self._step = (rate / hz).numerator, (rate / hz).denominator
        exact = [_on_a_tick(key, one, hz, rate) for one in _listed(key, seconds)]
        self._offsets = np.array([int(one * rate * self._step) for one in exact], np.int64)

    def at(self, tick: int, ticks: int) -> Places:
        """Return the places of the window at a data tick, of an episode of so many."""
        units, last = tick * self._tick + self._offsets, (ticks - 1) * self._tick
        return Places(np.clip(units, 0, last) // self._step, (units < 0) | (units > last))

    def most(self, ticks: int) -> int:
        """Return how many frames an episode of so many data ticks has to have."""
        return (ticks - 1) * self._tick // self._step + 1


def _listed(key: str, seconds: object) -> list[Any]:
    try:
        listed = [] if isinstance(seconds, str | bytes) else [*seconds]  # type: ignore[misc]  # what is none is refused
    except TypeError:
        listed = []
    if not 0 < len(listed) <= _MOST:
        raise SettingsError.of(_FIELD, {key: seconds}, f"give 1 to {_MOST} numbers of seconds")
    return listed


def _on_a_tick(key: str, seconds: float, hz: Fraction, rate: Fraction) -> Fraction:
    is_number = isinstance(seconds, int | float | np.integer | np.floating) and abs(seconds) < _LONGEST_S
    for one in (hz, rate) if is_number else ():
        nearest = round(Fraction(float(seconds)) * one) / one
        if abs(nearest - Fraction(float(seconds))) <= _TOLERANCE_S:
            return nearest
    rates = f"1/{hz}" if hz == rate else f"1/{hz} or 1/{rate}"
    raise SettingsError.of(_FIELD, {key: seconds}, f"give multiples of {rates} s")
