"""The worker: the one thread that draws, encodes and commits.

Its queue is bounded and keeps its order. What fails in it is kept for the caller's thread.

The caller's thread may be interrupted at any line of Python. `queue.Queue`, `threading.Event` and `threading.Condition`
are Python: where an interrupt strikes inside of them, the lock they share with the worker can stay locked, for good. So
all that both threads touch here is a `SimpleQueue` and plain locks, whose calls are whole or have not happened.
"""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable
from typing import Any

from lucky_recorder.errors import ForkError, StateError, WorkerStalledError
from lucky_recorder.recorder import forked

Job = Callable[[], None]

_SHORT_S = 0.5


class Worker:
    """Runs jobs one after another in a thread of its own.

    A full queue blocks the caller: nothing is ever dropped. A job that raises stops nothing; what it raised first is
    kept in ``error`` for the caller to find.

    Attributes:
        error: The first exception that a job raised, or None.
    """

    def __init__(self, depth: int, timeout_s: float, name: str = "lucky_recorder") -> None:
        self.error: BaseException | None = None
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._depth = depth
        # Open when a job was taken out of the queue and nobody has waited for that yet.
        self._has_room = _closed_gate()
        self._timeout = timeout_s
        self._done = 0
        self._is_forked = False
        self._has_stalled = False
        # Kept here, and not asked of the thread: in Python 3.11 an interrupt inside `Thread.is_alive` marks one that
        # still runs as ended, for good.
        self._is_running = False
        # A daemon: Python waits for all other threads before it runs what is registered at exit, and it is there that a
        # session left open is closed (`exits`). Each would wait for the other.
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        forked.watch(self)

    @property
    def is_current(self) -> bool:
        """Whether this is the worker's own thread."""
        return threading.current_thread() is self._thread

    @property
    def is_running(self) -> bool:
        """Whether the thread takes jobs, or hangs in one."""
        return self._is_running

    @property
    def hangs(self) -> bool:
        """Whether nobody waits for it any more."""
        return self._has_stalled

    def mark_forked(self) -> None:
        """Say so at once in a forked child, where nobody empties the queue, and wait for nothing."""
        self._is_forked = True

    def start(self) -> None:
        """Start the thread."""
        self._is_running = True
        try:
            try:
                self._thread.start()
            except RuntimeError as error:
                raise StateError(
                    f"the recorder draws and writes in a thread of its own, and none can be started ({error}): end "
                    "threads or processes, or raise the limit (`ulimit -u`, or pids.max of a container)"
                ) from error
        except BaseException:  # also an interrupt: nobody knows whether it runs, so it is to end as soon as it does
            self._is_running = False
            self._jobs.put(None)
            raise

    def put(self, job: Job) -> None:
        """Queue a job; waits while the queue is full. Any number of threads may do so.

        Raises:
            WorkerStalledError: If the queue stays full for ``timeout_s``.
            ForkError: In a forked child, where the thread does not exist.
        """
        self._check_usable()
        # Jobs are counted where they are, and no places handed out: an interrupt could lose one of those.
        if self._jobs.qsize() >= self._depth:
            self._wait_for_room()
        self._jobs.put(job)

    def _wait_for_room(self) -> None:
        deadline = time.monotonic() + self._timeout
        while self._jobs.qsize() >= self._depth:
            left = deadline - time.monotonic()
            if left <= 0:
                raise self._stalled()
            # In short waits: of several that wait, only one is woken by each job.
            self._has_room.acquire(timeout=min(_SHORT_S, left))
            self._check_usable()

    def call(self, job: Callable[[], Any]) -> Any:
        """Run a job after those queued before it, and return or raise what it returns or raises.

        Raises:
            WorkerStalledError: If no job finishes for ``timeout_s``.
            ForkError: In a forked child, where the thread does not exist.
        """
        result: list[Any] = []
        raised: list[BaseException] = []
        done = _closed_gate()

        def run() -> None:
            try:
                result.append(job())
            except BaseException as error:  # carried to the caller, who raises it
                raised.append(error)
            finally:
                done.release()

        self.put(run)
        self._wait(done)
        if raised:
            raise raised[0]
        return result[0]

    def flush(self) -> None:
        """Wait until every job queued so far has run.

        Raises:
            WorkerStalledError: If a single job takes longer than ``timeout_s``.
        """
        done = _closed_gate()
        self.put(done.release)
        self._wait(done)

    def stop(self) -> None:
        """Run what is queued, then end the thread. Calling it again does nothing.

        A thread that hangs is not waited for; it ends if it ever goes on.
        """
        if self._is_forked or not self._is_running:
            return
        if self._has_stalled:
            self._jobs.put(None)
            return
        self.flush()
        self._jobs.put(None)
        self._thread.join(self._timeout)

    def leave(self, last: Job) -> None:
        """Wait for this thread no more: if it ever goes on, it runs what is queued and one more job, and ends."""
        if self._is_forked or not self._is_running:
            return
        self._has_stalled = True
        # Also into a full queue: who leaves does not wait for room.
        self._jobs.put(last)
        self._jobs.put(None)

    def _wait(self, done: threading.Lock) -> None:
        """Wait until a gate is opened; gives up only when no job has finished for ``timeout_s``."""
        # In short waits: whenever another job has finished, the time starts again.
        seen, deadline = self._done, time.monotonic() + self._timeout
        while not done.acquire(timeout=min(_SHORT_S, self._timeout)):
            if not self._is_running:
                if done.acquire(blocking=False):
                    return
                raise self._ended()
            if self._done != seen:
                seen, deadline = self._done, time.monotonic() + self._timeout
            elif time.monotonic() > deadline:
                raise self._stalled()

    def _run(self) -> None:
        try:
            while (job := self._jobs.get()) is not None:
                # Only this thread opens it, so nobody else can have done so since it was looked at.
                if self._has_room.locked():
                    self._has_room.release()
                try:
                    job()
                except BaseException as error:  # a thread has no caller to raise to
                    self.error = self.error or error
                # Not kept until the next job comes, which may take long: a job may hold a whole episode.
                del job
                self._done += 1
        finally:
            self._is_running = False

    def _check_usable(self) -> None:
        if self._is_forked:
            raise fork_error()
        if self._has_stalled:
            raise self._stalled()
        if not self._is_running:
            raise self._ended()

    def _ended(self) -> StateError:
        return StateError("the recorder's worker thread has ended")

    def _stalled(self) -> WorkerStalledError:
        self._has_stalled = True
        return WorkerStalledError(
            f"the worker finished nothing within worker_timeout_s={self._timeout:g} s: "
            "an encoder, a driver or the disk hangs"
        )


def _closed_gate() -> threading.Lock:
    """Return a lock that is locked: who wants to go on waits until another thread has released it."""
    gate = threading.Lock()
    gate.acquire()
    return gate


def fork_error() -> ForkError:
    """Return the error of a recorder that is used in a forked child."""
    return ForkError(
        f"this recorder was started in another process and does not survive a fork (this is pid {os.getpid()}); make a "
        "recorder in each process, and start those that record cameras with 'spawn' or 'forkserver'"
    )
