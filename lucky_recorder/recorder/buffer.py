"""The buffer: an episode's raw values in preallocated blocks, and its columns, derived when it has ended.

What is more than the memory is to hold waits in files without a name. A disk that refuses them costs memory, and no
row: that it is full, the episode's own files will say.
"""

from __future__ import annotations

import contextlib
import copy
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lucky_recorder.episode import clock, keys
from lucky_recorder.episode.parts import parts
from lucky_recorder.episode.record import Event
from lucky_recorder.episode.schema import Field, Schema
from lucky_recorder.storage.spill import Spill

if TYPE_CHECKING:
    from lucky_recorder.capture.channels import Channel, DerivedColumn
    from lucky_recorder.capture.mujoco.command import CommandMap

BLOCK_ROWS = 1024
# What the full blocks of an episode may take in memory, and its columns.
MOST_HELD_BYTES = 8 << 20
# Deriving columns takes a few copies of the rows at hand, which are so few.
_DERIVED_BYTES = 2 << 20
_ALIGNED = 64


class Away(NamedTuple):
    """A block that waits in a file.

    Attributes:
        spill: The file.
        offset: Where it is in it.
    """

    spill: Spill
    offset: int


class Block:
    """The values of one raw channel, tick by tick, in blocks of a fixed size: appending costs the same at any length.

    Attributes:
        open: The block being filled, shape ``(BLOCK_ROWS, *shape)``, of the channel's dtype.
    """

    def __init__(self, shape: tuple[int, ...], dtype: str) -> None:
        self._shape = (BLOCK_ROWS, *shape)
        self._dtype = dtype
        self._full: list[NDArray[Any] | Away] = []
        # Of the blocks before this one, all but the first are in a file.
        self._first_held = 1
        self.open: NDArray[Any] = np.empty(self._shape, dtype)

    def next(self) -> NDArray[Any]:
        """Put the filled block away and return a new one."""
        self._full.append(self.open)
        self.open = np.empty(self._shape, self._dtype)
        return self.open

    @property
    def held_bytes(self) -> int:
        """What the full blocks take in memory that could wait in a file: texts could not."""
        movable = 0 if self._dtype == "object" else len(self._full) - 1 - self._first_held
        return max(0, movable) * self.open.nbytes

    def put_away(self, spill: Spill) -> None:
        """Write the oldest block that is held into a file, and let go of it.

        The first block stays, with which an episode's last steps are compared, and the latest, whose last row may still
        be written to.

        Raises:
            OSError: If the file system refuses; the block stays.
        """
        if self.held_bytes:
            block = self._full[self._first_held]
            # An interrupt may have struck before the next line but one.
            if not isinstance(block, Away):
                self._full[self._first_held] = Away(spill, spill.append(block))
            self._first_held += 1

    def last(self, count: int) -> Any:
        """Return a writable view of row ``count - 1``, where ``count`` rows are held: the first, or the latest."""
        # That row may have filled its block, which is put away then.
        number, row = divmod(count - 1, BLOCK_ROWS)
        block = self._full[number] if number < len(self._full) else self.open
        assert not isinstance(block, Away), "what waits in a file is not written to"
        return block[row, ...]

    def rows(self, count: int, first: int = 0) -> NDArray[Any]:
        """Return the rows from ``first`` to ``count`` as one array.

        Raises:
            OSError: If the disk does not give back what waits in a file.
        """
        begin, full = first // BLOCK_ROWS, len(self._full)
        held = [self._held(k) for k in range(begin, min(-(-count // BLOCK_ROWS), full))]
        if count > full * BLOCK_ROWS or not held:
            held.append(self.open[: max(0, count - max(full, begin) * BLOCK_ROWS)])
        return np.concatenate(held)[first - begin * BLOCK_ROWS : count - begin * BLOCK_ROWS]

    def _held(self, number: int) -> NDArray[Any]:
        block = self._full[number]
        return block.spill.read(block.offset, self._shape, self._dtype) if isinstance(block, Away) else block

    def so_far(self) -> Block:
        """Return another view of the values that are there: blocks that are begun later are not in it."""
        # The open block first: if it is put away in between, it is in there twice, and `rows` reads it once.
        held = copy.copy(self)
        held._full = list(self._full)
        return held


class Join(NamedTuple):
    """What a row held before the last tick was added to it that has no row of its own.

    Attributes:
        tick: That tick.
        row: The row.
        values: What it held, by channel.
        missing: Whether it had no value, by nullable channel.
    """

    tick: int
    row: int
    values: dict[str, Any]
    missing: dict[str, int]


class EpisodeBuffer:
    """An episode that is being recorded: raw values, flags and tasks, by data tick.

    The caller's thread fills it. When the episode has ended it is queued, and the worker calls `until` and `finish`.

    Attributes:
        blocks: The values of each channel, by its name.
        missing: For nullable channels, a byte per data tick: 1 where there is no value.
        flags: A byte of frame flags per data tick.
        robot_flags: Further flags of single robots, by ``(data tick, robot)``.
        tasks: ``(data tick, task_index)`` from which on a task is set, ascending.
        events: What was marked, in order.

    Args:
        channels: The raw channels.
        task: Index of the task of its first rows.
        commands: The mapping of the commands of its first rows.
        folder: Where the files are to be that hold what the memory does not; None: the memory holds all.
    """

    def __init__(
        self, channels: Sequence[Channel], task: int, commands: CommandMap | None, folder: Path | None = None
    ) -> None:
        self.blocks = {c.name: Block(c.shape, c.dtype) for c in channels}
        self.missing = {c.name: bytearray() for c in channels if c.nullable}
        self.flags = bytearray()
        self.robot_flags: dict[tuple[int, int], int] = {}
        self.tasks = [(0, task)]
        self._mappings = [(0, commands)]
        self._join = Join(-1, -1, {}, {})
        # What the last row holds where a tick is cut off that was added to it, by channel.
        self._last: dict[str, Any] = {}
        self.events: list[Event] = []
        self._folder = folder
        self._spill: Spill | None = None

    def next_block(self) -> None:
        """Begin another block of every channel; of what is too much for the memory, the oldest goes to a file."""
        for block in self.blocks.values():
            block.next()
        if self._folder is not None and sum(block.held_bytes for block in self.blocks.values()) > MOST_HELD_BYTES:
            # A block of each at a time: a simulation waits for a few microseconds, and never for much.
            try:
                self._spill = self._spill or Spill(self._folder)
                for block in self.blocks.values():
                    block.put_away(self._spill)
            except OSError:
                self._folder = None

    @property
    def data_ticks(self) -> int:
        """Finished data ticks."""
        return len(self.flags)

    @property
    def commands(self) -> CommandMap | None:
        """The mapping of the present commands, as the ranges were when the episode began or its model was replaced."""
        return self._mappings[-1][1]

    def map_commands(self, commands: CommandMap | None) -> None:
        """Set the mapping of the commands from the open tick on: a model that replaces another has its own ranges."""
        self._mappings.append((self.data_ticks, commands))

    def set_task(self, index: int) -> None:
        """Set the task of the ticks from here on."""
        self.tasks.append((self.data_ticks, index))

    def mark(self, kind: str, fields: Mapping[str, Any]) -> None:
        """Mark an event before the next tick."""
        self.events.append(Event(self.data_ticks, kind, fields))

    def said_tasks(self) -> list[str | None] | None:
        """Return the description of each data tick's task, where the setting ``task`` says it; None where it does not.

        One that nothing was said of is None.
        """
        block = self.blocks.get(keys.TASK)
        return None if block is None else block.rows(self.data_ticks)[:, 0].tolist()

    def join(self, tick: int, values: Mapping[str, Any]) -> None:
        """Add a tick that has no row of its own to the last row.

        Args:
            tick: The tick.
            values: What the row holds with it, by channel; None where there is no value.
        """
        last = {name: self.blocks[name].last(self.data_ticks) for name in values}
        # First of all, what the row held without it: the tick counts only when all of it is settled, and an interrupt
        # or another thread may end the episode before that.
        held = {name: np.array(row) for name, row in last.items()}
        gone = {name: self.missing[name][-1] for name in values if name in self.missing}
        self._join = Join(tick, self.data_ticks - 1, held, gone)
        for name, value in values.items():
            if name in self.missing:
                self.missing[name][-1] = value is None
            last[name][...] = 0 if value is None else value

    def until(self, data_ticks: int, ticks: int) -> EpisodeBuffer:
        """Return the first ticks as a buffer of their own: nothing that is filled in or marked later is in it.

        Args:
            data_ticks: How many rows of a robot.
            ticks: How many ticks: the last row may stand for some that are not in it.
        """
        # Another thread may still be filling this one. So nothing is asked twice, and lists are copied before they are
        # gone through. Values need no copy: rows that are finished stay as they are, but for what a tick adds to the
        # last one. What that held is read before the note of what was added, which is made before it is added.
        held = copy.copy(self)
        held.blocks = {name: block.so_far() for name, block in self.blocks.items()}
        held.flags = self.flags[:data_ticks]
        held.missing = {name: missing[:data_ticks] for name, missing in self.missing.items()}
        held.robot_flags = dict(self.robot_flags)
        held.tasks = list(self.tasks)
        held._mappings = list(self._mappings)
        held.events = [event for event in list(self.events) if event.tick <= data_ticks]
        held._last = {name: np.array(block.last(data_ticks)) for name, block in held.blocks.items() if data_ticks}
        join = self._join
        if join.tick >= ticks and join.row == data_ticks - 1:
            held._last.update(join.values)
            for name, is_missing in join.missing.items():
                held.missing[name][-1] = is_missing
        return held

    def rows(self, name: str, ticks: slice) -> NDArray[Any]:
        """Return a channel's values of some data ticks, as an array of its own.

        Raises:
            OSError: If the disk does not give back what waits in a file.
        """
        values = self.blocks[name].rows(ticks.stop, ticks.start)
        if name in self._last and ticks.stop == self.data_ticks:
            values[-1] = self._last[name]
        return values

    def finish(self, columns: Sequence[DerivedColumn], schema: Schema, entities: Sequence[int]) -> FinishedRows:
        """Derive every column from the raw values: one row per robot per data tick, all robots of a tick together.

        Raises:
            OSError: If the disk does not give back what waits in a file.
        """
        robots = len(entities)
        derived = _Derived(self, columns, schema, entities)
        missing: dict[str, NDArray[np.bool_]] = {}
        for column in columns:
            name = column.channel.name
            if name in self.missing:
                absent = np.frombuffer(bytes(self.missing[name][: self.data_ticks]), np.bool_)
                missing[column.field.name] = np.repeat(absent, robots)
        return FinishedRows(self.data_ticks, derived.columns(self._folder), missing)

    def tasks_of(self, ticks: slice) -> NDArray[np.int64]:
        """Return the task of each of some data ticks, int64, shape ``(ticks,)``."""
        tasks = np.zeros(ticks.stop - ticks.start, np.int64)
        for start, index in self.tasks:
            tasks[max(0, start - ticks.start) :] = index
        return tasks

    def commands_from(self, tick: int) -> _InTurn:
        """Return the mappings of the commands from a data tick on."""
        return _InTurn([(start - tick, commands) for start, commands in self._mappings])

    def flags_of_rows(self, robots: int) -> NDArray[np.uint8]:
        """Return the flags of every row, uint8, shape ``(data ticks, robots)``."""
        flags = np.repeat(np.frombuffer(bytes(self.flags), np.uint8)[:, None], robots, axis=1)
        for (tick, robot), bits in self.robot_flags.items():
            if tick < len(flags):
                flags[tick, robot] |= bits
        return flags


class _Derived:
    """The columns of an episode that has ended, derived from its raw values for some ticks at a time."""

    def __init__(
        self, buffer: EpisodeBuffer, columns: Sequence[DerivedColumn], schema: Schema, entities: Sequence[int]
    ) -> None:
        self._buffer = buffer
        self._columns = columns
        self._schema = schema
        self._entities = np.asarray(entities, np.int64)
        self._flags = buffer.flags_of_rows(len(entities))

    def of(self, ticks: slice) -> dict[str, NDArray[Any]]:
        """Derive the rows of some data ticks."""
        buffer, count, robots = self._buffer, ticks.stop - ticks.start, len(self._entities)
        values: dict[str, NDArray[Any]] = {
            self._schema.entity_column: np.tile(self._entities, count),
            keys.TIMESTAMP: np.repeat(clock.ticks_s(count, self._schema.hz, ticks.start), robots),
            keys.FRAME_INDEX: np.repeat(np.arange(ticks.start, ticks.stop, dtype=np.int64), robots),
            keys.TASK_INDEX: np.repeat(buffer.tasks_of(ticks), robots),
            keys.FRAME_FLAGS: self._flags[ticks].reshape(-1),
        }
        commands = buffer.commands_from(ticks.start)
        for column in self._columns:
            values[column.field.name] = column.derive(buffer.rows(column.channel.name, ticks), robots, commands)
        return values

    def columns(self, folder: Path | None) -> dict[str, NDArray[Any]]:
        """Derive all rows; where they are too many for the memory, as arrays of a file in a folder."""
        count, each = self._buffer.data_ticks, sum(map(_bytes_of, self._schema.fields))
        if folder is not None and count * len(self._entities) * each > MOST_HELD_BYTES:
            with contextlib.suppress(OSError):
                return self._in_file(Spill(folder), self.of(slice(0, 1)))
        return self.of(slice(0, count))

    def _in_file(self, spill: Spill, one: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Derive all rows into a file, column after column; texts stay in memory."""
        count, robots = self._buffer.data_ticks, len(self._entities)
        texts = {name: np.empty(count * robots, object) for name, row in one.items() if row.dtype == object}
        places, end = {}, 0
        for name, row in one.items():
            places[name] = end
            end += 0 if name in texts else -(-count * row.nbytes // _ALIGNED) * _ALIGNED
        for ticks in parts(count, sum(row.nbytes for row in one.values()), _DERIVED_BYTES):
            for name, values in self.of(ticks).items():
                if name in texts:
                    texts[name][ticks.start * robots : ticks.stop * robots] = values
                else:
                    spill.write(values, places[name] + ticks.start * one[name].nbytes)
        whole = spill.whole()

        def column(name: str, row: NDArray[Any]) -> NDArray[Any]:
            return whole.array(places[name], (count * robots, *row.shape[1:]), row.dtype)

        return {name: texts[name] if name in texts else column(name, row) for name, row in one.items()}


def _bytes_of(field: Field) -> int:
    """Return how many bytes a value takes; a text is an object of its own."""
    return math.prod(field.shape) * np.dtype(object if field.is_text else field.dtype).itemsize


class _InTurn:
    """The mappings of an episode's commands, each from its own data tick on, counted from the first that is mapped."""

    def __init__(self, mappings: Sequence[tuple[int, CommandMap | None]]) -> None:
        self._mappings = mappings

    def to_action(self, ctrl: NDArray[Any]) -> NDArray[np.float64]:
        values = np.array(ctrl, np.float64)
        for start, commands in self._mappings:
            if commands is not None:
                values[max(0, start) :] = commands.to_action(ctrl[max(0, start) :])
        return values


class FinishedRows(NamedTuple):
    """The rows of an episode, all columns but ``index`` and ``episode_index``.

    Attributes:
        data_ticks: Data ticks; rows are one per robot per data tick.
        columns: Arrays of shape ``(rows, …)`` by column name. Those of a long episode are in a file and cannot be
            written to.
        missing: For nullable columns, True where there is no value.
    """

    data_ticks: int
    columns: dict[str, NDArray[Any]]
    missing: dict[str, NDArray[np.bool_]]
