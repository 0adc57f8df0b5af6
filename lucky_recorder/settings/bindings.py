"""What a session looks through: camera bindings and lidar sensors."""

from __future__ import annotations

# ruff: noqa: RUF009 - what `checked` returns declares a field, it is no default shared by all objects.
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_recorder.episode.schema import StreamKind
from lucky_recorder.errors import SettingsError, shown
from lucky_recorder.settings import validators as v
from lucky_recorder.settings.sensors import DEPTH_SENSORS
from lucky_recorder.settings.validators import checked

_DEPTH_MODES: dict[str, tuple[StreamKind, ...]] = {
    "off": ("color",),
    "rgbd": ("color", "depth", "rgbd"),
    "separate": ("color", "depth"),
    "depth_only": ("depth",),
}
_MOST_LABELS = 255
_MOST_RAYS = 1_000_000
# A ray is at least two pixels wide in the video, and 8192 are what encoders take.
_MOST_FILMED = 4096
_PATTERNS = {
    "spinning": ((-180.0, 180.0, 360), (-15.0, 15.0, 16)),
    "solid_state": ((-60.0, 60.0, 120), (-12.5, 12.5, 32)),
}


def _point(field: str, value: Any) -> tuple[float, ...]:
    point: tuple[float, ...] = v.several(v.number, unique=False)(field, value)
    if len(point) != 3:
        raise SettingsError.of(field, value, "give three numbers x, y, z in metres")
    return point


@dataclass(frozen=True)
class FreeCamera:
    """A camera that is not in the model.

    Attributes:
        lookat: Point looked at, metres; None for the model's centre.
        distance: Metres from that point; None for the model's extent times 1.5.
        azimuth: Degrees.
        elevation: Degrees.
    """

    lookat: tuple[float, float, float] | None = checked(v.optional(_point), default=None)
    distance: float | None = checked(v.optional(v.positive), default=None)
    azimuth: float = checked(v.number, default=90.0)
    elevation: float = checked(v.number, default=-45.0)

    def __post_init__(self) -> None:
        v.validate(self, "free camera: ")


def _camera_source(field: str, value: Any) -> Any:
    if value is None or isinstance(value, FreeCamera):
        return value
    if isinstance(value, Mapping):
        return v.build(FreeCamera, value, f"{field}.")
    try:
        return v.text(field, value) if isinstance(value, str) else v.whole(0)(field, value)
    except SettingsError:
        remedy = "give a model camera's name or id, a FreeCamera, or 'render'"
        raise SettingsError.of(field, value, remedy) from None


def _sensor_model(field: str, value: Any) -> str | None:
    if value is None or (isinstance(value, str) and value in DEPTH_SENSORS):
        return value
    known = ", ".join(name for name in DEPTH_SENSORS if name)
    raise SettingsError.of(field, value, f"choose one of {known}, or leave it out")


def _numbers(field: str, value: Any) -> tuple[tuple[str, float], ...]:
    """Accept a table of numbers, kept as sorted pairs so that settings stay hashable."""
    if not isinstance(value, Mapping | tuple | list):
        raise SettingsError.of(field, value, "give a table of numbers by name")
    try:
        pairs = sorted(dict(value).items())
    except (TypeError, ValueError):
        raise SettingsError.of(field, value, "give a table of numbers by name") from None
    return tuple((v.text(field, name), v.number(f"{field}.{name}", number)) for name, number in pairs)


@dataclass(frozen=True)
class Camera:
    """One camera binding.

    Attributes:
        name: The Output Name: part of folder and column names; ``[A-Za-z0-9_-]+``.
        source: A model camera's name or id (default: the name), a `FreeCamera`, or ``"render"`` for the environment's
            own ``render()``.
        width: Pixels, even.
        height: Pixels, even.
        frame_rate: Frames per second; None for the data rate.
        enabled: Whether the binding records at all.
        depth_mode: ``off``, ``rgbd``, ``separate`` or ``depth_only``: which of colour, depth and their combination.
        depth_scale: Metres per depth code.
        sensor_model: The depth sensor's model: None, or ``ActiveStereo``.
        sensor_params: The model's calibration, on top of its defaults.
        debug_channel: A diagnostic channel of the sensor model, written in place of depth.
        masks: Bodies or geoms of the mask stream, in the order of their label ids, from 1; at most 255.
        record_masks: Whether the binding writes its mask stream.
    """

    name: str = checked(v.output_name)
    source: str | int | FreeCamera | None = checked(_camera_source, default=None)
    width: int = checked(v.even_pixels, default=640)
    height: int = checked(v.even_pixels, default=480)
    frame_rate: Fraction | None = checked(v.optional(v.hertz), default=None)
    enabled: bool = checked(v.boolean, default=True)
    depth_mode: str = checked(v.one_of(*_DEPTH_MODES), default="off")
    depth_scale: float = checked(v.positive, default=0.001)
    sensor_model: str | None = checked(_sensor_model, default=None)
    sensor_params: tuple[tuple[str, float], ...] = checked(_numbers, default=())
    debug_channel: str | None = checked(v.optional(v.text), default=None)
    masks: tuple[str, ...] | None = checked(v.optional(v.several(v.text)), default=None)
    record_masks: bool = checked(v.boolean, default=True)

    def __post_init__(self) -> None:
        place = f"camera {shown(self.name)}: "
        v.validate(self, place)
        if self.masks is not None and not 0 < len(self.masks) <= _MOST_LABELS:
            raise SettingsError.of(f"{place}masks", self.masks, f"name 1 to {_MOST_LABELS} bodies or geoms")
        if self.source == "render" and (self.depth_mode != "off" or self.masks):
            raise SettingsError.of(
                f"{place}source", "render", "env.render() gives colour only; depth and masks need a camera of the model"
            )
        _check_sensor(self, place)

    @property
    def picture_kinds(self) -> tuple[StreamKind, ...]:
        """The kinds of streams that its depth mode asks for."""
        return _DEPTH_MODES[self.depth_mode]

    @property
    def calibration(self) -> dict[str, float]:
        """The sensor model's calibration: its defaults and what was set."""
        return {**DEPTH_SENSORS[self.sensor_model].defaults, **dict(self.sensor_params)}

    @property
    def key(self) -> str:
        """The colour stream's feature key."""
        return f"observation.images.{self.name}"

    def key_of(self, kind: StreamKind) -> str:
        """Return the key, and folder, of one of its streams (spec: Video streams)."""
        if kind == "mask":
            return f"observation.masks.{self.name}"
        return self.key if kind == "color" else f"{self.key}_{kind}"


