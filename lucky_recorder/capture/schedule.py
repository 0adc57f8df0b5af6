"""The rates of a recording, and what is due at each tick.

Every rate divides the rate of the ticks, so each stream is due at every so many ticks, counted in integers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from lucky_recorder.capture.snapshot import Snapshot
from lucky_recorder.episode import clock
from lucky_recorder.errors import SettingsError
from lucky_recorder.settings.recorder import RecorderSettings

Capture = Callable[[], Snapshot]


@dataclass(frozen=True)
class Clocks:
    """The rates of a recording.

    Attributes:
        data: Rows per second.
        control: Steps of the environment per second.
        base: Ticks per second at which something is looked at; every other rate divides it.
        is_settled: Whether the rates are known. Until then all ratios are 1: at tick 0 everything is due, whatever the
            rates, so it can be recorded before they are known.
    """

    data: Fraction
    control: Fraction
    base: Fraction
    is_settled: bool = True

    @property
    def ticks_per_row(self) -> int:
        """Base ticks from one row to the next."""
        return self.every(None)

    @property
    def ticks_per_step(self) -> int:
        """Base ticks in one step of the environment; above 1, its physics is stepped in parts."""
        return int(self.base / self.control)

    def rate_of(self, asked: Fraction | None) -> Fraction:
        """Return the rate of a stream by the rate it was asked for: where there is none, the data rate."""
        return asked or self.data

    def every(self, rate: Fraction | None) -> int:
        """Return the base ticks from one capture of a stream to the next; without a rate, the data rate's."""
        return int(self.base / self.rate_of(rate)) if self.is_settled else 1

    def due(self, ticks: int, rate: Fraction | None) -> int:
        """Return how often a stream is due in the first ``ticks`` base ticks; without a rate, at the data rate."""
        return -(-ticks // self.every(rate))


UNSETTLED = Clocks(Fraction(1), Fraction(1), Fraction(1), is_settled=False)


def clocks(
    settings: RecorderSettings, control: Fraction | None, substeps: int = 1, what: str = "the fastest rate here"
) -> Clocks:
    """Settle the rates.

    Args:
        settings: Their ``data_hz``, ``frame_rate`` and ``rate`` must each divide the fastest tick evenly.
        control: The control rate, if it is known.
        substeps: In how many parts a step of the environment can be taken.
        what: What the fastest of these rates is, for the error.

    Raises:
        SettingsError: If there is no rate, or one does not divide; names the nearest that do.
    """
    data = settings.data_hz or control
    if data is None:
        raise SettingsError.of(
            "data_hz",
            None,
            "nothing here says how long a step is; give the rate of your ticks in Hz, or set control_hz",
        )
    fastest = (control or data) * substeps
    parts = [clock.divider(fastest, rate, field, what) for field, rate in asked_rates(settings, data)]
    # The slowest ticks that every rate divides, so that a step is taken in no more parts than are needed. `substeps` is
    # among the numbers to keep a step a whole number of ticks, also where all rates are below the control rate.
    return Clocks(data, control or data, fastest / math.gcd(substeps, *parts))


def asked_rates(settings: RecorderSettings, data: Fraction) -> Iterator[tuple[str, Fraction]]:
    """Give the name and the rate of all that is asked for at one; ``data`` is that of the rows."""
    yield "data_hz", data
    for camera in settings.recorded_cameras:
        if camera.frame_rate is not None:
            yield f"camera {camera.name!r}: frame_rate", camera.frame_rate
    for lidar in settings.recorded_lidars:
        if lidar.rate is not None:
            yield f"lidar {lidar.name!r}: rate", lidar.rate


class Due(NamedTuple):
    """One recorded camera or lidar.

    Attributes:
        every: Base ticks from one capture to the next; it is due at tick 0.
        capture: Takes its snapshot of the present state.
    """

    every: int
    capture: Capture


class CaptureSchedule(NamedTuple):
    """The recorded cameras and lidars of one simulation, and when each is due."""

    dues: tuple[Due, ...]

    def snapshot(self, tick: int) -> list[Snapshot]:
        """Take a snapshot of everything that is due at a tick."""
        return [due.capture() for due in self.dues if tick % due.every == 0]


def schedule(settings: RecorderSettings, clocks: Clocks, captures: tuple[Capture, ...]) -> CaptureSchedule:
    """Say when each capture is due: those of the recorded cameras, then those of the lidars, in their order."""
    rates = [c.frame_rate for c in settings.recorded_cameras] + [x.rate for x in settings.recorded_lidars]
    pairs = zip(rates, captures, strict=True)
    return CaptureSchedule(tuple(Due(clocks.every(rate), capture) for rate, capture in pairs))
