from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from lucky_recorder.storage.spread import THREADS, Progress, spread


def test_results_come_in_the_order_of_the_items_whoever_is_done_first() -> None:
    second_is_done = threading.Event()

    def work(item: int) -> int:
        if item == 0 and THREADS > 1:
            assert second_is_done.wait(30)
        if item == 1:
            second_is_done.set()
        return item * item

    assert list(spread(work, range(50))) == [n * n for n in range(50)]


def test_few_items_are_taken_ahead() -> None:
    taken: list[int] = []

    def items() -> Iterator[int]:
        for item in range(1000):
            taken.append(item)
            yield item

    results = spread(lambda item: item, items())
    assert next(results) == 0
    assert len(taken) <= 2 * THREADS
    results.close()  # type: ignore[attr-defined]
    assert len(taken) <= 2 * THREADS


def test_what_one_raises_is_raised_and_no_more_is_begun() -> None:
    begun: list[int] = []

    def work(item: int) -> int:
        begun.append(item)
        return 1 // (item - 3)

    with pytest.raises(ZeroDivisionError):
        list(spread(work, range(1000)))
    assert len(begun) <= 3 + 2 * THREADS


def test_progress_tells_each_change() -> None:
    told: list[tuple[int, int]] = []
    progress = Progress(lambda done, total: told.append((done, total)))
    progress.expect(10)
    progress.advance(4)
    progress.expect(5)
    progress.advance(11)
    assert told == [(0, 10), (4, 10), (4, 15), (15, 15)]
    Progress().advance(1)
