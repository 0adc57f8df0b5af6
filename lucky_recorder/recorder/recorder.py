"""The recorder: a life cycle, from idle through the episodes of a session and back. No gym, no MuJoCo, no av.

`RecordSession` and `Observer` are two faces of it. The one turns what gymnasium calls into its verbs, the other gives
them to a loop of the user's own. It holds no episode itself: the open take belongs to the open `Recording`.

A thread that steps holds no lock: its steps have no time for one. What begins and ends sessions and takes does, so that
any thread may end what another one records. What becomes of the tick that is under way then, the `Committer` decides.
"""

from __future__ import annotations

import contextlib
import enum
import logging
import threading
import weakref
from collections.abc import Iterable, Iterator
from pathlib import Path

from lucky_recorder.capture.source import Source
from lucky_recorder.episode.record import Outcome, Reason
from lucky_recorder.episode.sink import Sink
from lucky_recorder.errors import LuckyRecorderError, StateError, StreamError
from lucky_recorder.notices import held, tell
from lucky_recorder.recorder import exits
from lucky_recorder.recorder.alone import Alone, alone
from lucky_recorder.recorder.ending import hear
from lucky_recorder.recorder.fleet import Fleet
from lucky_recorder.recorder.policies import index_of
from lucky_recorder.recorder.recording import Recording
from lucky_recorder.recorder.take import ENDED, Take
from lucky_recorder.recorder.tasks import Tasks
from lucky_recorder.settings.recorder import RecorderSettings

logger = logging.getLogger("lucky_recorder")


class State(enum.Enum):
    """Where a recorder stands."""

    IDLE = "Idle"
    IN_EPISODE = "InEpisode"
    BETWEEN_EPISODES = "BetweenEpisodes"


