"""A trajectory: an episode that somebody else has simulated, checked before anything of it is recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lucky_recorder.episode import clock
from lucky_recorder.episode.parts import parts
from lucky_recorder.errors import SettingsError
from lucky_recorder.recorder.watch import evenness

if TYPE_CHECKING:
    from lucky_recorder.capture.door import simulator

_PART_BYTES = 2 << 20
# So many ticks show how long they are.
_SAMPLE = 100_000
_TIME = "time"
_ALLOW = "uneven_steps='allow' records them all the same, with the time stamps of even ones"

Floats = NDArray[np.float64]


class Piece(NamedTuple):
    """Some ticks of a trajectory.

    Attributes:
        states: The state before each, as many values of it as were asked for, shape ``(ticks, width)``.
        commands: The commands during each, shape ``(ticks, nu)``.
        after: The same of the state after the last of them, shape ``(width,)``; None where it is not known.
    """

    states: Floats
    commands: Floats
    after: Floats | None


class Column(NamedTuple):
    """What is given of a part of the states.

    Attributes:
        values: Shape ``(ticks, n)``; there may be one more than there are ticks.
        given: Which of the ``n`` values.
        full: Where they stand in a full state.
        field: What it is called, for errors.
    """

    values: NDArray[Any]
    given: slice
    full: slice
    field: str


class Trajectory:
    """One episode, tick by tick.

    Attributes:
        ticks: How many ticks.
        resets: The ticks before which the simulation was reset.
        ran: Whether a policy has run for each, bool, shape ``(ticks,)``.
        knows_end: Whether the state after the last tick is known.

    Args:
        layout: Where the parts of a state stand.
        columns: What is given of the states.
        commands: What is given of the commands, shape ``(ticks, nu)``; None where there are none.
        ticks: As above.
        resets: As above.
        ran: As above.
    """

    def __init__(
        self,
        layout: simulator.StateLayout,
        columns: Sequence[Column],
        commands: NDArray[Any] | None,
        ticks: int,
        resets: Sequence[int],
        ran: NDArray[np.bool_],
    ) -> None:
        self.ticks = ticks
        self.resets = tuple(resets)
        self.ran = ran
        self._layout = layout
        self._columns = columns
        self._commands = commands
        self._times: Callable[[int, int], Floats] | None = None
        given = min(len(column.values) for column in columns)
        # Whoever keeps states writes NaN for one that nobody knows.
        self.knows_end = given > ticks and not all(_is_gap(column, ticks) for column in columns)

    # Its values.

    def pieces(self, most: int, width: int) -> Iterator[Piece]:
        """Go through its ticks, at most so many at a time; before a reset, a piece ends.

        Args:
            most: How many ticks.
            width: How many of the values of a full state, from the first on.
        """
        starts = sorted({0, *self.resets})
        for first, stop in zip(starts, [*starts[1:], self.ticks], strict=True):
            for begin in range(first, stop, most):
                end = min(begin + most, stop)
                is_known = end < stop or (stop == self.ticks and self.knows_end)
                states = self.states(begin, end + is_known, width)
                yield Piece(states[: end - begin], self.commands(begin, end), states[-1] if is_known else None)

    def states(self, first: int, stop: int, width: int) -> Floats:
        """Return so many values of the full states before some ticks, shape ``(ticks, width)``."""
        one = self._columns[0]
        if one.full.start == 0 and one.full.stop >= width and self._times is None:
            return np.ascontiguousarray(one.values[first:stop, one.given][:, :width], np.float64)
        states = np.tile(self._layout.fresh[:width], (stop - first, 1))
        if (place := self._layout.parts.get("ctrl")) is not None and place.stop <= width:
            # What is in a simulation before a tick is the command of the one before.
            before = self.commands(max(0, first - 1), stop - 1)
            states[len(states) - len(before) :, place] = before
        for column in self._columns:
            room = states[:, column.full]
            room[:] = column.values[first:stop, column.given][:, : room.shape[1]]
        if self._times is not None:
            states[:, self._layout.parts[_TIME]] = self._times(first, stop)[:, None]
        return states

    def commands(self, first: int, stop: int) -> Floats:
        """Return the commands of some ticks, shape ``(ticks, nu)``."""
        if self._commands is None:
            return np.zeros((stop - first, self._layout.model.nu))
        return np.ascontiguousarray(self._commands[first:stop], np.float64)

    @property
    def times(self) -> NDArray[Any] | None:
        """The simulation's time before each tick, and after the last if that is known; None where nobody says it."""
        place = self._layout.parts[_TIME].start
        for column in self._columns:
            if column.full.start <= place < column.full.stop:
                count = self.ticks + self.knows_end
                values: NDArray[Any] = column.values[:count, column.given.start + place - column.full.start]
                return values
        return None

    # Its checks.

    def require_finite(self, ctrl: str) -> None:
        """Refuse values that are none.

        Args:
            ctrl: What the commands are called.

        Raises:
            SettingsError: If one is NaN or infinite: names it, and its tick.
        """
        for column in self._columns:
            found = _first_infinite(column.values[: self.ticks + self.knows_end, column.given])
            if found is not None:
                tick, number, value = found
                what = self._layout.named(column.full.start + number)
                raise SettingsError(
                    f"{column.field}: {what} is {value} at tick {tick}; leave the episode out, or mend it"
                )
        found = None if self._commands is None else _first_infinite(self._commands)
        if found is not None:
            tick, number, value = found
            raise SettingsError(
                f"{ctrl}: command {number} is {value} at tick {tick}; leave the episode out, or mend it"
            )

    def settle_times(self, hz: Fraction, allows_uneven: bool) -> int:
        """Compare its times with the rate of its ticks; where nobody says them, or not exactly, count them.

        Args:
            hz: Ticks a second.
            allows_uneven: Whether ticks may last another time.

        Returns:
            How many do.

        Raises:
            SettingsError: If time runs backwards, or ticks last another time and may not.
        """
        times, period = self.times, float(1 / hz)
        if times is None:
            self._times = lambda first, stop: clock.ticks_s(stop - first, hz, first)
            return 0
        field = next(c.field for c in self._columns if c.full.start == self._layout.parts[_TIME].start)
        around = max(evenness(period), 4 * _rounding(times))
        has_moved, uneven, first = False, 0, (0, 0.0)
        for begin, gaps in _gaps(times, self.resets):
            if (back := np.flatnonzero(gaps < 0)).size:
                tick = begin + int(back[0]) + 1
                raise SettingsError(
                    f"{field}: time runs backwards, from {times[tick - 1]:g} s to {times[tick]:g} s, at tick {tick}; "
                    "begin another episode there, or say resets=[...], the ticks before which the simulation was reset"
                )
            has_moved |= bool((gaps > 0).any())
            off = np.flatnonzero(np.abs(gaps - period) > around)
            if off.size and not uneven:
                first = begin + int(off[0]), float(gaps[off[0]])
            uneven += int(off.size)
        if not has_moved:
            return 0
        if uneven and not allows_uneven:
            raise SettingsError(
                f"{field}: tick {first[0]} lasts {first[1]:g} s, and not {period:g} s ({clock.show(hz)} Hz): its time "
                f"stamps would be wrong; give states at even times, or the control_hz that they have; {_ALLOW}"
            )
        if _is_single(times) and not uneven:
            self._count_times(times, period)
        return uneven

    def _count_times(self, times: NDArray[Any], period: float) -> None:
        """Count times anew that are rounded more than those of a simulation."""
        starts = np.array(sorted({0, *self.resets}))
        begun = np.asarray(times[starts], np.float64)

        def counted(first: int, stop: int) -> Floats:
            ticks = np.arange(first, stop)
            # The state after the last tick follows from it, and begins nothing.
            own = np.searchsorted(starts, np.minimum(ticks, self.ticks - 1), "right") - 1
            seconds: Floats = begun[own] + (ticks - starts[own]) * period
            return seconds

        self._times = counted


