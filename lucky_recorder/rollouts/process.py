"""What runs in a worker process: it takes pieces from a pipe, writes them into its shard, and says what is written.

It ends when it is told to, when its driver is gone, and when something fails; however it ends, its shard is closed, and
it prints no traceback: what is to be known goes through the pipe.
"""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import signal
import threading
import time
import traceback
import warnings
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import cloudpickle

from lucky_recorder.errors import CaptureError, LuckyRecorderError, text_of
from lucky_recorder.rollouts.pieces import Attempt, Bench, BrokenOff, Piece, Work

GRACE_S = 15.0
"""How long an attempt that hangs is waited for when a worker is to end."""

STOP = "stop"
_LOOK_S = 0.02


class Ran(NamedTuple):
    """The attempts of a piece have been made.

    Attributes:
        number: The number of the piece.
        attempts: What will have become of them once they are written.
        shard: Where they are being written.
    """

    number: int
    attempts: tuple[Attempt, ...]
    shard: Path


class Wrote(NamedTuple):
    """Attempts that are written, or discarded."""

    attempts: tuple[Attempt, ...]
    shard: Path


class Said(NamedTuple):
    """A warning, or a line of the log."""

    message: str


class Broke(NamedTuple):
    """The worker cannot go on.

    Attributes:
        why: In a line.
        details: The traceback.
        error: What would strike every worker; None if another one may do it.
        is_begun: Whether it was ready to work.
    """

    why: str
    details: str
    error: LuckyRecorderError | None
    is_begun: bool


Message = Ran | Wrote | Said | Broke


class _Desk:
    """The worker's end of the pipe. A thread listens, so that whoever steps hears of the end in between."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._pieces: queue.SimpleQueue[Piece | None] = queue.SimpleQueue()
        self.is_stopped = False
        threading.Thread(target=self._listen, name="lucky_recorder_pieces", daemon=True).start()

    def _listen(self) -> None:
        while True:
            try:
                message = self._pipe.recv()
            except (EOFError, OSError):
                # Nobody waits for what this process does any more. One that hangs must not stay behind for ever.
                self._stop()
                time.sleep(GRACE_S)
                os._exit(1)
            if message == STOP:
                self._stop()
            else:
                self._pieces.put(message)

    def _stop(self) -> None:
        self.is_stopped = True
        self._pieces.put(None)

    def next_piece(self, timeout_s: float | None) -> Piece | None:
        """Return the next piece; None if the worker is to end.

        Raises:
            queue.Empty: If there is none within the time.
        """
        return None if self.is_stopped else self._pieces.get(timeout=timeout_s)

    def tell(self, message: Message) -> None:
        """Tell the driver something, if it is still there."""
        with contextlib.suppress(OSError):
            self._pipe.send(message)


class _Lines(logging.Handler):
    """Sends the recorder's log to the driver, which says each line once."""

    def __init__(self, desk: _Desk) -> None:
        super().__init__(logging.WARNING)
        self._desk = desk

    def emit(self, record: logging.LogRecord) -> None:
        self._desk.tell(Said(record.getMessage()))


def work(pipe: Connection, job: bytes, folder: str) -> None:
    """Be a worker: the target of its process.

    Args:
        pipe: Its end of the pipe.
        job: The pickled `Work`.
        folder: Where its shard is recorded.
    """
    # Ctrl-C in a terminal is sent to every process of the command. The driver says what is to become of it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    desk = _Desk(pipe)
    logging.getLogger("lucky_recorder").addHandler(_Lines(desk))
    warnings.showwarning = lambda message, *where, **more: desk.tell(Said(str(message)))
    shard: Bench | None = None
    try:
        shard = _loaded(job).bench(Path(folder))
        _work(desk, shard)
    except (BrokenOff, SystemExit, KeyboardInterrupt):
        _close(desk, shard)
    except BaseException as error:  # whatever was raised, the driver is to know why, and nothing is printed here
        details = traceback.format_exc()
        _close(desk, shard)
        desk.tell(Broke(_line(error), details, _for_all(error), shard is not None))


def _loaded(job: bytes) -> Work:
    loaded: Work = cloudpickle.loads(job)
    return loaded


def _work(desk: _Desk, shard: Bench) -> None:
    while True:
        try:
            # As long as something is not written yet, whoever waits for it is told soon.
            piece = desk.next_piece(_LOOK_S if shard.is_behind else None)
        except queue.Empty:
            _report(desk, shard, shard.written())
            continue
        if piece is None:
            _close(desk, shard)
            return
        attempts = [shard.attempt(piece, which, lambda: desk.is_stopped) for which in range(len(piece.seeds))]
        assert shard.path is not None
        desk.tell(Ran(piece.number, tuple(attempts), shard.path))
        _report(desk, shard, shard.written())


def _report(desk: _Desk, shard: Bench, attempts: list[Attempt]) -> None:
    if attempts and shard.path is not None:
        desk.tell(Wrote(tuple(attempts), shard.path))


def _close(desk: _Desk, shard: Bench | None) -> None:
    """Close the shard; what it wrote last is told, and what fails now is, too."""
    if shard is None:
        return
    try:
        _report(desk, shard, shard.close())
    except BaseException as error:  # also what the environment raises when it is closed
        desk.tell(Said(f"{shard.path}: {_line(error)}"))


def _line(error: BaseException) -> str:
    text = " ".join(text_of(error).split())
    return text if isinstance(error, LuckyRecorderError) else f"{type(error).__name__}: {text}".rstrip(": ")


def _for_all(error: BaseException) -> Any:
    """Return what would strike every worker: settings, disks, OpenGL. What a simulation shows may do so only once."""
    return error if isinstance(error, LuckyRecorderError) and not isinstance(error, CaptureError) else None