class Recorder(Alone):
    """The life cycle behind both faces.

    Attributes:
        settings: What is recorded.
        path: The session's folder, the open one or the last; None before the first.
        recording: The session, the open one or the last; None before the first.
        tasks: What the rows are of.
        last_outcome: How the take ended that ended last; None before the first.
        fleet: The recorders that record into the same session: this one, or the lanes of a vector environment.
        lane: Its number among them.

    Args:
        settings: As above.
        sinks: The user's own sinks, besides those of ``settings.formats``.
        fleet: As above, with its own sinks; None: it is the only one.
    """

    def __init__(self, settings: RecorderSettings, sinks: Iterable[Sink] = (), fleet: Fleet | None = None) -> None:
        # Later the process may be in another folder, and with the next session in a third.
        self.settings = settings.anchored()
        self.path: Path | None = None
        self.recording: Recording | None = None
        self.last_outcome: Outcome | None = None
        self.fleet = fleet or Fleet(self.settings, sinks)
        self.tasks = Tasks(settings, self.fleet.tasks)
        self._resets_due: list[int | None] = []
        self._idle_because: str | None = "start_recording() was not called yet"
        self._owed: LuckyRecorderError | None = None
        super().__init__()
        self.lane = self.fleet.enlist(self)

    @property
    def lock(self) -> threading.RLock:
        """Held by every verb that begins or ends something; for those who need two of them in a row."""
        return self.fleet.lock

    # How it stands.

    @property
    def state(self) -> State:
        """Where it stands."""
        if self._idle_because is not None:
            return State.IDLE
        return State.BETWEEN_EPISODES if self.take is None else State.IN_EPISODE

    @property
    def is_recording(self) -> bool:
        """Whether a session is open."""
        return self._idle_because is None

    @property
    def has_ended(self) -> bool:
        """Whether its session is over, so that resets begin nothing any more."""
        session = self.fleet.session
        return not self.is_recording and (self.recording is not None or (session is not None and session.is_closed))

    @property
    def take(self) -> Take | None:
        """The open take; None outside of one, and where no session is open.

        One whose end was interrupted before the worker had it is not open any more: `Recording` holds it until then.
        """
        recording = self.recording
        if recording is None or self._idle_because is not None:
            return None
        take = recording.take
        return None if take is None or take.state is ENDED else take

    @property
    def loses_reset_steps(self) -> bool:
        """Whether a step that resets the simulation is no row: rows hold what it was like after, or it had no rate."""
        source = None if self.recording is None else self.recording.source
        return source is not None and (source.reads_after_steps or not source.has_rates)

    @property
    def robots(self) -> tuple[str, ...]:
        """The names of the recorded robots; none before the first session, which shows what there are."""
        return () if self.recording is None else self.recording.source.schema.robots

    def require(self, verb: str, *states: State, instead: str = "") -> None:
        """Refuse a verb that makes no sense here.

        Args:
            verb: What was asked for.
            states: Where it makes sense.
            instead: What else the user may do.

        Raises:
            StateError: If the recorder is in none of the states; says why it is where it is.
            ForkError: In a forked child, of its parent's recorder.
        """
        if self.is_left:
            self.refuse_if_left()
        if self.state in states:
            return
        exits.leave_if_ending()
        why = "" if self._idle_because is None else f": {self._idle_because}"
        allowed = " or ".join(s.value for s in states)
        raise StateError(f"{verb}() needs the observer to be {allowed}, but it is {self.state.value}{why}{instead}")

    def require_session(self, verb: str) -> Recording:
        """Return the open session.

        Raises:
            StateError: If none is open.
        """
        self.require(verb, State.IN_EPISODE, State.BETWEEN_EPISODES)
        assert self.recording is not None
        return self.recording

    # A session.

    @alone
    def start(self, source: Source, seed: int | None = None) -> Path:
        """Open a session on a source, and its first take; returns the session's folder.

        Raises:
            StateError: If another thread has opened one.
            SettingsError: If a format cannot hold what is recorded; nothing is on the disk then.
            GLError: If pictures are asked for and no OpenGL context can be made; nothing is on the disk then.
        """
        exits.leave_if_ending()
        self.require("start_recording", State.IDLE)
        with exits.held_back():
            self.recording = self.fleet.enter(self, source, self.lane)
            self.path = self.recording.place
            self._idle_because = None
            self.begin(seed)
            return self.path

    @alone
    def learn_rates(self, seconds: float) -> None:
        """Settle the session's rates by how long the first step has lasted.

        Raises:
            SettingsError: If a rate does not divide that of the steps; a session that is refused leaves nothing.
        """
        if self.take is None:  # another thread has ended it
            return
        assert self.recording is not None
        # A warning that is an error must not be taken for a refusal: then the rates are known all the same.
        with held(), exits.held_back():
            try:
                self.recording.learn_rates(seconds)
            except BaseException:  # also an interrupt: half of the sinks would know the rates, and half not
                self._forsake()
                raise

    def _forsake(self) -> None:
        """Close a session that cannot be recorded; it leaves no folder, and the next reset may try again."""
        session = self.fleet.session
        with contextlib.suppress(LuckyRecorderError):
            self.close("the session could not be recorded")
        # Where another lane has recorded something by then, it stays.
        if session is not None and not session.has_rates:
            self.fleet.forsake()

    def forsake(self) -> None:
        """Forget the session, which has left nothing."""
        self.recording, self.path = None, None

    @alone
    def close(self, why: str) -> None:
        """End the open takes of all lanes as failed, wait for the worker, write ``meta/``, and close the session.

        Signals are held back meanwhile: what they raise is raised when all is written.

        Raises:
            LuckyRecorderError: The first thing that failed in the worker.
        """
        with exits.held_back():
            self.stop(why)
            self.fleet.close(why, self)

    @alone
    def leave(self, why: str) -> None:
        """End the open take as failed; the last lane closes the session, and so does one where something has failed.

        Raises:
            LuckyRecorderError: The first thing that failed in the worker.
        """
        fleet, recording = self.fleet, self.recording if self.is_recording else None
        is_last = fleet.leave(self.lane)
        if (recording is not None and (is_last or recording.counts.failure)) or (is_last and fleet.is_open):
            self.close(why)
        elif recording is not None:
            with exits.held_back():
                recording.end(Outcome(False, Reason.STOPPED))
                self.stop(why)

    def stop(self, why: str) -> None:
        """Begin nothing any more: another one closes what is open."""
        self._idle_because = why
        self._resets_due.clear()
        if self.recording is not None and not self.recording.session.has_rates:
            # Without a step there is no rate, so nothing could be written: its folder goes.
            self.path = None

    def owe(self, failure: LuckyRecorderError | None) -> None:
        """Raise at the next call what was raised in another lane, and has ended the session; None: nothing any more."""
        self._owed = failure

    def raise_owed(self) -> None:
        """Raise what has ended the session and was raised in another lane; once."""
        owed, self._owed = self._owed, None
        if owed is not None:
            raise owed

    @contextlib.contextmanager
    def _stopping(self) -> Iterator[None]:
        """Close the session if the worker hangs."""
        try:
            yield
        except StreamError as error:
            self.fail(error)
            raise

    def flush(self) -> None:
        """Wait until every ended take is committed or discarded.

        Raises:
            LuckyRecorderError: What failed in the worker; the session is closed then.
        """
        assert self.recording is not None
        with self._stopping():
            self.recording.flush()
        self.raise_failure()

    @alone
    def raise_failure(self) -> None:
        """Raise what has failed in the worker, if something has; the session is closed then."""
        assert self.recording is not None
        self._raise(self.recording.counts.failure)

    def _raise(self, failure: LuckyRecorderError | None) -> None:
        if failure is None:
            return
        self.close(f"the session stopped by itself: {failure}")
        raise StateError(f"closing after a failure raised nothing: {failure}")

    @alone
    def fail(self, error: BaseException, of: Take | None = None) -> None:
        """End the open take as failed, because of an error that is about to be raised; or the session, if it must.

        Args:
            error: The error.
            of: The take it struck; None for the one that is open. Where another one is open by now, that goes on.
        """
        if self._idle_because is not None:
            return
        # A stream is broken for good, and so is its session. Anything else was wrong with this episode only.
        if isinstance(error, StreamError):
            with contextlib.suppress(LuckyRecorderError):
                self.close(f"the session stopped by itself: {error}")
        else:
            try:
                self.end(Outcome(False, Reason.ERROR), of)
            except LuckyRecorderError as failure:
                if isinstance(error, LuckyRecorderError):
                    raise
                # Whoever interrupts is heard, also where the worker hangs.
                hear(error, failure)

    # Its takes.

    @alone
    def may_begin(self) -> bool:
        """Decide whether an episode that begins now is recorded; see `OpenSession.may_begin`.

        Raises:
            LuckyRecorderError: What failed in the worker, where it is not; the session is closed then.
        """
        session = self.fleet.session
        with self._stopping():
            if session is None or session.may_begin(self.lane, self.recording):
                return True
        # What has failed takes its place for good: nobody would begin anything any more, and hear why.
        self._raise(session.counts.failure)
        return False

    @alone
    def begin(self, seed: int | None = None) -> Take:
        """Begin a take; the resets that were marked before it count for its first row.

        Raises:
            StateError: If another thread has closed the session.
            LuckyRecorderError: What failed in the worker; the session is closed then.
        """
        recording = self.require_session("begin_episode")
        self.raise_failure()
        if self.fleet.has_lanes and recording.session.is_full(recording):
            raise StateError(f"total_episodes={self.settings.total_episodes}: each is taken by an episode of a lane")
        if notice := recording.counts.take_notice():
            tell(notice)
        with self._stopping():
            # A proxy: whoever forgets a recorder must have it closed at once, not when garbage is next collected.
            take = recording.begin(weakref.proxy(self), seed, self.tasks.index)
        for robot in self._resets_due:
            take.mark_reset(robot, is_seeded=True)
        self._resets_due.clear()
        return take

    @alone
    def open_take(self) -> Take:
        """Return the open take; begins one if there is none."""
        return self.take or self.begin()

    @alone
    def end(self, outcome: Outcome, of: Take | None = None) -> None:
        """End the open take; after ``total_episodes`` kept ones the session is closed.

        Args:
            outcome: How it ended.
            of: The take that is meant; None for the one that is open. Where another thread has ended it, nothing is.
        """
        recording = self.recording
        if recording is None or self.take is None or self.take is not (of or self.take):
            return
        # A reset that no row of it has told of is the next row's to tell.
        self.last_outcome, self._resets_due = outcome, [*self._resets_due, *self.take.lane.untold_resets()]
        # The caller does not wait here: the worker commits while the next episode is recorded. Only where this episode
        # may be the last, its verdict is waited for, so that none is begun that would be one too many.
        with self._stopping():
            recording.end(outcome)
            is_complete = recording.session.is_complete()
        if is_complete:
            total = self.settings.total_episodes
            self.close(f"the session ended by itself after total_episodes={total}")
            logger.warning("total_episodes=%d reached: %s is complete", total, self.path)

    @property
    def current_task(self) -> str:
        """The description of the task of the rows from here on; see `Observer.current_task`."""
        said = None if self.take is None else self.take.said_task
        return self.tasks.current if said is None else said

    @alone
    def set_task(self, index: int) -> None:
        """Set the task of the rows from here on; see `Observer.set_current_task_index`."""
        chosen = self.tasks.choose(index)
        if self.take is not None:
            self.take.set_task(chosen)

    @alone
    def mark_reset(self, robot: str | None = None, is_seeded: bool = False) -> None:
        """Flag the next row as the first after a reset; see `Observer.mark_reset`."""
        assert self.recording is not None
        index = None if robot is None else index_of(robot, self.robots)
        if self.take is None:
            self._resets_due.append(index)
        else:
            self.take.mark_reset(index, is_seeded)
