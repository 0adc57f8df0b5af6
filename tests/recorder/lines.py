"""Something happens before a chosen line of Python: an interrupt strikes, or another thread comes in between."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import lucky_recorder.recorder
from lucky_recorder.recorder import worker

RECORDER = (str(Path(lucky_recorder.recorder.__file__).parent),)
# The worker, and what it is made of where that is Python.
HAND_OVER = (worker.__file__, threading.__file__, worker.queue.__file__)


class AtLine:
    """Acts once, before the ``number``-th line of the files whose paths begin so that runs in this thread.

    Attributes:
        left: Lines that are left until then; not positive once it has acted.
    """

    def __init__(self, number: int, act: Callable[[], None], files: tuple[str, ...] = RECORDER) -> None:
        self.left = number
        self._act = act
        self._files = files

    def __enter__(self) -> AtLine:
        self._before = sys.gettrace()
        sys.settrace(self._trace)
        return self

    def __exit__(self, *raised: object) -> None:
        sys.settrace(self._before)

    def _trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        if not frame.f_code.co_filename.startswith(self._files):
            return None
        if event == "line":
            self.left -= 1
            if self.left == 0:
                sys.settrace(None)
                self._act()
        return self._trace


def interrupt() -> None:
    raise KeyboardInterrupt


def in_another_thread(job: Callable[[], Any], patience_s: float = 30.0) -> Callable[[], None]:
    """Return what runs a job in another thread from its begin to its end, and raises here what it raises there."""

    def act() -> None:
        raised: list[BaseException] = []

        def run() -> None:
            try:
                job()
            except BaseException as error:
                raised.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        thread.join(patience_s)
        assert not thread.is_alive(), "the other thread waits for this one"
        if raised:
            raise raised[0]

    return act
