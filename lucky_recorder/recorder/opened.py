"""An open session, as the callers' threads have it: all that its lanes share.

A lane is one simulation that is recorded: the `Recording` of a single environment is the only lane of its session, and
a vector environment has one for each environment in it. What is a lane's own is its `Recording`'s.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from lucky_recorder.capture.relayout import difference
from lucky_recorder.capture.source import Source
from lucky_recorder.episode.keys import MOST_SCENES
from lucky_recorder.episode.record import Outcome, Reason
from lucky_recorder.episode.sink import Sink
from lucky_recorder.errors import LuckyRecorderError, SettingsError
from lucky_recorder.recorder import exits, forked, formats
from lucky_recorder.recorder.committer import Committer, as_ours
from lucky_recorder.recorder.ending import hear, run_all
from lucky_recorder.recorder.messages import Counts, Layout
from lucky_recorder.recorder.origin import Origin
from lucky_recorder.recorder.take import Take
from lucky_recorder.recorder.worker import Worker, fork_error

if TYPE_CHECKING:
    import mujoco

_MOST_FRAMES = 4
# So many episodes of its own a lane leaves out for one that has waited longer.
_PATIENCE = 3


class OfSession(Protocol):
    """A lane, as its session knows it: see `lucky_recorder.recorder.recording.Recording`."""

    source: Source
    lane: int | None
    take: Take | None
    taken: int

    def open_renderer(self, other: Source | None = None) -> None:
        """Make what draws its model, together with another lane's."""

    def lay_out(self) -> Layout:
        """Tell the worker what its rows, frames and scans are, and return it."""

    def end(self, outcome: Outcome) -> None:
        """Queue the end of its open take, if there is one."""


