"""Sessions out of synthetic episodes: through the real sink and the real encoder, small pictures, known numbers."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from lucky_recorder.episode import clock
from lucky_recorder.episode.keys import NEW_POLICY_STEP, POST_RESET
from lucky_recorder.episode.record import About, EpisodeRecord, FinishedScans, FinishedVideo, Outcome, VideoFile
from lucky_recorder.episode.schema import Field, ScanStream, Schema, Stream
from lucky_recorder.episode.statistics import PixelHistogram
from lucky_recorder.session.layout import Chunking
from lucky_recorder.session.sink import SessionSink
from lucky_recorder.storage.write import make_folder
from lucky_recorder.video.encoder import VideoEncoder
from lucky_recorder.video.remux import combine

WIDTH, HEIGHT = 64, 48
JOINTS = ("pan", "lift", "grip")


def vector(name: str, size: int, robots: Sequence[str]) -> Field:
    """A column such as ``action``: its name lists cover every robot in turn."""
    names = tuple(f"{robot}.{JOINTS[i]}" for robot in robots for i in range(size))
    lucky = names if name == "observation.state" else None
    return Field(name, "float64", (size,), names=names, lucky_names=lucky, has_stats=True)


def camera(name: str, rate: Fraction | int = 50) -> Stream:
    key = f"observation.images.{name}"
    return Stream(key, name, "color", WIDTH, HEIGHT, Fraction(rate))


LABELS = {"0": "background", "1": "cube", "2": "arm"}
AZIMUTHS, ELEVATIONS = [-30.0, -10.0, 10.0, 30.0], [-5.0, 5.0]


def depth(name: str, rate: Fraction | int = 50, **info: Any) -> Stream:
    """A camera's depth stream; frame ``k`` holds ``1000 + k`` everywhere but in a corner."""
    meaning = {
        "depth_scale": 0.001,
        "depth_dtype": "uint16",
        "depth_units": "meters",
        "sensor_model": "None",
        "zero_means": "no surface",
    }
    key = f"observation.images.{name}_depth"
    how = ("ffv1", "ffv1", "gray16le", ".mkv")
    return Stream(key, name, "depth", WIDTH, HEIGHT, Fraction(rate), *how, meaning | info)


def rgbd(name: str, rate: Fraction | int = 50) -> Stream:
    key = f"observation.images.{name}_rgbd"
    return Stream(key, name, "rgbd", WIDTH, HEIGHT, Fraction(rate), encoder="", codec="", suffix=".mkv")


def mask(name: str, rate: Fraction | int = 50) -> Stream:
    """A camera's mask stream; frame ``k`` shows id ``k % 3``."""
    how = ("mask", "h264", "yuvj420p", ".mp4", {"labels": LABELS})
    return Stream(f"observation.masks.{name}", name, "mask", WIDTH, HEIGHT, Fraction(rate), *how)


def lidar(name: str, rate: Fraction | int = 25, has_proxy: bool = False) -> ScanStream:
    rays = len(AZIMUTHS) * len(ELEVATIONS)
    description = {
        "name": name,
        "pattern": "solid_state",
        "rate": clock.number(Fraction(rate)),
        "frame": "sensor: x forward, y left, z up",
        "mount": {"site": "eye"},
        "azimuth_deg": AZIMUTHS,
        "elevation_deg": ELEVATIONS,
        "rays": rays,
        "min_range_m": 0.5,
        "max_range_m": 10.0,
        "noise_m": 0.0,
    }
    return ScanStream(name, Fraction(rate), rays, len(AZIMUTHS), description, has_proxy)


def arm_schema(
    cameras: Sequence[Stream] = (),
    robots: Sequence[str] = ("arm",),
    hz: Fraction | int = 50,
    extra: Sequence[Field] = (),
    lidars: Sequence[ScanStream] = (),
) -> Schema:
    columns = (vector("action", 3, robots), vector("observation.state", 3, robots), *extra)
    return Schema("robot_id", "ur5e", tuple(robots), Fraction(hz), columns, tuple(cameras), tuple(lidars))


def custom_schema(*columns: Field, cameras: Sequence[Stream] = ()) -> Schema:
    return Schema("entity_id", "custom", ("thing",), Fraction(50), columns, tuple(cameras))


