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
PATIENCE_S = 30.0
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


class Aside:
    """A job in another thread, which can be stopped before a line of its own, and let go on later.

    Args:
        job: What it does.
        number: Before which line it stops; it does not if it has not as many.
        files: Whose lines are counted.
    """

    def __init__(self, job: Callable[[], Any], number: int = 0, files: tuple[str, ...] = RECORDER) -> None:
        self._job = job
        self._line = AtLine(number, self._stop, files)
        self._has_stopped, self._may_go_on = threading.Event(), threading.Event()
        self._raised: list[BaseException] = []
        self._thread = threading.Thread(target=self._run)

    @property
    def lines_left(self) -> int:
        """Lines that were missing for it to stop."""
        return self._line.left

    def begin(self) -> None:
        """Run it until it stops or is over."""
        self._thread.start()
        assert self._has_stopped.wait(PATIENCE_S), "the other thread waits for this one"

    def begin_only(self) -> None:
        """Begin it, and wait for nothing: it may have to wait for this thread."""
        self._thread.start()

    def end(self) -> None:
        """Run the rest of it, and raise what it has raised."""
        self._may_go_on.set()
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive(), "the other thread waits for this one"
        if self._raised:
            raise self._raised[0]

    def whole(self) -> None:
        """Run all of it."""
        self.begin()
        self.end()

    def _stop(self) -> None:
        self._has_stopped.set()
        assert self._may_go_on.wait(PATIENCE_S)

    def _run(self) -> None:
        try:
            with self._line:
                self._job()
        except BaseException as error:  # raised by `end`
            self._raised.append(error)
        finally:
            self._has_stopped.set()
