"""Open videos and read rows, kept for random access: bounded, and nothing shared with a forked child."""

from __future__ import annotations

import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from lucky_recorder.lazy import lazy

if TYPE_CHECKING:
    from lucky_recorder.video import decode
    from lucky_recorder.video.decode import FrameReader
    from lucky_recorder.video.probe import Contents
else:
    decode = lazy("lucky_recorder.video.decode")

Rows = Mapping[str, NDArray[Any]]
# What is kept of files that are closed: of so many, and of so many frames in all.
MOST_CONTENTS, MOST_FRAMES = 1 << 16, 1 << 22
# A decoder keeps some pictures, in its own format and converted.
_BYTES_OF_A_PIXEL = 12
_MEGABYTE = 1 << 20

_living: weakref.WeakSet[VideoPool | RowCache] = weakref.WeakSet()
_inherited: list[object] = []


class VideoPool:
    """Open videos, each used by one thread at a time; two threads on one video have a reader each.

    What a file holds (its frames' times, its keyframes) is kept longer than the file is open: opened again, it need
    not be read through. What is read does not change.

    Args:
        most: The most videos that are open and unused.
        most_mb: What their decoders may take, about, in megabytes; the latest is kept, however large it is.
    """

    def __init__(self, most: int, most_mb: int = 512) -> None:
        self._most = most
        self._most_bytes = most_mb * _MEGABYTE
        self._bytes = self._frames = 0
        self._contents: OrderedDict[Path, Contents] = OrderedDict()
        self._idle: OrderedDict[Path, FrameReader] = OrderedDict()
        self._lock = threading.Lock()
        _living.add(self)

    def read(self, reader: FrameReader, frames: Sequence[int]) -> list[NDArray[Any]]:
        """Decode frames by index, each as `FrameReader` gives it, and give the reader back.

        Raises:
            VideoError: If a frame cannot be read.
        """
        try:
            # In ascending order: going back means to decode from the keyframe before again.
            decoded = {k: reader[k] for k in sorted(set(frames))}
        except BaseException:  # where an interrupted reader stands is not known: nobody else may get it
            reader.close()
            raise
        self.give_back(reader)
        return [decoded[k] for k in frames]

    def borrow(self, path: Path, check: Callable[[], object], pixel_format: str = "rgb24") -> FrameReader:
        """Take a reader that no other thread uses.

        Args:
            path: The video.
            check: Called before the file is opened; raises if it may not be.
            pixel_format: As for `FrameReader`; the same each time.

        Raises:
            VideoError: If the file cannot be read.
        """
        with self._lock:
            idle = self._take(path)
            contents = self._contents.get(path)
        if idle is not None:
            return idle
        check()
        return self._open(path, contents, pixel_format)

    def _open(self, path: Path, contents: Contents | None, pixel_format: str) -> FrameReader:
        reader = decode.FrameReader(path, pixel_format=pixel_format, contents=contents)
        with self._lock:
            if path not in self._contents:
                self._contents[path] = reader.contents
                self._frames += len(reader)
            while len(self._contents) > MOST_CONTENTS or (self._frames > MOST_FRAMES and len(self._contents) > 1):
                self._frames -= self._contents.popitem(last=False)[1].info.frames
        return reader

    def _take(self, path: Path) -> FrameReader | None:
        reader = self._idle.pop(path, None)
        self._bytes -= 0 if reader is None else _bytes_of_reader(reader)
        return reader

    def give_back(self, reader: FrameReader) -> None:
        """Keep a reader for the next one who asks; the one unused for longest is closed."""
        with self._lock:
            surplus = [other for other in [self._take(reader.path)] if other is not None]
            self._idle[reader.path] = reader
            self._bytes += _bytes_of_reader(reader)
            while len(self._idle) > self._most or (self._bytes > self._most_bytes and len(self._idle) > 1):
                surplus += [other for other in [self._take(next(iter(self._idle)))] if other is not None]
        # Not under the lock: closing a file may take a while.
        for one in surplus:
            one.close()

    @property
    def open_videos(self) -> int:
        """How many videos are open and unused."""
        return len(self._idle)

    def close(self) -> None:
        """Close every video that is not in use."""
        with self._lock:
            idle, self._idle, self._bytes = self._idle, OrderedDict(), 0
        for reader in idle.values():
            reader.close()

    def _begin_in_child(self) -> None:
        # A file's position is shared with the parent, so the child must not read these files. They are kept, not freed:
        # to free a decoder is to close it. A thread of the parent may have held the lock: it would never be released.
        _inherited.append(self._idle)
        self._idle, self._bytes = OrderedDict(), 0
        self._lock = threading.Lock()


def _bytes_of_reader(reader: FrameReader) -> int:
    return reader.info.width * reader.info.height * _BYTES_OF_A_PIXEL


class RowCache:
    """The rows of the episodes used last, up to so many bytes; the latest is kept, however large it is."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._bytes = 0
        self._held: OrderedDict[Hashable, Rows] = OrderedDict()
        self._lock = threading.Lock()
        _living.add(self)

    def get(self, key: Hashable, load: Callable[[], Rows]) -> Rows:
        """Return what is held under a key, or load it."""
        with self._lock:
            held = self._held.get(key)
            if held is not None:
                self._held.move_to_end(key)
                return held
        # Loaded without the lock: threads that read other episodes need not wait for the disk.
        rows = load()
        with self._lock:
            if key not in self._held:
                self._held[key] = rows
                self._bytes += _bytes_of(rows)
            while self._bytes > self._most and len(self._held) > 1:
                self._bytes -= _bytes_of(self._held.popitem(last=False)[1])
        return rows

    def _begin_in_child(self) -> None:
        self._lock = threading.Lock()


def _bytes_of(rows: Rows) -> int:
    return sum(array.nbytes for array in rows.values())


def _begin_in_child() -> None:
    for one in _living:
        one._begin_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_in_child)
