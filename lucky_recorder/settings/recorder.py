"""What to record: frozen settings, validated when they are built.

Each of these can be given as keyword arguments, as a plain mapping, or as a table of a TOML file.
"""

from __future__ import annotations

# ruff: noqa: RUF009 - what `checked` returns declares a field, it is no default shared by all objects.
import dataclasses
import math
import numbers
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from lucky_recorder.episode.schema import StreamKind
from lucky_recorder.errors import SettingsError, shown
from lucky_recorder.settings import validators as v
from lucky_recorder.settings.bindings import Camera as Camera
from lucky_recorder.settings.bindings import FreeCamera as FreeCamera
from lucky_recorder.settings.bindings import Lidar as Lidar
from lucky_recorder.settings.koyu import KoyuSettings as KoyuSettings
from lucky_recorder.settings.toml import plain, toml
from lucky_recorder.settings.validators import checked

FORMATS = ("session", "koyu")
PRESETS = ("ultrafast", "superfast", "veryfast", "faster", "fast", "medium", "slow", "slower", "veryslow")
_DRONE = (
    "the Drone recorder mode does not produce a usable dataset; "
    "use robot_arm, full_scene, or custom with columns of your own"
)
_SUCCESS = "give 'auto', 'terminated', 'info:KEY', a callable, or 'module:function'"
_DTYPES = ("float64", "float32", "int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8", "bool")
_SOURCE_KINDS = ("sensor", "qpos", "qvel", "xpos", "xquat", "site_xpos", "ctrl", "gym", "info")
_LONGEST_ROW = 1_000_000
_LONGEST_WAIT_S = 1_000_000
_STANDARD_COLUMNS = (
    "index",
    "robot_id",
    "sim_id",
    "entity_id",
    "timestamp",
    "episode_index",
    "frame_index",
    "task_index",
    "frame_flags",
    "task",
)
_MODE_COLUMNS = ("action", "observation.state")
GYM_COLUMNS = ("gym.action", "next.reward", "next.done", "next.success")


def _column_source(field: str, value: Any) -> Any:
    if callable(value) or v.is_callable_name(value) or v.is_keyed(value, *_SOURCE_KINDS):
        return value
    kinds = ", ".join(f"{kind}:NAME" for kind in _SOURCE_KINDS)
    raise SettingsError.of(field, value, f"give a callable, 'module:function', or one of {kinds}")


def _column_dtype(field: str, value: Any) -> str:
    try:
        name = np.dtype(value).name if isinstance(value, str | type | np.dtype) else ""
    except Exception:  # numpy parses texts in ways of its own, and raises SyntaxError too
        name = ""
    if name not in _DTYPES:
        raise SettingsError.of(field, value, f"give one of {', '.join(_DTYPES)}")
    return name


def _column_shape(field: str, value: Any) -> tuple[int, ...]:
    lengths = [value] if isinstance(value, numbers.Integral) else value
    shape: tuple[int, ...] = v.several(v.whole(1, _LONGEST_ROW), unique=False)(field, lengths)
    return shape


def _column_name(field: str, value: Any) -> str:
    name = v.text(field, value)
    if name in _STANDARD_COLUMNS or name.startswith(("observation.images.", "observation.masks.", "videos/")):
        raise SettingsError.of(field, value, "this name belongs to the recorder; choose another")
    if "/" in name or not name.isprintable():
        raise SettingsError.of(field, value, "a column name holds no '/' and no control characters")
    return name


