"""The caller's half of a lane: it holds the open take, and queues what has been seen and what has ended.

Nothing here draws, encodes or waits for a disk, but for a full queue. What lanes share is an `OpenSession`. The
worker's half is `lucky_recorder.recorder.writer`; `lucky_recorder.recorder.messages` names what passes between them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from lucky_recorder.capture.snapshot import Snapshot
from lucky_recorder.capture.source import Source
from lucky_recorder.episode.record import Outcome, Reason
from lucky_recorder.errors import StateError
from lucky_recorder.recorder.committer import as_ours
from lucky_recorder.recorder.lane import release
from lucky_recorder.recorder.messages import Layout, Mark, Seen
from lucky_recorder.recorder.opened import OpenSession
from lucky_recorder.recorder.take import Owner, Take
from lucky_recorder.recorder.writer import LaneWriter

if TYPE_CHECKING:
    import mujoco
    import numpy as np
    from numpy.typing import NDArray

    from lucky_recorder.capture.door import simulator


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
    """One lane of an open session, as the caller's thread has it.

    Attributes:
        session: What it shares with the other lanes.
        source: What is looked at.
        lane: Its number; None where it is the only one.
        take: The open take, or None between two of them.
        taken: Its takes with rows that were queued.
        counts: How it stands with the worker.

    Args:
        session: As above.
        source: As above.
        lane: As above.
    """

    def __init__(self, session: OpenSession, source: Source, lane: int | None = None) -> None:
        self.session = session
        self.source = source
        self.lane = lane
        self.take: Take | None = None
        self.taken = 0
        self.counts = session.counts
        self._attempts = 0
        self._renewal: Renewal | None = None
        self._committer, self._worker = session.committer, session.worker
        self._writer = LaneWriter(self._committer, source)
        self._devices = self._writer.devices

    # Its beginning, and its session.

    def open_renderer(self, other: Source | None = None) -> None:
        """Make the GL context if there is none yet, and what draws this lane's model.

        Args:
            other: What another lane looks at: this one is drawn with what draws that, as far as it looks the same.

        Raises:
            GLError: If no GL context can be made.
        """
        self._committer.writers.append(self._writer)
        renderer = self._devices.renderer
        if renderer is not None and other is not None and other.renderer is not None:
            renderer.share(other.renderer)
        model = self.source.model_copy()
        if model is not None:
            self._worker.call(lambda: self._devices.open_renderer(model))

    def lay_out(self) -> Layout:
        """Tell the worker what rows, frames and scans are, and return it."""
        layout = Layout(self.source.schema, self.source.clocks)
        self._worker.put(lambda: self._devices.lay_out(layout))
        return layout

    def learn_rates(self, seconds: float) -> None:
        """Settle the rates by how long the first step has lasted, and open the sinks, which could not know before.

        Raises:
            SettingsError: If a rate does not divide the control rate, or a format cannot hold what is recorded.
        """
        self.source.learn_rates(seconds)
        self.session.settle(self)

    @property
    def place(self) -> Path:
        """The folder the first format is written to."""
        return self.session.place

    @property
    def is_closed(self) -> bool:
        """Whether nothing is left to write, or it cannot be written; see `OpenSession.is_closed`."""
        return self.session.is_closed

    def flush(self) -> None:
        """Wait until everything queued is done, in all lanes."""
        self.session.flush()

    # Its takes.

    def begin(self, owner: Owner, seed: int | None, task: int) -> Take:
        """Begin a take. One that is still open, because an interrupt struck while it was ended, ends now."""
        self.end(Outcome(False, Reason.STOPPED))
        self._renew()
        change = self.source.asset_change()
        if change is not None:
            self._guard(lambda: self._devices.change_assets(change), "the changed model could not be drawn")
        self._renew_casters(self._casters())
        number = self.session.next_number()
        # With many lanes the number depends on when the others have begun, so noise is not keyed by it.
        name = f"attempt {number}" if self.lane is None else f"lane {self.lane} attempt {self._next_attempt()}"
        mark = Mark(number, name if seed is None else f"seed {seed}", seed)
        self.take = Take(owner, self.source, mark, task, self.counts, self._hand_over, self.place)
        return self.take

    def _next_attempt(self) -> int:
        self._attempts += 1
        return self.session.first_take + self._attempts - 1

    def _hand_over(self, seen: Seen) -> None:
        """Queue what was seen at a tick; waits while the queue is full."""
        if self._renewal is not None and self._renewal.after != (seen.take, seen.tick):
            self._renew()
        try:
            self._worker.put(lambda: self._writer.draw(seen))
        except StateError:
            if self.session.is_lost:
                raise
            # Another thread has closed the session meanwhile: this tick is not in it.
            release(seen.snapshots)

    def end(self, outcome: Outcome) -> None:
        """Queue the end of the open take, if there is one, and return; one without a row leaves nothing."""
        take = self.take
        if take is None:
            return
        ended = take.ended(outcome)._replace(lane=self.lane or 0)
        # Also of one without a row: another thread may be finishing its first tick, whose pictures are on their way.
        self._worker.put(lambda: self._writer.end(ended))
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
            # One that waits is of a tick that is over by now.
            self._renew()
            # What was seen of the old model must be drawn and scanned with the old one.
            seen = (take.mark.number, take.lane.ticks) if in_step and take is not None else None
            # The worker has copies of its own: the environment goes on changing its model while pictures are drawn.
            self._renewal = Renewal(seen, self.source.model_copy(), self._casters())
            if seen is None:
                self._renew()
            self.session.note_model(model)
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

    def refuse_to_show(self) -> None:
        """Refuse to be asked for pictures where there are none yet.

        Raises:
            StateError: If they are drawn later.
        """
        if self.source.settings.is_deferred and self.source.settings.recorded_cameras:
            raise StateError(
                "observe() gives the pictures that a policy sees, and with render='deferred' there are none yet; "
                "record with render='live', or leave the cameras out, and name them when the session is drawn"
            )

    def draw(self, snapshots: list[Snapshot]) -> list[Snapshot]:
        """Have the colours of snapshots drawn now, and wait for them.

        Raises:
            StreamError: If one cannot be drawn.
        """
        self._renew()
        drawn: list[Snapshot] = self._worker.call(lambda: self._drawn(snapshots))
        return drawn

    def _drawn(self, snapshots: list[Snapshot]) -> list[Snapshot]:
        # In the worker: what is raised in the thread that waits for it, such as a timeout, is none of a driver's.
        try:
            return [self._devices.developed(one) for one in snapshots]
        except Exception as error:  # as in a stream: a driver may raise anything
            raise as_ours(error, "a picture could not be drawn") from error

    def colors(self, snapshots: Sequence[Snapshot]) -> dict[str, NDArray[np.uint8]]:
        """Return copies of the pixels of drawn snapshots, uint8, shape ``(height, width, 3)``, by feature key."""
        return self._devices.colors(snapshots)