def _is_gap(column: Column, tick: int) -> bool:
    values = column.values[tick, column.given]
    return values.dtype.kind == "f" and bool(np.isnan(values).all())


def _first_infinite(values: NDArray[Any]) -> tuple[int, int, float] | None:
    """Return the place of the first value that is not finite, and the value."""
    if values.dtype.kind != "f":
        return None
    for part in parts(len(values), values[:1].nbytes, _PART_BYTES):
        if not np.isfinite(values[part]).all():
            tick, number = map(int, np.argwhere(~np.isfinite(values[part]))[0])
            return part.start + tick, number, float(values[part][tick, number])
    return None


def _gaps(times: NDArray[Any], resets: Sequence[int]) -> Iterator[tuple[int, Floats]]:
    """Go through how long ticks last, some at a time: the first of these, and seconds; NaN before a reset."""
    for part in parts(len(times) - 1, 8, _PART_BYTES):
        gaps = np.diff(np.asarray(times[part.start : part.stop + 1], np.float64))
        gaps[[tick - 1 - part.start for tick in resets if part.start < tick <= part.stop]] = np.nan
        yield part.start, gaps


def seconds_of_tick(times: NDArray[Any] | None) -> tuple[float, float]:
    """Return how long a tick lasts, by the times of ticks, and by which part of it that may be off.

    Where they say nothing, both are 0.

    Args:
        times: Shape ``(ticks,)``, seconds; None where there are none.
    """
    if times is None or len(times) < 2:
        return 0.0, 0.0
    some = times[:_SAMPLE]
    exact = np.asarray(some, np.float64)
    gaps = np.diff(exact)
    if not (gaps > 0).any():
        return 0.0, 0.0
    if not _is_single(some):
        lasts = float(np.median(gaps[gaps > 0]))
        return lasts, 2 * _rounding(some) / lasts
    # Each of them is rounded by much, and all together by no more.
    stop = int(np.flatnonzero(gaps <= 0)[0]) + 1 if (gaps <= 0).any() else len(exact)
    lasted = float(exact[stop - 1] - exact[0])
    return (lasted / (stop - 1), 2 * _rounding(some) / lasted) if stop > 1 else (0.0, 0.0)


def _is_single(times: NDArray[Any]) -> bool:
    """Tell whether times are rounded as float32 are: also float64 that somebody has made of these."""
    if times.dtype.kind != "f" or times.dtype.itemsize < 8:
        return times.dtype.kind == "f"
    every = parts(len(times), 8, _PART_BYTES)
    return all(bool((times[part] == times[part].astype(np.float32)).all()) for part in every)


def _rounding(times: NDArray[Any]) -> float:
    """Return by how much times are rounded, in seconds."""
    largest = max(abs(float(times.max())), abs(float(times.min())))
    is_half = times.dtype.kind == "f" and times.dtype.itemsize < 4
    kind = times.dtype if is_half else np.float32 if _is_single(times) else np.float64
    return float(np.spacing(np.asarray(largest, kind)))
