"""Records sessions and bundles in children that die, or whose disk refuses, at a system call or an instant of choice.

Run as a program: ``python -m tests.edit.crashing FOLDER PER_FILE HOW SEED COUNT BEFORE``. It prints a line of JSON for
each child: its folder, where it was struck, and how many episodes it had vouched for by then. With BEFORE above 0 it
goes on with a session and a dataset that have so many episodes already; the first child never does. The children are
forked before this process has used pyarrow or an encoder, so that none inherits a thread's lock.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from lucky_recorder.errors import LuckyRecorderError, MetadataError
from lucky_recorder.koyu.sink import KoyuSink
from lucky_recorder.settings.koyu import KoyuSettings
from lucky_recorder.storage import arrow
from tests.session.building import Recording, arm_schema, camera, depth, lidar, mask, rgbd

EPISODES = 5
KILL_BEFORE, KILL_AFTER, REFUSE, REFUSE_AFTER, ANY_TIME = "kill-before", "kill-after", "refuse", "refuse-after", "time"
# From a call on: the disk is full, and takes nothing more; or the system has made it read only, after an error.
FULL, READ_ONLY = "full", "read-only"
REFUSALS = (REFUSE, REFUSE_AFTER, FULL, READ_ONLY)
CODES = (errno.EIO, errno.EDQUOT, errno.EROFS, errno.ENOSPC)
# What a full disk still does: it gives other names, and takes away.
FREE = ("replace", "rename", "rmdir", "unlink")
# What writes, syncs, links or renames; Parquet files are written by a library, page by page.
CALLS: tuple[tuple[Any, str], ...] = (
    *((os, name) for name in ("fsync", "replace", "rename", "link", "mkdir", "rmdir", "unlink", "posix_fallocate")),
    (Path, "write_bytes"),
    (pq.ParquetWriter, "write_table"),
    (pq.ParquetWriter, "close"),
)


class Layer:
    """Stands between the recorder and the system, and strikes at the ``at``-th call; 0 only counts."""

    def __init__(self, how: str, at: int) -> None:
        self.calls = 0
        self.struck = ""
        self._how = how
        self._at = at

    def install(self) -> None:
        # A process that dies loses nothing of what it has written: only a power cut asks for fsync.
        os.fsync = lambda descriptor: None
        for owner, name in CALLS:
            setattr(owner, name, self._around(getattr(owner, name), name))

    def _around(self, call: Callable[..., Any], name: str) -> Callable[..., Any]:
        def around(*given: Any, **named: Any) -> Any:
            self.calls += 1
            is_struck = self.calls == self._at
            if is_struck:
                self.struck = name
            if is_struck and self._how == KILL_BEFORE:
                os.kill(os.getpid(), signal.SIGKILL)
            if is_struck and self._how == REFUSE:
                refuse(CODES[self._at % len(CODES)])
            if 0 < self._at <= self.calls and self._how == FULL and name not in FREE:
                refuse(errno.ENOSPC)
            if 0 < self._at <= self.calls and self._how == READ_ONLY:
                refuse(errno.EROFS)
            done = call(*given, **named)
            if is_struck and self._how == KILL_AFTER:
                os.kill(os.getpid(), signal.SIGKILL)
            if is_struck and self._how == REFUSE_AFTER:
                refuse(CODES[self._at % len(CODES)])
            return done

        return around


def refuse(code: int) -> None:
    raise OSError(code, os.strerror(code))


def schema() -> Any:
    streams = [camera("Front"), depth("Front"), rgbd("Front"), mask("Front")]
    return arm_schema(streams, lidars=[lidar("top", 25, has_proxy=True)])


def session_of(folder: Path) -> Path:
    return folder / "DataSessions" / "session_2026-10-08_14-30-05"


def begin(folder: Path, per_file: int) -> Recording:
    return Recording(session_of(folder), schema(), 3, per_file, metadata_every=2)


def record(recording: Recording, folder: Path, vouch: Callable[[bytes], None], numbers: Iterable[int]) -> None:
    """Record as the worker does: all formats are prepared, then each commits; what fails ends it, and all is closed.

    It vouches for an episode of the session with ``k``, for its bundle with ``b``; ``s`` stands for an error that says
    that an episode may be there which is not counted.
    """
    try:
        bundles = KoyuSink(
            folder / "bundles", KoyuSettings(name="bundles", collection_mode="synthetic"), metadata_every=2
        )
        bundles.open(recording.schema, recording.tasks)
    except (LuckyRecorderError, OSError):
        with contextlib.suppress(LuckyRecorderError, OSError):
            recording.sink.close()
        return
    sinks = (recording.sink, bundles)
    try:
        for number in numbers:
            _commit(recording, sinks, 3 + number % 2, number != 1, vouch)
    except (LuckyRecorderError, OSError) as error:
        if "not counted" in str(error):
            vouch(b"s")
    for sink in sinks:
        with contextlib.suppress(LuckyRecorderError, OSError):
            sink.close()


def go_on(recording: Recording, folder: Path, vouch: Callable[[bytes], None], before: int) -> None:
    """Record the rest of a session that has some episodes already."""
    recording.resume()
    record(recording, folder, vouch, range(before, EPISODES))


def _commit(
    recording: Recording, sinks: tuple[Any, ...], ticks: int, success: bool, vouch: Callable[[bytes], None]
) -> None:
    made = recording.record(ticks, success=success)
    prepared: list[Any] = []
    late: MetadataError | None = None
    try:
        for sink in sinks:
            prepared.append(sink.prepare(made))
        for one, kind in zip(prepared, (b"k", b"b"), strict=True):
            try:
                one.commit()
            except MetadataError as error:
                late = late or error
            vouch(kind)
    except BaseException:
        for one in prepared:
            one.discard()
        # As the worker does with what no sink has taken.
        with contextlib.suppress(OSError):
            for video in made.videos.values():
                video.file.path.unlink(missing_ok=True)
            for scans in made.scans.values():
                if scans.proxy is not None:
                    scans.proxy.path.unlink(missing_ok=True)
        raise
    if late is not None:
        raise late


def in_child(folder: Path, per_file: int, how: str, at: float, before: int = 0) -> dict[str, Any]:
    """Record in a child that is struck at a call, by its number, or after so many seconds; 0 strikes never.

    What is before the episodes that it goes on with is not struck.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        recording, layer = None, Layer(how, 0 if how == ANY_TIME else int(at))
        vouch = lambda kind: os.write(writing, kind) and None  # noqa: E731
        if before:
            recording = begin(folder, per_file)
            record(recording, folder, vouch, range(before))
        began = time.monotonic()
        layer.install()
        if how == ANY_TIME and at:
            threading.Thread(target=_kill_later, args=(at,), daemon=True).start()
        try:
            with contextlib.suppress(LuckyRecorderError, OSError):
                if recording is None:
                    record(begin(folder, per_file), folder, vouch, range(EPISODES))
                else:
                    go_on(recording, folder, vouch, before)
        finally:
            os.write(writing, f"c{layer.calls} {time.monotonic() - began} {layer.struck}".encode())
            os._exit(0)
    os.close(writing)
    told = b""
    while part := os.read(reading, 1 << 16):
        told += part
    os.close(reading)
    _, status = os.waitpid(child, 0)
    kept, _, rest = told.partition(b"c")
    said = rest.decode().split()
    return {
        "folder": str(folder),
        "how": how,
        "at": at,
        "vouched": kept.count(b"k"),
        "bundled": kept.count(b"b"),
        "is_said": b"s" in kept,
        "calls": int(said[0]) if said else None,
        "struck": said[2] if len(said) > 2 else None,
        "killed": os.WIFSIGNALED(status),
        "seconds": float(said[1]) if said else None,
    }


def _kill_later(seconds: float) -> None:
    time.sleep(seconds)
    os.kill(os.getpid(), signal.SIGKILL)


def main(folder: Path, per_file: int, how: str, seed: int, count: int, before: int) -> None:
    chosen = random.Random(seed)
    arrow.warm_up()
    whole = in_child(folder / "whole", per_file, ANY_TIME, 0)
    print(json.dumps(whole), flush=True)
    if before:
        whole = in_child(folder / "resumed", per_file, ANY_TIME, 0, before)
        print(json.dumps(whole), flush=True)
    if how == ANY_TIME:
        places: list[float] = [chosen.uniform(0.01, whole["seconds"] * 1.05) for _ in range(count)]
    else:
        every = range(1, whole["calls"] + 1)
        places = list(every) if count >= len(every) else sorted(chosen.sample(every, count))
    for number, at in enumerate(places):
        print(json.dumps(in_child(folder / f"{how}-{number:04d}", per_file, how, at, before)), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3], *map(int, sys.argv[4:7]))
