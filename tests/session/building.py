"""Sessions out of synthetic episodes: through the real sink and the real encoder, small pictures, known numbers."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from lucky_recorder import clock
from lucky_recorder.episode import EpisodeRecord, FinishedVideo, Outcome
from lucky_recorder.schema import NEW_POLICY_STEP, POST_RESET, Field, Schema, Stream
from lucky_recorder.session.layout import Chunking
from lucky_recorder.session.writer import SessionSink
from lucky_recorder.statistics import PixelHistogram
from lucky_recorder.video.encoder import VideoEncoder

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


def arm_schema(
    cameras: Sequence[Stream] = (),
    robots: Sequence[str] = ("arm",),
    hz: Fraction | int = 50,
    extra: Sequence[Field] = (),
) -> Schema:
    columns = (vector("action", 3, robots), vector("observation.state", 3, robots), *extra)
    return Schema("robot_id", "ur5e", tuple(robots), Fraction(hz), columns, tuple(cameras))


def custom_schema(*columns: Field, cameras: Sequence[Stream] = ()) -> Schema:
    return Schema("entity_id", "custom", ("thing",), Fraction(50), columns, tuple(cameras))


def entity_id(robot: str) -> int:
    return sum(ord(letter) << 7 * i for i, letter in enumerate(robot)) - 2**62


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
        self.sink = SessionSink(root, schema, Chunking(files_per_chunk, episodes_per_file), tasks, metadata_every)
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
            columns[field.name] = (drawn > 0) if field.dtype == "bool" else drawn.astype(field.dtype)
        columns |= values or {}
        attempt, self._attempts = self._attempts, self._attempts + 1
        videos = {s.key: self._film(s, ticks, attempt) for s in schema.streams if s.key != failed_stream}
        occurring = tuple(int(i) for i in np.unique(columns["task_index"]))
        return EpisodeRecord(
            attempt, ticks, rows, columns, Outcome(success), occurring, videos, missing=missing or {}, reproducible=True
        )

    def _film(self, stream: Stream, ticks: int, attempt: int) -> FinishedVideo:
        path = self.sink.stream_path(stream.key, attempt, stream.suffix)
        path.parent.mkdir(parents=True, exist_ok=True)
        encoder = VideoEncoder(path, width=stream.width, height=stream.height, fps=stream.rate)
        pixels = PixelHistogram()
        for frame in range(-(-ticks * stream.rate // self.schema.hz)):
            picture = np.full((stream.height, stream.width, 3), (frame * 9 % 200, 40, attempt * 20 % 256), np.uint8)
            encoder.write(picture)
            pixels.add(frame, picture)
        return FinishedVideo(encoder.close(), pixels)

    def keep(self, ticks: int, **episode: Any) -> EpisodeRecord:
        """Record an episode and commit it."""
        record = self.record(ticks, **episode)
        self.sink.prepare(record).commit()
        self.committed.append(record)
        return record

    def discard(self, ticks: int, **episode: Any) -> None:
        """Record an episode and discard it."""
        self.sink.prepare(self.record(ticks, success=False, **episode)).discard()

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
