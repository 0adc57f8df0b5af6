"""Keeps garbage collections that run in the drawing thread away from its GL context.

Somebody may drop a renderer without closing it. Python then frees it in whatever thread the next collection runs in:
its textures, buffers and lists are deleted, by number, from the context that is current there. If that is ours, it
loses its own of the same numbers, and pictures go wrong without an error.
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
        # Kept here: when Python ends, it empties the modules, and collections still run after that.
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
