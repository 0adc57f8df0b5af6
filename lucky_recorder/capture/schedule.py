"""The rates of a recording: every one is a whole number of the fastest tick there is."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from lucky_recorder.episode import clock
from lucky_recorder.errors import SettingsError
from lucky_recorder.settings.recorder import RecorderSettings


@dataclass(frozen=True)
class Clocks:
    """The rates of a recording.

    Attributes:
        data: Rows per second.
        control: Steps of the environment per second.
        base: Ticks per second at which something is looked at; every other rate divides it.
    """

    data: Fraction
    control: Fraction
    base: Fraction

    @property
    def ticks_per_row(self) -> int:
        """Base ticks from one row to the next."""
        return int(self.base / self.data)

    @property
    def ticks_per_step(self) -> int:
        """Base ticks in one step of the environment; above 1, its physics is stepped in parts."""
        return int(self.base / self.control)

    def every(self, rate: Fraction | None) -> int:
        """Return the base ticks from one look of a stream to the next; without a rate, the data rate's."""
        return int(self.base / (rate or self.data))


def clocks(settings: RecorderSettings, control: Fraction | None, substeps: int = 1) -> Clocks:
    """Settle the rates.

    Args:
        settings: Their ``data_hz``, ``frame_rate`` and ``rate`` must each divide the fastest tick evenly.
        control: The control rate, if the environment has said it.
        substeps: In how many parts a step of the environment can be taken.

    Raises:
        SettingsError: If there is no rate, or one does not divide; names the nearest that do.
    """
    if settings.data_hz is None and control is None:
        raise SettingsError.of(
            "data_hz", None, "nothing here says how long a step is; give the rate of your ticks in Hz"
        )
    data = settings.data_hz or control
    assert data is not None
    fastest = (control or data) * substeps
    parts = [clock.divider(fastest, rate, field) for field, rate in _rates(settings, data)]
    return Clocks(data, control or data, fastest / math.gcd(substeps, *parts))


def _rates(settings: RecorderSettings, data: Fraction) -> Iterator[tuple[str, Fraction]]:
    yield "data_hz", data
    for camera in settings.recorded_cameras:
        if camera.frame_rate is not None:
            yield f"camera {camera.name!r}: frame_rate", camera.frame_rate
    for lidar in settings.recorded_lidars:
        if lidar.rate is not None:
            yield f"lidar {lidar.name!r}: rate", lidar.rate
