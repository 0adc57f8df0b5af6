"""Second names and locks beside what somebody else has put there: nothing is written through it, nobody waits."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from lucky_recorder.errors import StorageError
from lucky_recorder.storage.lock import Lock, locked
from lucky_recorder.storage.write import link, write_json


def _refusing(number: int) -> Any:
    def refuse(*paths: object, **options: object) -> None:
        raise OSError(number, os.strerror(number))

    return refuse


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "source").write_text("new")
    return tmp_path / "source"


@pytest.mark.parametrize("number", [errno.EXDEV, errno.EPERM, errno.ENOTSUP, errno.EMLINK, errno.ENOSYS])
def test_where_there_are_no_links_a_file_is_copied(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    monkeypatch.setattr(os, "link", _refusing(number))
    link(source, tmp_path / "target")
    assert (tmp_path / "target").read_text() == "new"
    assert not (tmp_path / "target").samefile(source)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["source", "target"]


@pytest.mark.parametrize("number", [errno.EEXIST, errno.ENOSPC, errno.EACCES, errno.EROFS, errno.ENOENT, errno.EIO])
def test_any_other_refusal_is_an_error(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    monkeypatch.setattr(os, "link", _refusing(number))
    with pytest.raises(StorageError, match=f"target: {os.strerror(number)}"):
        link(source, tmp_path / "target")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["source"]


@pytest.mark.parametrize("has_links", [True, False])
@pytest.mark.parametrize("taken", ["file", "hard link", "link", "dangling"])
def test_a_name_that_is_taken_is_left_alone(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, taken: str, has_links: bool
) -> None:
    precious, target = tmp_path / "precious", tmp_path / "target"
    precious.write_text("as it was")
    {
        "file": lambda: target.write_text("as it was"),
        "hard link": lambda: os.link(precious, target),
        "link": lambda: target.symlink_to(precious),
        "dangling": lambda: target.symlink_to(tmp_path / "made"),
    }[taken]()
    if not has_links:
        monkeypatch.setattr(os, "link", _refusing(errno.EXDEV))
    with pytest.raises(StorageError, match="target: File exists"):
        link(source, target)
    assert precious.read_text() == "as it was"
    assert not (tmp_path / "made").exists()
    assert not (tmp_path / "target.tmp").exists()


def test_a_link_to_a_file_becomes_the_file(source: Path, tmp_path: Path) -> None:
    (tmp_path / "name").symlink_to("source")
    (tmp_path / "deep").mkdir()
    link(tmp_path / "name", tmp_path / "deep/target")
    assert not (tmp_path / "deep/target").is_symlink()
    assert (tmp_path / "deep/target").read_text() == "new"


@pytest.mark.parametrize("make", [os.symlink, os.link, lambda target, name: os.mkfifo(name)])
@pytest.mark.parametrize("name", ["info.json.tmp", "info.json"])
def test_no_write_goes_through_what_has_its_name(tmp_path: Path, make: Any, name: str) -> None:
    (tmp_path / "precious").write_text("as it was")
    (tmp_path / "meta").mkdir()
    make(tmp_path / "precious", tmp_path / "meta" / name)
    write_json(tmp_path / "meta/info.json", {"a": 1})
    assert (tmp_path / "precious").read_text() == "as it was"
    assert os.listdir(tmp_path / "meta") == ["info.json"]
    assert (tmp_path / "meta/info.json").read_text() == '{\n    "a": 1\n}\n'


@pytest.mark.parametrize("target", ["there", "missing"])
def test_a_lock_that_is_a_link_makes_nothing_elsewhere(tmp_path: Path, target: str) -> None:
    (tmp_path / "there").write_text("as it was")
    (tmp_path / ".lock").symlink_to(tmp_path / target)
    with pytest.raises(StorageError, match=r"\.lock: Too many levels of symbolic links"), locked(tmp_path / ".lock"):
        pass
    assert (tmp_path / "there").read_text() == "as it was"
    assert not (tmp_path / "missing").exists()


def test_nobody_waits_for_a_lock_that_is_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / ".lock")
    with pytest.raises(StorageError, match=r"\.lock: is no file"), locked(tmp_path / ".lock"):
        pass
    with pytest.raises(StorageError, match=r"\.lock: is no file"):
        Lock(tmp_path / ".lock")
    with pytest.raises(StorageError, match="null: is no file"):
        Lock(Path("/dev/null"))


def test_a_lock_of_somebody_else_that_may_only_be_read_is_one(tmp_path: Path) -> None:
    (tmp_path / ".lock").touch(mode=0o444)
    with locked(tmp_path / ".lock"):
        assert Lock(tmp_path / ".lock").try_once() is False
