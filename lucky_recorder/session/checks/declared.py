"""What ``info.json`` declares, for the other checks. What is broken in it is left out, and told by other checks."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from lucky_recorder.episode import clock
from lucky_recorder.errors import SettingsError

# Repeated on purpose: a check that used the writer's constants would not find a wrong one.
NUMBERS = ("float64", "float32", "int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8", "bool")
TEXT = "string"
DTYPES = (*NUMBERS, TEXT)
ENTITIES = {"robot_id": "ur5e", "sim_id": "mujoco_scene", "entity_id": "custom"}
VECTORS = ("action", "observation.state")
_IMAGES, _DEPTH = "observation.images.", "_depth"
_STORED_DEPTH = "ffv1", "gray16le"
_QUANTISER = ("video.depth_min", "video.depth_max", "video.shift", "video.use_log", "is_depth_map")
_SLOWEST, _FASTEST = Fraction(1, 10**6), Fraction(10**6)


@dataclass(frozen=True)
class DeclaredColumn:
    """A data column as ``info.json`` has it: of shape ``(1,)`` for a plain value; a vector is always a list."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    is_vector: bool = False

    @property
    def size(self) -> int:
        """Values in one row."""
        return math.prod(self.shape)

    @property
    def is_text(self) -> bool:
        """Whether it holds texts, and not numbers."""
        return self.dtype == TEXT


@dataclass(frozen=True)
class DeclaredStream:
    """A colour or depth stream as ``info.json`` has it."""

    key: str
    width: int
    height: int
    rate: Fraction
    codec: object
    pix_fmt: object
    is_quantised: bool = False
    """Whether it is depth, described the way LeRobot describes its own."""
    is_renamed: bool = False
    """Whether it is depth in a copy for LeRobot: a file as ours are, by the name that LeRobot looks for."""

    @property
    def is_depth(self) -> bool:
        """Whether it is a depth stream."""
        return self.key.endswith(_DEPTH)

    @property
    def camera(self) -> str:
        """The camera's Output Name."""
        return self.key.removeprefix(_IMAGES).removesuffix(_DEPTH)

    @property
    def suffix(self) -> str:
        """How the stream's files end."""
        return ".mp4" if self.is_renamed else self.container

    @property
    def container(self) -> str:
        """How files of its kind end."""
        return ".mkv" if self.is_depth else ".mp4"


@dataclass(frozen=True)
class Declared:
    """The parts of ``info.json`` that other files are checked against; None or absent where it is broken."""

    hz: Fraction | None = None
    files_per_chunk: int | None = None
    episodes_per_file: int | None = None
    robots: int | None = None
    entity_column: str | None = None
    features: Mapping[str, Any] | None = None
    columns: Mapping[str, DeclaredColumn] = field(default_factory=dict)
    streams: Mapping[str, DeclaredStream] = field(default_factory=dict)
    is_ours: bool = False
    """Whether lucky_recorder wrote it. What its docs promise beyond the format's page is asked for only then."""
    is_view: bool = False
    """Whether it is a copy for LeRobot: its data files are those of the session, or written anew without footers."""

    @property
    def leading(self) -> tuple[str, ...]:
        """The columns every row starts with (spec: Data columns)."""
        entity = self.entity_column or "robot_id"
        return ("index", entity, "timestamp", "episode_index", "frame_index", "task_index", "frame_flags")

    def camera_streams(self, camera: str) -> tuple[DeclaredStream | None, DeclaredStream | None]:
        """Return a camera's colour and depth streams."""
        key = _IMAGES + camera
        return self.streams.get(key), self.streams.get(key + _DEPTH)

    @property
    def vectors(self) -> tuple[str, ...]:
        """The columns of commands and positions; in a custom schema the user's own may have these names."""
        return () if self.entity_column == "entity_id" else VECTORS

    @property
    def measured(self) -> list[DeclaredColumn]:
        """The columns that ``stats.json`` has an entry for."""
        return [c for c in self.columns.values() if c.name not in self.leading and not c.is_text]


def declare(info: Mapping[str, Any]) -> Declared:
    """Take from ``info.json`` what is of the right kind."""
    features = info.get("features")
    features = features if isinstance(features, dict) else None
    entities = [e for e in ENTITIES if e in (features or {})]
    entries = {k: v for k, v in (features or {}).items() if isinstance(v, dict)}
    vectors = () if "entity_id" in entities else VECTORS
    columns = [_column(k, v, k in vectors) for k, v in entries.items() if v.get("dtype") != "video"]
    is_view = info.get("lerobot_view") is True
    streams = [_stream(k, v, is_view) for k, v in entries.items() if v.get("dtype") == "video"]
    robots = info.get("robots")
    return Declared(
        hz=rate(info.get("hz")),
        files_per_chunk=_within_1000(info.get("chunks_size")),
        episodes_per_file=_within_1000(info.get("episodes_per_file")),
        robots=len(robots) if isinstance(robots, list) and robots else None,
        entity_column=entities[0] if len(entities) == 1 else None,
        features=features,
        columns={c.name: c for c in columns if c},
        streams={s.key: s for s in streams if s},
        is_ours="recorder_version" in info,
        is_view=is_view,
    )


def rate(value: object) -> Fraction | None:
    """Return a JSON number as an exact rate, None where it is none or absurd."""
    if type(value) not in (int, float):
        return None
    try:
        exact = clock.rate(value)
    except SettingsError:
        return None
    return exact if _SLOWEST <= exact <= _FASTEST else None


def is_whole(value: object, low: int = 0, high: float = math.inf) -> bool:
    """Tell whether a JSON value is an integer within limits; true and false are none."""
    return type(value) is int and low <= value <= high


def shape_of(value: object, largest: int = 1 << 20, least: int = 1) -> tuple[int, ...] | None:
    """Return a feature's shape, None where it is none or absurd."""
    if not isinstance(value, list) or not 1 <= len(value) <= 8 or not all(is_whole(n, least, largest) for n in value):
        return None
    return tuple(value) if math.prod(value) <= largest else None


def column_shape(value: object, is_vector: bool) -> tuple[int, ...] | None:
    """Return a data column's shape, None where it is none; a scene without actuators has an action of no values."""
    return shape_of(value, least=0 if is_vector else 1)


def _within_1000(value: object) -> int | None:
    return value if isinstance(value, int) and is_whole(value, 1, 1000) else None


def _column(name: str, feature: Mapping[str, Any], is_vector: bool) -> DeclaredColumn | None:
    shape, dtype = column_shape(feature.get("shape"), is_vector), feature.get("dtype")
    if not shape or not isinstance(dtype, str) or dtype not in DTYPES:
        return None
    return DeclaredColumn(name, dtype, shape, is_vector)


def _stream(key: str, feature: Mapping[str, Any], is_view: bool) -> DeclaredStream | None:
    shape, details = shape_of(feature.get("shape"), 1 << 28), feature.get("info")
    if not shape or len(shape) != 3 or not isinstance(details, dict) or "/" in key or ".." in key:
        return None
    stamped = rate(details.get("video.fps"))
    if stamped is None:
        return None
    said = details.get("video.codec"), details.get("video.pix_fmt")
    is_quantised = all(field in details for field in _QUANTISER)
    is_renamed = is_view and is_quantised and key.endswith(_DEPTH)
    # LeRobot would refuse what they are, so the copy does not say it.
    codec, pix_fmt = _STORED_DEPTH if is_renamed else said
    return DeclaredStream(key, shape[1], shape[0], stamped, codec, pix_fmt, is_quantised, is_renamed)
