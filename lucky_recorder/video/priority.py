"""Encoders get no more of the machine than the program that they work for.

SVT-AV1 makes the thread that opens it, and with it all of its own, real-time threads of the highest priority where the
user is root, as in many containers. Whatever else runs there then waits for them, the simulation first.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

_THREADS = "/proc/self/task"
# Elsewhere than on Linux nobody has seen it, and a single thread's scheduling has other ways.
_IS_KNOWN = hasattr(os, "sched_getscheduler") and os.path.isdir(_THREADS)


@contextlib.contextmanager
def kept() -> Iterator[None]:
    """Give back the scheduling that this thread had, to it and to all threads that were started meanwhile."""
    if not _IS_KNOWN:
        yield
        return
    policy, parameters, before = os.sched_getscheduler(0), os.sched_getparam(0), set(os.listdir(_THREADS))
    try:
        yield
    finally:
        # A program may be a real-time one itself, of a lower priority than the encoder's threads give themselves.
        now = os.sched_getscheduler(0), os.sched_getparam(0).sched_priority
        if now != (policy, parameters.sched_priority):
            os.sched_setscheduler(0, policy, parameters)
            for thread in set(os.listdir(_THREADS)) - before:
                with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
                    os.sched_setscheduler(int(thread), policy, parameters)
