"""Walking through trajectories: a lane is led from state to state, as a simulation would lead it.

Where cameras, lidars or columns look at the simulation, its data are put into every state, one after the other. Where
all that is recorded stands in the states and commands themselves, many ticks are taken at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from lucky_recorder.capture.door import simulator
from lucky_recorder.capture.source import Source
from lucky_recorder.errors import SettingsError
from lucky_recorder.recorder.buffer import BLOCK_ROWS
from lucky_recorder.recorder.lane import Lane, Many
from lucky_recorder.recorder.policies import Ran
from lucky_recorder.recorder.trajectory import Piece
from lucky_recorder.settings.column import Column

_OF_STATES = ("qpos", "qvel")
_TIME, _COMMANDS = "time", "ctrl"
_OF_ENVIRONMENTS = ("gym", "info")


class Walked(Protocol):
    """What is led: a take, or a lane alone."""

    def look(self) -> bool | None:
        """Take the half of a tick before the step; False where there is nothing to settle."""

    def settle(self, new_policy_step: Ran = True) -> None:
        """Take the half of a tick after the step."""

    def extend(self, many: Many) -> None:
        """Take many ticks at once."""


class Leading(Protocol):
    """A trajectory: see `lucky_recorder.recorder.trajectory.Trajectory`."""

    resets: tuple[int, ...]
    ran: NDArray[np.bool_]

    def pieces(self, most: int, width: int) -> Iterator[Piece]:
        """Go through its ticks, at most so many at a time, and so many values of each state."""


class Walk:
    """Leads lanes through trajectories.

    Attributes:
        takes_many: Whether many ticks are taken at once.

    Args:
        source: What is recorded.
        layout: Where the parts of a state stand.
        mover: The data that the source looks at.
    """

    def __init__(self, source: Source, layout: simulator.StateLayout, mover: simulator.Mover) -> None:
        self.takes_many = _stands_in_states(source)
        self._layout = layout
        self._mover = mover
        # They are the first parts of a state, after its time.
        self._width = max(layout.parts[name].stop for name in (_TIME, *_OF_STATES) if name in layout.parts)

    def lead(self, walked: Walked, lane: Lane, trajectory: Leading) -> None:
        """Lead a lane through a whole trajectory.

        Args:
            walked: The lane, or the take that has it.
            lane: The lane.
            trajectory: The trajectory.

        Raises:
            CaptureError: If a tick cannot be recorded.
        """
        after, resets = None, {*trajectory.resets}
        width = self._width if self.takes_many and lane.trail is None else len(self._layout.fresh)
        for piece in trajectory.pieces(BLOCK_ROWS, width):
            if lane.ticks in resets:
                lane.mark_reset()
            ran = trajectory.ran[lane.ticks : lane.ticks + len(piece.states)]
            if self.takes_many:
                if not lane.ticks and lane.trail is not None:
                    self._mover.put(piece.states[0])
                walked.extend(Many(self._values(piece), ran, piece.states, piece.commands))
            else:
                self._step(walked, lane, piece, ran.tolist())
            after = piece.after
        if lane.trail is not None:
            lane.trail.end_with(after)

    def _values(self, piece: Piece) -> dict[str, NDArray[Any]]:
        parts = self._layout.parts
        values = {name: piece.states[:, parts[name]] for name in _OF_STATES if name in parts}
        return {**values, _COMMANDS: piece.commands}

    def _step(self, walked: Walked, lane: Lane, piece: Piece, ran: list[bool]) -> None:
        put, command, watch = self._mover.put, self._mover.command, lane.watch
        looks_after = lane.looks_after
        for tick, (state, commands) in enumerate(zip(piece.states, piece.commands, strict=True)):
            put(state)
            if walked.look() is False:
                return
            if not lane.ticks:
                # Only now the time is known, and with it by how much times are rounded.
                watch.learn_rates()
            if looks_after:
                after = piece.states[tick + 1] if tick + 1 < len(piece.states) else piece.after
                assert after is not None, "a column that is asked after the step was refused"
                put(after)
            command(commands)
            watch.take_at_once()
            walked.settle(ran[tick])


def refuse_of_the_environment(columns: Sequence[Column]) -> None:
    """Refuse columns of what an environment says: where states are gone through, there is none.

    Raises:
        SettingsError: If there is one.
    """
    for column in columns:
        if isinstance(column.source, str) and column.source.partition(":")[0] in _OF_ENVIRONMENTS:
            remedy = "no state holds what an environment says; give a callable of the moment's model and data"
            raise SettingsError.of(f"column {column.name!r}: source", column.source, remedy)


def _stands_in_states(source: Source) -> bool:
    """Tell whether all that is recorded is positions, velocities and commands."""
    if source.snapshot is not None or source.sync is not None or source.task is not None:
        return False
    return all(c.view is not None and c.name in (*_OF_STATES, _COMMANDS) for c in source.channels)
