"""Which part of an episode is taken, and which frames and scans go with it."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple


class Window(NamedTuple):
    """Which of an episode's ticks are taken.

    Attributes:
        first: The first tick.
        stop: The tick after the last.
        ticks: How many the episode has.
    """

    first: int
    stop: int
    ticks: int

    @property
    def is_whole(self) -> bool:
        """Whether it is all of them."""
        return self.first == 0 and self.stop == self.ticks

    def frames(self, rate: Fraction, hz: Fraction, there: int) -> range | None:
        """Return the frames, or scans, of a stream; None where none is at the first tick.

        Args:
            rate: Of the stream, per second.
            hz: Ticks per second.
            there: How many the episode has.
        """
        first = self.first * rate / hz
        if first.denominator != 1:
            return None
        # Of a stream that is faster than the rows, some may follow the last row.
        stop = there if self.stop == self.ticks else min(there, math.ceil(self.stop * rate / hz))
        return range(int(first), stop)
