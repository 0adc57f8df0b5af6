"""A fleet: the recorders that record into one session, each of them a lane.

A single environment's recorder is a fleet of one. The first that begins opens the session, and the last that is closed
closes it. One lock is held by whoever begins or ends anything in any lane.
"""

from __future__ import annotations

import logging
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NoReturn, Protocol

from lucky_recorder.capture.snapshot import Scenes
from lucky_recorder.capture.source import Source
from lucky_recorder.episode import clock
from lucky_recorder.episode.sink import Sink
from lucky_recorder.errors import LuckyRecorderError, StateError
from lucky_recorder.notices import tell
from lucky_recorder.recorder import exits, forked, formats
from lucky_recorder.recorder.forgotten import close_at_exit, end_forgotten, forget
from lucky_recorder.recorder.opened import OpenSession
from lucky_recorder.recorder.recording import Recording
from lucky_recorder.settings.recorder import RecorderSettings

logger = logging.getLogger("lucky_recorder")

AGAIN = "call lucky_recorder.vector.shared() again for a new one"
_ELSEWHERE = (
    "the lanes of one recorder are in one process; where each environment is in a process of its own, put "
    "lucky_recorder.vector.shared() around each of them"
)


class Member(Protocol):
    """A recorder, as its fleet knows it."""

    def stop(self, why: str) -> None:
        """Begin nothing any more."""

    def owe(self, failure: LuckyRecorderError) -> None:
        """Raise a failure at the next call: it has ended the session, and was raised in another lane."""

    def forsake(self) -> None:
        """Forget the session, which has left nothing: the next reset may open another."""


