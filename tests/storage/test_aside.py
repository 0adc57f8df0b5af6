"""Setting files aside, also from a folder that is the mount of another disk."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lucky_recorder as lr
from lucky_recorder.errors import StorageError
from lucky_recorder.session.check import check_session
from lucky_recorder.storage.aside import set_aside
from tests.session.building import Recording, arm_schema, camera

NAME = "session_2026-10-08_14-30-05"
FILE, ASIDE = "videos/a.mp4.tmp", "lost+found/videos/a.mp4.tmp"
CONTENT = bytes(range(256)) * 5000


def mounted(patch: pytest.MonkeyPatch) -> None:
    """Have ``videos/`` lie on another disk."""
    rename = os.rename

    def refusing(old: Any, new: Any, **given: Any) -> None:
        if len({"lost+found" in Path(path).parts for path in (old, new)}) > 1 and "videos" in Path(old).parts:
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), str(old), None, str(new))
        rename(old, new, **given)

    patch.setattr(os, "rename", refusing)


@pytest.fixture
def across(monkeypatch: pytest.MonkeyPatch) -> None:
    mounted(monkeypatch)


def tree(path: Path) -> dict[str, bytes | str | None]:
    return {
        p.relative_to(path).as_posix(): os.readlink(p) if p.is_symlink() else p.read_bytes() if p.is_file() else None
        for p in path.rglob("*")
    }


def make(root: Path, kind: str) -> None:
    (root / "videos").mkdir()
    if kind == "file":
        (root / FILE).write_bytes(CONTENT)
    elif kind == "link":
        (root / FILE).symlink_to("/nowhere/at/all")
    else:
        (root / FILE / "in/empty").mkdir(parents=True)
        (root / FILE / "in/x").write_bytes(CONTENT)
        (root / FILE / "to").symlink_to("in")


def moved(before: dict[str, Any]) -> dict[str, Any]:
    """What is there once it is set aside."""
    aside = {f"lost+found/{name}": content for name, content in before.items()}
    return {"videos": None, "lost+found": None, **aside, f"{ASIDE}.txt": f"{FILE}\ntorn\n".encode()}


@pytest.mark.parametrize("kind", ["file", "link", "folder"])
@pytest.mark.parametrize("is_mounted", [False, True])
def test_whatever_it_is_it_is_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, is_mounted: bool
) -> None:
    make(tmp_path, kind)
    before = tree(tmp_path)
    if is_mounted:
        mounted(monkeypatch)
    set_aside(tmp_path, FILE, "torn")
    assert tree(tmp_path) == moved(before)


@pytest.mark.usefixtures("across")
def test_what_was_set_aside_before_stays(tmp_path: Path) -> None:
    (tmp_path / "videos").mkdir()
    for content in (b"one", b"two"):
        (tmp_path / FILE).write_bytes(content)
        set_aside(tmp_path, FILE, "torn")
    assert [(tmp_path / f"{ASIDE}{n}").read_bytes() for n in ("", ".2")] == [b"one", b"two"]


@pytest.mark.usefixtures("across")
@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_copy_that_finds_no_room_leaves_all_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    make(tmp_path, kind)
    before = tree(tmp_path)

    def full(source: Any, target: Any, *_: Any) -> None:
        target.write(source.read(70_000))
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "copyfileobj", full)
        with pytest.raises(StorageError, match=r"a\.mp4\.tmp: .*No space left"):
            set_aside(tmp_path, FILE, "torn")
    assert tree(tmp_path) == before | {"lost+found": None, "lost+found/videos": None}
    set_aside(tmp_path, FILE, "torn")
    assert tree(tmp_path) == moved(before)


class Killed(BaseException):
    """Nothing runs after it: what would tidy up is refused too."""


def dying(patch: pytest.MonkeyPatch, at: int) -> list[str]:
    """Refuse the ``at``-th call that changes the disk, and all that follow."""
    called: list[str] = []

    def around(call: Callable[..., Any], name: str) -> Callable[..., Any]:
        def struck(*given: Any, **named: Any) -> Any:
            called.append(name)
            if len(called) >= at:
                raise Killed
            return call(*given, **named)

        return struck

    for name in ("fsync", "replace", "rename", "mkdir", "rmdir", "unlink", "symlink"):
        patch.setattr(os, name, around(getattr(os, name), name))
    return called


@pytest.mark.parametrize("kind", ["file", "link"])
@pytest.mark.parametrize("is_mounted", [False, True])
def test_killed_in_the_midst_it_is_called_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, is_mounted: bool
) -> None:
    for at in range(1, 100):
        root = tmp_path / str(at)
        root.mkdir()
        make(root, kind)
        before = tree(root)
        with monkeypatch.context() as patch:
            if is_mounted:
                mounted(patch)
            called = dying(patch, at)
            try:
                set_aside(root, FILE, "torn")
            except Killed:
                there = [path for path in (root / FILE, root / ASIDE) if os.path.lexists(path)]
                assert there
                assert tree(root)[there[0].relative_to(root).as_posix()] == before[FILE]
        with monkeypatch.context() as patch:
            if is_mounted:
                mounted(patch)
            if os.path.lexists(root / FILE):
                set_aside(root, FILE, "torn")
        found = tree(root)
        assert {name: content for name, content in found.items() if ".2" not in name} == moved(before)
        # A link may be there twice: it is not known whether it is the same one.
        assert kind == "link" or found == moved(before)
        if len(called) < at:
            return
    raise AssertionError("it never came to its end")


@pytest.mark.usefixtures("across")
@pytest.mark.parametrize("is_resumed", [False, True])
@pytest.mark.parametrize("episodes", [0, 3])
def test_a_session_whose_videos_are_another_disk_s_is_completed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, episodes: int, is_resumed: bool
) -> None:
    recording = Recording(tmp_path / NAME, arm_schema([camera("Front")]))
    for _ in range(episodes):
        recording.keep(3)
    recording.record(3)
    recording.sink._lock.release()
    # As a mount is: it cannot be removed, and a disk's own folder is in it.
    (recording.root / "videos/lost+found").mkdir()
    monkeypatch.setattr(os.path, "ismount", lambda path: Path(path) == recording.root / "videos")
    if is_resumed:
        recording.resume()
        recording.keep(3)
        recording.close()
    else:
        assert lr.recover(recording.root)[0].verdict == ("recovered" if episodes else "no episode")
    assert len(list(recording.root.glob("lost+found/videos/**/*.tmp"))) == 1
    assert (recording.root / "videos/lost+found").is_dir()
    if episodes or is_resumed:
        assert (len(lr.Session(recording.root)), check_session(recording.root)) == (episodes + is_resumed, [])
    assert lr.recover(recording.root)[0].set_aside == ()
