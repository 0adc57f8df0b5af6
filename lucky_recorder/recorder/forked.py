"""What a fork leaves behind: in the child no thread runs but the one that forked, and locks stay as they were."""

from __future__ import annotations

import os
import weakref
from typing import Protocol


class Forkable(Protocol):
    """What has a thread or a lock that the child of a fork must not use."""

    def mark_forked(self) -> None:
        """Take note, in the child."""


# No `WeakSet`: it runs a line of Python when one of its objects goes, wherever that is, and an interrupt that is raised
# by that line goes nowhere.
_watched: list[weakref.ref[Forkable]] = []


def watch(forkable: Forkable) -> None:
    """Have an object told in the child of every fork from now on, for as long as it is there."""
    _watched[:] = [known for known in _watched if known() is not None]
    _watched.append(weakref.ref(forkable))


def _mark_forked() -> None:
    for known in _watched:
        forkable = known()
        if forkable is not None:
            forkable.mark_forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_mark_forked)
