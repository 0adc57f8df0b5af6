"""A lane: one simulation being recorded, tick by tick, in the caller's thread.

A tick has two halves: `look`, before the step (state, pictures), and `settle`, after it (command, reward, flags).
A half tick that is never settled leaves no row and no frame. At every tick something may be due: a row, the frame of
a camera, the scan of a lidar, each at a rate of its own.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from lucky_recorder.episode import clock
from lucky_recorder.episode.keys import NEW_POLICY_STEP, POST_RESET
from lucky_recorder.errors import CaptureError
from lucky_recorder.recorder.buffer import BLOCK_ROWS, EpisodeBuffer

if TYPE_CHECKING:
    from lucky_recorder.capture.channels import Channel
    from lucky_recorder.capture.snapshot import Snapshot
    from lucky_recorder.capture.source import Source

_CLOCK_TOLERANCE = 0.01
Copies = list[tuple[Any, Any]]


class Lane:
    """Fills an episode's buffer from a source.

    Attributes:
        source: What is looked at.
        buffer: The episode in flight.
        ticks: Finished ticks, at the base rate.
        sights: What cameras and lidars saw at the half tick that is open.
        last_shown: The last tick whose sights were handed over, or -1.
    """

    def __init__(self, source: Source, task: int, show: Callable[[int, list[Snapshot]], None]) -> None:
        self.source = source
        self.buffer = EpisodeBuffer(source.channels, task, source.commands())
        self.ticks = 0
        self.sights: list[Snapshot] | None = None
        self.last_shown = -1
        self._show = show
        self._is_open = False
        self._seen_in: bytes | None = None
        self._row = 0
        self._ticks_per_row = source.clocks.ticks_per_row
        self._ticks_per_step = source.clocks.ticks_per_step
        self._pending_flags = 0
        self._last_time = -math.inf
        self._first_time = 0.0
        self.attach()

    def attach(self) -> None:
        """Take over what is looked at from the source; again after it has been bound to another simulation."""
        self.drop_half()
        source = self.source
        self._fingerprint = source.fingerprint
        self._time = source.time
        self._sync = source.sync
        self._snapshot = source.snapshot
        self._moment = source.moment
        self._instabilities = source.instabilities
        self._note_instabilities()
        viewed = [c for c in source.channels if c.view is not None]
        called = [c for c in source.channels if c.view is None]
        self._viewed = {phase: [c for c in viewed if c.phase == phase] for phase in ("before", "after")}
        self._reads_before = [c for c in called if c.phase == "before"]
        self._reads_after = [c for c in called if c.phase == "after"]
        self._merged = [c for c in called if c.merge is not None]
        self._known_late = [c for c in self._reads_after if c.merge is None]
        self._bind()

    def _bind(self) -> None:
        """Pair every viewed channel with the block it is copied into."""
        self._copies_before: Copies = self._pairs("before")
        self._copies_after: Copies = self._pairs("after")

    def _pairs(self, phase: str) -> Copies:
        return [(self.buffer.blocks[c.name].open, c.view) for c in self._viewed[phase]]

    @property
    def rows(self) -> int:
        """Finished rows of each robot, the last of which may stand for ticks still to come."""
        return self.buffer.ticks

    def look(self) -> None:
        """Take the half of a tick that comes before the step.

        Raises:
            CaptureError: If time ran backwards, a state is not finite, or a column's source gave what cannot be
                recorded.
        """
        if self._is_open:
            self.drop_half()
        if self._time is not None:
            now = self._time.time
            if now < self._last_time:
                self._ran_backwards(now)
            self._last_time = now
        if self._sync is not None:
            self._sync()
        if self.ticks % self._ticks_per_row == 0:
            row = self._row
            for block, view in self._copies_before:
                block[row] = view
                if not view.dot(view) < math.inf:
                    self._check_finite("before")
            for channel in self._reads_before:
                self._read(channel)
        if self._snapshot is not None:
            self._see(self._snapshot)
        self._is_open = True

    def observe(self) -> list[Snapshot]:
        """Look through what is due at the coming tick; its `look` takes these sights over, unless the state changes."""
        if self._is_open:
            self.drop_half()
        if self._sync is not None:
            self._sync()
        if self._snapshot is None:
            return []
        self._see(self._snapshot)
        if self._fingerprint is not None:
            self._seen_in = self._fingerprint()
        assert self.sights is not None
        return self.sights

    def _see(self, snapshot: Callable[[int], list[Snapshot]]) -> None:
        """Look through what is due, unless `observe` has done so in this very state."""
        if self.sights is not None and self._fingerprint is not None and self._fingerprint() != self._seen_in:
            self.drop_half()
        if self.sights is None:
            self.sights = snapshot(self.ticks)

    def settle(self, is_new_policy_step: bool = True) -> None:
        """Take the half of a tick that comes after the step: its row is finished, its frames are on their way.

        Raises:
            CaptureError: As for `look`.
        """
        if self._instabilities is not None and self._instabilities.tobytes() != self._known_instabilities:
            self._check_stability()
        if self.ticks % self._ticks_per_row == 0:
            self._finish_row(is_new_policy_step)
        else:
            self._join_row()
        self._is_open = False
        self.ticks += 1
        if self.sights is not None:
            sights, self.sights = self.sights, None
            if sights:
                self.last_shown = self.ticks - 1
                self._show(self.last_shown, sights)
        if self.ticks <= 2:
            self._check_clock()

    def _finish_row(self, is_new_policy_step: bool) -> None:
        row = self._row
        for block, view in self._copies_after:
            block[row] = view
            if not view.dot(view) < math.inf:
                self._check_finite("after")
        for channel in self._reads_after:
            self._read(channel)
        self.buffer.flags.append((NEW_POLICY_STEP if is_new_policy_step else 0) | self._pending_flags)
        self._pending_flags = 0
        self._row = row + 1
        if self._row == BLOCK_ROWS:
            self._next_block()

    def _join_row(self) -> None:
        """Add a tick that has no row of its own to the row that stands for it."""
        for channel in self._merged:
            last = self.buffer.blocks[channel.name].last(self.buffer.ticks)
            value = channel.read(self._moment) if channel.read else None
            last[...] = last + value if channel.merge == "sum" else last | value
        if self._known_late and self._ends_the_rows_step():
            for channel in self._known_late:
                self._read_again(channel)

    def _ends_the_rows_step(self) -> bool:
        """Tell whether this tick is the last of the step in which its row began: what the step says is known now."""
        per_step, began = self._ticks_per_step, self.ticks - self.ticks % self._ticks_per_row
        return (self.ticks + 1) % per_step == 0 and began // per_step == self.ticks // per_step

    def drop_half(self) -> None:
        """Forget the half tick that is open."""
        self._is_open = False
        sights, self.sights = self.sights, None
        release(sights or ())

    @property
    def is_open(self) -> bool:
        """Whether a half tick is open."""
        return self._is_open

    def mark_reset(self, robot: int | None = None) -> None:
        """Flag the next row as the first after a reset; time may run backwards before it."""
        if robot is None:
            self._pending_flags |= POST_RESET
        else:
            key = (self.buffer.ticks, robot)
            self.buffer.robot_flags[key] = self.buffer.robot_flags.get(key, 0) | POST_RESET
        self._last_time = -math.inf
        if not self._is_open:
            self.drop_half()
        self._note_instabilities()

    def _next_block(self) -> None:
        for block in self.buffer.blocks.values():
            block.next()
        self._row = 0
        self._bind()

    def _read(self, channel: Channel) -> None:
        assert channel.read is not None
        value = channel.read(self._moment)
        if channel.nullable:
            self.buffer.missing[channel.name].append(value is None)
        block = self.buffer.blocks[channel.name].open
        block[self._row] = 0 if value is None else value

    def _read_again(self, channel: Channel) -> None:
        assert channel.read is not None
        value = channel.read(self._moment)
        if channel.nullable:
            self.buffer.missing[channel.name][-1] = value is None
        self.buffer.blocks[channel.name].last(self.buffer.ticks)[...] = 0 if value is None else value

    def _ran_backwards(self, now: float) -> None:
        raise CaptureError(
            f"simulation time ran backwards, from {self._last_time:g} s to {now:g} s, at tick {self.ticks} of the "
            "episode: the simulation was reset, or became unstable (NaN) and reset itself; call mark_reset() after a "
            "reset you mean"
        )

    def _note_instabilities(self) -> None:
        self._known_instabilities = b"" if self._instabilities is None else self._instabilities.tobytes()

    def _check_stability(self) -> None:
        """Tell a simulation that has reset itself, which time alone does not always show, from one that was reset."""
        assert self._instabilities is not None
        known = np.frombuffer(self._known_instabilities, self._instabilities.dtype)
        self._note_instabilities()
        if (self._instabilities > known).any():
            raise CaptureError(
                "the simulation became unstable (NaN, infinity or a huge value) and reset itself at tick "
                f"{self.ticks} of the episode; lower the time step or the commands, or call mark_reset() if you mean it"
            )

    def _check_finite(self, phase: str) -> None:
        for channel in self._viewed[phase]:
            if not np.isfinite(channel.view).all():  # type: ignore[arg-type]
                raise CaptureError(
                    f"{channel.name} holds NaN or infinity at tick {self.ticks} of the episode: {channel.view}"
                )

    def _check_clock(self) -> None:
        """Compare the first two ticks with the data rate, so that no time is mislabelled without a word."""
        if self._time is None:
            return
        if self.ticks == 1:
            self._first_time = self._last_time
            return
        step, expected = self._last_time - self._first_time, float(1 / self.source.clocks.base)
        if self._last_time > self._first_time >= 0 and abs(step - expected) > _CLOCK_TOLERANCE * expected:
            warnings.warn(
                f"two ticks lie {step:g} s of simulated time apart, but the rate "
                f"{clock.show(self.source.clocks.base)} Hz says {expected:g} s: timestamps will not be the "
                "simulation's; set data_hz",
                RuntimeWarning,
                stacklevel=4,
            )


def release(sights: Sequence[Snapshot]) -> None:
    """Give back what sights hold that will not be drawn."""
    for sight in sights:
        sight.release()