def entity_id(robot: str) -> int:
    return sum(ord(letter) << 7 * i for i, letter in enumerate(robot)) - 2**62


def picture_of(stream: Stream, frame: int, attempt: int) -> np.ndarray:
    """What a stream shows in a frame: a colour, a depth, or an id; a corner shows another."""
    if stream.kind == "color":
        return np.full((stream.height, stream.width, 3), (frame * 9 % 200, 40, attempt * 20 % 256), np.uint8)
    value, dtype = (1000 + frame, np.uint16) if stream.kind == "depth" else (frame % len(LABELS), np.uint8)
    picture = np.full((stream.height, stream.width), value, dtype)
    picture[:8, :8] = 0
    return picture


class Recording:
    """A session being written; remembers every row that was committed, so that readers can be compared with it."""

    def __init__(
        self,
        root: Path,
        schema: Schema,
        files_per_chunk: int = 40,
        episodes_per_file: int = 1,
        tasks: Sequence[str] = ("Pick up the cube", "Put it down"),
        metadata_every: int = 25,
        seed: int = 0,
    ) -> None:
        root.mkdir(parents=True, exist_ok=True)
        self.root = root
        self.schema = schema
        self.tasks = list(tasks) or ["Default Task"]
        self._how = Chunking(files_per_chunk, episodes_per_file), metadata_every
        self._registered = tasks
        self.sink = SessionSink(root, *self._how)
        self.sink.open(schema, tasks)
        self.committed: list[EpisodeRecord] = []
        self._random = np.random.default_rng(seed)
        self._attempts = 0

    def record(
        self,
        ticks: int,
        success: bool = True,
        tasks: Sequence[int] = (0,),
        offset: float = 0.0,
        failed_stream: str | None = None,
        values: dict[str, Any] | None = None,
        missing: dict[str, Any] | None = None,
        began_ns: int = 0,
        about: About | None = None,
    ) -> EpisodeRecord:
        """Make a finished episode: its videos are on the disk already, under temporary names."""
        schema, robots = self.schema, len(self.schema.robots)
        rows = ticks * robots
        columns = {
            schema.entity_column: np.tile([entity_id(robot) for robot in schema.robots], ticks),
            "timestamp": np.repeat(clock.ticks_s(ticks, schema.hz), robots),
            "frame_index": np.repeat(np.arange(ticks), robots),
            "task_index": np.repeat(np.sort(np.resize(tasks, ticks)), robots),
            "frame_flags": np.full(rows, NEW_POLICY_STEP, np.uint8),
        }
        columns["frame_flags"][:robots] |= POST_RESET
        for field in schema.columns:
            drawn = self._random.normal(self._random.normal(), 1.0, (rows, *field.shape)) + offset
            if field.is_text:
                columns[field.name] = np.array([f"{number:.3f}" for number in drawn], object)
            else:
                columns[field.name] = (drawn > 0) if field.dtype == "bool" else drawn.astype(field.dtype)
        columns |= values or {}
        attempt, self._attempts = self._attempts, self._attempts + 1
        videos = self._films(ticks, attempt, failed_stream)
        scans = {s.name: self._scan(s, ticks, attempt) for s in schema.scans if s.name != failed_stream}
        return EpisodeRecord(
            attempt,
            ticks,
            rows,
            columns,
            Outcome(success),
            {int(i): self.tasks[i] for i in np.unique(columns["task_index"])},
            videos=videos,
            scans=scans,
            missing=missing or {},
            reproducible=True,
            began_ns=began_ns,
            about=about or About(),
        )

    def _films(self, ticks: int, attempt: int, failed_stream: str | None) -> dict[str, FinishedVideo]:
        filmed = [s for s in self.schema.streams if s.encoder and s.key != failed_stream]
        videos = {s.key: self._film(s, ticks, attempt) for s in filmed}
        for stream in self.schema.streams:
            color = videos.get(f"observation.images.{stream.camera}")
            depth = videos.get(f"observation.images.{stream.camera}_depth")
            if stream.kind == "rgbd" and color and depth and stream.key != failed_stream:
                path = self._path(stream.key, attempt, stream.suffix)
                combine(color.file.path, depth.file.path, path)
                file = VideoFile(path, color.file.frames, path.stat().st_size)
                videos[stream.key] = FinishedVideo(file, PixelHistogram())
        return videos

    def _path(self, key: str, attempt: int, suffix: str) -> Path:
        path = self.sink.stream_path(key, attempt, suffix)
        make_folder(path.parent)
        return path

    def _film(self, stream: Stream, ticks: int, attempt: int) -> FinishedVideo:
        path = self._path(stream.key, attempt, stream.suffix)
        size = {"width": stream.width, "height": stream.height}
        encoder = VideoEncoder(path, **size, fps=stream.rate, codec=stream.encoder)
        pixels = PixelHistogram()
        for frame in range(self._count(stream.rate, ticks)):
            picture = picture_of(stream, frame, attempt)
            encoder.write(picture)
            if stream.kind == "color":
                pixels.add(frame, picture)
        return FinishedVideo(encoder.close(), pixels)

    def _count(self, rate: Fraction, ticks: int) -> int:
        return -(-ticks * rate // self.schema.hz)

    def _scan(self, stream: ScanStream, ticks: int, attempt: int) -> FinishedScans:
        count, rays = self._count(stream.rate, ticks), stream.rays
        ranges = self._random.uniform(1, 9, (count, rays)).astype(np.float32)
        ranges[:, 0] = np.inf
        geoms = np.where(np.isinf(ranges), -1, np.arange(rays)).astype(np.int32)
        turned = np.array([np.cos(0.3), 0.0, 0.0, np.sin(0.3)])
        poses = np.tile([0.1, 0.2, 0.3], (count, 1)), np.tile(turned, (count, 1))
        proxy = self._proxy(stream, count, attempt) if stream.has_proxy else None
        return FinishedScans(*poses, ranges, geoms, proxy)

    def _proxy(self, stream: ScanStream, count: int, attempt: int) -> VideoFile:
        encoder = VideoEncoder(
            self._path(f"lidar-{stream.name}", attempt, ".mp4"), width=64, height=64, fps=stream.rate
        )
        for frame in range(count):
            encoder.write(np.full((64, 64, 3), frame, np.uint8))
        return encoder.close()

    def keep(self, ticks: int, **episode: Any) -> EpisodeRecord:
        """Record an episode and commit it."""
        record = self.record(ticks, **episode)
        self.sink.prepare(record).commit()
        self.committed.append(record)
        return record

    def discard(self, ticks: int, **episode: Any) -> None:
        """Record an episode and discard it."""
        self.sink.prepare(self.record(ticks, success=False, **episode)).discard()

    def resume(self) -> None:
        """Go on with the session after it was closed, or cut short."""
        self.sink = SessionSink(self.root, *self._how, resumes=True)
        self.sink.open(self.schema, self._registered)

    def close(self) -> Path:
        self.sink.close()
        return self.root

    def all_rows(self, name: str) -> np.ndarray:
        """Every committed value of a column, in order."""
        return np.concatenate([record.columns[name] for record in self.committed])


def small_session(root: Path) -> Recording:
    """Two robots, two cameras (one at half the rate), seven episodes in data files of three; closed."""
    schema = arm_schema([camera("Front"), camera("Wrist", 25)], robots=("left", "right"))
    recording = Recording(root, schema, files_per_chunk=2, episodes_per_file=3, metadata_every=4)
    for episode in range(7):
        recording.keep(4 + episode % 3, success=episode != 2, tasks=(0, 1) if episode == 1 else (episode % 2,))
    recording.close()
    return recording


def full_session(root: Path) -> Recording:
    """Every stream there is, the lidar with a proxy, three episodes in two chunks; the last one has failed."""
    streams = [camera("Front"), depth("Front"), rgbd("Front"), mask("Front"), camera("Fast", 100), depth("Slow", 25)]
    schema = arm_schema(streams, lidars=[lidar("top", 25, has_proxy=True), lidar("side", 100)])
    recording = Recording(root, schema, files_per_chunk=2)
    for episode in range(3):
        recording.keep(4 + episode, success=episode < 2)
    recording.close()
    return recording
