"""Every error the recorder raises, in one tree.

```
LuckyRecorderError
├── SettingsError (ValueError)       settings that cannot be recorded; raised before anything touches the disk
├── StateError (RuntimeError)        a verb called in a state that does not allow it
│   └── ForkError                    a recorder used in a forked child, or pictures drawn in one where that hangs
├── WorkerDiedError (RuntimeError)   worker processes die again and again, or cannot begin
├── CaptureError (RuntimeError)      what the simulation showed cannot be a row (time ran backwards, NaN, a wrong shape)
├── StreamError (RuntimeError)       a stream of pictures failed; its episode is failed and the session has stopped
│   ├── GLError                      no OpenGL context could be made
│   └── WorkerStalledError           the worker took longer than ``worker_timeout_s`` for one piece of work
├── VideoError (OSError)             a video file could not be written or read
├── StorageError (OSError)           the file system refused; names the path
│   └── MetadataError                an episode is whole on the disk, and what lists it could not be written
└── FormatError (ValueError)         a folder or file that is not what the format says
```
"""

from __future__ import annotations

_LONGEST = 300


def shown(value: object) -> str:
    """Write a value for a message: its ``repr``, cut short, or its type where it has none."""
    try:
        text = repr(value)
    except Exception:  # an integer of more than 4300 digits, say, has no repr
        text = f"<{type(value).__name__}>"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def told(error: BaseException) -> str:
    """Write an exception of somebody else's for a message: its type, and what it says."""
    return f"{type(error).__name__}: {text_of(error)}"


def text_of(error: BaseException) -> str:
    """Return what an exception of somebody else's says, where it can: its own code makes the text."""
    try:
        return str(error)
    except Exception:
        return "(what it says cannot be told)"


class LuckyRecorderError(Exception):
    """The root of the tree: ``except LuckyRecorderError`` catches all that the recorder raises."""


class SettingsError(LuckyRecorderError, ValueError):
    """Settings that cannot be recorded. The message names the field, the value and the remedy."""

    @classmethod
    def of(cls, field: str, value: object, remedy: str) -> SettingsError:
        """Make the error for one field: ``field=value: remedy``."""
        return cls(f"{field}={shown(value)}: {remedy}")


class StateError(LuckyRecorderError, RuntimeError):
    """A verb called in a state that does not allow it. The message says what the state is."""


class ForkError(StateError):
    """A forked child uses the recorder of its parent, or is to draw although its parent had drawn."""


class WorkerDiedError(LuckyRecorderError, RuntimeError):
    """Worker processes die again and again at the same seed, or cannot begin. What was finished is written."""


class CaptureError(LuckyRecorderError, RuntimeError):
    """What the simulation showed cannot be recorded as a row; the open episode is failed."""


class StreamError(LuckyRecorderError, RuntimeError):
    """A stream of pictures failed. Its episode is failed, the session has stopped."""


class GLError(StreamError):
    """No OpenGL context could be made on this machine; the message says what to install."""


class WorkerStalledError(StreamError):
    """The worker thread did not finish a piece of work within ``worker_timeout_s``."""


class VideoError(LuckyRecorderError, OSError):
    """A video file could not be written, or is not what it should be."""


class StorageError(LuckyRecorderError, OSError):
    """The file system refused a write. The message names the path."""


class MetadataError(StorageError):
    """The file system refused what lists an episode. The episode itself is whole: the next write may list it."""


class FormatError(LuckyRecorderError, ValueError):
    """A folder or file that is not what the format says; nothing was changed."""


def extended(error: LuckyRecorderError, *said: str) -> LuckyRecorderError:
    """Return an error of the same kind that says more; the one that it extends is its cause."""
    told = type(error)("; ".join((str(error), *said)))
    if isinstance(error, OSError) and isinstance(told, OSError):
        # An OSError made of one text has no errno of its own.
        told.errno = error.errno
    told.__cause__ = error
    return told
