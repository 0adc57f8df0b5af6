"""A take: one attempt at an episode, and the one owner of all that is open while it lasts.

It lives in the caller's thread, from the reset to the verdict. Then the worker is handed what it has gathered, and
commits it as an episode or discards it. A take has a number; an index is for episodes only.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from numpy.typing import NDArray

from lucky_recorder.capture.snapshot import Snapshot
from lucky_recorder.capture.source import Source
from lucky_recorder.episode import clock
from lucky_recorder.episode.record import Outcome, Reason
from lucky_recorder.errors import CaptureError
from lucky_recorder.recorder.circumstances import Circumstances
from lucky_recorder.recorder.lane import Lane, Many
from lucky_recorder.recorder.messages import Counts, Ended, Mark, Seen
from lucky_recorder.recorder.policies import Ran

if TYPE_CHECKING:
    from lucky_recorder.capture.door import simulator


class TakeState(enum.Enum):
    """Where a take stands."""

    OPEN = "open"
    """Its rows are being recorded."""
    FROZEN = "frozen"
    """The environment is done: the rows stay as they are, the verdict is open."""
    ENDED = "ended"
    """It has its verdict, and is the worker's."""


# At hand: before Python 3.12 to look a member up costs as much as to copy a row.
OPEN, FROZEN, ENDED = TakeState


class Owner(Protocol):
    """What a take asks of the recorder whose take it is."""

    def raise_failure(self) -> None:
        """Raise what has failed in the worker; the session is closed then."""

    def end(self, outcome: Outcome, of: Take | None = None) -> None:
        """End the open take, if it is this one."""

    def fail(self, error: BaseException, of: Take | None = None) -> None:
        """End the open take, if it is this one, or the session, because of an error that is about to be raised."""

    def learn_rates(self, seconds: float) -> None:
        """Settle the session's rates by how long the first step has lasted."""


