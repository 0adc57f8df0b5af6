"""A finished episode, the same for every format."""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lucky_recorder.episode.statistics import PixelHistogram
from lucky_recorder.errors import StateError


class Event(NamedTuple):
    """Something that was marked within an episode.

    Attributes:
        tick: The data tick it comes before.
        kind: What it is.
        fields: What else is known of it, plain JSON values.
    """

    tick: int
    kind: str
    fields: Mapping[str, Any]


class VideoFile(NamedTuple):
    """A finished file: where it is, its frames and its size in bytes."""

    path: Path
    frames: int
    bytes: int


class Reason(enum.StrEnum):
    """Why an episode ended.

    Attributes:
        VERDICT: It was judged.
        NO_VERDICT: It was over, and nothing says whether it succeeded.
        TERMINATED: The environment said ``terminated``.
        TRUNCATED: The environment said ``truncated``, and not ``terminated``.
        TIME_LIMIT: It had lasted ``max_episode_length_s``.
        STOPPED: It was broken off: a reset, the end of the program, an interrupt.
        ERROR: The environment raised an error.
        STREAM_FAILED: A camera, depth, mask or lidar stream failed.
        TRIMMED: Its last rows were cut off afterwards.
    """

    VERDICT = "verdict"
    NO_VERDICT = "no_verdict"
    TERMINATED = "terminated"
    TRUNCATED = "truncated"
    TIME_LIMIT = "time_limit"
    STOPPED = "stopped"
    ERROR = "error"
    STREAM_FAILED = "stream_failed"
    TRIMMED = "trimmed"


class Outcome(NamedTuple):
    """How an episode ended.

    Attributes:
        success: The verdict that is recorded.
        reason: Why it ended.
        reward: The verdict as a number, if the caller gave one.
    """

    success: bool
    reason: Reason = Reason.VERDICT
    reward: float | None = None


class About(NamedTuple):
    """What is known of an episode besides its rows and frames.

    Attributes:
        seed: The seed of the reset that it began with, in decimal digits; None where none was given.
        options: The options of that reset, as plain JSON values; None where none were given.
        lane: Which of the environments that are recorded together it is of, from 0.
        duration_s: How long it lasted on the wall's clock, in seconds; None where that is not known.
        ended_by: What the environment said when it ended it, `Reason.TERMINATED` or `Reason.TRUNCATED`; of an episode
            that is read back, why it ended. None where nothing was said.
        annotations: What the user said of it: plain JSON values.
    """

    seed: str | None = None
    options: Mapping[str, Any] | None = None
    lane: int = 0
    duration_s: float | None = None
    ended_by: str | None = None
    annotations: Mapping[str, Any] = MappingProxyType({})


class FinishedVideo(NamedTuple):
    """A stream's file of one episode, and what its pixels were."""

    file: VideoFile
    pixels: PixelHistogram


class FinishedScans(NamedTuple):
    """A lidar's scans of one episode.

    Attributes:
        positions: The sensor's position, metres, float64, shape ``(scans, 3)``.
        orientations: Its orientation, quaternion w x y z, float64, shape ``(scans, 4)``.
        ranges: Metres along each ray, float32, shape ``(scans, rays)``; infinity where nothing came back.
        geoms: The geom each ray hit, int32, shape ``(scans, rays)``; -1 where none.
        proxy: The finished video of the scans, if there is one.

    The arrays can only be read; those of many scans are in a file.
    """

    positions: NDArray[np.float64]
    orientations: NDArray[np.float64]
    ranges: NDArray[np.float32]
    geoms: NDArray[np.int32]
    proxy: VideoFile | None = None


class Model:
    """A model, as a file that its simulator reads.

    Attributes:
        content: The file's bytes.
    """

    def __init__(self, content: bytes) -> None:
        self.content = content

    @cached_property
    def sha256(self) -> str:
        """The sum of the bytes, 64 hexadecimal digits: what the file is called by."""
        return hashlib.sha256(self.content).hexdigest()


class FinishedStates(NamedTuple):
    """The full states of one episode's simulation.

    Attributes:
        states: The state before each base tick, and that after the last, float64, shape ``(ticks + 1, n)``.
        commands: The commands that were applied in each tick, float64, shape ``(ticks, nu)``.
        model: The model, as it was when the episode began.
        about: What its file says of itself: plain JSON values. Where its ``ended`` is False, nobody knows the last
            state and the last commands: they are NaN.
        file: A finished file that holds all this already, where it is another session's; the arrays have no rows then.
            None where it is to be written.

    The arrays can only be read; those of many ticks are in a file.
    """

    states: NDArray[np.float64]
    commands: NDArray[np.float64]
    model: Model
    about: Mapping[str, Any]
    file: Path | None = None


@dataclass(frozen=True)
class EpisodeRecord:
    """A finished episode, the same for every format. It has no index yet: a format gives it one when it commits.

    Attributes:
        take: Number of the take (the attempt at an episode) within the recording, from 0; discarded ones count. Where a
            session is gone on with, the first has the number of its episodes.
        data_ticks: Ticks that have rows, one per robot.
        rows: Rows.
        columns: A column per `Schema.fields`, except ``index`` and ``episode_index``; arrays of shape ``(rows, …)``.
            One of texts is an array of objects: texts, and None where there is none. They can only be read; those
            of a long episode are in a file: see `lucky_recorder.episode.parts`.
        missing: For nullable columns of numbers: bool, shape ``(rows,)``, True where there is no value.
        outcome: How it ended.
        tasks: The descriptions of the tasks that occur, by ``task_index``, ascending. One that the recording did not
            begin with has the next index that is free.
        videos: The finished file of each stream, by key; a failed stream has none.
        scans: The scans of each lidar, by name; a failed one has none.
        states: The simulation's full states; None where they are not kept.
        reproducible: Whether the same run would give the same bytes again: seeded reset, software GL, CPU encoder.
        began_ns: When it began, nanoseconds since 1970; 0 where that is not known.
        events: What was marked within it, in order.
        about: What else is known of it.
        noted: What ``meta/episodes`` says of it besides, by column, where it is an episode of another session: plain
            JSON values, or Arrow's of types that JSON has not. It stands for what ``about`` would say.
    """

    take: int
    data_ticks: int
    rows: int
    columns: Mapping[str, NDArray[Any]]
    outcome: Outcome
    tasks: Mapping[int, str]
    videos: Mapping[str, FinishedVideo] = field(default_factory=dict)
    scans: Mapping[str, FinishedScans] = field(default_factory=dict)
    missing: Mapping[str, NDArray[np.bool_]] = field(default_factory=dict)
    reproducible: bool = False
    began_ns: int = 0
    events: tuple[Event, ...] = ()
    about: About = field(default_factory=About)
    noted: Mapping[str, Any] | None = None
    states: FinishedStates | None = None

    @property
    def end_reason(self) -> str:
        """Why it ended: what the environment said, unless something else has broken it off."""
        said, reason = self.about.ended_by, self.outcome.reason
        return said if said is not None and reason in (Reason.VERDICT, Reason.NO_VERDICT) else reason.value

    def new_tasks(self, known: int) -> list[str]:
        """Return the descriptions of its tasks whose index is ``known`` or more, in order.

        A format that lists tasks has those of `Sink.open`, and adds these with every episode that it commits.

        Raises:
            StateError: If an index would be left out: an episode that it belongs to has not come here.
        """
        new = {index: description for index, description in sorted(self.tasks.items()) if index >= known}
        if list(new) != list(range(known, known + len(new))):
            raise StateError(f"take {self.take}: its tasks have the indices {list(new)}, but {known} comes next")
        return list(new.values())
