"""What passes between the caller's thread and the worker's: the queue's messages one way, counts and an error back.

Once a message is queued the caller lets go of it, and of all that it holds: from then on it is the worker's alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

from lucky_recorder.capture.channels import DerivedColumn
from lucky_recorder.capture.schedule import Clocks
from lucky_recorder.capture.snapshot import Snapshot
from lucky_recorder.episode.record import About, Outcome
from lucky_recorder.episode.schema import Schema
from lucky_recorder.errors import LuckyRecorderError
from lucky_recorder.recorder.buffer import EpisodeBuffer
from lucky_recorder.recorder.trail import Trail


class Layout(NamedTuple):
    """What every row, frame and scan is, once the rates are known.

    Attributes:
        schema: The columns and streams.
        clocks: The rates.
    """

    schema: Schema
    clocks: Clocks

    def due(self, ticks: int, rate: Fraction) -> int:
        """Return how many frames or scans of a stream fall due in so many ticks."""
        return self.clocks.due(ticks, rate)


class Mark(NamedTuple):
    """What a take is known by.

    Attributes:
        number: Counts the takes of a session, in all lanes, from 0.
        key: What its noise is keyed by: in another run with the same seeds it is the same.
        seed: The seed of the reset that began it; None where none was given.
    """

    number: int
    key: str
    seed: int | None


class Seen(NamedTuple):
    """What cameras and lidars have seen at one tick; it is to be drawn, scanned and encoded.

    Attributes:
        take: Number of the take.
        key: What the take's noise is keyed by.
        tick: The tick.
        snapshots: One for each camera and lidar that is due.
    """

    take: int
    key: str
    tick: int
    snapshots: list[Snapshot]


class Ended(NamedTuple):
    """A take that has ended; it is to be committed, or discarded.

    Attributes:
        mark: What it is known by.
        outcome: How it ended.
        buffer: Its raw rows.
        ticks: Its finished ticks.
        last_seen: The last tick whose snapshots were handed over, or -1.
        columns: How the rows' columns follow from the raw values.
        entities: The robots' ids, in the order of their rows.
        is_seeded: Whether every reset in it was given a seed.
        began_ns: When it began, nanoseconds since 1970.
        about: What else is known of it.
        lane: The number of its lane; 0 where that is the only one.
        trail: Its full states; None where they are not kept.
    """

    mark: Mark
    outcome: Outcome
    buffer: EpisodeBuffer
    ticks: int
    last_seen: int
    columns: Sequence[DerivedColumn]
    entities: Sequence[int]
    is_seeded: bool
    began_ns: int
    about: About = About()
    lane: int = 0
    trail: Trail | None = None

    @property
    def take(self) -> int:
        """Its number."""
        return self.mark.number


class Counts:
    """What became of what was queued: written by the worker, read by the caller and by anyone else.

    Attributes:
        kept: Episodes committed.
        discarded: Takes discarded.
        rows: Rows committed.
        bytes: Bytes of video committed.
        failed: Takes that could not be written.
        dropped: Takes that came after what has failed.
        notice: What the user is to be warned of at the next chance, empty for nothing.
        failure: What failed first; the session stops when the caller finds it.
    """

    def __init__(self) -> None:
        self.kept = 0
        self.discarded = 0
        self.rows = 0
        self.bytes = 0
        self.failed = 0
        self.dropped = 0
        self.notice = ""
        self.failure: LuckyRecorderError | None = None

    def take_notice(self) -> str:
        """Return the notice, which is then taken as told."""
        notice, self.notice = self.notice, ""
        return notice
