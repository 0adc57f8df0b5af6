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
import functools
import inspect
import multiprocessing
import multiprocessing.util
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
# Before the queues and managers of `multiprocessing` are shut down, as at exit.
_FIRST = 100
# SIGHUP is sent when a terminal is closed; Windows has none.
_ENDING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))

_open: dict[int, Callable[[], None]] = {}
_is_ending = False
_finalizer: multiprocessing.util.Finalize | None = None


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
    _watch_child()


def release(key: int) -> None:
    """Forget what `guard` was given."""
    _open.pop(key, None)
    if not _open:
        _handle(_on_signal, signal.SIG_DFL)
        atexit.unregister(_close_all)


def _watch_child() -> None:
    """Have sessions closed at the end of a process of `multiprocessing`, which may run nothing registered at exit."""
    global _finalizer
    if multiprocessing.parent_process() is None:
        return
    if _finalizer is not None:
        _finalizer.cancel()
    _finalizer = multiprocessing.util.Finalize(None, _close_in_child, exitpriority=_FIRST)


def _close_in_child() -> None:
    # Python waits for other threads before it runs what is registered at exit, but after what is registered here. They
    # may be recording still.
    if _other_threads():
        threading.Thread(target=_close_after_threads, name="lucky_recorder_exit").start()
    else:
        _close_all()


def _close_after_threads() -> None:
    while threads := _other_threads():
        for thread in threads:
            thread.join()
    _close_all()


def _other_threads() -> list[threading.Thread]:
    ours = threading.current_thread(), threading.main_thread()
    return [thread for thread in threading.enumerate() if not thread.daemon and thread not in ours]


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
            if signal.getsignal(number) == _held.take:
                if _held.handlers.get(number) is found:
                    _held.handlers[number] = handler
            elif signal.getsignal(number) is found:
                signal.signal(number, handler)


# The function in C, behind what makes enumerations of its numbers.
_set_in_c = inspect.unwrap(signal.signal)


def _set_handlers(handlers: dict[int, Handler]) -> None:
    """Set handlers, all or none of them: no signal is handled between the first and the last.

    To block signals would not do: any other thread may take them, and this one handles them all the same.
    """
    numbers = [int(number) for number in handlers]
    set_ones = [handler if callable(handler) else int(handler or 0) for handler in handlers.values()]
    list(map(_set_in_c, numbers, set_ones))


class _Block:
    """A `held_back` block that runs. It goes with the frame of it, whatever strikes there."""


class _Held:
    """The signals that are held back.

    A signal may strike at any line, here too. So `take` raises nothing before every signal has its own handler again,
    and handlers are given and taken all at once.

    Attributes:
        handlers: What they are handled by otherwise.
        numbers: Those that have come and are not raised yet, each once.
        count: How many have come.
    """

    def __init__(self) -> None:
        self.handlers: dict[int, Handler] = {}
        self.numbers: list[int] = []
        self.count = 0
        self._block: Callable[[], _Block | None] = lambda: None

    @property
    def is_on(self) -> bool:
        """Whether a block runs."""
        return self._block() is not None

    def take(self, number: int, frame: FrameType | None) -> None:
        """Keep a signal for later; one too many, or one that comes when nothing is held back, is raised at once."""
        self.count += 1
        if number not in self.numbers:
            self.numbers.append(number)
        if not self.is_on or self.count > MOST_HELD:
            try:
                self._give_back(is_over=not self.is_on)
                self.raise_now()
            finally:
                if self.numbers:
                    self.raise_now()

    def hold(self, block: _Block) -> None:
        """Take the signals over from what handles them."""
        handlers: dict[int, Handler] = {}
        for number in (signal.SIGINT, *_ENDING):
            handler = signal.getsignal(number)
            if handler == self.take:  # its own handler could not be given back
                handler = self.handlers.get(number)
            # To end a process by Ctrl-C at once is somebody's choice: it is not what Python does.
            if callable(handler) or (handler is signal.SIG_DFL and number in _ENDING):
                handlers[number] = handler
        self.handlers = handlers
        self.count = 0
        self._block = weakref.ref(block)
        _set_handlers(dict.fromkeys(handlers, self.take))

    def let_go(self) -> None:
        """End the block."""
        # In this order: until the very moment in which they are handled as ever, signals are kept.
        self._give_back(is_over=True)
        self._block = lambda: None

    def _give_back(self, is_over: bool) -> None:
        """Give every signal back to what has handled it, unless somebody has set another handler meanwhile."""
        try:
            _set_handlers(self._own(is_over))
        except BaseException:  # a handler that somebody has set meanwhile may raise here
            _set_handlers(self._own(is_over))
            raise

    def _own(self, is_over: bool) -> dict[int, Handler]:
        own: dict[int, Handler] = {}
        for number, handler in self.handlers.items():
            now = signal.getsignal(number)
            if now == self.take or (now is _on_signal and handler is signal.SIG_DFL):
                # What would end the process at once raises an exit as long as the block is not left.
                own[number] = _on_signal if handler is signal.SIG_DFL and not is_over else handler
        return own

    def raise_now(self) -> None:
        """Have those that have come handled. What ends the process comes last, so that this is what is raised."""
        try:
            for number in (signal.SIGINT, *_ENDING):
                if number in self.numbers:
                    self._raise(number)
        finally:
            if self.numbers:
                self.raise_now()

    def _raise(self, number: int) -> None:
        handler = self.handlers.get(number)
        forget = functools.partial(self.numbers.remove, number)
        handle = functools.partial(handler if callable(handler) else _on_signal, number, None)
        # As in `_set_handlers`: another signal that strikes in between would have this one lost.
        list(map(functools.partial.__call__, (forget, handle)))


_held = _Held()


@contextlib.contextmanager
def held_back(then: Then = "raise") -> Iterator[None]:
    """Hold back signals in a ``with`` block: what they raise is raised when it is over.

    At most `MOST_HELD` are; one more is raised at once, and so are those after it, so that a hanging disk can still be
    left. Signals that are ignored, or handled by what is not Python, are left alone. It does nothing inside of another
    such block, nor in any thread but the main one, where signals raise nothing.

    Args:
        then: What becomes afterwards of those that have come: what they raise is raised, or they are forgotten, or they
            are sent again. That is for finalizers, which Python runs anywhere: what is raised there goes nowhere.
    """
    if _held.is_on or not _is_main():
        yield
        return
    block = _Block()
    try:
        with contextlib.suppress(ValueError):  # as in `_handle`
            _held.hold(block)
        yield
    finally:
        try:
            _held.let_go()
            del block
            _end_held(then)
        finally:
            # What is left, where another signal has struck just now. Where a third one has, the next block raises it.
            if _held.numbers:
                _end_held(then)


def _end_held(then: Then) -> None:
    if then == "raise":
        _held.raise_now()
        return
    if then == "send again" and _held.numbers:
        threading.Thread(target=_send_again, args=(list(_held.numbers),), daemon=True).start()
    _held.numbers.clear()


def is_insisted() -> bool:
    """Tell whether more signals have come in this block than are held back: whoever sent them waits for nothing."""
    return _held.is_on and _held.count > MOST_HELD and _is_main()


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
