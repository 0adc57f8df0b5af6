"""Recordings that nobody has closed: their recorder is gone, or their process ends."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from lucky_recorder.errors import LuckyRecorderError
from lucky_recorder.recorder import exits
from lucky_recorder.recorder.recording import Recording


def forget(recording: Recording) -> None:
    """Close a recording that nobody can close any more, and say so."""
    if recording.is_closed:
        return
    if recording.is_in_worker:
        # The garbage collector may run in any thread, and this one cannot wait for itself.
        threading.Thread(target=forget, args=(recording,)).start()
        return
    failure = None
    with exits.held_back("send again"):
        try:
            recording.close()
        except LuckyRecorderError as error:
            failure = error
        finally:
            exits.release(id(recording))
    if recording.source.has_rates:
        # Last: where warnings are errors, this raises. Without a step there was nothing to lose.
        exits.warn_forgotten(recording.place, failure)


def close_at_exit(recording: Recording, stop: Callable[[], Callable[[str], object] | None], lock: Any) -> None:
    """Close a recording while its process ends; daemon threads may still record with it.

    Args:
        recording: The recording.
        stop: Returns what tells its recorder to begin nothing any more; None if that is gone.
        lock: What its recorder's verbs hold.
    """
    # Waited for, but not for good: whoever holds it may hang.
    has_it = lock.acquire(timeout=recording.source.settings.worker_timeout_s)
    try:
        tell = stop()
        if tell is not None:
            tell("the process is ending")
        forget(recording)
    finally:
        if has_it:
            lock.release()
