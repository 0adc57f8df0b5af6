"""Filling rows: at each tick, values are copied from the simulation into the open row of an episode's buffer.

This runs at every step of the environment, so it does as little as it can: arrays that always show the present value
are copied, functions are called, and everything else waits until the episode has ended.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_recorder.capture.channels import Channel, Phase
from lucky_recorder.capture.source import Source
from lucky_recorder.episode.keys import NEW_POLICY_STEP, POST_RESET
from lucky_recorder.errors import CaptureError
from lucky_recorder.recorder.buffer import BLOCK_ROWS, EpisodeBuffer
from lucky_recorder.recorder.policies import Ran

Copies = list[tuple[Any, Any, Any, Any]]
# At hand: to look it up in `math` costs a tenth of a copy.
_is_finite = math.isfinite
# The channel of the joints' positions.
_POSITIONS = "qpos"
# Up to so many values, Python adds them up sooner than numpy multiplies them.
_FEW = 12


class RowFiller:
    """Fills the rows of one episode.

    Attributes:
        buffer: The episode's raw rows.
        looks_after: Whether a column looks at the simulation after the step.

    Args:
        buffer: As above.
        source: Where the values come from.
    """

    def __init__(self, buffer: EpisodeBuffer, source: Source) -> None:
        self.buffer = buffer
        self._flag = buffer.flags.append
        self._row = 0
        self._pending_flags = 0
        self.attach(source)

    def attach(self, source: Source) -> None:
        """Take the values from what a source is bound to now."""
        self._moment = source.moment
        called = [c for c in source.channels if c.view is None]
        self._viewed = [c for c in source.channels if c.view is not None]
        self._reads_before = [c for c in called if c.phase == "before"]
        self._reads_after = [c for c in called if c.phase == "after"]
        self._merged = [c for c in called if c.merge is not None]
        # What such a column looks at is a step behind when the step is over.
        self.looks_after = any(c.looks_after for c in called)
        self._refresh = source.refresh if self.looks_after else None
        self._pair()

    def _pair(self) -> None:
        """Pair every array that is copied with the block it is copied into."""
        self._copies_before, self._copies_after = self._pairs("before"), self._pairs("after")

    def _pairs(self, phase: Phase) -> Copies:
        mine = [(self.buffer.blocks[c.name].open, c.view) for c in self._viewed if c.phase == phase]
        return [
            (block, view, view.tolist if view.ndim == 1 and view.size <= _FEW else None, view.dot)
            for block, view in mine
            if view is not None
        ]

    def read_before(self, tick: int) -> None:
        """Read what a row holds of the state before its step.

        Raises:
            CaptureError: If a value is not finite, or a column's source gave what cannot be recorded.
        """
        row = self._row
        for block, view, listed, dot in self._copies_before:
            block[row] = view
            # One number tells whether all of it is finite; only where it does not, each value is looked at.
            if not _is_finite(dot(view) if listed is None else sum(listed())):
                self._refuse_infinite("before", tick)
        for channel in self._reads_before:
            self._read(channel)

    def check(self, phase: Phase, tick: int) -> None:
        """Look at what a tick without a row of its own has: a bad state is found when it comes, and not a row later.

        Raises:
            CaptureError: If a value that rows hold is not finite.
        """
        for _, view, listed, dot in self._copies_before if phase == "before" else self._copies_after:
            if not _is_finite(dot(view) if listed is None else sum(listed())):
                self._refuse_infinite(phase, tick)

    def finish(self, tick: int, new_policy_step: Ran) -> None:
        """Read what only the step knows; the row is finished.

        Raises:
            CaptureError: As for `read_before`.
        """
        row = self._row
        for block, view, listed, dot in self._copies_after:
            block[row] = view
            if not _is_finite(dot(view) if listed is None else sum(listed())):
                self._refuse_infinite("after", tick)
        if self._refresh is not None:
            self._refresh()
        for channel in self._reads_after:
            self._read(channel)
        if new_policy_step is True:
            self._flag(NEW_POLICY_STEP | self._pending_flags)
        else:
            for robot in new_policy_step or ():
                self._flag_next(robot, NEW_POLICY_STEP)
            self._flag(self._pending_flags)
        self._pending_flags = 0
        self._row = row + 1
        if self._row == BLOCK_ROWS:
            self._turn_over()

    def _turn_over(self) -> None:
        self.buffer.next_block()
        self._row = 0
        self._pair()

    def fill(self, values: Mapping[str, NDArray[Any]], ran: NDArray[np.bool_]) -> None:
        """Fill many rows at once.

        Args:
            values: What each channel holds, by its name, an array of shape ``(rows, …)``; all of it finite.
            ran: Whether a policy has run for each row.
        """
        done = 0
        while done < len(ran):
            many = min(len(ran) - done, BLOCK_ROWS - self._row)
            for name, block in self.buffer.blocks.items():
                block.open[self._row : self._row + many] = values[name][done : done + many]
            flags = bytearray(np.where(ran[done : done + many], NEW_POLICY_STEP, 0).astype(np.uint8).tobytes())
            flags[0] |= self._pending_flags
            self._pending_flags = 0
            self.buffer.flags.extend(flags)
            self._row += many
            done += many
            if self._row == BLOCK_ROWS:
                self._turn_over()

    def join(self, tick: int, ends_step: bool, was_reset: bool = False) -> None:
        """Add a tick that has no row of its own to the row that stands for it: all of it, or nothing.

        Args:
            tick: The tick.
            ends_step: Whether it is the last tick of the step in which its row began: what only that step knows, such
                as its info, was not known when the row was finished, and is read now.
            was_reset: Whether the simulation was reset inside the step: then only what it returned can still be read.

        Raises:
            CaptureError: As for `read_before`; the row is as it was before the tick.
        """
        values = {channel.name: self._joined(channel) for channel in self._merged}
        if ends_step:
            if self._refresh is not None:
                self._refresh()
            for channel in self._reads_after:
                if channel.merge is None and (channel.is_returned or not was_reset):
                    assert channel.read is not None
                    values[channel.name] = channel.read(self._moment)
        if values:
            self.buffer.join(tick, values)

    def _joined(self, channel: Channel) -> Any:
        held = self.buffer.blocks[channel.name].last(self.buffer.data_ticks)
        return channel.joined(held, channel.read(self._moment) if channel.read else None)

    def is_back_at_start(self) -> bool:
        """Tell whether a step has put the positions back where the episode began, to the bit: no physics does that.

        Where positions are not recorded, or the row of the tick is not open, it cannot be told.
        """
        positions = next((c for c in self._viewed if c.name == _POSITIONS), None)
        if positions is None or not self.buffer.data_ticks:
            return False
        block = self.buffer.blocks[_POSITIONS]
        first, before, now = block.last(1), block.open[self._row], np.asarray(positions.view)
        # Where nothing has moved, they are there still.
        return bool((now == first).all() and (now != before).any())

    def mark_reset(self, robot: int | None) -> None:
        """Flag the next row as the first after a reset, of one robot or of all."""
        if robot is None:
            self._pending_flags |= POST_RESET
        else:
            self._flag_next(robot, POST_RESET)

    def untold_resets(self) -> list[int | None]:
        """Return the resets that no finished row tells of: of which robots, None for all."""
        of_all: list[int | None] = [None] if self._pending_flags & POST_RESET else []
        due, flags = self.buffer.data_ticks, self.buffer.robot_flags
        return of_all + [robot for (tick, robot), flag in flags.items() if tick == due and flag & POST_RESET]

    def _flag_next(self, robot: int, flag: int) -> None:
        """Set a flag in one robot's row of the data tick that is not finished yet."""
        key = (self.buffer.data_ticks, robot)
        self.buffer.robot_flags[key] = self.buffer.robot_flags.get(key, 0) | flag

    def _read(self, channel: Channel) -> None:
        assert channel.read is not None
        value = channel.read(self._moment)
        if channel.nullable:
            self.buffer.missing[channel.name].append(value is None)
        block = self.buffer.blocks[channel.name].open
        block[self._row] = 0 if value is None else value

    def _refuse_infinite(self, phase: Phase, tick: int) -> None:
        for channel in self._viewed:
            if channel.phase == phase and not np.isfinite(channel.view).all():  # type: ignore[arg-type]
                what = f"{channel.name} holds NaN or infinity"
                raise CaptureError(f"{what} at tick {tick} of the episode: {channel.view}")
