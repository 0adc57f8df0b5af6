"""The trail of an episode: the full state of its simulation at every tick, and what a state cannot bring back.

It is filled in the caller's thread, beside the rows, and finished in the worker's.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_recorder.capture.door import simulator
from lucky_recorder.capture.schedule import Clocks
from lucky_recorder.episode.parts import let_go, parts
from lucky_recorder.episode.record import FinishedStates, Model
from lucky_recorder.recorder.buffer import BLOCK_ROWS, MOST_HELD_BYTES, Block
from lucky_recorder.storage.spill import Spill

# Before these ticks it is looked at whether a state follows from the one before. The first may be at rest.
_TRIED = (1, 2, 17)
_TIME = 0
# Told of an episode, in its file and once to the user.
MODEL_CHANGED = "the model was changed within the episode, or as it ended: masses, gravity, textures or others"
MODEL_REPLACED = "the model was replaced by another within the episode"
NOT_FOLLOWING = (
    "a tick does not follow from its state and its commands: they change within a step, forces or mocap bodies do, the "
    "state is set by hand, or the model is changed"
)
CALLED = "callbacks of the user's were installed: "
REMEMBERING = "there may be memory that no state holds, from step to step: "


class Trail:
    """The full states of one episode.

    Attributes:
        is_lost: Whether the model was replaced by one of other states: then none are kept of the episode.

    Args:
        reader: Reads the states.
        folder: Where what the memory does not hold of a long episode waits; None: the memory holds all.
    """

    def __init__(self, reader: simulator.StateReader, folder: Path | None) -> None:
        self._folder = folder
        self._spill: Spill | None = None
        self._bind(reader)

    def _bind(self, reader: simulator.StateReader) -> None:
        self.is_lost = self._is_closed = self._is_cut = False
        self._reader = reader
        self._states, self._commands = (Block((n,), "float64") for n in (reader.size, len(reader.commands)))
        # The tick after the last of the open blocks.
        self._stop = BLOCK_ROWS
        # The state after each of the last two ticks: one may be read by another thread while the next is written.
        self._after = (np.empty(reader.size), np.empty(reader.size))
        self._settled = -1
        # Who takes the ticks: no other may read a state, which may be halfway to the next.
        self._thread = 0
        # The tick after which it was closed; another thread may settle one more meanwhile.
        self._closed_at = -1
        self._model: Model | None = None
        self._lacks: list[str] = []
        self._resets: list[int] = []
        self._tried: list[int] = []
        self._about: dict[str, Any] = {}

    def attach(self, reader: simulator.StateReader, has_begun: bool) -> None:
        """Read another simulation from here on.

        Args:
            reader: Reads it.
            has_begun: Whether the states that were taken before stay: a tick was settled, or is open.
        """
        if reader is self._reader:
            return
        if not has_begun or self._model is None:
            self._bind(reader)
            return
        if reader.model().content != self._model.content:
            self._lack(MODEL_REPLACED)
        self.is_lost |= (reader.size, len(reader.commands)) != (self._reader.size, len(self._reader.commands))
        self._reader = reader

    def _lack(self, what: str) -> None:
        if what not in self._lacks:
            self._lacks.append(what)

    def mark_reset(self, tick: int) -> None:
        """Note that the simulation was reset before a tick: its state does not follow from the one before."""
        if tick and tick not in self._resets[-1:]:
            self._resets.append(tick)

    def before(self, tick: int) -> None:
        """Take the state before a tick; once more, where that tick is looked at again."""
        if self.is_lost:
            return
        if tick == self._stop:
            self._next_block()
        row = self._states.open[tick - self._stop + BLOCK_ROWS]
        self._reader.read(row)
        if tick == 0:
            self._begin()
        elif tick in _TRIED and tick not in self._resets[-1:]:
            self._try(tick - 1, row)

    def _begin(self) -> None:
        # Another look at the first tick may find another model.
        # What is said of it is said now: the next episode may have begun when this one is written.
        self._model, self._about = self._reader.model(), self._reader.about()
        if held := self._reader.memory():
            self._lack(REMEMBERING + ", ".join(held))
        self._note_callbacks()

    def _note_callbacks(self) -> None:
        if names := self._reader.callbacks():
            self._lack(CALLED + ", ".join(names))

    def _try(self, tick: int, after: NDArray[np.float64]) -> None:
        self._note_callbacks()
        does = self._reader.follows(self._states.open[tick], self._commands.open[tick], after)
        if does is None:
            return
        self._tried.append(tick)
        if not does:
            self._lack(NOT_FOLLOWING)

    def after(self, tick: int, is_cut: bool) -> None:
        """Take what is known after a tick: the commands, and the state.

        Args:
            tick: The tick.
            is_cut: Whether the simulation was reset within it: then nobody knows either.
        """
        if self.is_lost:
            return
        self._is_cut = is_cut
        self._commands.open[tick - self._stop + BLOCK_ROWS] = np.nan if is_cut else self._reader.commands
        self._reader.read(self._after[tick & 1])
        self._thread = threading.get_ident()
        self._settled = tick

    def extend(self, first: int, states: NDArray[np.float64], commands: NDArray[np.float64]) -> None:
        """Take the states before many ticks at once, and their commands.

        Args:
            first: The first of the ticks.
            states: Shape ``(ticks, size)``.
            commands: Shape ``(ticks, nu)``.
        """
        done = 0
        while done < len(states) and not self.is_lost:
            if first + done == self._stop:
                self._next_block()
            row = first + done - self._stop + BLOCK_ROWS
            many = min(len(states) - done, BLOCK_ROWS - row)
            self._states.open[row : row + many] = states[done : done + many]
            self._commands.open[row : row + many] = commands[done : done + many]
            if first + done == 0:
                self._begin()
            for tick in _TRIED:
                if first + done <= tick < first + done + many and tick not in self._resets[-1:]:
                    self._try(tick - 1, self._states.open[tick])
            done += many
        self._settled = first + len(states) - 1
        self._after[self._settled & 1][:] = states[-1]

    def end_with(self, last: NDArray[np.float64] | None) -> None:
        """Take the state after the last tick from whoever knows it, and look at the simulation once more.

        Args:
            last: The state, shape ``(size,)``; None where nobody knows it.
        """
        if self.is_lost or self._model is None:
            return
        if last is not None:
            self._after[self._settled & 1][:] = last
        self._is_cut, self._closed_at = last is None, self._settled
        self._end()

    def _next_block(self) -> None:
        for block in (self._states, self._commands):
            block.next()
        self._stop += BLOCK_ROWS
        if self._folder is not None and self._states.held_bytes + self._commands.held_bytes > MOST_HELD_BYTES:
            # As with rows: a disk that refuses costs memory, and no state.
            try:
                self._spill = self._spill or Spill(self._folder)
                self._states.put_away(self._spill)
                self._commands.put_away(self._spill)
            except OSError:
                self._folder = None

    def close(self, is_taken: bool, is_next: bool) -> None:
        """Look at the simulation once more, when the episode is over; a second time, nothing is done.

        Args:
            is_taken: Whether the last tick was looked at after its step; else that step has come since, if any has.
            is_next: Whether the simulation stands a tick after the last look, and was not reset since.
        """
        if self._is_closed or self.is_lost or self._model is None:
            return
        self._closed_at = self._settled
        if self._settled >= 0 and not self._is_cut:
            self._take_last(self._settled, is_taken, is_next)
        self._end()

    def _end(self) -> None:
        assert self._model is not None
        self._note_callbacks()
        if self._reader.model().content != self._model.content:
            self._lack(MODEL_CHANGED)
        self._is_closed = True

    def _take_last(self, tick: int, is_taken: bool, is_next: bool) -> None:
        """Take the state after the last tick where its steps came after it was settled, as with `Observer.tick`."""
        last = self._after[tick & 1]
        if is_taken or last[_TIME] != self._states.last(tick + 1)[_TIME]:
            return
        if is_next and self._thread == threading.get_ident():
            self._reader.read(last)
        else:
            # It was reset since, or runs on, or somebody else steps it: nobody knows what has come of the tick.
            self._is_cut = True

    # In the worker's thread.

    def finish(self, ticks: int, clocks: Clocks) -> FinishedStates | None:
        """Return the states of the first so many ticks; None where they are lost.

        Raises:
            OSError: If the disk does not give back what waits in a file.
        """
        if self.is_lost or self._model is None:
            return None
        is_last = self._settled == ticks - 1
        # What was looked at after that tick is the state after it, unless a reset came in between.
        is_known = not self._is_cut and self._closed_at == self._settled
        ended = is_known if is_last else ticks not in self._resets
        last = self._after[self._settled & 1] if is_last else self._states.so_far().rows(ticks + 1, ticks)[0]
        states = self._whole(self._states, ticks, last if ended else np.full_like(last, np.nan))
        commands = self._whole(self._commands, ticks)
        said = {
            **self._about,
            "model": self._model.sha256,
            "hz": str(clocks.base),
            "ticks_per_step": clocks.ticks_per_step,
            "physics_steps": _physics_steps(states[: ticks + ended], self._about["timestep"]),
            "ended": ended,
            "resets": [tick for tick in self._resets if tick < ticks],
            "tried": [tick for tick in self._tried if tick < ticks],
            "not_brought_back": list(self._lacks),
        }
        return FinishedStates(states, commands, self._model, said)

    def _whole(self, block: Block, ticks: int, last: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
        """Return the values of all ticks, and one more; where they are too many for the memory, in a file."""
        block = block.so_far()
        more = [] if last is None else [last[None]]
        size = block.open.shape[1]
        if self._folder is None or ticks * size * 8 <= MOST_HELD_BYTES:
            return np.concatenate([block.rows(ticks), *more])
        spill = Spill(self._folder)
        for part in parts(ticks, size * 8, 2 << 20):
            spill.append(block.rows(part.stop, part.start))
        for values in more:
            spill.append(values)
        return spill.whole().array(0, (ticks + len(more), size), np.float64)


def _physics_steps(states: NDArray[np.float64], timestep: float) -> int | None:
    """Return how many steps of the physics a tick is, where all are of as many; None where they are not."""
    found: set[int] = set()
    for part in parts(len(states) - 1, states[:1].nbytes):
        times = states[part.start : part.stop + 1, _TIME]
        counts = np.round(np.diff(times) / timestep) if timestep > 0 else np.zeros(len(times) - 1)
        found |= {int(n) for n in np.unique(counts)}
        let_go(states)
    return found.pop() if len(found) == 1 else None
