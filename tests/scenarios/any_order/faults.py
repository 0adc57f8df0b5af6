"""Failures that strike in the worker: an encoder, the disk, a sink of the user's own. Armed once, they strike once."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest import mock

from lucky_recorder.episode.record import EpisodeRecord
from lucky_recorder.session import rows
from lucky_recorder.session.sink import SessionSink
from lucky_recorder.testing import MemorySink
from lucky_recorder.video.encoder import VideoEncoder
from tests.scenarios.any_order.books import Struck

KINDS = ("encoder", "disk", "prepare", "commit")


class Faults:
    """What is to fail next, and what has failed.

    Attributes:
        armed: What is to fail next; None for nothing.
        struck: What has failed in the open session.

    Args:
        done: Says in the worker how many takes were kept or discarded.
    """

    def __init__(self, done: Callable[[], int]) -> None:
        self.armed: str | None = None
        self.struck: Struck | None = None
        self._done = done
        self._at_take: int | None = None
        self._patches = ExitStack()

    def __enter__(self) -> Faults:
        """Lie in wait until `__exit__`."""
        encode, prepare = VideoEncoder.write, SessionSink.prepare

        def write(encoder: VideoEncoder, *args: Any, **named: Any) -> Any:
            number = re.search(r"take-(\d+)", encoder.path.name)
            if number is not None:
                self.strike("encoder", int(number[1]), lambda: RuntimeError("the encoder has had enough"))
            return encode(encoder, *args, **named)

        def prepared(sink: SessionSink, record: EpisodeRecord) -> Any:
            self._at_take = record.take
            try:
                return prepare(sink, record)
            finally:
                self._at_take = None

        def written(path: Path, *args: Any) -> None:
            work(path, *args)
            if self._at_take is not None:
                # The worst moment: the rows are there, under their temporary name.
                full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
                self.strike("disk", self._at_take, lambda: full)

        work = rows.write
        self._patches.enter_context(mock.patch.object(VideoEncoder, "write", write))
        self._patches.enter_context(mock.patch.object(SessionSink, "prepare", prepared))
        self._patches.enter_context(mock.patch.object(rows, "write", written))
        return self

    def __exit__(self, *raised: object) -> None:
        self._patches.close()

    def begin(self) -> None:
        """Forget what has failed: another session begins."""
        self.armed, self.struck = None, None

    def strike(self, kind: str, take: int, error: Callable[[], Exception]) -> None:
        """Raise if this is to fail."""
        if self.armed == kind:
            self.armed, self.struck = None, Struck(kind, take, self._done())
            raise error()


class FailingSink(MemorySink):
    """A sink of the user's own that refuses an episode, before or after others have it."""

    def __init__(self, root: Path, faults: Faults) -> None:
        super().__init__(root)
        self._faults = faults

    def prepare(self, record: EpisodeRecord) -> Any:
        """Take an episode, unless it is to fail."""
        self._faults.strike("prepare", record.take, lambda: OSError("no room in the database"))
        return _Refusing(super().prepare(record), record.take, self._faults)


class _Refusing:
    def __init__(self, prepared: Any, take: int, faults: Faults) -> None:
        self._prepared, self._take, self._faults = prepared, take, faults

    def commit(self) -> None:
        self._faults.strike("commit", self._take, lambda: OSError("the database is gone"))
        self._prepared.commit()

    def discard(self) -> None:
        self._prepared.discard()
