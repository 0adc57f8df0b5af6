"""What a bundle holds, as it follows from a recording's schema, and what cannot be a bundle (spec: data.parquet)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lucky_recorder.episode import clock, keys
from lucky_recorder.episode.schema import Field, Schema, Stream
from lucky_recorder.errors import SettingsError
from lucky_recorder.koyu import layout
from lucky_recorder.settings.koyu import KoyuSettings
from lucky_recorder.settings.validators import portable
from lucky_recorder.video import codecs

OTHER_ACTION = "action.actuators"
_GOP = "g"


@dataclass(frozen=True)
class Vector:
    """A column of a bundle.

    Attributes:
        key: Its feature key.
        field: The recording's column it is made of.
    """

    key: str
    field: Field

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one row's value; a scalar column is a vector of one."""
        return self.field.shape or (1,)


@dataclass(frozen=True)
class BundleLayout:
    """What every bundle of a recording holds.

    Attributes:
        vectors: The columns besides ``step`` and ``timestamp``, in order.
        cameras: The colour streams.
        robots: The robots' names; a bundle each.
        fps: Rows and frames per second.
    """

    vectors: tuple[Vector, ...]
    cameras: tuple[Stream, ...]
    robots: tuple[str, ...]
    fps: float

    @property
    def features(self) -> dict[str, dict[str, Any]]:
        """The ``features`` of sidecar and manifest: dtype and shape per key."""
        columns = {v.key: {"dtype": "float32", "shape": list(v.shape)} for v in self.vectors}
        return columns | {s.key: {"dtype": "video", "shape": [s.height, s.width, 3]} for s in self.cameras}

    def names(self, robot: int) -> dict[str, list[str]]:
        """Return what the values of a robot's vectors are called, where they have names."""
        named = {v.key: _names_of(v.field, robot, len(self.robots)) for v in self.vectors}
        return {key: names for key, names in named.items() if names}


def _names_of(field: Field, robot: int, robots: int) -> list[str]:
    """Return a robot's share of a column's names: some columns name every robot's values in turn."""
    names = list(field.names or ())
    size = field.size
    return names[robot * size : (robot + 1) * size] if len(names) == robots * size else names


def layout_of(schema: Schema, settings: KoyuSettings) -> BundleLayout:
    """Return what the bundles of a recording hold.

    Raises:
        SettingsError: If its rows and frames cannot be bundles; says why.
    """
    if not schema.has_rows:
        raise SettingsError("record_data=False: a koyu bundle is made of rows; record them, or leave koyu out")
    vectors = _vectors(schema, settings)
    cameras = tuple(s for s in schema.streams if s.kind == "color")
    for stream in cameras:
        _refuse_stream(stream, schema)
    return BundleLayout(vectors, cameras, schema.robots, float(schema.hz))


def _vectors(schema: Schema, settings: KoyuSettings) -> tuple[Vector, ...]:
    renamed = {keys.GYM_ACTION: keys.ACTION, keys.ACTION: OTHER_ACTION} if settings.action == "gym" else {}
    # A bundle's columns are lists of float32: a text is left out (spec: data.parquet).
    numbers = [f for f in schema.columns if not f.is_text]
    vectors = {key: Vector(key, f) for f in numbers for key in [renamed.get(f.name, f.name)]}
    for key in (keys.STATE, keys.ACTION):
        if key not in vectors:
            raise SettingsError(_lack(key, schema, settings))
    for name in (layout.STEP, keys.TIMESTAMP):
        if name in vectors:
            raise SettingsError.of("column name", name, "a koyu bundle has one of its own; choose another")
    portable((layout.STEP, keys.TIMESTAMP, *vectors), field="column name")
    if len(vectors) < len(numbers):
        raise SettingsError.of("column name", OTHER_ACTION, "koyu.action='gym' needs this name; choose another")
    for vector in vectors.values():
        _refuse_dtype(vector.field)
    first = [vectors.pop(keys.STATE), vectors.pop(keys.ACTION)]
    return (*first, *vectors.values())


def _lack(key: str, schema: Schema, settings: KoyuSettings) -> str:
    has = ", ".join(f.name for f in schema.columns) or "none"
    if key == keys.ACTION and settings.action == "gym":
        remedy = "the action space has parts, and each is a column of its own; leave koyu.action at 'actuators'"
        return f"koyu.action='gym': there is no column {keys.GYM_ACTION!r}: {remedy}"
    return f"koyu: a bundle needs a column {key!r}, and the columns here are {has}; add a Column named {key!r}"


def _refuse_dtype(field: Field) -> None:
    """Refuse dtypes of whole numbers that float32 may round: at once, and not when such a value occurs."""
    dtype = np.dtype(field.dtype)
    if dtype.kind in "iu" and not np.can_cast(dtype, np.float32, "safe"):
        raise SettingsError(
            f"column {field.name!r}: dtype={field.dtype!r}: a koyu bundle holds float32, which rounds whole numbers of "
            "this dtype; use int16, uint16 or float64, or leave the column out of a recording with koyu"
        )


def _refuse_stream(stream: Stream, schema: Schema) -> None:
    place = f"camera {stream.camera!r}: "
    if stream.encoder != keys.H264:
        remedy = "set video_format='h264' and hardware_encoder=False, or leave koyu out"
        raise SettingsError(f"{place}encoded as {stream.encoder}: a koyu bundle's videos are libx264's; {remedy}")
    if stream.rate != schema.hz:
        raise SettingsError.of(
            f"{place}frame_rate",
            clock.show(stream.rate),
            f"row i of a koyu bundle is frame i of every video: leave it out, or record at {clock.show(schema.hz)} Hz",
        )


def encoding_of(preset: str) -> dict[str, Any]:
    """Return the sidecar's ``encoding``: how the videos were made (spec: Encoding)."""
    codec = codecs.known(keys.H264)
    return {
        "codec": codec.name,
        "encoder": codec.encoder,
        "pix_fmt": codec.pix_fmt,
        "crf": codec.crf,
        "gop": int(codec.options[_GOP]),
        "preset": preset,
    }
