"""Garbage collections that happen to run in the drawing thread are kept away from its GL context.

A renderer that was dropped without being closed frees its textures, buffers and lists wherever the collection that
finds it runs, in whatever context is current there. In ours these are our own, of the same numbers: pictures would
go wrong without a word.
"""

from __future__ import annotations

import gc
import threading
from typing import Any

from lucky_recorder.capture.draw.context import Context


class CollectionGuard:
    """Until it is removed, no context is current in this thread during a collection of garbage.

    Args:
        context: The context that is current in this thread otherwise.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        # Kept here: when Python ends, modules are emptied, and the last collections still come by.
        self._ident = threading.get_ident
        self._thread = threading.get_ident()
        gc.callbacks.append(self._around)

    def _around(self, phase: str, info: dict[str, Any]) -> None:
        if self._ident() != self._thread:
            return
        if phase == "start":
            self._context.release()
        else:
            self._context.make_current()

    def remove(self) -> None:
        """Leave collections alone again."""
        if self._around in gc.callbacks:
            gc.callbacks.remove(self._around)
