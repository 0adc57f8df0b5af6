"""Keeps garbage collections that run in the drawing thread away from its GL context.

Somebody may drop a renderer without closing it. Python then frees it in whatever thread the next collection runs in:
its textures, buffers and lists are deleted, by number, from the context that is current there. If that is ours, it
loses its own of the same numbers, and pictures go wrong without an error.
"""

from __future__ import annotations

import gc
import operator
import threading
from typing import Any

from lucky_recorder.capture.draw.context import Context


class _PerThread(threading.local):
    """Called by every collection, in whatever thread it runs; it does something in those that have set ``around``.

    In the main thread no line of Python may run here. An interrupt is raised at the next line of Python there is, and
    what is raised while garbage is collected goes nowhere: Python prints it, and the program runs on. So what a
    collection calls in any other thread is C from end to end: `property` and `attrgetter` find the thread's own
    ``around``, and where none was set that is `operator.is_`, which takes two arguments and does nothing.
    """

    around: Any = operator.is_
    __call__ = property(operator.attrgetter("around"))


class CollectionGuard:
    """Until it is removed, no context is current in this thread during a collection of garbage.

    It is made and removed in the thread that draws, which is never the main one.

    Args:
        context: The context that is current in this thread otherwise.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._called = _PerThread()
        self._called.around = self._around
        gc.callbacks.append(self._called)

    def _around(self, phase: str, info: dict[str, Any]) -> None:
        if phase == "start":
            self._context.release()
        else:
            self._context.make_current()

    def remove(self) -> None:
        """Leave collections alone again."""
        if self._called in gc.callbacks:
            gc.callbacks.remove(self._called)
