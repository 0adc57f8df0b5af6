"""Exits: what closes sessions when a process ends without close(), by itself or by a signal.

SIGTERM and SIGHUP would end a process at once. While a session is open they become an ordinary `SystemExit`, so that
sessions are closed on the way out: only where nobody else has set a handler, and from the main thread, since Python
sets handlers in no other. Ctrl-C is Python's own `KeyboardInterrupt`.

An exception that a signal raises can strike at any line. Where a session opens and where it closes that would leave
half of it, so there signals are held back until it is done: see `held_back`.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import sys
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, Literal

Handler = Callable[[int, FrameType | None], Any] | int | None

Then = Literal["raise", "forget", "send again"]

_SHORT_S = 0.001
# So many are held back at a time. Who sends one more means it: it is raised at once.
MOST_HELD = 2
# SIGHUP is sent when a terminal is closed; Windows has none.
_ENDING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))

_open: dict[int, Callable[[], None]] = {}
_is_ending = False


def guard(key: int, close: Callable[[], None]) -> None:
    """Have ``close`` called if the process ends before `release`.

    Args:
        key: What `release` will be given: one for each open session.
        close: Called in the main thread, when Python runs what is registered at exit.
    """
    _open[key] = close
    _handle(signal.SIG_DFL, _on_signal)
    # Registered again each time, since what is registered last runs first. Where pictures are drawn, MuJoCo's EGL
    # module has registered the end of its display when the first context was made; sessions must be closed before.
    atexit.unregister(_close_all)
    atexit.register(_close_all)


def release(key: int) -> None:
    """Forget what `guard` was given."""
    _open.pop(key, None)
    if not _open:
        _handle(_on_signal, signal.SIG_DFL)
        atexit.unregister(_close_all)


def warn_forgotten(folder: object, failure: Exception | None) -> None:
    """Say, once per session, that close() was forgotten, and what failed while that was made good."""
    message = f"close() was not called on the recorder of {folder}; its open episode was ended as failed"
    if failure is not None:
        message = f"{message}; {failure}"
    # A ResourceWarning is hidden by default, and a session cut short must not pass unseen.
    warnings.warn(message, RuntimeWarning, stacklevel=2)


def leave_if_ending() -> None:
    """End this thread if the process ends: Python waits for daemon threads no more, and its session is closed.

    Raises:
        SystemExit: In any thread but the main one, which says nothing of it.
    """
    if _is_ending and not _is_main():
        sys.exit()


def _close_all() -> None:
    global _is_ending
    _is_ending = True
    # Newest first, and one that raises keeps no other from being closed. All are on the stack before the first runs,
    # because closing takes entries out of the dictionary. What comes meanwhile has nothing left to end.
    with held_back("forget"), contextlib.ExitStack() as stack:
        for close in list(_open.values()):
            stack.callback(close)


def _on_signal(number: int, frame: FrameType | None) -> None:
    sys.exit(128 + number)


def _is_main() -> bool:
    return threading.current_thread() is threading.main_thread()


def _handle(found: Handler, handler: Handler) -> None:
    """Set a handler for the signals that end a process, where another one is found."""
    if not _is_main():
        return
    for number in _ENDING:
        with contextlib.suppress(ValueError):  # an interpreter within another sets no handlers
            if _held.is_on:
                if _held.handlers.get(number) is found:
                    _held.handlers[number] = handler
            elif signal.getsignal(number) is found:
                signal.signal(number, handler)


class _Held:
    """The signals that are held back.

    Attributes:
        is_on: Whether any are.
        handlers: What they are handled by otherwise.
        numbers: Those that have come and are not raised yet.
        count: How many have come.
    """

    def __init__(self) -> None:
        self.is_on = False
        self.handlers: dict[int, Handler] = {}
        self.numbers: list[int] = []
        self.count = 0

    def take(self, number: int, frame: FrameType | None) -> None:
        """Keep a signal for later, unless as many are kept as may be."""
        self.count += 1
        self.numbers.append(number)
        if self.count > MOST_HELD:
            self.raise_now()

    def hold(self, number: int) -> None:
        """Take a signal over from what handles it."""
        handler = signal.getsignal(number)
        # To end a process by Ctrl-C at once is somebody's choice: it is not what Python does.
        if callable(handler) or (handler is signal.SIG_DFL and number in _ENDING):
            self.handlers[number] = handler
            signal.signal(number, self.take)

    def let_go(self) -> None:
        """Give every signal back to what has handled it, unless somebody has set another handler meanwhile."""
        self.is_on = False
        for number, handler in self.handlers.items():
            if signal.getsignal(number) == self.take:
                signal.signal(number, handler)

    def raise_now(self) -> None:
        """Have those that have come handled, in their order; the first that raises is the last."""
        numbers, self.numbers = self.numbers, []
        for number in dict.fromkeys(numbers):
            handler = self.handlers.get(number)
            if callable(handler):
                handler(number, None)
            elif handler is signal.SIG_DFL:
                _on_signal(number, None)


_held = _Held()


@contextlib.contextmanager
def held_back(then: Then = "raise") -> Iterator[None]:
    """Hold back signals in a ``with`` block: what they raise is raised when it is over.

    At most `MOST_HELD` are; one more is raised at once, so that a hanging disk can still be left. Signals that are
    ignored, or handled by what is not Python, are left alone. It does nothing inside of another such block, nor in any
    thread but the main one, where signals raise nothing.

    Args:
        then: What becomes afterwards of those that have come: what they raise is raised, or they are forgotten, or they
            are sent again. That is for finalizers, which Python runs anywhere: what is raised there goes nowhere.
    """
    if _held.is_on or not _is_main():
        yield
        return
    _held.handlers.clear()
    _held.count = 0
    try:
        with contextlib.suppress(ValueError):  # as in `_handle`
            for number in (signal.SIGINT, *_ENDING):
                _held.hold(number)
        _held.is_on = True
        yield
    finally:
        _held.let_go()
        if then == "raise":
            _held.raise_now()
        elif then == "send again" and _held.numbers:
            threading.Thread(target=_send_again, args=(list(_held.numbers),), daemon=True).start()
        _held.numbers.clear()


def _send_again(numbers: list[int]) -> None:
    """Send signals to the main thread as soon as it has left the finalizer that it is in."""
    main = threading.main_thread().ident
    while main is not None and _is_in_finalizer(sys._current_frames().get(main)):
        time.sleep(_SHORT_S)
    for number in dict.fromkeys(numbers):
        os.kill(os.getpid(), number)


def _is_in_finalizer(frame: FrameType | None) -> bool:
    finalizer = weakref.finalize.__call__.__code__
    while frame is not None and frame.f_code is not finalizer:
        frame = frame.f_back
    return frame is not None


def raise_held() -> None:
    """Raise what is held back, in the midst of a block, where nothing is half done; see `leave_if_ending` too."""
    leave_if_ending()
    if _held.numbers and _is_main():
        _held.raise_now()


def _mark_forked() -> None:
    # What was open when a process forked is its parent's to close.
    _open.clear()
    with contextlib.suppress(ValueError):  # as in `_handle`
        _held.let_go()
    _held.numbers.clear()
    _handle(_on_signal, signal.SIG_DFL)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_mark_forked)