class Fleet:
    """The recorders of one session.

    Attributes:
        lock: Held by every verb that begins or ends something, in any lane.
        session: The session, the open one or the last; None before the first.
        tasks: Descriptions of the tasks that are registered, in index order.
        scenes: What the lanes copy scenes into.
        has_lanes: Whether lanes are told apart; else there is but one.
        first_take: How many takes there were before those of its session, elsewhere.

    Args:
        settings: What is recorded, in every lane.
        sinks: The user's own sinks, besides those of ``settings.formats``.
        has_lanes: As above.
        first_lane: The number of its first lane; lanes before that are other processes'.
    """

    def __init__(
        self, settings: RecorderSettings, sinks: Iterable[Sink] = (), *, has_lanes: bool = False, first_lane: int = 0
    ) -> None:
        self.lock = threading.RLock()
        self.session: OpenSession | None = None
        self.tasks = list(settings.tasks)
        self.scenes = Scenes()
        self.has_lanes = has_lanes
        self.first_take = 0
        self._sinks = formats.own_sinks(settings, sinks)
        self._members: dict[int, weakref.ref[Member]] = {}
        self._recordings: dict[int, Recording] = {}
        self._finalizers: dict[int, weakref.finalize[..., Member]] = {}
        self._first_lane = first_lane
        self._lanes = 0
        self._was_forgotten = False
        self._process = os.getpid()
        forked.watch(self)

    @property
    def has_own_sinks(self) -> bool:
        """Whether formats of the user's own take the episodes, besides those of the settings."""
        return bool(self._sinks)

    def mark_forked(self) -> None:
        """Use another lock in a forked child: a thread that holds this one does not exist there to release it."""
        self.lock = threading.RLock()

    def __getstate__(self) -> NoReturn:
        raise StateError(_ELSEWHERE)

    # Its members.

    def enlist(self, member: Member) -> int:
        """Take in a recorder, before it records; returns the number of its lane.

        Raises:
            StateError: If the session that lanes share is over, or another process's.
        """
        if self.has_lanes and self.session is not None and not self.is_open:
            raise StateError(f"the session that these environments share has ended; {AGAIN}")
        if self._process != os.getpid():
            raise StateError(_ELSEWHERE)
        lane, self._lanes = self._first_lane + self._lanes, self._lanes + 1
        self._members[lane] = weakref.ref(member)
        self.scenes.lanes = self._lanes
        if self.has_lanes:
            # Also one that never records: the session is not to wait for it when it is gone.
            self._mind(member, lane)
        return lane

    def _mind(self, member: Member, lane: int) -> None:
        """Have a lane ended when its recorder is gone, or the session, where it was the last."""
        if lane not in self._finalizers:
            self._finalizers[lane] = weakref.finalize(member, self._forget, lane)
            # At the end of the process sessions are closed in another way: see `enter`.
            self._finalizers[lane].atexit = False

    def members(self) -> Iterator[Member]:
        """Go through the recorders that are not closed."""
        for known in list(self._members.values()):
            member = known()
            if member is not None:
                yield member

    @property
    def is_open(self) -> bool:
        """Whether a session is open."""
        return self.session is not None and not self.session.is_closed

    # The session.

    def enter(self, member: Member, source: Source, lane: int) -> Recording:
        """Begin to record a lane, in the open session or in a new one.

        Raises:
            SettingsError: If a format cannot hold what is recorded, and nothing is on the disk then, or if the lane's
                rows have another layout than those of the others.
            GLError: If pictures are asked for and no OpenGL context can be made.
        """
        self._members[lane] = weakref.ref(member)
        number = lane if self.has_lanes else None
        if self.session is not None and self.is_open:
            recording = Recording(self.session, source, number)
            self.session.join(recording)
            self._recordings[lane] = recording
            self._mind(member, lane)
            return recording
        session = OpenSession(source, self._sinks, self.tasks, self.first_take)
        recording = Recording(session, source, number)
        # Whoever forgets a recorder, or ends the process with one open, still gets a whole session. Both are given the
        # session and not the recorders, which would never be forgotten then.
        stop, lock = weakref.WeakMethod(self.stop), self.lock
        self._opened(session, recording, lambda: close_at_exit(session, stop, lock))
        self.session = session
        self._recordings = {lane: recording}
        self._was_forgotten = False
        self._mind(member, lane)
        return recording

    def _opened(self, session: OpenSession, first: Recording, close: Callable[[], None]) -> Path:
        """Open a session, which will be closed if the process ends; returns its folder."""
        # Before it is open: this may be a daemon thread, and then the end of the process waits for it.
        exits.guard(id(session), close)
        try:
            # Once more, when OpenGL is there: see `exits.guard`.
            return session.open(first, lambda: exits.guard(id(session), close))
        except BaseException:
            exits.release(id(session))
            raise

    def stop(self, why: str) -> None:
        """Begin nothing any more, in any lane: another one closes what is open."""
        for member in self.members():
            member.stop(why)

    def close(self, why: str, by: Member) -> None:
        """End every open take as failed, wait for the worker, write ``meta/``, and close the session.

        Args:
            why: What recorders say that are asked for more.
            by: The recorder that closes it. What has failed is raised here; the others owe it.

        Raises:
            LuckyRecorderError: The first thing that failed in the worker.
        """
        session = self.session
        assert session is not None
        self.stop(why)
        failure: LuckyRecorderError | None = None
        try:
            session.close()
        except LuckyRecorderError as error:
            failure = error
            raise
        finally:
            if session.is_closed:
                exits.release(id(session))
                for finalizer in self._finalizers.values():
                    finalizer.detach()
                self._finalizers.clear()
            sources = [lane.source for lane in session.lanes]
            if session.is_closed:
                session.let_go()
            _tell_of_uneven_steps(sources, session.place)
            if failure is not None:
                for member in self.members():
                    if member is not by:
                        member.owe(failure)
            if self._was_forgotten and session.has_rates:
                exits.warn_forgotten(session.place, None)

    def leave(self, lane: int) -> bool:
        """Strike a recorder off the list; returns whether it was the last, so that the session is to be closed."""
        self._members.pop(lane, None)
        self._recordings.pop(lane, None)
        if self.session is not None:
            self.session.wait_no_more(lane)
        return not any(True for _ in self.members())

    def forsake(self) -> None:
        """Forget a session that has left nothing, so that another may be opened."""
        self.session = None
        self._recordings.clear()
        for member in self.members():
            member.forsake()

    def _forget(self, lane: int) -> None:
        """End a lane whose recorder is gone; where it was the last, close the session, and say so."""
        session, recording = self.session, self._recordings.get(lane)
        is_last = self.leave(lane)
        if session is None or session.is_closed:
            return
        if is_last:
            forget(session)
        elif recording is not None:
            self._was_forgotten = True
            end_forgotten(recording, self.lock)


def _tell_of_uneven_steps(sources: Sequence[Source], place: Path) -> None:
    count = sum(source.uneven_steps for source in sources)
    if not count:
        return
    for source in sources:
        source.uneven_steps = 0
    message = (
        f"{count} steps lasted another time than {clock.number(1 / sources[0].clocks.base):g} s; they were recorded as "
        f"even ones, because of uneven_steps='allow': the time stamps of {place} are not the simulation's"
    )
    logger.warning(message)
    tell(message)
