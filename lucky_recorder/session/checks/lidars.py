"""Checks of lidar files: scans, the JSON files that describe their sensors, and video proxies (spec: Lidar files)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from lucky_recorder.errors import shown
from lucky_recorder.session.checks import unlisted
from lucky_recorder.session.checks.declared import is_whole, rate
from lucky_recorder.session.checks.evidence import Evidence, Fault
from lucky_recorder.session.checks.times import tick_times
from lucky_recorder.session.checks.vectors import Array, first_wrong
from lucky_recorder.session.checks.vectors import values as flat_values
from lucky_recorder.session.checks.videos import box_faults, count_faults, decoded, frame_faults

# Repeated on purpose: a check that used the writer's constants would not find a wrong one.
MOST_RAYS = 1_000_000
_POSE = {"sensor_position": 3, "sensor_orientation": 4}
_SCHEMA = {
    "scan_index": pa.int64(),
    "timestamp": pa.float64(),
    "episode_index": pa.int64(),
    "frame_index": pa.int64(),
    **dict.fromkeys(_POSE, pa.list_(pa.float64())),
    "range": pa.list_(pa.float32()),
    "geom_id": pa.list_(pa.int32()),
}
# These columns another recorder's scans may have as well.
_LEADING = ("timestamp", "episode_index", "frame_index", "range")
_UNIT_ERROR = 1e-6
# Larger lengths and angles are nonsense, and would become infinite as float32.
_LARGEST = 1e30
NO_GEOM = -1


def _is_number(value: object) -> bool:
    return type(value) in (int, float) and abs(value) < _LARGEST  # type: ignore[arg-type]


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _are_angles(value: object) -> bool:
    return isinstance(value, list) and 0 < len(value) <= MOST_RAYS and all(map(_is_number, value))


def _is_mount(value: object) -> bool:
    return isinstance(value, dict) and _is_text(value.get("site"))


_DESCRIPTION: dict[str, tuple[Callable[[Any], bool], str]] = {
    "name": (_is_text, "the sensor's Output Name"),
    "pattern": (lambda v: v in ("spinning", "solid_state"), "spinning or solid_state"),
    "rate": (lambda v: rate(v) is not None, "scans per second"),
    "frame": (_is_text, "a text"),
    "mount": (_is_mount, "an object that names a site"),
    "azimuth_deg": (_are_angles, "angles in degrees"),
    "elevation_deg": (_are_angles, "angles in degrees"),
    "rays": (lambda v: is_whole(v, 1, MOST_RAYS), f"a whole number up to {MOST_RAYS}"),
    "min_range_m": (lambda v: _is_number(v) and v >= 0, "metres"),
    "max_range_m": (lambda v: _is_number(v) and v > 0, "metres"),
    "noise_m": (lambda v: _is_number(v) and v >= 0, "metres"),
}


@dataclass(frozen=True)
class Sensor:
    """What a JSON file says of a lidar."""

    rate: Fraction
    rays: int
    nearest: np.float32
    farthest: np.float32
    sees_flexes: bool


def check_lidars(evidence: Evidence) -> Iterator[Fault]:
    """Check the lidar files of every episode; a sensor is described alike throughout."""
    said = dict(evidence.shared.sensors)
    for episode in evidence.episodes if evidence.declared.files_per_chunk else ():
        ticks = episode.length // evidence.declared.robots if evidence.declared.robots else None
        for twins in unlisted.lidars(evidence, episode):
            yield from unlisted.missing(twins, episode, evidence)
            yield from file_faults(twins, episode.number, ticks, evidence, said)


def first_sensors(evidence: Evidence) -> dict[str, Mapping[str, Any]]:
    """Return how each sensor is described, by the first of its files that can be read."""
    said: dict[str, Mapping[str, Any]] = {}
    for name in unlisted.names(evidence, unlisted.LIDAR) if evidence.declared.files_per_chunk else ():
        for episode in evidence.episodes:
            chunk = unlisted.video_place(evidence, episode).chunk_index
            twins = unlisted.twins_of_lidar(name, chunk, episode.number, False)
            described = _read(twins.description, evidence, evidence.folder.json)
            if described is not None:
                said[name] = described
                break
    return said


def file_faults(
    twins: unlisted.Twins, episode: int, ticks: int | None, evidence: Evidence, said: dict[str, Mapping[str, Any]]
) -> Iterator[Fault]:
    """Check one sensor's files of one episode.

    Args:
        twins: The files.
        episode: The number of the episode.
        ticks: Its data ticks, None if the session has no rows.
        evidence: The session.
        said: The first description of each sensor, filled in here.
    """
    if not _is_known(twins, evidence):
        return
    description = _read(twins.description, evidence, evidence.folder.json)
    for message in _description_faults(twins.name, description, said) if description is not None else ():
        yield Fault(twins.description, episode, message)
    sensor = _sensor(description or {})
    scans = _Scans(episode, sensor, evidence)
    for table in _tables(twins.content, evidence):
        scans.add(table)
    is_read = twins.content in evidence.files and twins.content not in evidence.unreadable
    for message in scans.faults(ticks) if is_read else ():
        yield Fault(twins.content, episode, message)
    if twins.proxy in evidence.files:
        assert twins.proxy is not None
        for message in _proxy_faults(twins.proxy, scans.count if is_read else None, sensor, evidence):
            yield Fault(twins.proxy, episode, message)


def _is_known(twins: unlisted.Twins, evidence: Evidence) -> bool:
    """Tell whether a sensor's files are to have our columns and fields: the format's page leaves them open.

    Of a session without ``meta/`` only the columns themselves tell. What cannot be read is a fault in any case.
    """
    if evidence.declared.is_ours:
        return True
    names: list[str] | None = None
    for table in _tables(twins.content, evidence):
        names = table.column_names
    _read(twins.description, evidence, evidence.folder.json)
    is_read = names is not None and twins.content not in evidence.unreadable
    return not is_read or any(name in (names or ()) for name in _SCHEMA if name not in _LEADING)


def _tables(file: str, evidence: Evidence) -> Iterator[pa.Table]:
    """Go through the scans of a file, some at a time."""
    if file not in evidence.files or file in evidence.unreadable:
        return iter(())
    return evidence.read_on(file, evidence.folder.batches(file))


def _read(file: str, evidence: Evidence, read: Callable[[str], Any]) -> Any:
    return evidence.read(file, read) if file in evidence.files else None


def _description_faults(name: str, description: Mapping[str, Any], said: dict[str, Mapping[str, Any]]) -> Iterator[str]:
    for field, (is_right, expected) in _DESCRIPTION.items():
        if field not in description:
            yield f"{field} is missing"
        elif not is_right(description[field]):
            yield f"{field} is {shown(description[field])}, expected {expected}"
    if description.get("name") != name:
        yield f"name is {shown(description.get('name'))}, the file's is {name!r}"
    rays = _grid(description)
    if rays is not None and description.get("rays") != rays:
        yield f"rays is {shown(description.get('rays'))}, its angles make {rays}"
    if description != said.setdefault(name, description):
        yield "says otherwise than the sensor's first episode"


def _grid(description: Mapping[str, Any]) -> int | None:
    angles = [description.get(field) for field in ("azimuth_deg", "elevation_deg")]
    return math.prod(map(len, angles)) if all(map(_are_angles, angles)) else None  # type: ignore[arg-type]


def _sensor(description: Mapping[str, Any]) -> Sensor | None:
    """Return what a description says; None where it cannot be believed."""
    if not all(field in description and is_right(description[field]) for field, (is_right, _) in _DESCRIPTION.items()):
        return None
    exact = rate(description["rate"])
    nearest, farthest = (np.float32(description[field]) for field in ("min_range_m", "max_range_m"))
    sees_flexes = bool(description.get("flexes"))
    return Sensor(exact, description["rays"], nearest, farthest, sees_flexes) if exact is not None else None


# What is told of a scan file, in this order.
_KINDS = (
    "columns",
    "gap",
    "scan_index",
    "episode_index",
    "timestamp",
    "range",
    "geom_id",
    "ranges",
    "geoms",
    "frame_index",
    "count",
    *_POSE,
)


class _Scans:
    """What a sensor's scans turn out to be, looked at some at a time: of each kind of fault, the first."""

    def __init__(self, episode: int, sensor: Sensor | None, evidence: Evidence) -> None:
        self.count = 0
        self._episode, self._sensor, self._hz = episode, sensor, evidence.declared.hz
        self._found: dict[str, str] = {}

    def add(self, table: pa.Table) -> None:
        """Look at more scans."""
        found = {field.name: field.type for field in table.schema}
        if list(found.items()) != list(_SCHEMA.items()) or table.num_columns != len(_SCHEMA):
            self._tell("columns", f"columns are {shown(dict(found))}, expected {', '.join(_SCHEMA)}")
        elif any(table[name].null_count for name in _SCHEMA):
            self._tell("gap", "a value is missing")
        if "columns" not in self._found and "gap" not in self._found:
            self._look_at(table)
        self.count += table.num_rows

    def faults(self, ticks: int | None) -> Iterator[str]:
        """Tell what is wrong, once all scans have come.

        Args:
            ticks: The episode's data ticks, None if the session has no rows.
        """
        for hidden in ("columns", "gap"):
            if hidden in self._found:
                yield self._found[hidden]
                return
        if ticks is None:
            self._found.pop("frame_index", None)
        elif self._sensor is not None and self._hz is not None:
            for message in count_faults("scans", self.count, ticks, self._hz, self._sensor.rate):
                self._tell("count", message)
        yield from (self._found[kind] for kind in _KINDS if kind in self._found)

    def _tell(self, kind: str, message: str) -> None:
        self._found.setdefault(kind, message)

    def _look_at(self, table: pa.Table) -> None:
        count, first, sensor = table.num_rows, self.count, self._sensor
        self._differ("scan_index", table, first + np.arange(count))
        self._differ("episode_index", table, np.full(count, self._episode))
        if sensor is not None:
            self._differ("timestamp", table, tick_times(first, count, sensor.rate))
            self._look_at_rays(table, sensor)
            if self._hz is not None:
                due = [k * self._hz // sensor.rate for k in range(first, first + count)]
                self._differ("frame_index", table, np.array(due, np.int64))
        self._look_at_poses(table)

    def _differ(self, name: str, table: pa.Table, expected: Array) -> None:
        found = table[name].to_numpy()
        scan = first_wrong(found, expected)
        if scan is not None:
            self._tell(name, f"scan {self.count + scan}: {name} is {found[scan]}, expected {expected[scan]}")

    def _look_at_poses(self, table: pa.Table) -> None:
        for name, size in _POSE.items():
            pose = flat_values(table[name], (size,))
            if pose is None:
                # It stands for what was told of earlier scans: the lists are what is wrong.
                self._found[name] = f"{name}: a list is not whole, or not of {size} values"
            elif len(broken := np.flatnonzero(~np.isfinite(pose).all(axis=1))):
                self._tell(name, f"scan {self.count + broken[0]}: {name} holds NaN or infinity")
            elif name == "sensor_orientation":
                lengths = np.sqrt((pose**2).sum(axis=1))
                if len(far := np.flatnonzero(np.abs(lengths - 1) > _UNIT_ERROR)):
                    of = f"no unit quaternion, its length is {lengths[far[0]]:.6f}"
                    self._tell(name, f"scan {self.count + far[0]}: {name} is {of}")

    def _look_at_rays(self, table: pa.Table, sensor: Sensor) -> None:
        """Check every ray: a distance the sensor can measure and the geom it hit, or neither."""
        rays = {name: flat_values(table[name], (sensor.rays,)) for name in ("range", "geom_id")}
        for name, one in rays.items():
            if one is None:
                self._tell(name, f"{name}: a list is not whole, or not of {sensor.rays} rays")
        ranges, geoms = rays["range"], rays["geom_id"]
        if ranges is None or geoms is None:
            return
        is_lost = ranges == np.inf
        wrong = ~is_lost & ~((ranges >= sensor.nearest) & (ranges <= sensor.farthest))
        if wrong.any():
            scan, ray = np.argwhere(wrong)[0]
            limits = f"{sensor.nearest:g} to {sensor.farthest:g} m"
            message = f"range {ray} is {ranges[scan, ray]}, expected {limits}, or infinity"
            self._tell("ranges", f"scan {self.count + scan}: {message}")
        # What comes back from a flex comes from no geom.
        has_none = geoms == NO_GEOM
        unlike = (geoms < NO_GEOM) | (is_lost & ~has_none) | (~is_lost & has_none & (not sensor.sees_flexes))
        if unlike.any():
            scan, ray = np.argwhere(unlike)[0]
            message = f"geom_id {ray} is {geoms[scan, ray]}, its range is {ranges[scan, ray]}"
            self._tell("geoms", f"scan {self.count + scan}: {message}")


def _proxy_faults(file: str, scans: int | None, sensor: Sensor | None, evidence: Evidence) -> Iterator[str]:
    video = decoded(file, evidence, "yuv420p")
    if isinstance(video, str):
        yield video
        return
    if (video.codec, video.pix_fmt) != ("h264", "yuv420p"):
        yield f"is {video.codec}, {video.pix_fmt}, expected h264, yuv420p"
    if sensor is not None and video.fps != sensor.rate:
        yield f"frame rate is {video.fps}, the sensor's is {sensor.rate}"
    if scans is not None and video.frames != scans:
        yield f"{video.frames} frames, for {scans} scans"
    yield from frame_faults(video, ".mp4", True)
    yield from box_faults(evidence.folder.path / file)
