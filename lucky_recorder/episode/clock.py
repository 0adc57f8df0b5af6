"""The clock: integer ticks to integer nanoseconds to seconds, without drift.

Time is counted, never read and never summed: tick ``k`` of a stream at ``rate`` Hz is at
``round(k * 1e9 / rate)`` nanoseconds, and seconds are that integer divided by ``1e9``.
"""

from __future__ import annotations

import math
import numbers
import time
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_recorder.errors import SettingsError

NANOSECONDS = 1_000_000_000
MICROSECOND_NS = 1000
# Later than this, in 2255, a few years more would be too many nanoseconds for an int64.
LATEST_NS = 9 * 10**18
_SLOWEST, _FASTEST = Fraction(1, 1_000_000), Fraction(NANOSECONDS)
# A float stands for a fraction: one with a small denominator if such a one is close, else one with a larger
# denominator that differs by no more than the float's rounding.
_SIMPLE, _CLOSE = 1000, 1e-9
_LARGEST_DENOMINATOR, _ROUNDING = 1_000_000, 4e-15
_PLAIN, _FLOAT32, _DIFFERENCE = 100, 2e-7, 1e-11


def rate(value: object, field: str = "data_hz") -> Fraction:
    """Return a rate in Hz as an exact fraction (``200/3`` for ``66.666…``, ``"30000/1001"`` as it is).

    Args:
        value: An int, float, Fraction or a string such as ``"200/3"``.
        field: The setting's name, for the error.

    Raises:
        SettingsError: If the value is no rate from a millionth of a Hz to a GHz: time is counted in nanoseconds.
    """
    try:
        exact = _exact(value)
    except (TypeError, ValueError, ZeroDivisionError):
        raise SettingsError.of(field, value, "give a rate in Hz, such as 50 or '200/3'") from None
    if exact <= 0:
        raise SettingsError.of(field, value, "a rate must be above 0 Hz")
    if not _SLOWEST <= exact <= _FASTEST:
        raise SettingsError.of(field, value, "give a rate from 0.000001 to 1000000000 Hz")
    return exact


def _exact(value: object) -> Fraction:
    if isinstance(value, str):
        return Fraction(value) if "/" in value else _nearest(float(value))
    if isinstance(value, float | np.floating):
        return _nearest(value)
    if isinstance(value, numbers.Rational) and not isinstance(value, bool):
        return Fraction(int(value.numerator), int(value.denominator))
    raise TypeError


def _nearest(value: float | np.floating[Any]) -> Fraction:
    """Find the fraction a float stands for: 66.666… is 200/3, 0.015 is 3/200, and 0.0041666 is what it says."""
    # By its digits: the float itself is a fraction too, whose denominator is a power of two.
    written = Fraction(str(value))
    # A float32 step, as some environments have, is only right to 1e-7.
    close = max(_CLOSE, float(np.finfo(np.asarray(value).dtype).eps))
    for denominator, error in ((_SIMPLE, close), (_LARGEST_DENOMINATOR, _ROUNDING)):
        near = written.limit_denominator(denominator)
        if near and abs(near - written) <= error * abs(written):
            return near
    return written


def rate_of_step(seconds: float, noise: float = 0.0) -> Fraction:
    """Return the rate in Hz of a control step that lasts ``seconds``: the simplest that rounding leaves possible.

    0.015 s is 200/3 Hz, and so is what a sum of time steps makes of it; the float32 next to 0.02 s is 50 Hz.

    Args:
        seconds: As above.
        noise: By which part of it ``seconds`` may be off: a difference of two times is rounded as the times are.

    Raises:
        SettingsError: If that is no time, or none from a nanosecond to a million seconds.
    """
    lasts = seconds if isinstance(seconds, numbers.Real) and not isinstance(seconds, bool) else math.nan
    value = float(lasts)
    if not 1 / _FASTEST <= value <= 1 / _SLOWEST:
        remedy = "the environment reports a step that is no time; set control_hz"
        raise SettingsError.of("control step", seconds, remedy)
    # A float32 is right to 1e-7, and so is a sum of them.
    exact = 1 / Fraction(repr(value))
    for denominator, error in ((_PLAIN, max(_FLOAT32, noise)), (_SIMPLE, _CLOSE)):
        near = exact.limit_denominator(denominator)
        if near and abs(near - exact) <= error * exact:
            return near
    for period in (Fraction(f"{value:.9g}"), Fraction(repr(value)).limit_denominator(_LARGEST_DENOMINATOR)):
        if period and abs(period * exact - 1) <= max(_DIFFERENCE, noise):
            return 1 / period
    return exact


