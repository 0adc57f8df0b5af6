"""The engine of processes: each worker is a process of its own, which draws, encodes and writes its own shard.

They are spawned and never forked: OpenGL does not live through a fork. So what they are given is pickled.
"""

from __future__ import annotations

import contextlib
import logging
import math
import multiprocessing
import signal
import time
from collections import deque
from collections.abc import Iterator
from multiprocessing import connection
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from pathlib import Path

from lucky_recorder.errors import LuckyRecorderError, WorkerDiedError
from lucky_recorder.rollouts.pieces import Attempt, Done, Lost, Piece
from lucky_recorder.rollouts.process import GRACE_S, STOP, Broke, Message, Ran, Said, Wrote, work
from lucky_recorder.rollouts.shards import are_written
from lucky_recorder.storage.processes import deaf

logger = logging.getLogger("lucky_recorder")

_JOIN_S = 5.0


class Workers:
    """Does pieces of work in processes; a worker that dies is replaced.

    Args:
        job: The pickled `Work`.
        folder: Where the workers make their shards.
        count: How many processes.
    """

    def __init__(self, job: bytes, folder: Path, count: int) -> None:
        self._job = job
        self._folder = folder
        self._count = count
        self._made = 0
        self._hands: list[_Hand] = []
        self._waiting: deque[Piece] = deque()
        self._found: deque[Done | Lost] = deque()
        self._said: set[str] = set()
        self._is_ending = False
        self._deadline = math.inf

    @property
    def at_once(self) -> int:
        """How many pieces are worked on at once."""
        return self._count

    def submit(self, piece: Piece) -> None:
        """Take a piece; returns at once."""
        self._waiting.append(piece)
        self._hand_out()

    def _hand_out(self) -> None:
        while self._waiting:
            free = [hand for hand in self._hands if hand.is_free]
            if not free and len(self._hands) < self._count:
                free = [_Hand(self._made, self._job, self._folder)]
                self._hands += free
                self._made += 1
            if not free:
                return
            free[0].give(self._waiting.popleft())

    def next_done(self, timeout_s: float) -> Done | Lost | None:
        """Return what became of a piece; None if nothing is known of another one within the time."""
        if not self._found:
            self._listen(timeout_s)
        return self._found.popleft() if self._found else None

    def _listen(self, timeout_s: float) -> None:
        """Take in what workers say, and whether they live; waits until there is something."""
        ends = {end: hand for hand in self._hands for end in hand.ends}
        left = max(0.0, self._deadline - time.monotonic())
        ready = connection.wait([*ends], min(timeout_s, left)) if ends else []
        for hand in dict.fromkeys(ends[end] for end in ready):  # type: ignore[index]
            for message in hand.messages():
                self._take(hand, message)
            if hand.is_over:
                self._bury(hand)
        if not self._is_ending:
            self._hand_out()
        elif self._hands and time.monotonic() > self._deadline:
            logger.warning("%d worker processes did not end within %d s, and were ended", len(self._hands), GRACE_S)
            self.kill()

    def _take(self, hand: _Hand, message: Message) -> None:
        if isinstance(message, Wrote):
            self._found += hand.wrote(message)
        elif isinstance(message, Ran):
            hand.ran(message)
        elif isinstance(message, Said):
            if message.message not in self._said:
                self._said.add(message.message)
                logger.warning("%s", message.message)
        else:
            hand.broke = message

    def _bury(self, hand: _Hand) -> None:
        self._hands.remove(hand)
        self._found += hand.left()
        if not self._is_ending:
            self._found += hand.lost()

    def stop(self) -> None:
        """Have what is worked on broken off."""
        self._is_ending = True
        for hand in self._hands:
            hand.say(STOP)

    def close(self) -> None:
        """Have every worker end and close its shard; returns at once."""
        self._is_ending = True
        self._deadline = time.monotonic() + GRACE_S
        for hand in self._hands:
            hand.say(None)

    @property
    def is_closed(self) -> bool:
        """Whether all have; those that hang are ended by `next_done` after a while."""
        return self._is_ending and not self._hands

    def kill(self) -> None:
        """End every worker now. What is committed in the shards is whole."""
        self._is_ending = True
        for hand in self._hands:
            hand.process.kill()
        for hand in self._hands:
            hand.process.join(_JOIN_S)
            self._found += hand.left()
        self._hands.clear()


