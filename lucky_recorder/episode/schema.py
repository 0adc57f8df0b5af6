"""The one place that says what a recording consists of: its columns and its streams.

Features, statistics, the Parquet schema and the metadata of every format derive from a `Schema`. Which recorder
mode it came from is a label here; nothing downstream asks.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal

from lucky_recorder.episode import keys

StreamKind = Literal["color", "depth", "rgbd", "mask"]


@dataclass(frozen=True)
class Field:
    """One column of the rows.

    Attributes:
        name: The column's name in Parquet and in ``features``.
        dtype: A numpy dtype name: ``float64``, ``int64``, ``uint8``, ``bool``…; ``string`` for text.
        shape: ``()`` for a scalar column, ``(n,)`` or more for a fixed-length list.
        names: A readable name per value, every robot in turn.
        lucky_names: The simulator's own name per value, every robot in turn.
        unit: The unit of the values, if one was given.
        nullable: Whether a value may be missing.
        has_stats: Whether ``stats.json`` has an entry for it.
        flags: The bit names of a bit field.
    """

    name: str
    dtype: str
    shape: tuple[int, ...] = ()
    names: tuple[str, ...] | None = None
    lucky_names: tuple[str, ...] | None = None
    unit: str | None = None
    nullable: bool = False
    has_stats: bool = False
    flags: tuple[str, ...] = ()

    @property
    def is_text(self) -> bool:
        """Whether it holds texts: Python's, or None, in arrays of objects."""
        return self.dtype == keys.TEXT

    @property
    def size(self) -> int:
        """Values in one row."""
        size = 1
        for length in self.shape:
            size *= length
        return size


@dataclass(frozen=True)
class Stream:
    """One video stream of a recording.

    Attributes:
        key: Its feature key and folder under ``videos/``.
        camera: The camera's Output Name.
        kind: What its pixels are.
        width: Pixels.
        height: Pixels.
        rate: Frames per second, exact.
        encoder: How it is encoded: a key of the codec table; empty for what is made of other streams' files.
        codec: The codec actually used, in the format's words.
        pix_fmt: The pixel format actually used.
        suffix: The file name's ending.
        info: Further entries of the feature's ``info`` block.
        calibration: Entries of it that say where the camera was when the session began, and how it projects. Another
            model may have its cameras elsewhere and is the same recording.
    """

    key: str
    camera: str
    kind: StreamKind
    width: int
    height: int
    rate: Fraction
    encoder: str = keys.H264
    codec: str = keys.H264
    pix_fmt: str = "yuv420p"
    suffix: str = ".mp4"
    info: dict[str, Any] = field(default_factory=dict, hash=False)
    calibration: dict[str, Any] = field(default_factory=dict, compare=False)

    @property
    def channels(self) -> int:
        """Values per pixel: 3 for colour, 1 otherwise."""
        return 3 if self.kind == "color" else 1

    @property
    def is_described(self) -> bool:
        """Whether ``meta/`` speaks of it: not of masks and the combined RGBD file (spec: Video streams)."""
        return self.kind in ("color", "depth")


@dataclass(frozen=True)
class ScanStream:
    """One lidar's scans.

    Attributes:
        name: The sensor's Output Name.
        rate: Scans per second, exact.
        rays: Rays of one scan.
        columns: Azimuths of the ray grid, for the video proxy.
        description: The content of the JSON file beside each Parquet file.
        has_proxy: Whether a video of the scans is written too.
    """

    name: str
    rate: Fraction
    rays: int
    columns: int
    description: dict[str, Any] = field(default_factory=dict, hash=False)
    has_proxy: bool = False


@dataclass(frozen=True)
class ToDraw:
    """What is drawn later, of the states: enough to write then what would have been written at once.

    Attributes:
        settings: The settings that decide it, plain JSON values by their names.
        calibration: Of each stream, by key, what the simulation showed of its camera when the session began: what
            `Stream.info` and `Stream.calibration` say.
    """

    settings: Mapping[str, Any] = field(hash=False)
    calibration: Mapping[str, Mapping[str, Any]] = field(hash=False, compare=False)


@dataclass(frozen=True)
class Schema:
    """What every row and every frame of a recording is.

    Attributes:
        entity_column: ``robot_id``, ``sim_id`` or ``entity_id``.
        entity_label: The fixed label of the recorder mode (``ur5e``, ``mujoco_scene``, ``custom``).
        robots: The robots' names; one row each per tick, in this order.
        hz: The data rate, exact.
        columns: The columns that follow ``frame_flags``, in order.
        streams: The video streams.
        scans: The lidars' scans.
        has_rows: Whether rows are written at all (``record_data``).
        has_states: Whether the simulation's full states are kept (``keep_states``).
        to_draw: What is to be drawn of the states later, as plain JSON values: see `ToDraw`; None where nothing is.
    """

    entity_column: str
    entity_label: str
    robots: tuple[str, ...]
    hz: Fraction
    columns: tuple[Field, ...]
    streams: tuple[Stream, ...] = ()
    scans: tuple[ScanStream, ...] = ()
    has_rows: bool = True
    has_states: bool = False
    to_draw: ToDraw | None = None

    @property
    def leading(self) -> tuple[Field, ...]:
        """The columns every row starts with."""
        return (
            Field(keys.INDEX, "int64"),
            Field(self.entity_column, "int64"),
            Field(keys.TIMESTAMP, "float64"),
            Field(keys.EPISODE_INDEX, "int64"),
            Field(keys.FRAME_INDEX, "int64"),
            Field(keys.TASK_INDEX, "int64"),
            Field(keys.FRAME_FLAGS, "uint8", flags=keys.FLAG_NAMES),
        )

    @property
    def fields(self) -> tuple[Field, ...]:
        """All columns, in the order they are written."""
        return self.leading + self.columns

    @property
    def described(self) -> tuple[Stream, ...]:
        """The streams that ``meta/`` speaks of."""
        return tuple(s for s in self.streams if s.is_described)

    def stream(self, key: str) -> Stream:
        """Return the stream of a key."""
        return next(s for s in self.streams if s.key == key)

    @property
    def entity_type_field(self) -> str:
        """``robot_type``, ``sim_type`` or ``entity_type``: named after the entity column."""
        return self.entity_column.removesuffix("_id") + "_type"


def entity_id(name: str) -> int:
    """Return the id of a robot or entity: a hash of its name, the same on every machine, 64 bits, stored signed."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little", signed=True)
