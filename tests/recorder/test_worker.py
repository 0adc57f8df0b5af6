"""The worker thread: order, a full queue, errors, a job that hangs, forks."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from lucky_recorder.errors import ForkError, StateError, WorkerStalledError
from lucky_recorder.recorder.worker import Worker
from tests.recorder.lines import HAND_OVER, AtLine

SOON = 0.2
LATER = 30.0


class Gate:
    """A job that reports when it has begun, and waits to be let through."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.open = threading.Event()

    def __call__(self) -> None:
        self.begun.set()
        assert self.open.wait(LATER)


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.open.set()


@pytest.fixture
def start() -> Iterator[Callable[..., Worker]]:
    workers = []

    def make(depth: int = 4, timeout_s: float = LATER) -> Worker:
        workers.append(Worker(depth, timeout_s))
        workers[-1].start()
        return workers[-1]

    yield make
    for worker in workers:
        worker.stop()


def test_jobs_run_in_order_in_one_other_thread(start: Any) -> None:
    worker, seen = start(depth=2), []
    for number in range(200):
        worker.put(lambda n=number: seen.append((n, threading.get_ident())))
    worker.flush()
    assert [n for n, _ in seen] == list(range(200))
    assert {thread for _, thread in seen} == {worker._thread.ident}
    assert threading.get_ident() not in {thread for _, thread in seen}


def test_nothing_runs_before_it_is_started() -> None:
    worker = Worker(4, LATER)
    with pytest.raises(StateError, match="worker thread has ended"):
        worker.put(lambda: None)
    worker.stop()


def test_a_full_queue_blocks_until_there_is_room(start: Any, gate: Gate) -> None:
    worker, seen = start(depth=2), []
    worker.put(gate)
    assert gate.begun.wait(LATER)
    for number in range(2):
        worker.put(lambda n=number: seen.append(n))
    is_in = threading.Event()

    def put_one_more() -> None:
        worker.put(lambda: seen.append(2))
        is_in.set()

    producer = threading.Thread(target=put_one_more)
    producer.start()
    assert not is_in.wait(0.05)
    assert seen == []
    gate.open.set()
    producer.join(LATER)
    worker.flush()
    assert is_in.is_set()
    assert seen == [0, 1, 2]


