"""Lidar sensors: a grid of rays that is cast into the model."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Any, TypeAlias

import attrs
import numpy as np
from numpy.typing import NDArray

from lucky_recorder.errors import SettingsError
from lucky_recorder.settings import validators as v
from lucky_recorder.settings.declare import named_place, only_known_fields, told

Span: TypeAlias = tuple[float, float, int]

_MOST_RAYS = 1_000_000
# A ray is at least two pixels wide in the video, and 8192 are what encoders take.
_MOST_FILMED = 4096
_AZIMUTHS: dict[str, Span] = {"spinning": (-180.0, 180.0, 360), "solid_state": (-60.0, 60.0, 120)}
_ELEVATIONS: dict[str, Span] = {"spinning": (-15.0, 15.0, 16), "solid_state": (-12.5, 12.5, 32)}
_PLACE = "lidar {name}: "


def _site(value: str, *, field: str = "site", owner: Any = None) -> str:
    return str(owner.name) if isinstance(value, str) and not value else v.text(value, field=field)


def _pattern(value: str, *, field: str = "pattern") -> str:
    return v.one_of(value, tuple(_AZIMUTHS), field=field)


def _azimuth(value: Iterable[v.Number] | None, *, field: str = "azimuth", owner: Any = None) -> Span:
    return _AZIMUTHS[owner.pattern] if value is None else _span(value, field)


def _elevation(value: Iterable[v.Number] | None, *, field: str = "elevation", owner: Any = None) -> Span:
    return _ELEVATIONS[owner.pattern] if value is None else _span(value, field)


def _span(value: Iterable[v.Number], field: str) -> Span:
    parts = v.several(value, v.number, field=field, unique=False)
    if len(parts) != 3 or parts[2] != int(parts[2]) or not 1 <= parts[2] <= _MOST_RAYS:
        raise SettingsError.of(field, value, "give first and last angle in degrees and a whole number of rays")
    return parts[0], parts[1], int(parts[2])


def _deviation(value: v.Number, *, field: str = "noise_m") -> float:
    metres = v.number(value, field=field)
    if metres < 0:
        raise SettingsError.of(field, metres, "a standard deviation is 0 or more")
    return metres


@only_known_fields(_PLACE)
@attrs.frozen(field_transformer=told(_PLACE))
class Lidar:
    """One lidar sensor.

    The rays form a grid of azimuths and elevations in the frame of a site: x forward, y left, z up. They are cast into
    the model as it is when an episode begins; what is changed in the model after that shows in the next episode.

    Attributes:
        name: The Output Name: part of the file names; ``[A-Za-z0-9_-]+``.
        site: The site it is mounted on (default: the name); the site's body is invisible to it, unless it is the world.
        pattern: ``spinning``: azimuths go once around, the last angle left out; ``solid_state``: both ends are rays.
        azimuth: First and last angle in degrees, and the number of rays; None for the pattern's usual.
        elevation: The same, for elevation.
        min_range_m: Returns nearer than this are lost.
        max_range_m: Returns farther than this are lost.
        rate: Scans per second; None for the data rate.
        noise_m: Standard deviation of the range noise, metres.
        enabled: Whether it records.
        record_video_proxy: Also write the scans as a video to look at.
    """

    # The order matters: `site` follows from `name`, the two spans from `pattern`.
    name: str = attrs.field(converter=v.output_name)
    site: str = attrs.field(default="", converter=_site)
    pattern: str = attrs.field(default="spinning", converter=_pattern)
    azimuth: Span = attrs.field(default=None, converter=_azimuth)
    elevation: Span = attrs.field(default=None, converter=_elevation)
    min_range_m: float = attrs.field(default=0.0, converter=v.number)
    max_range_m: float = attrs.field(default=100.0, converter=v.positive)
    rate: Fraction | None = attrs.field(default=None, converter=v.optional_hertz)
    noise_m: float = attrs.field(default=0.0, converter=_deviation)
    enabled: bool = attrs.field(default=True, converter=v.boolean)
    record_video_proxy: bool = attrs.field(default=False, converter=v.boolean)

    def __attrs_post_init__(self) -> None:
        place = named_place(_PLACE, self.name)
        if not 0 <= self.min_range_m < self.max_range_m:
            raise SettingsError.of(f"{place}min_range_m", self.min_range_m, "give 0 or more, and less than max_range_m")
        if self.rays > _MOST_RAYS:
            raise SettingsError.of(f"{place}azimuth", self.azimuth, f"at most {_MOST_RAYS} rays a scan")
        if self.record_video_proxy and max(self.azimuth[2], self.elevation[2]) > _MOST_FILMED:
            remedy = f"a video shows at most {_MOST_FILMED} azimuths and elevations; leave it off, or take fewer rays"
            raise SettingsError.of(f"{place}record_video_proxy", True, remedy)

    @property
    def rays(self) -> int:
        """Rays of one scan: azimuths times elevations."""
        return self.azimuth[2] * self.elevation[2]

    @property
    def azimuths(self) -> NDArray[np.float64]:
        """The azimuths, degrees."""
        first, last, count = self.azimuth
        return np.linspace(first, last, count, endpoint=self.pattern != "spinning")

    @property
    def elevations(self) -> NDArray[np.float64]:
        """The elevations, degrees."""
        return np.linspace(*self.elevation)

    def directions(self) -> NDArray[np.float64]:
        """Return the rays' unit vectors in the sensor's frame, shape ``(rays, 3)``, elevation by elevation."""
        return ray_directions(self.azimuths, self.elevations)


def ray_directions(azimuths: NDArray[np.float64], elevations: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return unit vectors of a ray grid given in degrees, shape ``(elevations * azimuths, 3)``: x forward, z up."""
    elevation, azimuth = np.meshgrid(np.radians(elevations), np.radians(azimuths), indexing="ij")
    flat = np.cos(elevation)
    vectors = np.stack([flat * np.cos(azimuth), flat * np.sin(azimuth), np.sin(elevation)], axis=-1)
    return vectors.reshape(-1, 3)
