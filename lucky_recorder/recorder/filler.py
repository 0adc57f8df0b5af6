"""Filling rows: at each tick, values are copied from the simulation into the open row of an episode's buffer.

This runs at every step of the environment, so it does as little as it can: arrays that always show the present value
are copied, functions are called, and everything else waits until the episode has ended.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_recorder.capture.channels import FEW, Channel, Phase
from lucky_recorder.capture.source import Source
from lucky_recorder.episode.keys import NEW_POLICY_STEP, POST_RESET
from lucky_recorder.errors import CaptureError
from lucky_recorder.recorder.buffer import BLOCK_ROWS, EpisodeBuffer
from lucky_recorder.recorder.policies import Ran

# What an array is copied into, at which place for each row; the array; how it is listed, or multiplied.
Copies = list[tuple[Any, Any, Any, Any, Any]]
# What gives a value, which ones are recorded as they are, the cells of the block, what notes that one is missing, and
# what settles all others.
Readings = list[tuple[Any, Any, Any, Any, Any]]
# At hand: to look it up in `math` costs a tenth of a copy.
_is_finite = math.isfinite
# The channel of the joints' positions.
_POSITIONS = "qpos"


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
        """Pair all that is looked at with the open blocks."""
        self._copies_before, self._copies_after = self._pairs("before"), self._pairs("after")
        self._readings_before = self._read_into(self._reads_before)
        self._readings_after = self._read_into(self._reads_after)

    def _pairs(self, phase: Phase) -> Copies:
        mine = [(self.buffer.blocks[c.name].open, c.view) for c in self._viewed if c.phase == phase]
        return [(*_memory(block, view), *_added_up(view)) for block, view in mine if view is not None]

    def _read_into(self, channels: Sequence[Channel]) -> Readings:
        blocks, missing = self.buffer.blocks, self.buffer.missing
        notes = {c.name: missing[c.name].append if c.nullable else None for c in channels}
        return [(c.given, c.bounds, _cells(c, blocks[c.name].open), notes[c.name], c.settle) for c in channels]

    def read_before(self, tick: int) -> None:
        """Read what a row holds of the state before its step.

        Raises:
            CaptureError: If a value is not finite, or a column's source gave what cannot be recorded.
        """
        row = self._row
        for cells, places, memory, listed, dot in self._copies_before:
            cells[places[row]] = memory
            # One number tells whether all of it is finite; only where it does not, each value is looked at.
            if not _is_finite(sum(listed(), 0.0) if dot is None else dot(listed)):
                self._refuse_infinite("before", tick)
        if self._readings_before:
            self._read(self._readings_before)

    def check(self, phase: Phase, tick: int) -> None:
        """Look at what a tick without a row of its own has: a bad state is found when it comes, and not a row later.

        Raises:
            CaptureError: If a value that rows hold is not finite.
        """
        for _, _, _, listed, dot in self._copies_before if phase == "before" else self._copies_after:
            if not _is_finite(sum(listed(), 0.0) if dot is None else dot(listed)):
                self._refuse_infinite(phase, tick)

    def finish(self, tick: int, new_policy_step: Ran) -> None:
        """Read what only the step knows; the row is finished.

        Raises:
            CaptureError: As for `read_before`.
        """
        row = self._row
        for cells, places, memory, listed, dot in self._copies_after:
            cells[places[row]] = memory
            if not _is_finite(sum(listed(), 0.0) if dot is None else dot(listed)):
                self._refuse_infinite("after", tick)
        if self._refresh is not None:
            self._refresh()
        if self._readings_after:
            self._read(self._readings_after)
        pending = self._pending_flags
        if new_policy_step is True:
            self._flag(NEW_POLICY_STEP | pending)
        else:
            for robot in new_policy_step or ():
                self._flag_next(robot, NEW_POLICY_STEP)
            self._flag(pending)
        if pending:
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
                    values[channel.name] = channel.read(self._moment)
        if values:
            self.buffer.join(tick, values)

    def _joined(self, channel: Channel) -> Any:
        held = self.buffer.blocks[channel.name].last(self.buffer.data_ticks)
        return channel.joined(held, channel.read(self._moment))

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

    def _read(self, readings: Readings) -> None:
        row, moment = self._row, self._moment
        for given, bounds, cells, note, settle in readings:
            value = given(moment)
            known = bounds.get(value.__class__)
            # Most are plain numbers. Whatever else it is, somebody looks closer.
            if known is None or not known[0] <= value <= known[1]:
                if value is None and note is not None:
                    note(1)
                    cells[row] = 0
                    continue
                if settle is not None:
                    value = settle(value)
            if note is not None:
                note(0)
            cells[row] = value

    def _refuse_infinite(self, phase: Phase, tick: int) -> None:
        for channel in self._viewed:
            if channel.phase == phase and not np.isfinite(channel.view).all():  # type: ignore[arg-type]
                what = f"{channel.name} holds NaN or infinity"
                raise CaptureError(f"{what} at tick {tick} of the episode: {channel.view}")


def _cells(channel: Channel, block: NDArray[Any]) -> Any:
    """Return what a channel's values are put into, row by row: of single numbers, plain memory, which is quicker."""
    return block.data if channel.bounds else block


def _memory(block: NDArray[Any], view: NDArray[Any]) -> tuple[Any, Sequence[Any], Any]:
    """Return what an array is copied into, the place of each row in it, and what is copied there."""
    if block.dtype == view.dtype and view.flags.c_contiguous and view.nbytes:
        # As bytes: to find the row of an array takes numpy longer than the copy.
        return block.reshape(-1).data.cast("B"), _places(view.nbytes), view.reshape(-1).data.cast("B")
    return block, range(BLOCK_ROWS), view


@functools.lru_cache(maxsize=64)
def _places(size: int) -> list[slice]:
    """Return where each row of a block lies that takes so many bytes."""
    return [slice(row * size, (row + 1) * size) for row in range(BLOCK_ROWS)]


def _added_up(view: NDArray[Any]) -> tuple[Any, Any]:
    """Return what makes one number of an array: its list, to be added up; or itself, to be multiplied with itself."""
    return (view.data.tolist, None) if view.ndim == 1 and view.size <= FEW else (view, view.dot)