@dataclass(frozen=True)
class Column:
    """A column of your own.

    Attributes:
        name: Column name.
        source: A callable of the simulation, its ``"module:function"`` name, or one of ``sensor:NAME``, ``qpos:JOINT``,
            ``qvel:JOINT``, ``xpos:BODY``, ``xquat:BODY``, ``site_xpos:SITE``, ``ctrl:ACTUATOR``, ``gym:action``,
            ``gym:obs``, ``gym:obs.KEY``, ``gym:reward``, ``info:KEY``.
        dtype: Numeric or bool numpy dtype name.
        shape: ``()`` or ``(1,)`` for a scalar column, longer ones for fixed-length lists.
        names: A name per value.
        unit: The unit of the values.
        allow_nan: Whether NaN may be recorded.
    """

    name: str = checked(_column_name)
    source: str | Callable[..., Any] = checked(_column_source)
    dtype: str = checked(_column_dtype, default="float64")
    shape: tuple[int, ...] = checked(_column_shape, default=())
    names: tuple[str, ...] | None = checked(v.optional(v.several(v.text)), default=None)
    unit: str | None = checked(v.optional(v.text), default=None)
    allow_nan: bool = checked(v.boolean, default=False)

    def __post_init__(self) -> None:
        v.validate(self, f"column {shown(self.name)}: ")
        size = math.prod(self.shape)
        if size > _LONGEST_ROW:
            raise SettingsError.of(f"column {self.name!r}: shape", self.shape, f"at most {_LONGEST_ROW} values a row")
        if self.names is not None and len(self.names) != size:
            raise SettingsError.of(f"column {self.name!r}: names", self.names, f"give {size} names, one per value")

    @property
    def is_scalar(self) -> bool:
        """Whether it is a plain column, not a list."""
        return self.shape in ((), (1,))

    @property
    def is_called(self) -> bool:
        """Whether its source is a function, given or named, and not a place to read."""
        return callable(self.source) or not v.is_keyed(self.source, *_SOURCE_KINDS)


def _mode(field: str, value: Any) -> str:
    if isinstance(value, str) and value == "drone":
        raise SettingsError.of(field, value, _DRONE)
    return str(v.one_of("robot_arm", "full_scene", "custom")(field, value))


def _success(field: str, value: Any) -> Any:
    if callable(value) or v.is_callable_name(value):
        return value
    if isinstance(value, str) and (value in ("auto", "terminated") or v.is_keyed(value, "info")):
        return value
    raise SettingsError.of(field, value, _SUCCESS)


def _trigger(field: str, value: Any) -> Any:
    if callable(value) or v.is_callable_name(value):
        return value
    raise SettingsError.of(field, value, "give a callable of the episode number, or 'module:function'")


def _wait(field: str, value: Any) -> float:
    seconds = v.positive(field, value)
    if seconds > _LONGEST_WAIT_S:
        raise SettingsError.of(field, value, f"give at most {_LONGEST_WAIT_S} seconds")
    return seconds


_FILES = v.whole(1, 1000)


