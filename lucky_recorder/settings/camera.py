"""Camera bindings: what a session looks through."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any, SupportsIndex, TypeAlias

import attrs

from lucky_recorder.episode import keys, limits
from lucky_recorder.episode.schema import StreamKind
from lucky_recorder.errors import SettingsError
from lucky_recorder.settings import validators as v
from lucky_recorder.settings.declare import build, named_place, only_known_fields, told
from lucky_recorder.settings.sensors import DEPTH_SENSORS
from lucky_recorder.settings.visual import FORWARD_FLAGS, optional_groups, visual_flags

_DEPTH_MODES: dict[str, tuple[StreamKind, ...]] = {
    "off": ("color",),
    "rgbd": ("color", "depth", "rgbd"),
    "separate": ("color", "depth"),
    "depth_only": ("depth",),
}
_SUFFIXES = {"color": "", "depth": keys.DEPTH_SUFFIX, "rgbd": keys.RGBD_SUFFIX}
SMALLEST_SIDE, LARGEST_SIDE = 16, 8192
FITS = ("crop", "pad")
_FREE = "free camera: "
_PLACE = "camera {name}: "


def _point(value: Iterable[v.Number] | None, *, field: str = "lookat") -> tuple[float, float, float] | None:
    if value is None:
        return None
    point = v.several(value, v.number, field=field, unique=False)
    if len(point) != 3:
        raise SettingsError.of(field, value, "give three numbers x, y, z in metres")
    return point[0], point[1], point[2]


@only_known_fields(_FREE)
@attrs.frozen(field_transformer=told(_FREE))
class FreeCamera:
    """A camera that is not in the model.

    Attributes:
        lookat: Point looked at, metres; None for the model's centre.
        distance: Metres from that point; None for the model's extent times 1.5.
        azimuth: Degrees.
        elevation: Degrees.
    """

    lookat: tuple[float, float, float] | None = attrs.field(default=None, converter=_point)
    distance: float | None = attrs.field(default=None, converter=v.optional_positive)
    azimuth: float = attrs.field(default=90.0, converter=v.number)
    elevation: float = attrs.field(default=-45.0, converter=v.number)


CameraSource: TypeAlias = str | SupportsIndex | FreeCamera | Mapping[str, Any]


def _source(value: CameraSource | None, *, field: str = "source") -> str | int | FreeCamera | None:
    if value is None or isinstance(value, FreeCamera):
        return value
    if isinstance(value, Mapping):
        return build(FreeCamera, value, f"{field}.")
    try:
        return v.text(value, field=field) if isinstance(value, str) else v.whole(value, 0, field=field)
    except SettingsError:
        remedy = "give a model camera's name or id, a FreeCamera, or 'render'"
        raise SettingsError.of(field, value, remedy) from None


def _even_pixels(value: SupportsIndex, *, field: str = "width", owner: Any = None) -> int:
    """Accept an even image size; 4:2:0 video has one colour sample per two pixels."""
    pixels = v.whole(value, SMALLEST_SIDE, LARGEST_SIDE, field=field)
    if pixels % 2:
        less, more = str(pixels - 1), str(pixels + 1)
        if owner is not None and owner.source == "render":
            # The environment decides the size of its pictures.
            less, more = f"{less} with fit='crop'", f"{more} with fit='pad'"
        raise SettingsError.of(field, value, f"video needs an even size; use {less} or {more}")
    return pixels


def _fit(value: str | None, *, field: str = "fit") -> str | None:
    return None if value is None else v.one_of(value, FITS, field=field)


def _depth_mode(value: str, *, field: str = "depth_mode") -> str:
    return v.one_of(value, tuple(_DEPTH_MODES), field=field)


def _sensor_model(value: str | None, *, field: str = "sensor_model") -> str | None:
    if value is None or (isinstance(value, str) and value in DEPTH_SENSORS):
        return value
    known = ", ".join(name for name in DEPTH_SENSORS if name)
    raise SettingsError.of(field, value, f"choose one of {known}, or leave it out")


def _numbers(
    value: Mapping[str, v.Number] | Iterable[tuple[str, v.Number]], *, field: str = "sensor_params"
) -> tuple[tuple[str, float], ...]:
    """Accept a table of numbers, kept as sorted pairs so that settings stay hashable."""
    if not isinstance(value, Mapping | tuple | list):
        raise SettingsError.of(field, value, "give a table of numbers by name")
    try:
        pairs = sorted(dict(value).items())
    except (TypeError, ValueError):
        raise SettingsError.of(field, value, "give a table of numbers by name") from None
    return tuple((v.text(name, field=field), v.number(number, field=f"{field}.{name}")) for name, number in pairs)


def _masks(value: Iterable[str] | None, *, field: str = "masks") -> tuple[str, ...] | None:
    masks = v.optional_texts(value, field=field)
    if masks is not None and not 0 < len(masks) <= keys.MOST_LABELS:
        raise SettingsError.of(field, masks, f"name 1 to {keys.MOST_LABELS} bodies, geoms, flexes or skins")
    return masks


@only_known_fields(_PLACE)
@attrs.frozen(field_transformer=told(_PLACE))
class Camera:
    """One camera binding: a field for each thing that can be said of it, so that it is a flat table in a file too.

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
        masks: Bodies, geoms, flexes or skins of the mask stream, in the order of their label ids, from 1; at most 255.
        record_masks: Whether the binding writes its mask stream.
        geom_groups: Groups of geoms that are seen, 0 to 5; None for MuJoCo's: 0, 1 and 2.
        site_groups: Groups of sites that are seen; None for MuJoCo's: 0, 1 and 2.
        flags: MuJoCo's visual and rendering flags, by name: ``{"contactpoint": True, "shadow": False}``.
        fit: What becomes of a ``render()`` picture of another size: ``crop`` cuts it at the right and at the bottom,
            ``pad`` adds black there; None: it is refused.
        record_pose: Add the camera's pose to every row: the column ``observation.camera_pose.<name>``, x y z in metres
            and the quaternion w x y z, of the camera's axes x right, y down, z forward.
    """

    name: str = attrs.field(converter=v.output_name)
    source: str | int | FreeCamera | None = attrs.field(default=None, converter=_source)
    width: int = attrs.field(default=640, converter=_even_pixels)
    height: int = attrs.field(default=480, converter=_even_pixels)
    frame_rate: Fraction | None = attrs.field(default=None, converter=v.optional_hertz)
    enabled: bool = attrs.field(default=True, converter=v.boolean)
    depth_mode: str = attrs.field(default="off", converter=_depth_mode)
    depth_scale: float = attrs.field(default=0.001, converter=v.positive)
    sensor_model: str | None = attrs.field(default=None, converter=_sensor_model)
    sensor_params: tuple[tuple[str, float], ...] = attrs.field(default=(), converter=_numbers)
    debug_channel: str | None = attrs.field(default=None, converter=v.optional_text)
    masks: tuple[str, ...] | None = attrs.field(default=None, converter=_masks)
    record_masks: bool = attrs.field(default=True, converter=v.boolean)
    geom_groups: tuple[int, ...] | None = attrs.field(default=None, converter=optional_groups)
    site_groups: tuple[int, ...] | None = attrs.field(default=None, converter=optional_groups)
    flags: tuple[tuple[str, bool], ...] = attrs.field(default=(), converter=visual_flags)
    fit: str | None = attrs.field(default=None, converter=_fit)
    record_pose: bool = attrs.field(default=False, converter=v.boolean)

    def __attrs_post_init__(self) -> None:
        place = named_place(_PLACE, self.name)
        if self.width * self.height > limits.MOST_PIXELS:
            remedy = f"at most {limits.MOST_PIXELS} pixels, such as 4096x4096: no more are read back"
            raise SettingsError.of(f"{place}width, height", (self.width, self.height), remedy)
        _check_rendered(self, place)
        _check_sensor(self, place)

    @property
    def picture_kinds(self) -> tuple[StreamKind, ...]:
        """The kinds of streams that its depth mode asks for."""
        return _DEPTH_MODES[self.depth_mode]

    @property
    def needs_forward(self) -> bool:
        """Whether it shows what only the whole of MuJoCo's forward computation knows, such as contacts."""
        return any(is_on and name in FORWARD_FLAGS for name, is_on in self.flags)

    @property
    def calibration(self) -> dict[str, float]:
        """The sensor model's calibration: its defaults and what was set."""
        return {**DEPTH_SENSORS[self.sensor_model].defaults, **dict(self.sensor_params)}

    @property
    def key(self) -> str:
        """The colour stream's feature key."""
        return keys.image_key(self.name)

    def key_of(self, kind: StreamKind) -> str:
        """Return the key, and folder, of one of its streams (spec: Video streams)."""
        return keys.mask_key(self.name) if kind == "mask" else f"{self.key}{_SUFFIXES[kind]}"


def _check_rendered(camera: Camera, place: str) -> None:
    """Refuse what the environment's own pictures cannot have, and what only they can have."""
    if camera.source != "render":
        if camera.fit is not None:
            remedy = "a camera that is drawn here has the size it asks for; leave it out, or use source='render'"
            raise SettingsError.of(f"{place}fit", camera.fit, remedy)
        return
    if camera.depth_mode != "off" or camera.masks:
        raise SettingsError.of(
            f"{place}source", "render", "env.render() gives colour only; depth and masks need a camera of the model"
        )
    for field in ("geom_groups", "site_groups", "flags", "record_pose"):
        if getattr(camera, field) != attrs.fields_dict(Camera)[field].default:
            remedy = (
                "env.render() is drawn by the environment; only a camera of the model, or a FreeCamera, can have it"
            )
            raise SettingsError.of(f"{place}{field}", getattr(camera, field), remedy)


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
