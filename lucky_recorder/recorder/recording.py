"""The caller's half of an open session: it holds the open take, and queues what has been seen and what has ended.

Nothing here draws, encodes or waits for a disk, but for `Recording.open`, `Recording.close` and a full queue. The
worker's half is `lucky_recorder.recorder.committer`; `lucky_recorder.recorder.messages` names what passes between them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from lucky_recorder.capture.snapshot import Snapshot
from lucky_recorder.capture.source import Source
from lucky_recorder.episode.keys import MOST_SCENES
from lucky_recorder.episode.record import Outcome, Reason
from lucky_recorder.episode.sink import Sink
from lucky_recorder.errors import LuckyRecorderError, StateError
from lucky_recorder.recorder import exits, forked, formats
from lucky_recorder.recorder.committer import Committer, as_ours
from lucky_recorder.recorder.lane import release
from lucky_recorder.recorder.messages import Counts, Layout, Seen
from lucky_recorder.recorder.origin import Origin
from lucky_recorder.recorder.take import Owner, Take
from lucky_recorder.recorder.worker import Worker, fork_error

if TYPE_CHECKING:
    import mujoco
    import numpy as np
    from numpy.typing import NDArray

    from lucky_recorder.capture.door import simulator

_MOST_FRAMES = 4


class Renewal(NamedTuple):
    """A model that has taken the place of another, for the worker.

    Attributes:
        after: Number of the take and tick that still saw the old one; None if no tick is open.
        model: A private copy to draw; None if nothing is drawn.
        casters: What scans it; None without lidars.
    """

    after: tuple[int, int] | None
    model: mujoco.MjModel | None
    casters: list[simulator.Caster] | None


class Recording:
    """An open session of one source, as the caller's thread has it.

    Attributes:
        source: What is looked at.
        take: The open take, or None between two of them.
        taken: Takes with rows that were queued.
        counts: How it stands with the worker.

    Args:
        source: As above.
        own_sinks: Sinks besides those of the settings' formats.
        tasks: Descriptions of the tasks, in index order.
    """

    def __init__(self, source: Source, own_sinks: Sequence[Sink], tasks: Sequence[str]) -> None:
        self.source = source
        self.take: Take | None = None
        self.taken = 0
        self.counts = Counts()
        self._own_sinks = tuple(own_sinks)
        self._tasks = tuple(tasks)
        self._numbers = 0
        self._is_open = False
        self._is_forked = False
        self._is_given_up = False
        self._renewal: Renewal | None = None
        # What opens it may be refused yet, so nothing is looked up before it is open.
        self._origin: Origin | None = None
        self._committer = Committer(source, self.counts, self._tasks)
        self._devices = self._committer.devices
        self._worker = Worker(_queue_depth(source), source.settings.worker_timeout_s)
        forked.watch(self)

    # The session.

    def open(self) -> Path:
        """Start the worker, make the GL context, and only then the sinks; returns the first sink's folder.

        Raises:
            SettingsError: If a format cannot hold what is recorded; nothing is on the disk then.
            GLError: If pictures are to be drawn and no GL context can be made; nothing is on the disk then.
        """
        source = self.source
        if source.has_rates:
            formats.refuse(source.settings, source.schema, self._tasks)
        self._numbers = formats.first_take(source.settings)
        exits.raise_held()
        self._worker.start()
        try:
            model = source.model_copy()
            if model is not None:
                self._worker.call(lambda: self._devices.open_renderer(model))
            self._origin = self._committer.origin = Origin.of(source)
            self._committer.sinks = formats.make_sinks(source.settings, self._own_sinks, self._open_sink, self._origin)
            if source.has_rates:
                self._lay_out()
        except BaseException:  # also an interrupt: a thread and a GL context must not stay behind
            if exits.is_insisted():
                self._worker.leave(self._committer.close)
                raise
            with contextlib.suppress(LuckyRecorderError):
                self._worker.call(self._committer.close)
            self._worker.stop()
            raise
        self._is_open = True
        return self.place

    def learn_rates(self, seconds: float) -> None:
        """Settle the rates by how long the first step has lasted, and open the sinks, which could not know before.

        Raises:
            SettingsError: If a rate does not divide the control rate, or a format cannot hold what is recorded.
        """
        source = self.source
        source.learn_rates(seconds)
        formats.refuse(source.settings, source.schema, self._tasks, are_made=True)
        # As when they are made, the session comes last: what refuses must do so before there is a session to read.
        for sink in reversed(self._committer.sinks):
            self._open_sink(sink)
        self._lay_out()

    def _open_sink(self, sink: Sink) -> None:
        """Tell a sink what rows and frames are, as soon as that is known."""
        # Whoever interrupts while a session opens gets none: a sink that was never opened leaves nothing behind.
        exits.raise_held()
        if self.source.has_rates:
            sink.open(self.source.schema, self._tasks)

    def _lay_out(self) -> None:
        layout = Layout(self.source.schema, self.source.clocks)
        self._worker.put(lambda: self._devices.lay_out(layout))

    @property
    def place(self) -> Path:
        """The folder the first format is written to."""
        return self._committer.sinks[0].root

    @property
    def is_closed(self) -> bool:
        """Whether nothing is left to write, or it is another process's to write, or cannot be written."""
        return not self._is_open or self._committer.is_closed or self._is_forked or self._is_given_up

    @property
    def is_in_worker(self) -> bool:
        """Whether this is the worker's own thread."""
        return self._worker.is_current

    def mark_forked(self) -> None:
        """Fail at the next call: this is a forked child, where the worker does not exist."""
        self._is_forked = True
        self.counts.failure = fork_error()

    # Its takes.

    def begin(self, owner: Owner, seed: int | None, task: int) -> Take:
        """Begin a take. One that is still open, because an interrupt struck while it was ended, ends now."""
        self.end(Outcome(False, Reason.STOPPED))
        self._renew()
        change = self.source.asset_change()
        if change is not None:
            self._guard(lambda: self._devices.change_assets(change), "the changed model could not be drawn")
        self._renew_casters(self._casters())
        self.take = Take(owner, self.source, self._numbers, seed, task, self.counts, self._hand_over, self.place)
        self._numbers += 1
        return self.take

    def _hand_over(self, seen: Seen) -> None:
        """Queue what was seen at a tick; waits while the queue is full."""
        if self._renewal is not None and self._renewal.after != (seen.take, seen.tick):
            self._renew()
        try:
            self._worker.put(lambda: self._committer.draw(seen))
        except StateError:
            if self._is_forked or not self._committer.is_closed:
                raise
            # Another thread has closed the session meanwhile: this tick is not in it.
            release(seen.snapshots)

    def end(self, outcome: Outcome) -> None:
        """Queue the end of the open take, if there is one, and return; one without a row leaves nothing."""
        take = self.take
        if take is None:
            return
        ended = take.ended(outcome)
        # Also of one without a row: another thread may be finishing its first tick, whose pictures are on their way.
        self._worker.put(lambda: self._committer.end(ended))
        self.taken += bool(ended.ticks)
        # Not before it is queued: where an interrupt strikes while the queue is full, the take is still there to be
        # ended again. The worker takes the end of a take once only.
        self.take = None

    def rebind(self, model: mujoco.MjModel, data: mujoco.MjData, in_step: bool = False) -> None:
        """Look at another model and data from here on, if these are others: some environments replace theirs.

        Args:
            model: The model that is there now.
            data: Its data.
            in_step: Whether they were replaced inside a step, so that half a tick is open: it was seen before.

        Raises:
            SettingsError: If their rows would have another layout.
        """
        take = self.take
        if self.source.rebind(model, data):
            if self._origin is not None:
                self._worker.put(self._origin.counting(model))
            # One that waits is of a tick that is over by now.
            self._renew()
            # What was seen of the old model must be drawn and scanned with the old one.
            seen = (take.number, take.lane.ticks) if in_step and take is not None else None
            # The worker has copies of its own: the environment goes on changing its model while pictures are drawn.
            self._renewal = Renewal(seen, self.source.model_copy(), self._casters())
            if seen is None:
                self._renew()
        if take is not None:
            # Also where nothing was replaced: a reset sets MuJoCo's counts of bad states back, and what was seen
            # before it is out of date.
            take.lane.attach(keeps_half=in_step)

    def _renew(self) -> None:
        """Draw and scan the model that has taken the place of another from here on."""
        renewal, self._renewal = self._renewal, None
        if renewal is None:
            return
        model, casters = renewal.model, renewal.casters
        if model is not None:
            self._guard(lambda: self._devices.open_renderer(model), "the new model could not be drawn")
        self._renew_casters(casters)

    def _casters(self) -> list[simulator.Caster] | None:
        """Return what scans the model as it is now; None without lidars."""
        return self.source.casters() if self.source.schema.scans else None

    def _renew_casters(self, casters: list[simulator.Caster] | None) -> None:
        if casters is not None:
            self._worker.put(lambda: self._devices.renew_casters(casters))

    def _guard(self, job: Callable[[], None], what: str) -> None:
        """Queue a job that belongs to no take; if it fails, so does all that follows."""
        self._worker.put(lambda: self._committer.guard(job, what))

    def draw(self, snapshots: list[Snapshot]) -> list[Snapshot]:
        """Have the colours of snapshots drawn now, and wait for them.

        Raises:
            StreamError: If one cannot be drawn.
        """
        self._renew()
        try:
            drawn: list[Snapshot] = self._worker.call(lambda: [self._devices.developed(one) for one in snapshots])
        except Exception as error:  # as in a stream: a driver may raise anything
            raise as_ours(error, "a picture could not be drawn") from error
        return drawn

    def colors(self, snapshots: Sequence[Snapshot]) -> dict[str, NDArray[np.uint8]]:
        """Return copies of the pixels of drawn snapshots, uint8, shape ``(height, width, 3)``, by feature key."""
        return self._devices.colors(snapshots)

    # Its end.

    def flush(self) -> None:
        """Wait until everything queued is done."""
        self._worker.flush()

    def close(self) -> None:
        """End the open take as failed, finish what is queued, write what the sinks still hold, end the worker.

        Calling it again does nothing. An interrupt is raised only after all this; whoever insists has it given up: the
        worker ends it if it ever can, and nobody waits for it any more.

        Raises:
            LuckyRecorderError: The first thing that failed, with a count of what was dropped after it.
        """
        if self._committer.is_closed or self._is_given_up:
            return
        if self._is_forked and self.counts.failure is not None:
            raise self.counts.failure
        try:
            self._finish()
        except BaseException:
            if not self._committer.is_closed:  # the worker hangs, or the disk: another close() must not wait for it
                self._is_given_up = True
                self._worker.leave(self._committer.close)
            raise
        if self._worker.error is not None:
            self._committer.fail(None, as_ours(self._worker.error, "the recorder's worker failed"))
        failure = self._committer.told_failure()
        if failure is not None:
            raise failure

    def _finish(self) -> None:
        """Do all that ends a session, also if a part of it fails or is interrupted; an interrupt is raised last."""
        interrupt: BaseException | None = None
        failure: Exception | None = None
        jobs = (self._end_stopped, lambda: self._worker.call(self._committer.close), self._worker.stop)
        try:
            # Each may be run twice: an interrupt may have struck before it was queued, or after it.
            for job in jobs:
                while True:
                    try:
                        job()
                    except Exception as error:
                        failure = failure or error
                    except BaseException as error:
                        if interrupt is not None or exits.is_insisted():
                            raise
                        interrupt = error
                        continue
                    break
            if failure is not None:
                raise failure
        finally:
            if interrupt is not None:
                raise interrupt

    def _end_stopped(self) -> None:
        self.end(Outcome(False, Reason.STOPPED))


def _queue_depth(source: Source) -> int:
    """Bound what is in flight: at most 16 scenes, or 4 frames of pixels per camera."""
    cameras = max(1, len(source.settings.recorded_cameras))
    return max(1, MOST_SCENES // cameras) if source.needs_gl else _MOST_FRAMES