def _check_sensor(camera: Camera, place: str) -> None:
    sensor = DEPTH_SENSORS[camera.sensor_model]
    for name, value in camera.sensor_params:
        if name not in sensor.defaults:
            known = ", ".join(sensor.defaults) or "none, without a sensor_model"
            raise SettingsError.of(f"{place}sensor_params", {name: value}, f"unknown parameter; known: {known}")
        if not (value > 0 or (value == 0 and name in sensor.may_be_zero)):
            least = "0 or more" if name in sensor.may_be_zero else "a number above 0"
            raise SettingsError.of(f"{place}sensor_params.{name}", value, f"give {least}")
    nearest, farthest = (camera.calibration.get(f"{end}_range_m") for end in ("min", "max"))
    if nearest is not None and farthest is not None and nearest >= farthest:
        raise SettingsError.of(f"{place}sensor_params.min_range_m", nearest, f"give less than max_range_m, {farthest}")
    if camera.debug_channel is not None and camera.debug_channel not in sensor.diagnostics:
        known = ", ".join(sensor.diagnostics) or "none, without a sensor_model"
        raise SettingsError.of(f"{place}debug_channel", camera.debug_channel, f"unknown channel; known: {known}")


def _span(field: str, value: Any) -> tuple[float, float, int]:
    parts = v.several(v.number, unique=False)(field, value)
    if len(parts) != 3 or parts[2] != int(parts[2]) or not 1 <= parts[2] <= _MOST_RAYS:
        raise SettingsError.of(field, value, "give first and last angle in degrees and a whole number of rays")
    return parts[0], parts[1], int(parts[2])


@dataclass(frozen=True)
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

    name: str = checked(v.output_name)
    site: str = checked(lambda field, value: value if value == "" else v.text(field, value), default="")
    pattern: str = checked(v.one_of("spinning", "solid_state"), default="spinning")
    azimuth: tuple[float, float, int] | None = checked(v.optional(_span), default=None)
    elevation: tuple[float, float, int] | None = checked(v.optional(_span), default=None)
    min_range_m: float = checked(v.number, default=0.0)
    max_range_m: float = checked(v.positive, default=100.0)
    rate: Fraction | None = checked(v.optional(v.hertz), default=None)
    noise_m: float = checked(v.number, default=0.0)
    enabled: bool = checked(v.boolean, default=True)
    record_video_proxy: bool = checked(v.boolean, default=False)

    def __post_init__(self) -> None:
        place = f"lidar {shown(self.name)}: "
        v.validate(self, place)
        usual = _PATTERNS[self.pattern]
        object.__setattr__(self, "site", self.site or self.name)
        object.__setattr__(self, "azimuth", self.azimuth or usual[0])
        object.__setattr__(self, "elevation", self.elevation or usual[1])
        if not 0 <= self.min_range_m < self.max_range_m:
            raise SettingsError.of(f"{place}min_range_m", self.min_range_m, "give 0 or more, and less than max_range_m")
        if self.noise_m < 0:
            raise SettingsError.of(f"{place}noise_m", self.noise_m, "a standard deviation is 0 or more")
        if self.rays > _MOST_RAYS:
            raise SettingsError.of(f"{place}azimuth", self.azimuth, f"at most {_MOST_RAYS} rays a scan")
        if self.record_video_proxy and max(len(self.azimuths), len(self.elevations)) > _MOST_FILMED:
            remedy = f"a video shows at most {_MOST_FILMED} azimuths and elevations; leave it off, or take fewer rays"
            raise SettingsError.of(f"{place}record_video_proxy", True, remedy)

    @property
    def rays(self) -> int:
        """Rays of one scan: azimuths times elevations."""
        return len(self.azimuths) * len(self.elevations)

    @property
    def azimuths(self) -> NDArray[np.float64]:
        """The azimuths, degrees."""
        assert self.azimuth is not None
        first, last, count = self.azimuth
        return np.linspace(first, last, count, endpoint=self.pattern != "spinning")

    @property
    def elevations(self) -> NDArray[np.float64]:
        """The elevations, degrees."""
        assert self.elevation is not None
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
