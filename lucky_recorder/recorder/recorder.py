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
import weakref
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from lucky_recorder.capture.source import Source
from lucky_recorder.episode import clock
from lucky_recorder.episode.record import Outcome, Reason
from lucky_recorder.episode.sink import Sink
from lucky_recorder.errors import LuckyRecorderError, StateError, StreamError
from lucky_recorder.notices import held, tell
from lucky_recorder.recorder import exits, formats
from lucky_recorder.recorder.alone import Alone, alone
from lucky_recorder.recorder.forgotten import close_at_exit, forget
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

    Args:
        settings: As above.
        sinks: The user's own sinks, besides those of ``settings.formats``.
    """

    def __init__(self, settings: RecorderSettings, sinks: Iterable[Sink] = ()) -> None:
        # Later the process may be in another folder, and with the next session in a third.
        self.settings = settings.anchored()
        self.path: Path | None = None
        self.recording: Recording | None = None
        self.last_outcome: Outcome | None = None
        self._sinks = formats.own_sinks(settings, sinks)
        self.tasks = Tasks(settings)
        self._resets_due: list[int | None] = []
        self._finalizer: weakref.finalize[..., Recorder] | None = None
        self._idle_because: str | None = "start_recording() was not called yet"
        super().__init__()

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
    def has_own_sinks(self) -> bool:
        """Whether formats of the user's own take the episodes, besides those of the settings."""
        return bool(self._sinks)

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
            recording = Recording(source, self._sinks, self.tasks.descriptions)
            # Whoever forgets a recorder, or ends the process with one open, still gets a whole session. Both are given
            # the recording and not this object, which would never be forgotten then.
            stop, lock = weakref.WeakMethod(self.stop), self.lock
            self.path = self._opened(recording, lambda: close_at_exit(recording, stop, lock))
            self.recording = recording
            self._idle_because = None
            self._finalizer = weakref.finalize(self, forget, recording)
            self._finalizer.atexit = False
            self.begin(seed)
            return self.path

    def _opened(self, recording: Recording, close: Callable[[], None]) -> Path:
        """Open a recording, which will be closed if the process ends; returns its folder."""
        # Before it is open: this may be a daemon thread, and then the end of the process waits for it.
        exits.guard(id(recording), close)
        try:
            path = recording.open()
        except BaseException:
            exits.release(id(recording))
            raise
        # Once more, now that OpenGL is there: see `exits.guard`.
        exits.guard(id(recording), close)
        return path

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
        with contextlib.suppress(LuckyRecorderError):
            self.close("the session could not be recorded")
        self.recording, self.path = None, None

    @alone
    def close(self, why: str) -> None:
        """End the open take as failed, wait for the worker, write ``meta/``, and close the session.

        Signals are held back meanwhile: what they raise is raised when all is written.

        Raises:
            LuckyRecorderError: The first thing that failed in the worker.
        """
        recording = self.recording
        assert recording is not None
        with exits.held_back():
            self._close(recording, why)

    def _close(self, recording: Recording, why: str) -> None:
        self._idle_because = why
        self._resets_due.clear()
        try:
            recording.close()
        finally:
            if recording.is_closed:
                exits.release(id(recording))
                if self._finalizer is not None:
                    self._finalizer.detach()
            if not recording.source.has_rates:
                # Without a step there is no rate, so nothing could be written: its folder is gone.
                self.path = None
            _tell_of_uneven_steps(recording)

    def stop(self, why: str) -> None:
        """Begin nothing any more: another one closes what is open."""
        self._idle_because = why

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
        failure = self.recording.counts.failure
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
            # Whoever interrupts is heard, also where the worker hangs.
            with contextlib.suppress(*() if isinstance(error, Exception) else (LuckyRecorderError,)):
                self.end(Outcome(False, Reason.ERROR), of)

    # Its takes.

    @alone
    def begin(self, seed: int | None = None) -> Take:
        """Begin a take; the resets that were marked before it count for its first row.

        Raises:
            StateError: If another thread has closed the session.
            LuckyRecorderError: What failed in the worker; the session is closed then.
        """
        recording = self.require_session("begin_episode")
        self.raise_failure()
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
            is_complete = self._is_complete(recording)
        if is_complete:
            total = self.settings.total_episodes
            self.close(f"the session ended by itself after total_episodes={total}")
            logger.warning("total_episodes=%d reached: %s is complete", total, self.path)

    def _is_complete(self, recording: Recording) -> bool:
        """Tell whether ``total_episodes`` are kept. Only the worker knows, so it is waited for where it may be so."""
        total, counts = self.settings.total_episodes, recording.counts
        if total is None or recording.taken - counts.discarded < total:
            return False
        recording.flush()
        return counts.kept >= total

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


def _tell_of_uneven_steps(recording: Recording) -> None:
    source = recording.source
    count, source.uneven_steps = source.uneven_steps, 0
    if not count:
        return
    message = (
        f"{count} steps lasted another time than {clock.number(1 / source.clocks.base):g} s; they were recorded as "
        f"even ones, because of uneven_steps='allow': the time stamps of {recording.place} are not the simulation's"
    )
    logger.warning(message)
    tell(message)
