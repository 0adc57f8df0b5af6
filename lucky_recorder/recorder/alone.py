"""Who may call the verbs of a recorder: one thread at a time, and no child that was forked while it recorded."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar, cast

from lucky_recorder.recorder import forked
from lucky_recorder.recorder.worker import fork_error

P = ParamSpec("P")
T = TypeVar("T")
Owned = TypeVar("Owned", bound="Alone")


class Alone:
    """What one thread of one process uses at a time.

    Attributes:
        is_left: Whether this is a forked child, and what was open is its parent's.
    """

    def __init__(self) -> None:
        self.is_left = False
        forked.watch(self)

    @property
    def lock(self) -> threading.RLock:
        """Held by every verb that begins or ends something; for those who need two of them in a row."""
        raise NotImplementedError

    @property
    def is_recording(self) -> bool:
        """Whether a session is open."""
        return False

    def mark_forked(self) -> None:
        """Refuse everything from here on in a forked child, if something is open."""
        self.is_left |= self.is_recording

    def refuse_if_left(self) -> None:
        """Refuse whatever was asked for in a forked child.

        Raises:
            ForkError: If something was open when it was forked.
        """
        if self.is_left:
            raise fork_error()


def alone(verb: Callable[Concatenate[Owned, P], T]) -> Callable[Concatenate[Owned, P], T]:
    """Let one thread at a time in: two that end or begin at once would both see the same open take.

    In a forked child whose parent has something open the verb raises `ForkError`.
    """

    @functools.wraps(verb)
    def run(self: Owned, *args: P.args, **kwargs: P.kwargs) -> T:
        with self.lock:
            if self.is_left:
                self.refuse_if_left()
            return verb(self, *args, **kwargs)

    return cast("Callable[Concatenate[Owned, P], T]", run)
