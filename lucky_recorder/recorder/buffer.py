"""The buffer: an episode's raw values in preallocated blocks, and its columns, derived when it has ended."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lucky_recorder.episode import clock, keys
from lucky_recorder.episode.record import Event
from lucky_recorder.episode.schema import Schema

if TYPE_CHECKING:
    from lucky_recorder.capture.channels import Channel, DerivedColumn
    from lucky_recorder.capture.mujoco.command import CommandMap

BLOCK_ROWS = 1024


class Block:
    """The values of one raw channel, tick by tick, in blocks of a fixed size: appending costs the same at any length.

    Attributes:
        open: The block being filled, shape ``(BLOCK_ROWS, *shape)``, of the channel's dtype.
    """

    def __init__(self, shape: tuple[int, ...], dtype: str) -> None:
        self._shape = (BLOCK_ROWS, *shape)
        self._dtype = dtype
        self._full: list[NDArray[Any]] = []
        self.open: NDArray[Any] = np.empty(self._shape, dtype)

    def next(self) -> NDArray[Any]:
        """Put the filled block away and return a new one."""
        self._full.append(self.open)
        self.open = np.empty(self._shape, self._dtype)
        return self.open

    def last(self, count: int) -> Any:
        """Return a writable view of row ``count - 1``, where ``count`` rows are held."""
        # That row may have filled its block, which is put away then.
        block, row = divmod(count - 1, BLOCK_ROWS)
        return (self._full[block] if block < len(self._full) else self.open)[row, ...]

    def rows(self, count: int) -> NDArray[Any]:
        """Return the first ``count`` rows as one array."""
        used = max(0, count - BLOCK_ROWS * len(self._full))
        return np.concatenate([*self._full, self.open[:used]])[:count]

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
    """

    def __init__(self, channels: Sequence[Channel], task: int, commands: CommandMap | None) -> None:
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

    def _rows(self, name: str, data_ticks: int) -> NDArray[Any]:
        values = self.blocks[name].rows(data_ticks)
        if name in self._last:
            values[-1] = self._last[name]
        return values

    def finish(self, columns: Sequence[DerivedColumn], schema: Schema, entities: Sequence[int]) -> FinishedRows:
        """Derive every column from the raw values: one row per robot per data tick, all robots of a tick together."""
        data_ticks, robots = self.data_ticks, len(entities)
        tick = np.repeat(np.arange(data_ticks, dtype=np.int64), robots)
        values: dict[str, NDArray[Any]] = {
            schema.entity_column: np.tile(np.asarray(entities, np.int64), data_ticks),
            keys.TIMESTAMP: np.repeat(clock.ticks_s(data_ticks, schema.hz), robots),
            keys.FRAME_INDEX: tick,
            keys.TASK_INDEX: self._task_of_ticks()[tick],
            keys.FRAME_FLAGS: self._flags_of_rows(robots),
        }
        missing: dict[str, NDArray[np.bool_]] = {}
        for column in columns:
            name = column.channel.name
            values[column.field.name] = column.derive(self._rows(name, data_ticks), robots, _InTurn(self._mappings))
            if name in self.missing:
                absent = np.frombuffer(bytes(self.missing[name][:data_ticks]), np.bool_)
                missing[column.field.name] = np.repeat(absent, robots)
        return FinishedRows(data_ticks, values, missing)

    def _task_of_ticks(self) -> NDArray[np.int64]:
        tasks = np.zeros(self.data_ticks, np.int64)
        for start, index in self.tasks:
            tasks[start:] = index
        return tasks

    def _flags_of_rows(self, robots: int) -> NDArray[np.uint8]:
        flags = np.repeat(np.frombuffer(bytes(self.flags), np.uint8)[:, None], robots, axis=1)
        for (tick, robot), bits in self.robot_flags.items():
            if tick < len(flags):
                flags[tick, robot] |= bits
        return flags.reshape(-1)


class _InTurn:
    """The mappings of an episode's commands, each from its own data tick on."""

    def __init__(self, mappings: Sequence[tuple[int, CommandMap | None]]) -> None:
        self._mappings = mappings

    def to_action(self, ctrl: NDArray[Any]) -> NDArray[np.float64]:
        values = np.array(ctrl, np.float64)
        for start, commands in self._mappings:
            if commands is not None:
                values[start:] = commands.to_action(ctrl[start:])
        return values


class FinishedRows(NamedTuple):
    """The rows of an episode, all columns but ``index`` and ``episode_index``.

    Attributes:
        data_ticks: Data ticks; rows are one per robot per data tick.
        columns: Arrays of shape ``(rows, …)`` by column name.
        missing: For nullable columns, True where there is no value.
    """

    data_ticks: int
    columns: dict[str, NDArray[Any]]
    missing: dict[str, NDArray[np.bool_]]
