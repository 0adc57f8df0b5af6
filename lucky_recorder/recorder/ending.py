"""Ends: what must be done to the last, whatever strikes meanwhile.

What is not an error of the recorder's own has come from outside: Ctrl-C, or what a signal handler of the user's raises,
a timeout for example. It says nothing of the job that it struck, so that job runs again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from lucky_recorder.errors import LuckyRecorderError
from lucky_recorder.recorder import exits


def run_all(jobs: Iterable[Callable[[], object]]) -> None:
    """Run every job, also if one of them fails or is interrupted.

    Args:
        jobs: What to do, in this order. Each may be run again: an interrupt may have struck before it was done, or
            after it. One that is interrupted more often than signals are held back is left.

    Raises:
        BaseException: What interrupted first, if anything did, with what has failed as a note; else what failed first.
            At once, if somebody insists: see `lucky_recorder.recorder.exits.is_insisted`.
    """
    interrupt: BaseException | None = None
    failure: LuckyRecorderError | None = None
    try:
        for job in jobs:
            for _ in range(exits.MOST_HELD + 1):
                try:
                    job()
                except LuckyRecorderError as error:
                    failure = failure or error
                except BaseException as error:
                    interrupt = interrupt or error
                    if exits.is_insisted():
                        raise
                    continue
                break
        if failure is not None:
            raise failure
    finally:
        if interrupt is not None:
            hear(interrupt, failure)
            raise interrupt


def hear(interrupt: BaseException, failure: LuckyRecorderError | None) -> None:
    """Have what is raised from outside say also what has failed in the recorder, which nobody would hear else."""
    if failure is not None:
        interrupt.add_note(f"{type(failure).__name__}: {failure}")
