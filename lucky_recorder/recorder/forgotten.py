"""Sessions that nobody has closed: their recorders are gone, or their process ends."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Any

from lucky_recorder.episode.record import Outcome, Reason
from lucky_recorder.errors import LuckyRecorderError
from lucky_recorder.recorder import exits
from lucky_recorder.recorder.ending import run_all
from lucky_recorder.recorder.opened import OpenSession
from lucky_recorder.recorder.recording import Recording


def forget(session: OpenSession) -> None:
    """Close a session that nobody can close any more, and say so."""
    if session.is_closed:
        return
    if session.worker.is_current:
        # The garbage collector may run in any thread, and this one cannot wait for itself.
        threading.Thread(target=forget, args=(session,)).start()
        return
    failure = None
    try:
        with exits.held_back("send again"):
            try:
                session.close()
            except LuckyRecorderError as error:
                failure = error
            finally:
                # What was interrupted too often is the end of the process's to finish.
                if session.is_closed:
                    exits.release(id(session))
                    session.let_go()
    finally:
        if session.has_rates:
            # Last: where warnings are errors, this raises. Without a step there was nothing to lose.
            exits.warn_forgotten(session.place, failure)


def end_forgotten(recording: Recording, lock: Any) -> None:
    """End a lane that nobody can end any more, while the others go on.

    Args:
        recording: The lane.
        lock: What the verbs of all lanes hold.
    """
    session = recording.session
    if session.worker.is_current:
        threading.Thread(target=end_forgotten, args=(recording, lock)).start()
        return
    # Waited for, but not for good: whoever holds it may hang. What has failed is the others' to raise.
    has_it = lock.acquire(timeout=session.timeout_s)
    try:
        with exits.held_back("send again"), contextlib.suppress(LuckyRecorderError):
            recording.end(Outcome(False, Reason.STOPPED))
    finally:
        if has_it:
            lock.release()


def close_at_exit(session: OpenSession, stop: Callable[[], Callable[[str], object] | None], lock: Any) -> None:
    """Close a session while its process ends; daemon threads may still record with it.

    Args:
        session: The session.
        stop: Returns what tells its recorders to begin nothing any more; None if they are gone.
        lock: What their verbs hold.
    """
    # Waited for, but not for good: whoever holds it may hang.
    has_it: list[bool] = []

    def tell() -> None:
        told = stop()
        if told is not None:
            told("the process is ending")

    try:
        run_all((lambda: has_it.append(lock.acquire(timeout=session.timeout_s)), tell, lambda: forget(session)))
    finally:
        for _ in filter(None, has_it):
            lock.release()