def test_an_error_stops_nothing_and_the_first_is_kept(start: Any) -> None:
    worker, seen = start(), []
    for divisor in (0, 1):
        worker.put(lambda d=divisor: seen.append(1 // d))
    worker.put(lambda: {}["second"])
    worker.flush()
    assert seen == [1]
    assert isinstance(worker.error, ZeroDivisionError)


def test_a_call_returns_what_the_job_returns_after_all_before_it(start: Any) -> None:
    worker, seen = start(), []
    worker.put(lambda: seen.append("before"))
    assert worker.call(lambda: [*seen, threading.current_thread().name]) == ["before", "lucky_recorder"]


def test_a_call_raises_what_the_job_raises_and_no_one_else_does(start: Any) -> None:
    worker = start()
    with pytest.raises(ZeroDivisionError):
        worker.call(lambda: 1 // 0)
    assert worker.error is None
    assert worker.call(lambda: 7) == 7


@pytest.mark.parametrize("verb", ["flush", "call"])
def test_waiting_for_a_job_that_hangs_is_bounded(start: Any, gate: Gate, verb: str) -> None:
    worker = start(timeout_s=SOON)
    worker.put(gate)
    wait = worker.flush if verb == "flush" else lambda: worker.call(lambda: None)
    with pytest.raises(WorkerStalledError, match=r"worker_timeout_s=0\.2 s: an encoder, a driver or the disk hangs"):
        wait()
    for again in (worker.flush, lambda: worker.put(lambda: None), lambda: worker.call(lambda: None)):
        with pytest.raises(WorkerStalledError):
            again()
    worker.stop()


def test_putting_into_a_queue_that_stays_full_is_bounded(start: Any, gate: Gate) -> None:
    worker = start(depth=1, timeout_s=SOON)
    worker.put(gate)
    assert gate.begun.wait(LATER)
    worker.put(lambda: None)
    with pytest.raises(WorkerStalledError):
        worker.put(lambda: None)


def test_many_short_jobs_may_take_longer_than_one_may(start: Any) -> None:
    worker, never = start(depth=64, timeout_s=0.6), threading.Event()
    for _ in range(6):
        worker.put(lambda: never.wait(0.12))
    worker.flush()
    assert worker._done >= 6


def test_stopping_runs_what_is_queued_and_ends_the_thread(start: Any, gate: Gate) -> None:
    worker, seen = start(), []
    worker.put(gate)
    for number in range(3):
        worker.put(lambda n=number: seen.append(n))
    gate.open.set()
    worker.stop()
    assert seen == [0, 1, 2]
    assert not worker._thread.is_alive()
    worker.stop()
    with pytest.raises(StateError, match="worker thread has ended"):
        worker.put(lambda: None)


def test_a_finished_job_is_let_go_of(start: Any) -> None:
    import gc
    import weakref

    class Episode:
        pass

    worker, episode = start(), Episode()
    gone = weakref.ref(episode)
    worker.put(lambda e=episode: None)
    worker.flush()
    del episode
    gc.collect()
    assert gone() is None


def test_it_knows_its_own_thread(start: Any) -> None:
    worker = start()
    assert not worker.is_current
    assert worker.call(lambda: worker.is_current)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_gets_an_error_and_does_not_hang(start: Any) -> None:
    worker = start()
    child = os.fork()
    if child == 0:
        verbs = (lambda: worker.put(lambda: None), worker.flush, lambda: worker.call(lambda: None))
        raised = 0
        for verb in verbs:
            try:
                verb()
            except ForkError as error:
                raised += "spawn" in str(error) and str(os.getpid()) in str(error)
        worker.stop()
        os._exit(raised)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 3
    assert worker.call(lambda: 1) == 1


def test_it_does_not_ask_its_thread_whether_it_runs(start: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """An interrupt inside `Thread.is_alive` makes Python 3.11 say that a thread has ended which runs."""
    worker, done = start(), []
    monkeypatch.setattr(threading.Thread, "is_alive", lambda thread: False)
    worker.put(lambda: done.append(1))
    worker.flush()
    worker.stop()
    assert done == [1]
    with pytest.raises(StateError, match="has ended"):
        worker.put(lambda: None)


@pytest.mark.parametrize("verb", ["put", "put into a full queue", "flush", "call"])
def test_an_interrupt_at_any_line_of_a_hand_over_leaves_no_lock_behind(start: Any, verb: str) -> None:
    """Where what is shared with the worker is Python, a lock may stay locked, and the worker hangs."""
    for number in range(1, 1000):
        worker, gate = start(depth=1, timeout_s=1.0), Gate()
        if verb.endswith("full queue"):
            worker.put(gate)
            assert gate.begun.wait(LATER)
            worker.put(lambda: None)
        line = AtLine(number, opening(gate), HAND_OVER)
        with contextlib.suppress(KeyboardInterrupt, WorkerStalledError), line:
            hand_over(worker, verb)
        gate.open.set()
        # The gate is opened by the interrupt. Where that comes later than the worker's time is up, there is no more.
        if line.left > 0 or worker._has_stalled:
            break
        assert worker.call(lambda: 7) == 7, number
        worker.stop()
        assert not worker._thread.is_alive(), number
    assert number > 5


def hand_over(worker: Worker, verb: str) -> None:
    if verb.startswith("put"):
        worker.put(lambda: None)
    elif verb == "flush":
        worker.flush()
    else:
        worker.call(lambda: None)


def opening(gate: Gate) -> Callable[[], None]:
    def act() -> None:
        gate.open.set()
        raise KeyboardInterrupt

    return act
