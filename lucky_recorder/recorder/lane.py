"""A lane: one simulation being recorded, tick by tick, in the caller's thread.

A tick has two halves: `look`, before the step (state, pictures), and `settle`, after it (command, reward, flags).
A half tick that is never settled leaves no row and no frame. At every tick something may be due: a row, the frame of
a camera, the scan of a lidar, each at a rate of its own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lucky_recorder.capture.snapshot import Snapshot
from lucky_recorder.capture.source import Source
from lucky_recorder.recorder.buffer import EpisodeBuffer
from lucky_recorder.recorder.filler import RowFiller
from lucky_recorder.recorder.policies import Ran
from lucky_recorder.recorder.trail import Trail
from lucky_recorder.recorder.watch import Watch


class Many(NamedTuple):
    """Many ticks of a simulation that is not looked at, since its states are known.

    Attributes:
        values: What each channel holds, by its name, an array of shape ``(ticks, …)``.
        ran: Whether a policy has run for each tick, bool, shape ``(ticks,)``.
        states: The full state before each, shape ``(ticks, size)``.
        commands: The commands during each, shape ``(ticks, nu)``.
    """

    values: Mapping[str, NDArray[Any]]
    ran: NDArray[np.bool_]
    states: NDArray[np.float64]
    commands: NDArray[np.float64]


class Lane:
    """Fills an episode's buffer from a source.

    It has one attribute more than a class here should: what every tick needs is kept at hand.

    Attributes:
        buffer: The episode in flight.
        watch: Compares the simulation with itself.
        trail: The full states of the episode; None where they are not kept.
        ticks: Finished ticks, at the base rate.
        snapshots: What cameras and lidars saw at the half tick that is open.
        resets: Robots whose reset was marked since the last look, None for all of them.
        last_seen: The last tick whose snapshots were handed over, or -1.
        is_open: Whether half a tick is open, from the first line of `look` to the last of `settle`.

    Args:
        source: What is looked at.
        task: Index of the task of the first rows.
        hand_over: Takes a tick's snapshots; may wait.
        folder: Where what the memory does not hold of a long episode waits.
    """

    def __init__(
        self,
        source: Source,
        task: int,
        hand_over: Callable[[int, list[Snapshot]], None],
        folder: Path | None = None,
    ) -> None:
        self.buffer = EpisodeBuffer(source.channels, task, source.commands(), folder)
        self.ticks = 0
        self.snapshots: list[Snapshot] | None = None
        self.last_seen = -1
        self.is_open = False
        self._source = source
        self._hand_over = hand_over
        self._filler = RowFiller(self.buffer, source)
        self.watch = Watch(source)
        self.trail = None if source.states is None else Trail(source.states, folder)
        self._seen_in: bytes | None = None
        self.resets: deque[int | None] = deque()
        # The tick before which a reset was last taken in.
        self._reset_at = -1
        self._cache()

    def _cache(self) -> None:
        """Keep at hand what every tick needs: a property costs as much as the copying itself."""
        self._clock = self.watch.clock
        self._sync = self._source.sync
        self._snapshot = self._source.snapshot
        self._ticks_per_row = self._source.clocks.ticks_per_row
        self._ticks_per_step = self._source.clocks.ticks_per_step

    def attach(self, keeps_half: bool = False) -> None:
        """Take over what is looked at from the source, after it has been bound to another simulation.

        Args:
            keeps_half: Whether the half tick that is open stays: it was taken before the step that has replaced the
                simulation. Else it goes: its scenes are given back, its row was never counted.
        """
        if not keeps_half:
            self.drop_half()
        self.buffer.map_commands(self._source.commands())
        self._filler.attach(self._source)
        self.watch.attach(self._source, is_in_step=keeps_half)
        if self.trail is not None and self._source.states is not None:
            self.trail.attach(self._source.states, has_begun=self.ticks > 0 or keeps_half)
        self._cache()

    @property
    def looks_after(self) -> bool:
        """Whether a column looks at the simulation after the step."""
        return self._filler.looks_after

    def learn_rates(self) -> None:
        """Take over the source's rates, which the first step has shown. At tick 0 everything is due at any rate."""
        self._cache()
        self.watch.learn_rates()

    def elapsed(self) -> float:
        """Return how long the step that was just taken has lasted, in seconds of the simulation's own time."""
        return self.watch.elapsed()

    def look(self) -> None:
        """Take the half of a tick that comes before the step. None may be open.

        Raises:
            CaptureError: If time ran backwards, a state is not finite, or a column's source gave what cannot be
                recorded.
        """
        # First of all, and taken back last of all: wherever an interrupt strikes, what is left shows it.
        self.is_open = True
        if self.resets:
            self._take_resets()
        tick, watch, clock = self.ticks, self.watch, self._clock
        if clock is not None:
            watch.tick, now = tick, clock.time
            if now != watch.settled:
                watch.look_closer(now, tick)
            watch.last = now
        if self.trail is not None:
            self.trail.before(tick)
        if self._sync is not None:
            self._sync()
        if tick % self._ticks_per_row == 0:
            self._filler.read_before(tick)
        else:
            self._filler.check("before", tick)
        if self._snapshot is not None:
            self._capture(self._snapshot)

    def observe(self) -> list[Snapshot]:
        """Capture what is due at the coming tick; its `look` takes these snapshots over, unless the state changes."""
        self._take_resets()
        if self._sync is not None:
            self._sync()
        if self._snapshot is None:
            return []
        snapshots = self._capture(self._snapshot)
        if self._source.fingerprint is not None:
            self._seen_in = self._source.fingerprint()
        return snapshots

    def _capture(self, snapshot: Callable[[int], list[Snapshot]]) -> list[Snapshot]:
        """Capture what is due, unless `observe` has done so in this very state."""
        fingerprint = None if self.snapshots is None else self._source.fingerprint
        if fingerprint is not None and fingerprint() != self._seen_in:
            self._drop_snapshots()
        if self.snapshots is None:
            self.snapshots = snapshot(self.ticks)
        return self.snapshots

    def settle(self, new_policy_step: Ran = True, is_cut: bool = False) -> None:
        """Take the half of a tick that comes after the step: its row is finished, its frames are on their way.

        Args:
            new_policy_step: Whose policy has run for it.
            is_cut: Whether the simulation was reset inside the step, or did not move in it. The half goes then, if its
                row holds something of the simulation as the step has left it, such as the command: nobody knows that.

        Raises:
            CaptureError: As for `look`.
        """
        if is_cut and self._loses_row():
            self.drop_half()
            return
        tick = self.ticks
        if tick % self._ticks_per_row == 0:
            self._filler.finish(tick, new_policy_step)
        else:
            self._filler.check("after", tick)
            self._filler.join(tick, self._ends_the_rows_step(), is_cut)
        if self.trail is not None:
            self.trail.after(tick, is_cut)
        # The order matters. An interrupt may strike between any two of these lines, and what has been counted by then
        # tells the worker how many ticks are whole: one whose snapshots were not handed over is not, nor is its row.
        snapshots, self.snapshots = self.snapshots, None
        if snapshots:
            self.last_seen = tick
        self.ticks = tick + 1
        if snapshots:
            self._hand_over(self.last_seen, snapshots)
        self.is_open = False

    def extend(self, many: Many) -> None:
        """Take many ticks at once, as `look` and `settle` take one."""
        self.is_open = True
        if self.resets:
            self._take_resets()
        rows = slice(-self.ticks % self._ticks_per_row, None, self._ticks_per_row)
        self._filler.fill({name: values[rows] for name, values in many.values.items()}, many.ran[rows])
        if self.trail is not None:
            self.trail.extend(self.ticks, many.states, many.commands)
        self.ticks += len(many.ran)
        self.is_open = False

    def require_sound_end(self) -> None:
        """Look at what the simulation has made of the last command, if that was not looked at and nobody has reset it.

        Raises:
            CaptureError: If it became unstable, or refused the command.
        """
        if self.ticks and not self.resets and self._reset_at != self.ticks:
            self.watch.at_end(self.ticks)

    def close_trail(self) -> None:
        """Look at the full state once more, when the episode is over."""
        if self.trail is not None:
            is_next = not self.resets and self.watch.is_a_tick_later()
            self.trail.close(is_taken=not self.watch.is_between, is_next=is_next)

    def is_back_at_start(self) -> bool:
        """Tell whether the step has put the positions back where the episode began; see `RowFiller`."""
        return self.ticks % self._ticks_per_row == 0 and self._filler.is_back_at_start()

    def _loses_row(self) -> bool:
        """Tell whether the row of a step that has reset the simulation would not be whole, or could not be timed."""
        is_row = self.ticks % self._ticks_per_row == 0
        return not self._source.has_rates or (is_row and self._source.reads_after_steps)

    def _ends_the_rows_step(self) -> bool:
        """Tell whether this tick is the last of the step in which its row began: what the step says is known now."""
        per_step = self._ticks_per_step
        began = self.ticks - self.ticks % self._ticks_per_row
        return (self.ticks + 1) % per_step == 0 and began // per_step == self.ticks // per_step

    def drop_half(self) -> None:
        """Forget the half tick that is open."""
        self.is_open = False
        self._drop_snapshots()

    def _drop_snapshots(self) -> None:
        # Two threads may come here at once. There is no call in this line, so nothing comes between its halves: one of
        # them gets the snapshots, the other None.
        snapshots, self.snapshots = self.snapshots, None
        release(snapshots or ())

    def mark_reset(self, robot: int | None = None) -> None:
        """Flag the next row as the first after a reset; time may run backwards before it."""
        # Another thread may say so while a step is under way, which is compared with what was before it.
        self.resets.append(robot)

    def untold_resets(self) -> list[int | None]:
        """Return the resets that were marked and that no row tells of: of which robots, None for all."""
        return [*self._filler.untold_resets(), *self.resets]

    def _take_resets(self) -> None:
        """Take in the resets that were marked, before a look: what was seen before them is out of date."""
        while self.resets:
            self._filler.mark_reset(self.resets.popleft())
            self._reset_at = self.ticks
            self.watch.forgive_reset()
            if self.trail is not None:
                self.trail.mark_reset(self.ticks)
            self._drop_snapshots()


def release(snapshots: Sequence[Snapshot]) -> None:
    """Give back what snapshots hold that will not be drawn."""
    for snapshot in snapshots:
        snapshot.release()
