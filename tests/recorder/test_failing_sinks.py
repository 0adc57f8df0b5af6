"""A sink that fails, ours on a full disk or one's own: the session ends in order, and nothing is left half written."""

from __future__ import annotations

import errno
import os
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lucky_recorder as lr
from lucky_recorder.session import rows
from lucky_recorder.session.sink import SessionSink
from lucky_recorder.storage import write as files
from lucky_recorder.testing import CountEnv, MemorySink

# The disk.


def full(path: Path) -> OSError:
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))


def test_rows_that_the_disk_refuses_fail_the_session_and_name_the_path(
    record: Any, run: Any, seen: Any, read_back: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    working = rows.write

    def refuse(path: Path, *args: Any) -> None:
        path.write_bytes(b"PAR1 and not much else")
        raise full(path)

    monkeypatch.setattr(rows, "write", lambda p, *a: refuse(p, *a) if "file-002" in p.name else working(p, *a))
    env = record(cameras=[seen])
    with pytest.raises(lr.StorageError, match=r"data/chunk-000/file-002\.parquet: No space left on device") as raised:
        run(env, episodes=50)
    assert "; 1 episode with 3 rows could not be written" in str(raised.value)
    assert raised.value.errno == errno.ENOSPC or raised.value.__cause__.errno == errno.ENOSPC
    assert not env.is_recording
    assert [e.meta["length"] for e in read_back(env.session_path)] == [3, 3]
    assert not list(env.session_path.rglob("*.tmp"))


@pytest.mark.parametrize("file", ["stats.json", "info.json", "tasks.parquet", "file-000.parquet"])
def test_metadata_that_the_disk_refuses_is_an_error_and_truncates_nothing(
    record: Any, run: Any, monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    working = os.replace

    def replace(source: Any, target: Any) -> None:
        if Path(target).name == file and "/meta/" in str(target):
            raise full(target)
        working(source, target)

    monkeypatch.setattr(files.os, "replace", replace)
    env = record()
    run(env, episodes=1)
    with pytest.raises(lr.StorageError, match=rf"{file}: No space left on device"):
        env.close()
    assert not env.is_recording
    assert not list(env.session_path.rglob("*.tmp"))
    assert not list(env.session_path.glob(f"meta/**/{file}"))
    assert [len(rows.footer(p)) for p in sorted(env.session_path.glob("data/*/*.parquet"))] == [1]
    env.close()


def test_a_sink_that_raises_anything_ends_the_session_in_order(
    record: Any, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(sink: SessionSink) -> None:
        raise ZeroDivisionError("in a library")

    monkeypatch.setattr(SessionSink, "close", broken)
    env = record()
    run(env)
    with pytest.raises(lr.StreamError, match=r"session_.* could not be completed: ZeroDivisionError: in a library"):
        env.close()
    assert not env.is_recording
    assert not any(t.name == "lucky_recorder" for t in threading.enumerate())
    env.close()


def test_an_episode_that_cannot_be_assembled_leaves_no_video(
    record: Any, run: Any, seen: Any, read_back: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lucky_recorder.recorder.buffer import EpisodeBuffer

    working = EpisodeBuffer.finish

    def finish(buffer: EpisodeBuffer, *args: Any) -> Any:
        finished = working(buffer, *args)
        if finished.columns["obs"][0] == 100:
            raise MemoryError("no room")
        return finished

    monkeypatch.setattr(EpisodeBuffer, "finish", finish)
    env = record(cameras=[seen])
    run(env)
    env.observer.flush()
    run(env)
    with pytest.raises(lr.StreamError, match="take 1 could not be written: MemoryError: no room"):
        env.close()
    assert [e.meta["length"] for e in read_back(env.session_path)] == [3]
    assert not list(env.session_path.rglob("*.tmp"))


# A sink of one's own.


@pytest.mark.parametrize("verb", ["stream_path", "prepare", "commit"])
def test_a_sink_of_ones_own_that_raises_fails_its_take_and_ends_the_session(
    tmp_path: Path, seen: Any, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    class Breaks(MemorySink):
        def stream_path(self, key: str, take: int, suffix: str) -> Path:
            self.maybe(verb == "stream_path" and take == 1)
            return super().stream_path(key, take, suffix)

        def prepare(self, record: Any) -> Any:
            self.maybe(verb == "prepare" and record.take == 1)
            return Late(super().prepare(record), lambda: self.maybe(verb == "commit" and record.take == 1))

        def maybe(self, fails: bool) -> None:
            if fails:
                raise SystemExit("boom")

    sink = Breaks(tmp_path)
    env = lr.RecordSession(
        CountEnv(20, render_mode="rgb_array"), mode="custom", gym_columns=True, cameras=[seen],
        formats=(), sinks=[sink], worker_timeout_s=20,
    )  # fmt: skip

    def go_on() -> None:
        for seed in range(50):
            env.reset(seed=seed)
            for _ in range(20):
                env.step(np.zeros(1))

    with pytest.raises(lr.StreamError, match="boom"):
        go_on()
    assert not env.is_recording
    whole = [r for r in sink.records if r.outcome.success]
    assert [(r.take, r.data_ticks, r.videos["observation.images.seen"].file.frames) for r in whole] == [(0, 20, 20)]
    assert all(r.take == 1 and not r.videos for r in sink.records if not r.outcome.success)
    env.close()


def test_an_episode_that_some_formats_have_is_counted_and_said(
    record: Any, run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Breaks(MemorySink):
        def prepare(self, record: Any) -> Any:
            def fail() -> None:
                if record.take == 1:
                    raise OSError(errno.EIO, os.strerror(errno.EIO))

            return Late(super().prepare(record), fail)

    sink = Breaks(tmp_path / "memory")
    env = lr.RecordSession(CountEnv(3), mode="custom", gym_columns=True, output_dir=tmp_path, sinks=[sink])
    run(env, episodes=2)
    told = rf"Input/output error; its episode is whole in {{}} and not in {tmp_path / 'memory'}$"
    with pytest.raises(lr.StreamError) as raised:
        env.close()
    assert re.search(told.format(env.session_path), str(raised.value))
    counts = env.observer.counts
    assert (counts.kept, counts.rows, counts.failed) == (2, 6, 0)
    assert len(lr.Session(env.session_path)) == 2
    assert [r.take for r in sink.records] == [0]


def test_what_fails_at_the_end_is_told_after_what_failed_first(
    record: Any, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    working = os.replace

    def replace(source: Any, target: Any) -> None:
        if Path(target).name in ("file-003.parquet", "stats.json") and Path(target).exists() is (
            Path(target).name == "stats.json"
        ):
            raise full(target)
        working(source, target)

    env = record()
    run(env, episodes=1)
    env.observer.flush()
    monkeypatch.setattr(files.os, "replace", replace)
    run(env, episodes=4)
    with pytest.raises(lr.StorageError) as raised:
        env.close()
    said = str(raised.value).split("; ")
    assert "data/chunk-000/file-003.parquet: No space left" in said[0]
    assert said[1] == "1 episode with 3 rows could not be written"
    assert said[2] == "1 episode with 3 rows that came after it was dropped"
    assert "meta/stats.json: No space left" in said[3]
    assert said[4] == (
        "2 finished episodes are whole on the disk and listed, and not counted in meta/ yet: lucky_recorder.Session "
        f"reads all, and `lucky-recorder recover {env.session_path}` counts them"
    )
    assert len(said) == 5
    session = lr.Session(env.session_path)
    assert (len(session), session.unlisted, session.is_current) == (3, (), False)


class Late:
    """What a sink has prepared, and something that happens first when it is committed."""

    def __init__(self, prepared: Any, first: Callable[[], None]) -> None:
        self.prepared, self.first = prepared, first

    def commit(self) -> None:
        self.first()
        self.prepared.commit()

    def discard(self) -> None:
        self.prepared.discard()


class SpeechlessError(Exception):
    def __str__(self) -> str:
        raise AttributeError("its text needs what is not there")


class Unwilling(MemorySink):
    """Raises what says nothing, in one of its verbs; asked where it writes, it raises too, once ``is_lost``."""

    is_lost = False

    def __init__(self, place: Path, where: str) -> None:
        self.place = place
        super().__init__(place)
        self.where = where

    @property
    def root(self) -> Path:
        if self.is_lost:
            raise SpeechlessError
        return self.place

    @root.setter
    def root(self, place: Path) -> None:
        self.place = place

    def prepare(self, record: Any) -> Any:
        one = super().prepare(record)
        if record.take != 1:
            return one
        self.is_lost = True
        self.strike("prepare")
        if self.where == "commit":
            one.commit = lambda: self.strike("commit")
        return one

    def close(self) -> None:
        super().close()
        self.is_lost = True
        self.strike("close")

    def strike(self, verb: str) -> None:
        if self.where == verb:
            raise SpeechlessError


@pytest.mark.parametrize(("where", "kept", "failed"), [("prepare", 1, 1), ("commit", 2, 0), ("close", 3, 0)])
def test_a_sink_that_cannot_say_what_is_wrong_nor_where_it_writes(
    record: Any, run: Any, tmp_path: Path, where: str, kept: int, failed: int
) -> None:
    other = MemorySink(tmp_path / "other")
    env = record(CountEnv(3), sinks=[Unwilling(tmp_path / "own", where), other])
    failures = []
    for use in (lambda: run(env, episodes=3), env.close, env.close):
        try:
            use()
        except lr.LuckyRecorderError as error:
            failures.append(str(error))
    assert len(failures) == 1
    assert "SpeechlessError: (what it says cannot be told)" in failures[0]
    counts = env.observer.counts
    assert (counts.kept, counts.failed) == (kept, failed)
    session = lr.Session(env.session_path)
    assert (session.state.value, len(session)) == ("complete", kept)
    assert not any(t.name == "lucky_recorder" for t in threading.enumerate())
