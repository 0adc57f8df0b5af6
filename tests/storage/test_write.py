from __future__ import annotations

import errno
import json
import math
import os
import re
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lucky_recorder.errors import LuckyRecorderError, StorageError, VideoError
from lucky_recorder.storage import write as files
from lucky_recorder.storage.write import TEMPORARY, make_folder, stage, storage_errors, write_json


def _text(content: str) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        path.write_text(content)

    return write


def _full_disk(path: Path) -> None:
    path.write_text("half of i")
    raise OSError(errno.ENOSPC, "No space left on device")


def _half(path: Path) -> None:
    raise StorageError(f"{path}: holds 3 rows, 7 were written")


def _names(folder: Path) -> list[str]:
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*"))


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What reaches the disk, in order."""
    made: list[str] = []
    fsync, replace = os.fsync, os.replace

    def recording_fsync(descriptor: int) -> None:
        made.append("sync folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "sync file")
        fsync(descriptor)

    def recording_replace(source: Path, target: Path) -> None:
        made.append("rename")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", recording_fsync)
    monkeypatch.setattr(os, "replace", recording_replace)
    return made


def test_a_staged_file_has_its_name_only_after_the_commit(tmp_path: Path) -> None:
    path = tmp_path / "meta" / "info.json"
    staged = stage(path, _text("whole"))
    assert _names(tmp_path) == ["meta", "meta/info.json.tmp"]
    assert (staged.path, staged.temporary) == (path, path.with_name("info.json.tmp"))
    staged.commit()
    assert _names(tmp_path) == ["meta", "meta/info.json"]
    assert path.read_text() == "whole"


def test_a_commit_replaces_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text("old")
    staged = stage(path, _text("new"))
    assert path.read_text() == "old"
    staged.commit()
    assert path.read_text() == "new"
    assert _names(tmp_path) == ["x"]


def test_a_discard_leaves_nothing_and_may_come_twice(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text("old")
    staged = stage(path, _text("new"))
    staged.discard()
    staged.discard()
    assert path.read_text() == "old"
    assert _names(tmp_path) == ["x"]


def test_bytes_are_on_the_disk_before_the_name_is(tmp_path: Path, calls: list[str]) -> None:
    def verify(path: Path) -> None:
        calls.append(f"verify {path.name}")

    stage(tmp_path / "x", _text("whole"), verify).commit()
    assert calls == ["sync file", "verify x.tmp", "rename", "sync folder"]


def test_new_folders_are_on_the_disk_too(tmp_path: Path, calls: list[str]) -> None:
    make_folder(tmp_path / "a" / "b" / "c")
    assert calls == ["sync folder"] * 3
    make_folder(tmp_path / "a" / "b" / "c")
    assert calls == ["sync folder"] * 3


@pytest.mark.parametrize("was_there", [True, False])
@pytest.mark.parametrize(
    ("write", "verify", "message"),
    [
        (_full_disk, None, "x.json: No space left on device"),
        (_text("half"), _half, "x.json.tmp: holds 3 rows, 7 were written"),
        (_text("half"), lambda path: path.with_name("gone").read_text() and None, "x.json: No such file or directory"),
        (lambda path: None, None, "x.json: nothing was written"),
        (lambda path: path.mkdir(), None, "x.json: File exists"),
    ],
    ids=["full disk", "verify", "verify reads", "nothing written", "a folder"],
)
def test_what_fails_names_the_path_and_leaves_nothing(
    tmp_path: Path, was_there: bool, write: Any, verify: Any, message: str
) -> None:
    path = tmp_path / "x.json"
    if was_there:
        path.write_text("old")
    with pytest.raises(StorageError) as caught:
        stage(path, write, verify)
    told, _, space = str(caught.value).partition(" (")
    assert told == f"{tmp_path}/{message}"
    # Only of a full disk it is said how much there was.
    assert bool(re.fullmatch(r"\d+ kB of it were written, and [\d.]+ [MG]B were left\)", space)) == (
        "left on" in message
    )
    assert [name for name in _names(tmp_path) if not (tmp_path / name).is_dir()] == (["x.json"] if was_there else [])
    assert not was_there or path.read_text() == "old"


def test_the_number_of_the_system_error_is_kept(tmp_path: Path) -> None:
    with pytest.raises(StorageError) as caught:
        stage(tmp_path / "x", _full_disk)
    assert caught.value.errno == errno.ENOSPC
    assert isinstance(caught.value.__cause__, OSError)
    assert isinstance(caught.value, LuckyRecorderError)


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt(), VideoError("stream"), SystemExit(1)])
def test_any_other_error_passes_and_leaves_nothing(tmp_path: Path, error: BaseException) -> None:
    def write(path: Path) -> None:
        path.write_text("half")
        raise error

    with pytest.raises(type(error)) as caught:
        stage(tmp_path / "x", write)
    assert caught.value is error
    assert _names(tmp_path) == []


def test_an_error_of_a_library_without_a_number_is_named(tmp_path: Path) -> None:
    with (
        pytest.raises(StorageError, match=r"^/data/x: the library says no$") as caught,
        storage_errors(Path("/data/x")),
    ):
        raise OSError("the library says no")
    assert caught.value.errno is None


def test_what_was_left_of_an_interrupted_write_is_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.with_name("x" + TEMPORARY).write_text("what a crash left, longer than the new file")
    stage(path, _text("whole")).commit()
    assert path.read_text() == "whole"
    assert _names(tmp_path) == ["x"]


def test_a_name_that_is_taken_by_a_folder_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.mkdir()
    staged = stage(path, _text("whole"))
    with pytest.raises(StorageError, match=r"/x: Is a directory$"):
        staged.commit()
    assert _names(tmp_path) == ["x"]


@pytest.mark.parametrize(
    "act", [make_folder, lambda path: stage(path / "x", _text("")), lambda path: write_json(path / "x", 1)]
)
@pytest.mark.parametrize("name", ["file/a/b", "file", "n" * 300, "dangling"])
def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path, act: Callable[[Path], Any], name: str) -> None:
    (tmp_path / "file").write_text("not a folder")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    with pytest.raises(StorageError, match=f"^{tmp_path}/{name.split('/')[0]}.*: [A-Z]"):
        act(tmp_path / name)
    assert _names(tmp_path) == ["dangling", "file"]


def test_a_folder_whose_disk_cannot_sync_folders_is_fine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fsync = os.fsync

    def only_files(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "Invalid argument")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", only_files)
    write_json(tmp_path / "a" / "x.json", {})
    assert json.loads((tmp_path / "a" / "x.json").read_text()) == {}


@pytest.mark.parametrize("kind", [stat.S_ISDIR, stat.S_ISREG], ids=["folder", "file"])
def test_a_disk_that_breaks_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: Any) -> None:
    fsync = os.fsync

    def broken(descriptor: int) -> None:
        if kind(os.fstat(descriptor).st_mode):
            raise OSError(errno.EIO, "Input/output error")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(StorageError, match=r"x\.json: Input/output error") as caught:
        write_json(tmp_path / "x.json", {})
    assert caught.value.errno == errno.EIO
    assert not (tmp_path / "x.json.tmp").exists()


def test_descriptors_are_closed_whatever_happens(tmp_path: Path) -> None:
    def held() -> int:
        return len(os.listdir("/proc/self/fd"))

    before = held()
    for i in range(20):
        write_json(tmp_path / f"{i}.json", {})
        with pytest.raises(StorageError):
            stage(tmp_path / "x", _full_disk)
    assert held() == before


CONTENT = {"name": "Würfel 立方体 \x7f", "values": [1, 2.5, -1e300, True, None], "nested": {"a": {}}, "": "\u2028\r\n"}


def test_json_comes_back_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "meta" / "info.json"
    write_json(path, CONTENT)
    assert json.loads(path.read_bytes()) == CONTENT
    assert "Würfel 立方体".encode() in path.read_bytes()
    assert path.read_bytes().endswith(b"}\n")
    assert _names(tmp_path) == ["meta", "meta/info.json"]


@pytest.mark.parametrize(
    "content",
    [{"a": math.nan}, [math.inf], {"a": np.float32(1)}, {"a": np.arange(3)}, {"a": {1, 2}}, object(), {"a": "\ud800"}],
)
def test_what_is_no_json_never_touches_a_good_file(tmp_path: Path, content: Any) -> None:
    path = tmp_path / "info.json"
    write_json(path, CONTENT)
    with pytest.raises((ValueError, TypeError)):
        write_json(path, content)
    assert json.loads(path.read_bytes()) == CONTENT
    assert _names(tmp_path) == ["info.json"]


def test_a_full_disk_never_touches_a_good_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "info.json"
    write_json(path, CONTENT)
    monkeypatch.setattr(files, "_write", lambda path, content: Path("/dev/full").write_bytes(content))
    with pytest.raises(
        StorageError, match=r"info\.json: No space left on device \(up to 28 bytes were to be"
    ) as caught:
        write_json(path, {"total_episodes": 2})
    assert caught.value.errno == errno.ENOSPC
    assert json.loads(path.read_bytes()) == CONTENT
    assert _names(tmp_path) == ["info.json"]


@pytest.mark.parametrize("kept", [0, 1, 27])
def test_a_disk_that_loses_bytes_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: int) -> None:
    path = tmp_path / "info.json"
    write_json(path, CONTENT)
    whole = files._write  # the disk says it has taken everything
    monkeypatch.setattr(files, "_write", lambda path, content: whole(path, content[:kept] + b"\xff" * (kept == 1)))
    with pytest.raises(StorageError, match=r"the disk gave back other bytes|nothing was written"):
        write_json(path, {"total_episodes": 2})
    monkeypatch.undo()
    assert json.loads(path.read_bytes()) == CONTENT
    assert _names(tmp_path) == ["info.json"]


def test_a_file_is_whole_whenever_its_writer_is_killed(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from lucky_recorder.storage.write import write_json\n"
        "for i in range(10**6):\n"
        "    write_json(Path(sys.argv[1]), {'written': i, 'rows': [i] * 5000}); print(i, flush=True)"
    )
    path = tmp_path / "info.json"
    with subprocess.Popen([sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        announced = [int(next(writer.stdout)) for _ in range(5)]
        writer.send_signal(signal.SIGKILL)
    content = json.loads(path.read_bytes())
    assert content["written"] >= announced[-1]
    assert content["rows"] == [content["written"]] * 5000
    assert set(_names(tmp_path)) <= {"info.json", "info.json.tmp"}
