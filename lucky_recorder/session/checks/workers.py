"""The engine of processes for a check: each looks at a piece after the other, and says what it has found."""

from __future__ import annotations

import itertools
import multiprocessing
import signal
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

from lucky_recorder.errors import WorkerDiedError
from lucky_recorder.session.checks.evidence import Evidence, Known, Listed
from lucky_recorder.session.checks.pieces import Looked, cut, known, look
from lucky_recorder.storage.processes import deaf
from lucky_recorder.storage.spread import Progress, in_order

_DIED = (
    "a process that checked episodes was ended from outside (by the system, if memory ran out), or could not begin; "
    "check with fewer workers, and in a script only below `if __name__ == '__main__':`"
)
_given: list[Known] = []


def looked_at(evidence: Evidence, workers: int) -> Iterator[Looked]:
    """Look at all episodes, piece by piece; yields what is found in the order of the pieces.

    Raises:
        WorkerDiedError: If a process was ended from outside.
    """
    session = known(evidence)
    pieces = cut(evidence)
    first = list(itertools.islice(pieces, 2))
    if workers == 1 or len(first) < 2:
        for piece in itertools.chain(first, pieces):
            yield look(session, piece, evidence.progress)
        return
    try:
        for looked in _in_processes(session, itertools.chain(first, pieces), workers):
            evidence.progress.advance(looked.bytes)
            yield looked
    except BrokenProcessPool as error:
        raise WorkerDiedError(f"{evidence.folder.path}: {_DIED}") from error


def _in_processes(session: Known, pieces: Iterator[list[Listed]], workers: int) -> Iterator[Looked]:
    """Hand out the pieces: never more than a few wait, and what is not begun is not when this is broken off."""
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        # The caller's script runs again in each process, and comes here again: a pool would wait for itself.
        raise BrokenProcessPool
    # Spawned: a process that is forked beside threads may hold a lock of theirs for ever.
    spawning = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, spawning, initializer=_begin, initargs=(session,)) as pool:

        def begin(piece: list[Listed]) -> Future[Looked]:
            with deaf():
                return pool.submit(_look, piece)

        yield from in_order(begin, pieces, 2 * workers)


def _begin(session: Known) -> None:
    # Ctrl-C in a terminal is sent to every process of the command. The one that began them says what becomes of it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    _given[:] = [session]


def _look(piece: list[Listed]) -> Looked:
    return look(_given[0], piece, Progress())