class Take:
    """One attempt at an episode.

    It has one attribute more than a class here should: it is the one place for all that is open.

    Attributes:
        mark: What it is known by.
        is_seeded: Whether every reset in it was given a seed.
        began_ns: When it began, nanoseconds since 1970.
        state: Where it stands.
        verdict: What the last step of a frozen take says of success; None where it says nothing.
        was_reset: Whether the simulation was reset inside its last step, which has ended it.
        lost_last: Whether its last step is no row, for another reason.
        outcome: How it has ended; None before.
        moment: What the columns' callables are given.
        circumstances: What is known of it besides its rows.
        lane: Fills its rows.
        is_on_time: Tells whether a step lasted as long as the others: `Watch.is_on_time`.
        led_on: Compares the simulation after a step with that before it: `Watch.after_step`. Whoever calls it must fail
            the take if it raises, since half a tick is open.
        ticks_per_step: Base ticks in a step of the environment.

    Args:
        owner: The recorder.
        source: What is looked at.
        mark: What it is known by.
        task: Index of the task of its first rows.
        counts: How it stands with the worker.
        hand_over: Queues what was seen at a tick.
        folder: Where what the memory does not hold of a long episode waits.
    """

    def __init__(
        self,
        owner: Owner,
        source: Source,
        mark: Mark,
        task: int,
        counts: Counts,
        hand_over: Callable[[Seen], None],
        folder: Path,
    ) -> None:
        number, key, seed = mark
        self.mark = mark
        self.is_seeded = seed is not None
        self.began_ns = clock.now_ns()
        self.state = OPEN
        self.verdict: bool | None = None
        self.was_reset = self.lost_last = False
        self.outcome: Outcome | None = None
        self.moment = source.moment
        self.circumstances = Circumstances(seed)
        self.lane = Lane(source, task, lambda tick, seen: hand_over(Seen(number, key, tick, seen)), folder)
        self.led_on, self.is_on_time = self.lane.watch.after_step, self.lane.watch.is_on_time
        self._owner = owner
        self._source = source
        self._counts = counts
        self._take_rates()

    def _take_rates(self) -> None:
        """Work out what depends on the rates. Before they are known it is no more than tick 0 that is recorded."""
        limit, clocks = self._source.settings.max_episode_length_s, self._source.clocks
        self._most_ticks = -1 if limit is None else clock.ticks_within(limit, clocks.base)
        self.ticks_per_step = clocks.ticks_per_step

    @property
    def commands(self) -> simulator.CommandMap | None:
        """The mapping of its commands, with the ranges that the model had when it began; None without an action."""
        return self.lane.buffer.commands

    @property
    def has_rows(self) -> bool:
        """Whether there is anything in it to keep."""
        return self.lane.ticks > 0

    @property
    def steps(self) -> int:
        """Finished steps of the environment."""
        return self.lane.ticks // self.ticks_per_step

    def look(self) -> bool:
        """Take the half of a tick before the step.

        Returns:
            Whether there is a row to settle: False once ``max_episode_length_s`` is reached, and where the step before
            was cut short (see `end_if_cut`), which ends the take.

        Raises:
            CaptureError: If the tick cannot be recorded; the take is ended as failed.
            LuckyRecorderError: What has failed in the worker; the session is closed.
        """
        if self._counts.failure is not None:
            self._owner.raise_failure()
        lane = self.lane
        if lane.is_open or lane.ticks == self._most_ticks:
            if not self.end_if_cut():
                self.end_if_due()
            return False
        try:
            lane.look()
        except BaseException as error:  # also an interrupt: of half a tick nothing must stay
            self.fail(error)
            raise
        return True

    def settle(self, new_policy_step: Ran = True) -> None:
        """Take the half of a tick after the step: the row is finished, unless the step has lost what it needs.

        Raises:
            CaptureError: If the tick cannot be recorded; the take is ended as failed.
            StreamError: If the worker hangs; the session is closed.
        """
        lane = self.lane
        if self.state is not OPEN:
            # It was ended while the environment stepped: the worker has its rows, and the half tick goes.
            lane.drop_half()
            return
        try:
            if lane.ticks == 0 and not self._source.has_rates and not self.was_reset:
                if self.moment.done and not self._source.is_vouched_for(lane.elapsed()):
                    self.lost_last = True
                    lane.drop_half()
                    return
                self._owner.learn_rates(lane.elapsed())
                lane.learn_rates()
                self._take_rates()
            lane.settle(new_policy_step, self.was_reset or self.lost_last)
        except BaseException as error:  # as above
            self.fail(error)
            raise

    def extend(self, many: Many) -> None:
        """Take many ticks at once; where it was ended meanwhile, none.

        Raises:
            LuckyRecorderError: What has failed in the worker; the session is closed.
        """
        if self._counts.failure is not None:
            self._owner.raise_failure()
        if self.state is not OPEN:
            return
        try:
            self.lane.extend(many)
        except BaseException as error:  # also an interrupt, as above
            self.fail(error)
            raise

    def fail(self, error: BaseException) -> None:
        """End it as failed, because of an error that is about to be raised; where it has ended, it stays as it is."""
        if self.state is not ENDED:
            self._owner.fail(error, self)

    def end_if_cut(self) -> bool:
        """End it as failed if half a tick is left of the step before, whose row would be missing.

        An interrupt ends the take itself, with `fail`. If another strikes while that is done, the half stays. To be
        called by the thread that steps, between two steps.

        Returns:
            Whether it was so.
        """
        if self.state is not OPEN or not self.lane.is_open:
            return False
        self._owner.end(Outcome(False, Reason.ERROR), self)
        return True

    def refresh(self) -> None:
        """Bring what callables look at to the present state, with everything that follows from it."""
        self._source.refresh()

    def require_sound_end(self) -> None:
        """Look at what the simulation has made of the last command, before a success is believed.

        Raises:
            CaptureError: If it became unstable, or refused the command; the take is ended as failed.
        """
        try:
            self.lane.require_sound_end()
        except CaptureError as error:
            self.fail(error)
            raise

    def end_if_due(self) -> bool:
        """End it if it has reached ``max_episode_length_s``; returns whether it has."""
        if self.lane.ticks != self._most_ticks:
            return False
        self._owner.end(Outcome(False, Reason.TIME_LIMIT), self)
        return True

    def observe(
        self, draw: Callable[[list[Snapshot]], list[Snapshot]]
    ) -> tuple[dict[str, NDArray[Any]], list[Snapshot]]:
        """Look at what a policy may see of the coming tick, which will record the very same.

        Args:
            draw: Has the colours of snapshots drawn, and waits for them.

        Returns:
            The columns that are known before a policy acts, by name, and the drawn snapshots.
        """
        snapshots = self.lane.observe()
        if snapshots:
            self.lane.snapshots = snapshots = draw(snapshots)
        if self._source.task is not None:
            self._source.task.read(self.moment)
        return self._source.present(), snapshots

    def freeze(self, verdict: Callable[[], bool | None]) -> None:
        """Keep the rows as they are; what the last step says of success is asked now, before it is forgotten."""
        try:
            self.verdict = verdict()
        except BaseException as error:  # whatever a callable of the user's raises
            self.fail(error)
            raise
        self.circumstances.freeze(self.moment)
        self.lane.close_trail()
        # Last: a frozen take is not asked again, so an interrupt must not leave one that was never asked.
        self.state = FROZEN

    def mark_reset(self, robot: int | None, is_seeded: bool) -> None:
        """Flag the next row as the first after a reset, of one robot or of all."""
        self.lane.mark_reset(robot)
        self.is_seeded &= is_seeded or not self.has_rows

    def mark_event(self, kind: str, fields: Mapping[str, Any]) -> None:
        """Note an event before the next row."""
        self.lane.buffer.mark(kind, fields)

    def set_task(self, index: int) -> None:
        """Set the task of the rows from here on."""
        self.lane.buffer.set_task(index)

    @property
    def said_task(self) -> str | None:
        """What was said last of its task, where the setting ``task`` asks for it; None where nothing was."""
        return None if self._source.task is None else self._source.task.of(self.moment)

    def ended(self, outcome: Outcome) -> Ended:
        """Close the half tick that is open, and return all that the worker needs.

        Where an interrupt strikes before the worker has got it, it is ended again: its first outcome stands.
        """
        self.state = ENDED
        self.outcome = self.outcome or outcome
        lane, source = self.lane, self._source
        # In this order, since another thread may be settling a tick: what it counts after this is not in the take, and
        # a tick that is counted has handed its snapshots over, so they cannot be dropped.
        ticks, last_seen = lane.ticks, lane.last_seen
        lane.drop_half()
        lane.close_trail()
        return Ended(
            mark=self.mark,
            outcome=self.outcome,
            buffer=lane.buffer,
            ticks=ticks,
            last_seen=last_seen,
            columns=source.columns,
            entities=source.entity_ids,
            is_seeded=self.is_seeded,
            began_ns=self.began_ns,
            about=self.circumstances.told(),
            trail=lane.trail,
        )