class _Hand:
    """A worker process, as its driver sees it."""

    def __init__(self, number: int, job: bytes, folder: Path) -> None:
        spawning = multiprocessing.get_context("spawn")
        self._pipe, theirs = spawning.Pipe()
        self.number = number
        self.is_free = True
        self.broke: Broke | None = None
        self._is_ended = False
        self._pieces: dict[int, Piece] = {}
        self._written: dict[int, list[Attempt]] = {}
        self._ran: dict[int, tuple[Attempt, ...]] = {}
        self._shard: Path | None = None
        place = str(folder / f"{number:03d}")
        self.process: SpawnProcess = spawning.Process(
            target=work, args=(theirs, job, place), name=f"lucky_recorder_worker_{number}"
        )
        with deaf():
            self.process.start()
        # Here it must be closed: else nobody would notice that the worker's end is gone.
        theirs.close()

    @property
    def ends(self) -> list[Connection | int]:
        """What there is to wait for: the pipe, and the end of the process."""
        return [self.process.sentinel] if self._is_ended else [self._pipe, self.process.sentinel]

    @property
    def is_over(self) -> bool:
        """Whether the process has ended, and all that it said is taken in."""
        return self._is_ended and not self.process.is_alive()

    def give(self, piece: Piece) -> None:
        """Have a piece worked on."""
        self.is_free = False
        self._pieces[piece.number] = piece
        self._written[piece.number] = []
        self.say(piece)

    def say(self, message: object) -> None:
        """Say something to the worker; one that is gone is noticed elsewhere."""
        with contextlib.suppress(OSError):
            self._pipe.send(message)

    def messages(self) -> Iterator[Message]:
        """Take in what the worker has said by now."""
        # Asked first: what a process has said that is gone is all there.
        is_gone = not self.process.is_alive()
        try:
            while not self._is_ended and self._pipe.poll():
                yield self._pipe.recv()
        except (EOFError, OSError):
            is_gone = True
        if is_gone and not self._is_ended:
            self._is_ended = True
            self._pipe.close()
            self.process.join(_JOIN_S)

    def ran(self, message: Ran) -> None:
        """Take in a piece whose attempts have been made: the worker may have the next."""
        self.is_free = True
        self._shard = message.shard
        self._ran[message.number] = message.attempts

    def wrote(self, message: Wrote) -> Iterator[Done]:
        """Take in attempts that are written; gives the pieces that are done with them."""
        for attempt in message.attempts:
            piece = next(p for p in self._pieces.values() if 0 <= attempt.number - p.number < len(p.seeds))
            written = self._written[piece.number]
            written.append(attempt)
            if len(written) == len(piece.seeds):
                del self._pieces[piece.number], self._written[piece.number]
                self._ran.pop(piece.number, None)
                yield Done(piece, message.shard, tuple(written))

    def left(self) -> Iterator[Done]:
        """Give the pieces that the worker had done, of a worker that did not live to say so: its shard shows it."""
        for number, attempts in list(self._ran.items()):
            if self._shard is not None and are_written(self._shard, attempts):
                del self._ran[number]
                yield Done(self._pieces.pop(number), self._shard, attempts)

    def lost(self) -> Iterator[Lost]:
        """Give the pieces that the worker has not done: the last was worked on, or else the first was written."""
        pieces = list(self._pieces.values())
        struck = None if not pieces else pieces[0] if self.is_free else pieces[-1]
        for piece in pieces:
            yield Lost(piece, self._why(), piece is struck, self._details(), self._error())

    def _why(self) -> str:
        if self.broke is not None:
            return f"worker process {self.number}: {self.broke.why}"
        return f"worker process {self.number} {_ending(self.process.exitcode)}"

    def _details(self) -> str:
        return "" if self.broke is None else self.broke.details

    def _error(self) -> LuckyRecorderError | None:
        if self.broke is None or self.broke.is_begun or self.broke.error is not None:
            return None if self.broke is None else self.broke.error
        error = WorkerDiedError(f"a worker process could not make the environment or the policy: {self.broke.why}")
        error.add_note(self.broke.details)
        return error


def _ending(code: int | None) -> str:
    if code is None or code >= 0:
        return f"has ended by itself, with exit status {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"