class OpenSession:
    """The worker, the sinks and the counts of a session, and the lanes that are recorded into it.

    Attributes:
        counts: How it stands with the worker.
        committer: The worker's half.
        worker: The thread.
        lanes: The lanes that are recorded, or have been.
        layout: What rows, frames and scans are, in every lane; None before the rates are known.
        first_take: The number of its first take.

    Args:
        source: What its first lane looks at.
        own_sinks: Sinks besides those of the settings' formats.
        tasks: Descriptions of the tasks, in index order.
        first_take: How many takes there were before, elsewhere; those of a session that is gone on with count besides.
    """

    def __init__(self, source: Source, own_sinks: Sequence[Sink], tasks: Sequence[str], first_take: int = 0) -> None:
        self.counts = Counts()
        self.lanes: list[OfSession] = []
        self.layout: Layout | None = None
        self.first_take = first_take
        self._settings = source.settings
        self._own_sinks = tuple(own_sinks)
        self._tasks = tuple(tasks)
        self._numbers = 0
        self._waiting: list[int] = []
        self._passed: dict[int, int] = {}
        self._is_open = False
        self._is_forked = False
        self._is_given_up = False
        self.committer = Committer(source.settings, self.counts, self._tasks, are_said=source.task is not None)
        self.worker = Worker(queue_depth(source), source.settings.worker_timeout_s)
        forked.watch(self)

    # Its beginning.

    def open(self, first: OfSession, ready: Callable[[], None]) -> Path:
        """Start the worker, make the GL context, and only then the sinks; returns the first sink's folder.

        Args:
            first: The first lane.
            ready: Called when all is open; what it raises undoes that.

        Raises:
            SettingsError: If a format cannot hold what is recorded; nothing is on the disk then.
            GLError: If pictures are to be drawn and no GL context can be made; nothing is on the disk then.
        """
        source, settings = first.source, self._settings
        if source.has_rates:
            formats.refuse(settings, source.schema, self._tasks)
        self.first_take += formats.first_take(settings)
        self._numbers = self.first_take
        exits.raise_held()
        try:
            self.worker.start()
            first.open_renderer()
            origin = self.committer.origin = Origin.of(source)
            self.committer.sinks = formats.make_sinks(
                settings, self._own_sinks, lambda sink: self._open_sink(sink, source), origin
            )
            self.lanes.append(first)
            if source.has_rates:
                self.layout = first.lay_out()
            ready()
        except BaseException:  # also an interrupt: a thread and a GL context must not stay behind
            self.lanes.clear()
            try:
                with contextlib.suppress(LuckyRecorderError):
                    run_all(() if exits.is_insisted() else (self._complete, self._end_worker))
            finally:
                if not self.committer.is_closed:
                    self.worker.leave(self.committer.close)
            raise
        self._is_open = True
        return self.place

    def join(self, lane: OfSession) -> Path:
        """Take in another lane; returns the first sink's folder.

        Raises:
            SettingsError: If its rows or frames have another layout than those of the lanes before it.
            GLError: If its pictures cannot be drawn.
        """
        known = self.lanes[0].source if self.lanes else None
        if known is not None and known.has_rates == lane.source.has_rates:
            self._refuse_other(lane, difference(known.schema, lane.source.schema))
        if lane.source.has_rates:
            self.settle(lane)
        lane.open_renderer(known)
        self.note_model(lane.source.moment.model)
        self.lanes.append(lane)
        return self.place

    def settle(self, lane: OfSession) -> None:
        """Take in what a lane's first step has shown: the rates. Those of the first lane open the sinks.

        Raises:
            SettingsError: If a format cannot hold what is recorded, or another lane has other rates.
        """
        source = lane.source
        if self.layout is None:
            formats.refuse(self._settings, source.schema, self._tasks, are_made=True)
            # As when they are made, the session comes last: what refuses must do so before there is a session to read.
            for sink in reversed(self.committer.sinks):
                self._open_sink(sink, source)
            self.layout = lane.lay_out()
            return
        rates = source.clocks, self.layout.clocks
        if rates[0] != rates[1]:
            told = " and ".join(f"{float(one.control):g}" for one in rates)
            self._refuse_other(lane, f"steps a second: {told}")
        self._refuse_other(lane, difference(self.layout.schema, source.schema))
        lane.lay_out()

    def _refuse_other(self, lane: OfSession, what: str) -> None:
        if what:
            raise SettingsError(
                f"lane {lane.lane}: it has another layout than the lanes before it: {what}; every row of a session has "
                "the same layout: record what is unlike the others in a session of its own"
            )

    def _open_sink(self, sink: Sink, source: Source) -> None:
        """Tell a sink what rows and frames are, as soon as that is known."""
        # Whoever interrupts while a session opens gets none: a sink that was never opened leaves nothing behind.
        exits.raise_held()
        if source.has_rates:
            sink.open(source.schema, self._tasks)

    def note_model(self, model: mujoco.MjModel | None) -> None:
        """Take note of a model beside the one that the session began with: another lane's, or one that took its place.

        Args:
            model: The model; None without MuJoCo.
        """
        origin = self.committer.origin
        if origin is not None and model is not None:
            self.worker.put(origin.counting(model))

    def next_number(self) -> int:
        """Return the number of the next take of any lane."""
        # It counts before it is used: where an interrupt strikes, a number is left out, and none is given twice.
        self._numbers += 1
        return self._numbers - 1

    # How it stands.

    @property
    def begun(self) -> int:
        """Takes that were begun, in all lanes, with rows or without."""
        return self._numbers - self.first_take

    @property
    def place(self) -> Path:
        """The folder the first format is written to."""
        return self.committer.sinks[0].root

    @property
    def has_rates(self) -> bool:
        """Whether its rates are known, so that something may have been written."""
        return self.layout is not None

    @property
    def taken(self) -> int:
        """Takes with rows that were queued, in all lanes."""
        return sum(lane.taken for lane in self.lanes)

    @property
    def timeout_s(self) -> float:
        """The longest wait for the worker."""
        return self._settings.worker_timeout_s

    @property
    def is_closed(self) -> bool:
        """Whether nothing is left to write, or it is another process's, or a worker's that nobody waits for."""
        return not self._is_open or self._is_forked or self._is_over

    @property
    def _is_over(self) -> bool:
        return self.committer.is_closed or (self._is_given_up and self.worker.is_running)

    @property
    def is_lost(self) -> bool:
        """Whether what is queued is expected in vain: this is a forked child, or the worker is gone unexpectedly."""
        return self._is_forked or not self.committer.is_closed

    def mark_forked(self) -> None:
        """Fail at the next call: this is a forked child, where the worker does not exist."""
        self._is_forked = True
        self.counts.failure = fork_error()

    # How many episodes it is to have.

    def is_full(self, lane: OfSession | None) -> bool:
        """Tell whether a take that a lane begins now could be one too many, by ``total_episodes``.

        Those that are open in other lanes may become episodes, too. The worker is waited for where it may have
        discarded some.
        """
        return self._free(lane, 0) <= 0

    def _free(self, lane: OfSession | None, before: int) -> int:
        """Count the places that are free for a lane; the worker is waited for where it may have made some.

        Args:
            lane: The lane; its own open take takes none.
            before: Where there are more than so many, however many the worker has made, it is not waited for.
        """
        total, counts = self._settings.total_episodes, self.counts
        if total is None or self.is_closed:
            return before + 1
        others = sum(one.take is not None for one in self.lanes if one is not lane)
        free = total - (self.taken - counts.discarded + others)
        if free <= before and self.taken > counts.kept + counts.discarded:
            self.flush()
            free = total - (self.taken - counts.discarded + others)
        return free

    def may_begin(self, number: int, lane: OfSession | None) -> bool:
        """Decide whether a lane's episode that begins now is recorded: not where the session could become too long.

        Places that become free again, since attempts were discarded, go to the lanes that have waited longest, so that
        one that always fails does not keep the last place for itself. A lane may wait for another only so often: that
        one may never be reset.

        Args:
            number: The lane's number.
            lane: The lane; None where it was not recorded yet.
        """
        waiting = self._waiting
        before = waiting.index(number) if number in waiting else len(waiting)
        free = self._free(lane, before)
        if free > before or (free > 0 and self._passed.get(number, 0) >= _PATIENCE):
            self.wait_no_more(number)
            return True
        if number not in waiting:
            waiting.append(number)
        self._passed[number] = self._passed.get(number, 0) + (free > 0)
        return False

    def wait_no_more(self, number: int) -> None:
        """Keep no place for a lane."""
        self._passed.pop(number, None)
        if number in self._waiting:
            self._waiting.remove(number)

    def is_complete(self) -> bool:
        """Tell whether ``total_episodes`` are kept. Only the worker knows, so it is waited for where it may be so."""
        total, counts = self._settings.total_episodes, self.counts
        if total is None or self.taken - counts.discarded < total:
            return False
        self.flush()
        return counts.kept >= total

    # Its end.

    def flush(self) -> None:
        """Wait until everything queued is done."""
        self.worker.flush()

    def close(self) -> None:
        """End the open takes as failed, finish what is queued, write what the sinks still hold, end the worker.

        Calling it again does nothing, but to finish what was interrupted too often. An interrupt, and whatever else
        comes from outside, is raised only after all this; whoever insists has it given up: the worker ends it if it
        ever can, and nobody waits for it any more.

        Raises:
            LuckyRecorderError: The first thing that failed, with a count of what was dropped after it.
        """
        if self._is_over:
            return
        if self._is_forked and self.counts.failure is not None:
            raise self.counts.failure
        try:
            run_all((self._end_stopped, self._complete, self._end_worker))
        except BaseException as error:
            # The worker hangs, or the disk: another close() must not wait for it. Where only this thread was
            # interrupted another close() goes on, and so does the end of the process.
            if self.committer.is_closed or self.worker.hangs or exits.is_insisted():
                self._is_given_up = True
                self.worker.leave(self.committer.close)
            if not isinstance(error, LuckyRecorderError):
                hear(error, self._told_failure())
            raise
        failure = self._told_failure()
        if failure is not None:
            raise failure

    def _told_failure(self) -> LuckyRecorderError | None:
        if self.worker.error is not None:
            self.committer.fail(None, as_ours(self.worker.error, "the recorder's worker failed"))
        return self.committer.told_failure()

    def _complete(self) -> None:
        """Have the worker write what is still to be written; what it has left when it is gone is written here."""
        try:
            self.worker.call(self.committer.close)
        finally:
            if not self.worker.is_running:
                self.committer.complete()

    def _end_worker(self) -> None:
        # Not before all is written: nobody else could write the rest.
        if self.committer.is_closed:
            self.worker.stop()

    def let_go(self) -> None:
        """Forget the lanes of a session that is closed: each knows its session, so neither would ever be forgotten.

        What they look at is the user's. Left to the next collection of garbage, a simulation that was dropped would be
        taken down in the middle of another one, and its viewer would delete what that one draws with.
        """
        self.lanes.clear()

    def _end_stopped(self) -> None:
        for lane in self.lanes:
            lane.end(Outcome(False, Reason.STOPPED))


def queue_depth(source: Source) -> int:
    """Bound what is in flight, in all lanes together: at most 16 scenes, or 4 frames of pixels per camera.

    The worker waits for nobody, so it empties the queue whichever lane waits for it.
    """
    cameras = max(1, len(source.settings.recorded_cameras))
    return max(1, MOST_SCENES // cameras) if source.needs_gl else _MOST_FRAMES
