"""Many files, looked at by a few threads: what they do (hashing, decoding) lets go of Python's lock."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Tell = Callable[[int, int], None]
T = TypeVar("T")
R = TypeVar("R")

# Each may hold what one file takes in memory, so they are few.
THREADS = min(4, os.cpu_count() or 1)


class Progress:
    """How far a look at files has come, in bytes.

    Attributes:
        done: Bytes that are done.

    Args:
        tell: Called with the bytes that are done and those that there are.
    """

    def __init__(self, tell: Tell | None = None) -> None:
        self.done = 0
        self._tell = tell
        self._total = 0

    def expect(self, size: int) -> None:
        """Take so many bytes more for what there is to do."""
        self._total += size
        self._say()

    def advance(self, size: int) -> None:
        """Take so many bytes for done."""
        self.done += size
        self._say()

    def _say(self) -> None:
        if self._tell is not None:
            self._tell(self.done, self._total)


def spread(work: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
    """Do some work for each item, a few at a time; yields the results in the order of the items.

    What one of them raises is raised here, and no other is begun after it.
    """
    with ThreadPoolExecutor(THREADS, thread_name_prefix="lucky_recorder-look") as pool:
        yield from in_order(lambda item: pool.submit(work, item), items, 2 * THREADS)


def in_order(begin: Callable[[T], Future[R]], items: Iterable[T], most: int) -> Iterator[R]:
    """Hand out some work for each item; yields the results in the order of the items.

    Args:
        begin: Hands out the work for an item.
        items: The items; there may be a million, so not all of them wait at once.
        most: How many wait at the most. Those that are not begun are not when this is broken off.
    """
    waiting: deque[Future[R]] = deque()
    try:
        for item in items:
            waiting.append(begin(item))
            if len(waiting) >= most:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()
