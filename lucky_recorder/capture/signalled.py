"""What a handler of signals has raised in the midst of somebody's code: a time limit of the user's, say.

It is of nobody whose code it has struck, so it is no failure of theirs, and is raised as it is.
"""

from __future__ import annotations

import functools
import operator
import signal
import traceback
from collections.abc import Iterator
from types import CodeType


def is_of_a_handler(error: BaseException) -> bool:
    """Tell whether an exception comes out of a function that handles a signal in this process."""
    handlers = set(_handlers())
    return bool(handlers) and any(frame.f_code in handlers for frame, _ in traceback.walk_tb(error.__traceback__))


def _reached(handler: object, name: str) -> object:
    try:
        return operator.attrgetter(name)(handler)
    except AttributeError:
        return None


def _handlers() -> Iterator[CodeType]:
    for number in signal.valid_signals():
        try:
            handler: object = signal.getsignal(number)
        except ValueError:  # one that the system keeps to itself
            continue
        while isinstance(handler, functools.partial):
            handler = handler.func
        for name in ("__code__", "__call__.__code__"):
            code = _reached(handler, name)
            if isinstance(code, CodeType):
                yield code
