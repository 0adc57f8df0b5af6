"""A disk that refuses an episode: it is not listed, leaves nothing, and the error says how much is not there."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lucky_recorder as lr
from lucky_recorder.koyu import rows as koyu_rows
from lucky_recorder.session import rows
from lucky_recorder.session.check import check_session
from lucky_recorder.storage import write as files
from lucky_recorder.testing import CountEnv, check_koyu

CODES = {"full": errno.ENOSPC, "broken": errno.EIO, "over quota": errno.EDQUOT, "read only": errno.EROFS}
LENGTH = 3
PAIR = [lr.Column("observation.state", "gym:obs"), lr.Column("action", "gym:action", dtype="float32")]


def refuse(monkeypatch: pytest.MonkeyPatch, step: str, name: str, code: int, go_on: threading.Event) -> None:
    """Have one step on the way of a file to the disk fail, once the caller is far ahead."""

    def fail(path: object) -> None:
        go_on.wait(20)
        raise OSError(code, os.strerror(code), str(path))

    working_write, working_sync, working_rename = rows.write, files.sync_file, os.replace

    def write(path: Path, *args: Any) -> None:
        return fail(path) if name in path.name else working_write(path, *args)

    def sync(path: Path) -> None:
        return fail(path) if name in path.name else working_sync(path)

    def rename(source: Any, target: Any) -> None:
        return fail(target) if name in Path(target).name else working_rename(source, target)

    if step == "write":
        monkeypatch.setattr(rows, "write", write)
    elif step == "sync":
        monkeypatch.setattr(files, "sync_file", sync)
    else:
        monkeypatch.setattr(files.os, "replace", rename)


@pytest.mark.parametrize("code", CODES.values(), ids=CODES)
@pytest.mark.parametrize("step", ["write", "sync", "rename"])
def test_an_episode_that_the_disk_refuses_is_not_listed_and_is_counted(
    record: Any, run: Any, monkeypatch: pytest.MonkeyPatch, step: str, code: int
) -> None:
    go_on = threading.Event()
    env = record()
    # Of the third episode, the file of its rows.
    refuse(monkeypatch, step, "file-002.parquet", code, go_on)
    run(env, episodes=5)
    go_on.set()
    with pytest.raises(lr.StorageError) as raised:
        env.close()
    assert not env.is_recording
    told = str(raised.value)
    path, _, rest = told.partition(f": {os.strerror(code)}")
    assert path.endswith("data/chunk-000/file-002.parquet")
    # A rename writes nothing.
    if code in (errno.ENOSPC, errno.EDQUOT) and step != "rename":
        needed, _, rest = rest.partition(")")
        assert needed.startswith(" (up to ")
        assert ("free" in needed) == (code == errno.ENOSPC)
    assert rest.startswith("; 1 episode with 3 rows could not be written")
    assert (env.observer.counts.kept, env.observer.counts.failed, env.observer.counts.dropped) == (2, 1, 2)
    assert raised.value.errno == code
    assert "2 episodes with 6 rows that came after it were dropped" in told
    session = lr.Session(env.session_path)
    assert [episode.length for episode in session] == [LENGTH, LENGTH]
    assert check_session(env.session_path) == []


def test_a_video_that_has_its_name_goes_again_if_its_rows_are_refused(
    record: Any, run: Any, monkeypatch: pytest.MonkeyPatch, seen: Any
) -> None:
    env = record(cameras=[seen])
    go_on = threading.Event()
    go_on.set()
    refuse(monkeypatch, "rename", "file-002.parquet", errno.ENOSPC, go_on)
    with pytest.raises(lr.StorageError, match="1 episode with 3 rows could not be written"):
        run(env, episodes=20)
    assert len(list(env.session_path.rglob("*.mp4"))) == len(lr.Session(env.session_path)) == 2
    assert check_session(env.session_path) == []


@pytest.mark.parametrize("file", ["stats.json", "info.json"])
def test_an_episode_is_whole_whose_metadata_the_disk_refuses(
    record: Any, run: Any, monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    """The disk has room again when the session closes: then the episode is listed, and nothing is called lost."""
    working, refused = os.replace, []

    def rename(source: Any, target: Any) -> None:
        if Path(target).name == file and not refused:
            refused.append(target)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(target))
        working(source, target)

    monkeypatch.setattr(files.os, "replace", rename)
    env = record()
    run(env, episodes=1)
    with pytest.raises(lr.StorageError, match=rf"{file}: No space left on device") as raised:
        env.close()
    assert "could not be written" not in str(raised.value)
    assert [episode.length for episode in lr.Session(env.session_path)] == [LENGTH]
    assert check_session(env.session_path) == []


def test_a_bundle_that_the_disk_refuses_keeps_the_episode_out_of_the_session_too(
    record: Any, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    working: Callable[..., None] = koyu_rows.write
    written: list[Path] = []

    def write(path: Path, *given: Any) -> None:
        written.append(path)
        if len(written) == 3:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        working(path, *given)

    monkeypatch.setattr(koyu_rows, "write", write)
    env = record(CountEnv(LENGTH), columns=PAIR, koyu=lr.KoyuSettings(name="counted"))
    run(env, episodes=3)
    with pytest.raises(lr.LuckyRecorderError, match=r"No space left.*; 1 episode with 3 rows could not be written$"):
        env.close()
    assert check_session(env.session_path) == []
    assert len(lr.Session(env.session_path)) == len(check_koyu(env.koyu_path).episodes) == 2


def test_a_bundle_is_made_although_the_metadata_of_the_session_is_refused(
    record: Any, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    working, refused = os.replace, []

    def rename(source: Any, target: Any) -> None:
        if Path(target).name == "stats.json" and not refused:
            refused.append(target)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(target))
        working(source, target)

    monkeypatch.setattr(files.os, "replace", rename)
    env = record(CountEnv(LENGTH), columns=PAIR, koyu=lr.KoyuSettings(name="counted"), metadata_every=1)
    run(env, episodes=1)
    with pytest.raises(lr.StorageError, match=r"stats\.json: No space left on device$"):
        env.close()
    assert len(lr.Session(env.session_path)) == len(check_koyu(env.koyu_path).episodes) == 1
