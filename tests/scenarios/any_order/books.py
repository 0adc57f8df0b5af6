"""A small model of what must be on the disk after any order of calls: plain lists of ticks, and nothing else.

It is kept beside a recorder that is driven. It knows the manual, not the recorder: what a row stands for, when an
episode ends and how, what is kept, and what a failure leaves.
"""

from __future__ import annotations

import dataclasses
import enum
from pathlib import Path
from typing import Any, NamedTuple

NEW_POLICY, POST_RESET = 1, 2
HZ = 50


class State(enum.Enum):
    """Where a recorder should stand; the values are those of its own states."""

    IDLE = "Idle"
    IN = "InEpisode"
    BETWEEN = "BetweenEpisodes"


@dataclasses.dataclass(frozen=True)
class Plan:
    """How a recorder is set up.

    Attributes:
        camera: Whether there is one.
        data_every: Ticks to a row.
        camera_every: Ticks to a frame.
        koyu: Whether bundles are written too.
        discards: Whether failed episodes are discarded.
        total: After how many kept episodes the session ends.
        most_ticks: The longest episode, in ticks.
        per_file: Episodes in a data file.
        metadata_every: Episodes between two writes of ``meta/``.
        length: Steps until an environment says that it is done; None for never.
    """

    camera: bool = False
    data_every: int = 1
    camera_every: int = 1
    koyu: bool = False
    discards: bool = False
    total: int | None = None
    most_ticks: int | None = None
    per_file: int = 1
    metadata_every: int = 25
    length: int | None = None

    def fields(self, output_dir: Path, camera: dict[str, Any]) -> dict[str, Any]:
        """Return the settings of a recorder whose ticks are 50 a second."""
        seen = {**camera, "frame_rate": HZ // self.camera_every}
        return {
            "output_dir": output_dir,
            "control_hz": HZ,
            "data_hz": HZ // self.data_every,
            "cameras": [seen] if self.camera else [],
            "koyu": {"name": "bundles"} if self.koyu else None,
            "discard_and_retry_failed": self.discards,
            "total_episodes": self.total,
            "max_episode_length_s": None if self.most_ticks is None else self.most_ticks / HZ,
            "episodes_per_file": self.per_file,
            "metadata_every": self.metadata_every,
            "tasks": ["first"],
        }


class Tick(NamedTuple):
    """One tick: the number that the simulation showed before it, and what was done in it."""

    count: int
    command: float
    task: int
    is_new: bool = True
    was_reset: bool = False
    reward: float = 0.0
    done: bool = False


@dataclasses.dataclass
class Take:
    """One attempt at an episode."""

    number: int
    ticks: list[Tick] = dataclasses.field(default_factory=list)
    events: list[int] = dataclasses.field(default_factory=list)
    success: bool = False


class Struck(NamedTuple):
    """A failure in the worker: what has failed, at which take, and how many takes had been kept or discarded by then.

    Where lanes share a session, a take that is struck may end after others that began later.
    """

    kind: str
    take: int
    after: int


class Episode(NamedTuple):
    """An episode as the files must have it: one entry per row, and the number that each frame shows."""

    counts: list[int]
    commands: list[float]
    tasks: list[int]
    flags: list[int]
    rewards: list[float]
    dones: list[bool]
    frames: list[int] | None
    events: list[int]
    success: bool


@dataclasses.dataclass
class Session:
    """What one session must hold.

    Attributes:
        path: Its folder.
        takes: Those with rows, in the order in which they have ended.
        struck: What has failed in it.
        first: The number of its first take.
        numbers: The number of the next one.
        before: What it held when it was gone on with.
    """

    path: Path | None = None
    takes: list[Take] = dataclasses.field(default_factory=list)
    struck: Struck | None = None
    first: int = 0
    numbers: int = 0
    before: list[Episode] = dataclasses.field(default_factory=list)

    def kept(self, plan: Plan) -> list[tuple[Take, bool]]:
        """Return the takes that are episodes of the session, each with whether its video is whole."""
        struck = self.struck or Struck("", -1, len(self.takes))
        kept = []
        for place, take in enumerate(self.takes):
            is_struck = take.number == struck.take
            if (place >= struck.after and not is_struck) or (is_struck and struck.kind in ("prepare", "disk")):
                continue
            is_broken = is_struck and struck.kind == "encoder"
            if (take.success and not is_broken) or not plan.discards:
                kept.append((take, not is_broken))
        return kept

    def next_first(self, plan: Plan) -> int:
        """Return the number of the first take of a recording that goes on with this: none comes again."""
        return max((take.number + 1 for take, _ in self.kept(plan)), default=self.first)

    def counted(self, plan: Plan) -> int:
        """Return how many episodes the recorder counts as kept: one that a sink refused at the end is none."""
        struck = self.struck
        is_half = struck is not None and struck.kind == "commit"
        return sum(not (is_half and struck and take.number == struck.take) for take, _ in self.kept(plan))


class Books:
    """The books of one recorder.

    Attributes:
        plan: How it is set up.
        state: Where it should stand.
        take: The open take.
        sessions: All that were opened, the last one last; those of other lanes too.
        tasks: The registered tasks.
        task: The one of the rows from here on.
        reset_due: Whether a reset was marked that no row has told of.
    """

    def __init__(self, plan: Plan, sessions: list[Session] | None = None) -> None:
        self.plan = plan
        self.state = State.IDLE
        self.take: Take | None = None
        self.sessions: list[Session] = [] if sessions is None else sessions
        self.tasks = ["first"]
        self.task = 0
        self.reset_due = False

    @property
    def session(self) -> Session:
        """The last session."""
        return self.sessions[-1]

    def start(self, path: Path | None, gone_on_with: Session | None = None) -> None:
        """Open a session and its first take; or go on with one, whose takes are numbered on from the last episode."""
        session = Session(path)
        if gone_on_with is not None:
            session.before = self.episodes(gone_on_with)
            session.first = session.numbers = gone_on_with.next_first(self.plan)
        self.sessions.append(session)
        self.reset_due = False
        self.begin()

    def begin(self) -> None:
        """Begin a take."""
        self.take, self.state = Take(self.session.numbers), State.IN
        self.session.numbers += 1

    def tick(self, tick: Tick) -> None:
        """Record a tick; the first after a reset says so."""
        assert self.take is not None
        self.take.ticks.append(tick._replace(task=self.task, was_reset=self.reset_due))
        self.reset_due = False

    def mark_event(self) -> None:
        """Note an event before the next row."""
        assert self.take is not None
        self.take.events.append(-(-len(self.take.ticks) // self.plan.data_every))

    @property
    def is_at_limit(self) -> bool:
        """Whether the open take is as long as one may be."""
        return self.take is not None and len(self.take.ticks) == self.plan.most_ticks

    def end(self, success: bool) -> None:
        """End the open take."""
        take, self.take, self.state = self.take, None, State.BETWEEN
        if take is not None and take.ticks:
            # A reset at a tick after the last row is the next row's to tell.
            since = len(take.ticks) - 1 - (len(take.ticks) - 1) % self.plan.data_every + 1
            self.reset_due |= any(tick.was_reset for tick in take.ticks[since:])
            take.success = success
            self.session.takes.append(take)

    def close_if_complete(self) -> bool:
        """Close the session if enough episodes are kept; returns whether they are."""
        is_complete = self.plan.total is not None and self.session.counted(self.plan) >= self.plan.total
        if is_complete:
            self.close()
        return is_complete

    def close(self) -> None:
        """Close the session; the open take is a failure."""
        if self.take is not None:
            self.end(False)
        self.state, self.reset_due = State.IDLE, False

    def episodes(self, session: Session) -> list[Episode]:
        """Return what a session must hold."""
        return session.before + [_episode(take, self.plan, is_whole) for take, is_whole in session.kept(self.plan)]


def _episode(take: Take, plan: Plan, is_whole: bool) -> Episode:
    ticks, every = take.ticks, plan.data_every
    rows = ticks[::every]
    parts = [ticks[k : k + every] for k in range(0, len(ticks), every)]
    frames = [tick.count for tick in ticks[:: plan.camera_every]] if plan.camera and is_whole else None
    return Episode(
        counts=[row.count for row in rows],
        commands=[row.command for row in rows],
        tasks=[row.task for row in rows],
        flags=[_flags(ticks, k, every) for k in range(0, len(ticks), every)],
        rewards=[sum(tick.reward for tick in part) for part in parts],
        dones=[any(tick.done for tick in part) for part in parts],
        frames=frames,
        events=[event for event in take.events if event <= len(rows)],
        success=take.success and is_whole,
    )


def _flags(ticks: list[Tick], row: int, every: int) -> int:
    """Return a row's flags: a reset within the steps of the row before it is told of by this one."""
    first = 0 if row == 0 else row - every + 1
    return NEW_POLICY * ticks[row].is_new + POST_RESET * any(tick.was_reset for tick in ticks[first : row + 1])
