"""When ticks are due, worked out another way than the writer does."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from lucky_recorder.session.checks.vectors import Array

# Repeated on purpose: a check that used the writer's constants would not find a wrong one.
_NANOSECONDS = 10**9
# Products that int64 still holds, and whole numbers that float64 still tells apart.
_LARGEST_PRODUCT, _LARGEST_EXACT = 1 << 62, 1 << 53


def tick_times(first: int, ticks: int, hz: Fraction) -> Array:
    """Return the seconds of ticks ``first..first+ticks-1``: whole nanoseconds, nearest to the exact time, over ``1e9``.

    Halves go to the even one.
    """
    step = Fraction(_NANOSECONDS) / hz
    end = first + ticks
    if 2 * end * step.numerator >= _LARGEST_PRODUCT or end * step >= _LARGEST_EXACT:
        return np.array([round(k * step) / _NANOSECONDS for k in range(first, end)], np.float64)
    whole, rest = np.divmod(np.arange(first, end, dtype=np.int64) * step.numerator, step.denominator)
    is_above = (2 * rest > step.denominator) | ((2 * rest == step.denominator) & (whole % 2 == 1))
    return np.asarray((whole + is_above) / _NANOSECONDS, np.float64)