@dataclass(frozen=True)
class RecorderSettings:
    """Everything that decides what is recorded and where.

    Attributes:
        output_dir: Parent of ``DataSessions/``.
        mode: ``robot_arm``, ``full_scene`` or ``custom``.
        robots: Root bodies of the robots, one row each per tick; None: the whole model is one robot.
        columns: Columns of your own, after the mode's.
        gym_columns: Add ``next.reward``, ``next.done``, ``next.success`` and the policy's ``gym.action``.
        data_hz: Rows per second; None for the control rate, which it must divide evenly.
        files_per_chunk: Files in each ``chunk-NNN`` folder, 1 to 1000.
        episodes_per_file: Episodes in each data file, 1 to 1000.
        max_episode_length_s: After this much simulated time the episode ends as failed.
        discard_and_retry_failed: Drop failed episodes and reuse their index.
        total_episodes: Close the session after so many kept episodes.
        success: Where the verdict comes from: ``auto``, ``terminated``, ``info:KEY`` or a callable.
        episode_trigger: Which episodes are recorded, a callable of the episode's number.
        record_data: Write rows and ``meta/``.
        record_cameras: Write streams of pictures.
        record_color_video: Write the colour and depth streams.
        record_masks: Write mask streams.
        policy_period: Steps between two inferences of the policy; sets ``new_policy_step``.
        video_format: Codec of colour video.
        hardware_encoder: Encode on the GPU where it really can; what was used is in ``video.codec`` and the log.
        video_preset: x264 preset: speed against size.
        render_quality: ``model`` as the model says, ``fast`` (small shadow map, no multisampling),
            ``fastest`` (no shadows).
        metadata_every: Episodes between two writes of ``meta/``.
        seed: Seed of the recorder's own randomness.
        worker_timeout_s: Longest wait for the worker thread before an error.
        cameras: The camera bindings.
        lidars: The lidar sensors.
        tasks: Task descriptions, in index order.
        koyu: What koyu bundles say of themselves, and where they go.
        formats: The formats written: ``session``, ``koyu`` or both; None: the session, and bundles if ``koyu`` is
            given.
    """

    output_dir: Path = checked(v.folder, default=Path())
    mode: str = checked(_mode, default="robot_arm")
    robots: tuple[str, ...] | None = checked(v.optional(v.several(v.text)), default=None)
    columns: tuple[Column, ...] = checked(v.several(v.instance(Column), unique=False), default=())
    gym_columns: bool = checked(v.boolean, default=False)
    data_hz: Fraction | None = checked(v.optional(v.hertz), default=None)
    files_per_chunk: int = checked(_FILES, default=40)
    episodes_per_file: int = checked(_FILES, default=1)
    max_episode_length_s: float | None = checked(v.optional(v.positive), default=None)
    discard_and_retry_failed: bool = checked(v.boolean, default=False)
    total_episodes: int | None = checked(v.optional(v.whole(1)), default=None)
    success: str | Callable[..., Any] = checked(_success, default="auto")
    episode_trigger: str | Callable[[int], bool] | None = checked(v.optional(_trigger), default=None)
    record_data: bool = checked(v.boolean, default=True)
    record_cameras: bool = checked(v.boolean, default=True)
    record_color_video: bool = checked(v.boolean, default=True)
    record_masks: bool = checked(v.boolean, default=False)
    policy_period: int = checked(v.whole(1), default=1)
    video_format: str = checked(v.one_of("h264", "hevc", "av1"), default="h264")
    hardware_encoder: bool = checked(v.boolean, default=False)
    video_preset: str = checked(v.one_of(*PRESETS), default="ultrafast")
    render_quality: str = checked(v.one_of("model", "fast", "fastest"), default="model")
    metadata_every: int = checked(v.whole(1), default=25)
    seed: int = checked(v.whole(0, 2**63 - 1), default=0)
    worker_timeout_s: float = checked(_wait, default=60.0)
    cameras: tuple[Camera, ...] = checked(v.several(v.instance(Camera), unique=False), default=())
    lidars: tuple[Lidar, ...] = checked(v.several(v.instance(Lidar), unique=False), default=())
    tasks: tuple[str, ...] = checked(v.several(v.text), default=())
    koyu: KoyuSettings | None = checked(v.optional(v.instance(KoyuSettings)), default=None)
    formats: tuple[str, ...] | None = checked(v.optional(v.several(v.one_of(*FORMATS))), default=None)

    def __post_init__(self) -> None:
        v.validate(self)
        v.distinct("cameras", tuple(c.name for c in self.cameras))
        v.distinct("lidars", tuple(one.name for one in self.lidars))
        _check_column_names(self)
        _check_something_is_recorded(self)
        _check_chunk_numbers(self)
        _check_formats(self)

    @property
    def capacity_per_chunk(self) -> int:
        """Episodes per data chunk: ``episodes_per_file * files_per_chunk``."""
        return self.episodes_per_file * self.files_per_chunk

    @property
    def written_formats(self) -> tuple[str, ...]:
        """The formats that are written: ``formats``, or what follows from ``koyu``."""
        if self.formats is not None:
            return self.formats
        return ("session",) if self.koyu is None else FORMATS

    @property
    def recorded_cameras(self) -> tuple[Camera, ...]:
        """The cameras that write at least one stream under these settings."""
        return tuple(c for c in self.cameras if self.kinds_of(c))

    @property
    def recorded_lidars(self) -> tuple[Lidar, ...]:
        """The lidar sensors that record."""
        return tuple(one for one in self.lidars if one.enabled)

    def kinds_of(self, camera: Camera) -> tuple[StreamKind, ...]:
        """Return the kinds of streams a camera writes under these settings (spec: Video streams)."""
        if not (self.record_cameras and camera.enabled):
            return ()
        kinds = camera.picture_kinds if self.record_color_video else ()
        has_masks = self.record_masks and camera.record_masks and camera.masks
        return (*kinds, "mask") if has_masks else kinds

    @classmethod
    def of(
        cls, settings: RecorderSettings | Mapping[str, Any] | str | Path | None = None, **fields: Any
    ) -> RecorderSettings:
        """Build settings from an object, a mapping or a TOML file, with ``fields`` on top.

        Raises:
            SettingsError: If a field is unknown or a value cannot be recorded.
        """
        if isinstance(settings, str | Path):
            settings = cls.from_toml(settings)
        if isinstance(settings, RecorderSettings):
            settings = {f.name: getattr(settings, f.name) for f in dataclasses.fields(settings)}
        if settings is not None and not isinstance(settings, Mapping):
            raise SettingsError.of("settings", settings, "give RecorderSettings, a mapping of fields, or a TOML file")
        settled: RecorderSettings = v.build(cls, {**(settings or {}), **fields}, "")
        return settled

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> RecorderSettings:
        """Build settings from a plain mapping, such as `to_dict` returns."""
        return cls.of(fields)

    @classmethod
    def from_toml(cls, path: str | Path) -> RecorderSettings:
        """Build settings from a TOML file whose top level holds the fields.

        Raises:
            SettingsError: If the file cannot be read, or for a wrong field.
        """
        try:
            fields = tomllib.loads(Path(path).read_text(encoding="utf-8-sig"))
        except (OSError, ValueError) as error:
            raise SettingsError.of("settings file", str(path), f"cannot be read as TOML: {error}") from error
        return cls.of(fields)

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as plain JSON values; callables by their ``"module:function"`` name."""
        fields: dict[str, Any] = plain(self)
        return fields

    def to_toml(self) -> str:
        """Return the settings as TOML; fields that are None are left out."""
        return toml(self.to_dict())


def _check_column_names(settings: RecorderSettings) -> None:
    names = tuple(c.name for c in settings.columns)
    ours = () if settings.mode == "custom" else _MODE_COLUMNS
    if settings.gym_columns:
        ours = (*ours, *GYM_COLUMNS)
    v.distinct("columns", (*ours, *names))
    if settings.mode == "custom" and settings.record_data and not names and not settings.gym_columns:
        raise SettingsError.of("columns", (), "custom mode needs columns of your own, or gym_columns=True")


def _check_something_is_recorded(settings: RecorderSettings) -> None:
    if not (settings.record_data or settings.recorded_cameras or settings.recorded_lidars):
        remedy = "and no camera or lidar records: nothing would be written; switch one of them on"
        raise SettingsError.of("record_data", False, remedy)


def _check_chunk_numbers(settings: RecorderSettings) -> None:
    """Chunk numbers have three digits: paths are sorted as text by those who read them."""
    most = 1000 * settings.files_per_chunk
    if settings.total_episodes is not None and settings.total_episodes > most:
        raise SettingsError.of("total_episodes", settings.total_episodes, f"at most {most}; raise files_per_chunk")


def _check_formats(settings: RecorderSettings) -> None:
    """Refuse what no bundle can be made of, as far as settings alone tell."""
    formats, koyu = settings.written_formats, settings.koyu
    if "koyu" not in formats:
        return
    if koyu is None:
        raise SettingsError.of("formats", formats, "bundles need a name: give koyu=KoyuSettings(name=...)")
    if not settings.record_data:
        raise SettingsError.of("record_data", False, "a koyu bundle is made of rows; record them, or leave koyu out")
    if settings.video_format != "h264":
        remedy = "a koyu bundle's videos are H.264; leave it at 'h264', or leave koyu out"
        raise SettingsError.of("video_format", settings.video_format, remedy)
    if koyu.action == "gym" and not settings.gym_columns:
        raise SettingsError.of("koyu.action", "gym", "what the policy sent is recorded with gym_columns=True; set it")
    if "session" not in formats:
        _check_bundles_alone(settings)


def _check_bundles_alone(settings: RecorderSettings) -> None:
    """Refuse streams that would be recorded for nothing."""
    remedy = "is written into a session only; add 'session' to formats, or switch it off"
    for camera in settings.recorded_cameras:
        for kind in settings.kinds_of(camera):
            if kind != "color":
                raise SettingsError(f"camera {camera.name!r}: its {kind} stream {remedy}")
    for lidar in settings.recorded_lidars:
        raise SettingsError(f"lidar {lidar.name!r} {remedy}")
