"""Exits: what closes sessions when a process ends without close(), by itself or by SIGTERM.

A SIGTERM handler is set only where there was none, and only in the main thread; it turns the signal into an ordinary
`SystemExit`, so that sessions are closed on the way out.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable
from types import FrameType

_open: dict[int, Callable[[], None]] = {}
_has_handler = False


def guard(key: int, close: Callable[[], None]) -> None:
    """Have ``close`` called if the process ends before `release`.

    Args:
        key: What `release` will be given: one for each open session.
        close: Called in the main thread, when Python runs what is registered at exit.
    """
    if not _open:
        _set_handler()
    _open[key] = close
    # Registered again each time, since what is registered last runs first. Where pictures are drawn, MuJoCo's EGL
    # module has registered the end of its display when the first context was made; sessions must be closed before.
    atexit.unregister(_close_all)
    atexit.register(_close_all)


def release(key: int) -> None:
    """Forget what `guard` was given."""
    _open.pop(key, None)
    if not _open:
        _unset_handler()
        atexit.unregister(_close_all)


def warn_forgotten(folder: object, failure: Exception | None) -> None:
    """Say, once per session, that close() was forgotten, and what failed while that was made good."""
    message = f"close() was not called on the recorder of {folder}; its open episode was ended as failed"
    if failure is not None:
        message = f"{message}; {failure}"
    # A ResourceWarning is hidden by default, and a session cut short must not pass unseen.
    warnings.warn(message, RuntimeWarning, stacklevel=2)


def _close_all() -> None:
    # Newest first, and one that raises keeps no other from being closed. All are on the stack before the first runs,
    # because closing takes entries out of the dictionary.
    with contextlib.ExitStack() as stack:
        for close in _open.values():
            stack.callback(close)


def _on_sigterm(number: int, frame: FrameType | None) -> None:
    sys.exit(128 + number)


def _set_handler() -> None:
    global _has_handler
    if threading.current_thread() is not threading.main_thread():
        return
    with contextlib.suppress(ValueError):
        if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, _on_sigterm)
            _has_handler = True


def _unset_handler() -> None:
    global _has_handler
    if not _has_handler or threading.current_thread() is not threading.main_thread():
        return
    if signal.getsignal(signal.SIGTERM) is _on_sigterm:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _has_handler = False


if hasattr(os, "register_at_fork"):
    # What was open when a process forked is its parent's to close.
    os.register_at_fork(after_in_child=_open.clear)