def divider(fast: Fraction, slow: Fraction, field: str, what: str = "the fastest rate here") -> int:
    """Return how many ticks of ``fast`` make one of ``slow``.

    Args:
        fast: The faster rate, Hz.
        slow: The slower one.
        field: The setting that asks for it, for the error.
        what: What the faster rate is, for the error.

    Raises:
        SettingsError: If ``slow`` does not divide ``fast`` evenly; names the nearest rates that do.
    """
    ratio = fast / slow
    if ratio.denominator == 1:
        return int(ratio)
    if ratio < 1:
        raise SettingsError.of(field, show(slow), f"is above {what}; the nearest: {show(fast)} Hz")
    nearest = [fast / math.ceil(ratio), fast / math.floor(ratio)]
    options = " or ".join(dict.fromkeys(show(r) for r in nearest))
    remedy = f"does not divide {what}, {show(fast)} Hz, evenly; nearest that do: {options} Hz"
    raise SettingsError.of(field, show(slow), remedy)


def show(value: Fraction) -> str:
    """Write a rate for people: ``50`` or ``200/3``."""
    return str(value)


def number(value: Fraction) -> int | float:
    """Write a rate for JSON: an int when whole, else the float nearest the exact fraction."""
    return int(value) if value.denominator == 1 else float(value)


def tick_ns(tick: int, hz: Fraction) -> int:
    """Return the time of tick ``tick`` in nanoseconds since the episode began."""
    return round(int(tick) * NANOSECONDS / hz)


def end_ns(began_ns: int, ticks: int, hz: Fraction) -> int:
    """Return when so many ticks are over that began at a moment of whole microseconds, as such a moment again.

    It is rounded up: what follows must not begin before.
    """
    # `-lasted //` rounds down.
    return began_ns - -tick_ns(ticks, hz) // MICROSECOND_NS * MICROSECOND_NS


def ticks_ns(ticks: int, hz: Fraction, first: int = 0) -> NDArray[np.int64]:
    """Return the times of so many ticks from ``first`` on, in nanoseconds, int64, shape ``(ticks,)``."""
    step, end = NANOSECONDS * hz.denominator, first + ticks
    # Half of int64's range, because the rest is doubled below. Beyond it Python's own integers do the same arithmetic.
    fits = step * max(end, 1) < 2**62
    scaled: NDArray[Any] = np.arange(first, end, dtype=np.int64 if fits else object) * step
    whole = scaled // hz.numerator
    rest = 2 * (scaled - whole * hz.numerator)
    # A half goes to the even number, as `round` does: `tick_ns` must give the very same times.
    up = (rest > hz.numerator) | ((rest == hz.numerator) & (whole % 2 == 1))
    times: NDArray[np.int64] = (whole + up).astype(np.int64)
    return times


def ticks_s(ticks: int, hz: Fraction, first: int = 0) -> NDArray[np.float64]:
    """Return the times of so many ticks from ``first`` on, in seconds, float64, shape ``(ticks,)``."""
    return ticks_ns(ticks, hz, first) / NANOSECONDS


def ticks_within(seconds: float, hz: Fraction) -> int:
    """Return how many ticks start before ``seconds`` have passed (at least 1)."""
    return max(1, math.ceil(_exact(seconds) * hz))


def now_ns() -> int:
    """Return the nanoseconds since 1970; 0 where the system's clock says what is no time of a recording.

    Then nothing is known. In 2262 they are more than an int64 holds, and so much is left for what is recorded from then
    on; before 1970 there was no recording.
    """
    return recordable_ns(time.time_ns())


def moment(moment_ns: int) -> str:
    """Write a moment, nanoseconds since 1970, as ISO 8601 in UTC, to the microsecond."""
    seconds, rest = divmod(moment_ns, NANOSECONDS)
    return (
        datetime.fromtimestamp(seconds, UTC)
        .replace(microsecond=rest // MICROSECOND_NS)
        .isoformat(timespec="microseconds")
    )


def moment_ns(text: object) -> int | None:
    """Return the nanoseconds since 1970 of a moment in UTC that is written as ISO 8601; None where it is none."""
    try:
        said = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
    if said is None or said.utcoffset() != timedelta(0):
        return None
    since = said - datetime.fromtimestamp(0, UTC)
    return ((since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds) * MICROSECOND_NS


def recordable_ns(moment_ns: int | None) -> int:
    """Return when a recording began, from what somebody else says; 0, as for one that is not known, where it cannot be.

    Args:
        moment_ns: Nanoseconds since 1970; None where nothing says so.
    """
    return moment_ns if moment_ns is not None and 0 <= moment_ns < LATEST_NS else 0
