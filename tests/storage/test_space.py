"""The space on a disk: what files take, what is said of one that is full, and when that is foreseen."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from lucky_recorder.errors import StorageError, VideoError
from lucky_recorder.storage import space
from lucky_recorder.storage.space import Outlook, Taken, amount, free, taken, told_space
from lucky_recorder.storage.write import storage_errors

MB = 1_000_000


class Usage(NamedTuple):
    free: int


def having(monkeypatch: pytest.MonkeyPatch, left: int | dict[str, int]) -> None:
    """Have disks say that so many bytes are free, of each folder or everywhere."""
    monkeypatch.setattr(
        space.shutil, "disk_usage", lambda path: Usage(left[str(path)] if isinstance(left, dict) else left)
    )


def error(code: int | None, kind: type[Any] = StorageError) -> Any:
    made = kind("x.parquet: refused")
    made.errno = code
    return made


def told(raised: OSError, file: Path, needed: int | None) -> str:
    with pytest.raises(type(raised)) as caught, told_space(file, needed):
        raise raised
    assert caught.value is raised
    return str(caught.value)


def test_files_are_measured_once_each_by_their_disk(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(bytes(100_000))
    (tmp_path / "b").write_bytes(bytes(50_000))
    os.link(tmp_path / "a", tmp_path / "c")
    names = [tmp_path / name for name in ("a", "b", "c", "gone")]
    (found,) = taken(names).values()
    assert found.folder == tmp_path
    assert 150_000 <= found.bytes <= 150_000 + 2 * 4096
    assert taken([tmp_path / "gone"]) == {}


def test_what_lies_behind_a_link_is_on_its_own_disk(tmp_path: Path) -> None:
    there = Path("/dev/shm")
    if not there.is_dir() or there.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is no second disk")
    elsewhere = there / tmp_path.name
    elsewhere.mkdir()
    try:
        (tmp_path / "videos").symlink_to(elsewhere)
        for name in ("videos/a", "b"):
            (tmp_path / name).write_bytes(bytes(10_000))
        found = taken([tmp_path / "videos/a", tmp_path / "b"])
        assert set(found) == {there.stat().st_dev, tmp_path.stat().st_dev}
    finally:
        shutil.rmtree(elsewhere)


def test_free_is_asked_of_the_nearest_folder_that_exists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = free(tmp_path)
    assert here is not None
    assert abs(here - (free(tmp_path / "not/there") or 0)) < 100 * MB

    def hidden(path: Path) -> None:
        raise PermissionError(errno.EACCES, "no", str(path))

    monkeypatch.setattr(space.shutil, "disk_usage", hidden)
    assert free(tmp_path) is None


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 bytes"), (999, "999 bytes"), (1500, "2 kB"), (2_340_000, "2.3 MB"), (5 * 10**9, "5.0 GB")],
)
def test_amounts(count: int, text: str) -> None:
    assert amount(count) == text


@pytest.mark.parametrize("kind", [StorageError, VideoError])
def test_a_full_disk_says_what_it_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[Any]) -> None:
    having(monkeypatch, 36_000)
    half = tmp_path / "half"
    half.write_bytes(bytes(4096))
    written = os.stat(half).st_blocks * 512
    known = told(error(errno.ENOSPC, kind), half, 2 * MB)
    assert known == (f"x.parquet: refused (up to 2.0 MB were to be written, and {amount(36_000 + written)} were free)")
    unknown = told(error(errno.ENOSPC, kind), half, None)
    assert unknown == f"x.parquet: refused ({amount(written)} of it were written, and 36 kB were left)"
    # What a quota leaves, nobody can ask.
    assert told(error(errno.EDQUOT, kind), half, 2 * MB) == "x.parquet: refused (up to 2.0 MB were to be written)"


def test_other_errors_say_nothing_of_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    having(monkeypatch, 36_000)
    for code in (errno.EIO, errno.EROFS):
        assert told(error(code), tmp_path / "x", 2 * MB) == "x.parquet: refused"
    # A library that writes half a file without a word: only where the disk has no more it was that.
    assert told(error(None), tmp_path / "x", 10_000) == "x.parquet: refused"
    cut = error(None)
    assert told(cut, tmp_path / "x", 2 * MB).endswith("(up to 2.0 MB were to be written, and 36 kB were free)")
    assert cut.errno == errno.ENOSPC


def test_it_is_foreseen_when_fewer_than_three_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    outlook = Outlook()
    having(monkeypatch, 30 * MB)
    assert outlook.warning({}) == ""
    for size in (1, 10, 2):
        outlook.add({1: Taken(Path("/data"), size * MB)})
    # The largest of the last ones says what the next one takes.
    assert outlook.warning({}) == ""
    having(monkeypatch, 29 * MB)
    message = outlook.warning({})
    assert message.startswith(
        "/data: the disk is nearly full: 29.0 MB are free, an episode takes about 10.0 MB there, so there is room for "
        "about 2 more"
    )
    for _ in range(20):
        outlook.add({1: Taken(Path("/data"), MB)})
    assert outlook.warning({}) == ""


def test_what_is_written_once_more_is_taken_into_account(monkeypatch: pytest.MonkeyPatch) -> None:
    outlook = Outlook()
    outlook.add({1: Taken(Path("/data"), 10 * MB)})
    having(monkeypatch, 35 * MB)
    assert outlook.warning({}) == ""
    assert "and 20.0 MB are to be written once more, so there is room for about 1 more" in outlook.warning(
        {1: Taken(Path("/data"), 20 * MB)}
    )


def test_each_disk_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    outlook = Outlook()
    outlook.add({1: Taken(Path("/data"), MB), 2: Taken(Path("/videos"), 100 * MB)})
    having(monkeypatch, {"/data": 4 * MB, "/videos": 1000 * MB})
    assert outlook.warning({}) == ""
    having(monkeypatch, {"/data": 4 * MB, "/videos": 90 * MB})
    assert outlook.warning({}).startswith("/videos: the disk is nearly full: 90.0 MB are free")
    assert "room for about 0 more" in outlook.warning({})


class Inodes(NamedTuple):
    f_files: int
    f_favail: int
    f_bavail: int
    f_frsize: int = 4096


@pytest.mark.parametrize(
    ("inodes", "is_out"),
    [
        (Inodes(1000, 0, 1000), True),
        (Inodes(1000, 1, 1000), False),
        (Inodes(0, 0, 1000), False),  # it counts none
        (Inodes(1000, 0, 0), False),  # what it lacks is bytes
    ],
)
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_a_disk_without_an_inode_is_told_from_one_without_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inodes: Inodes, is_out: bool, code: int
) -> None:
    having(monkeypatch, 1000)
    monkeypatch.setattr(space.os, "statvfs", lambda path: inodes)
    out = is_out and code == errno.ENOSPC
    for kind in (StorageError, VideoError):
        assert ("no inode is free" in told(error(code, kind), tmp_path / "new/x", 5000)) == out
    with pytest.raises(StorageError) as raised, told_space(tmp_path / "x", 5000), storage_errors(tmp_path / "x"):
        raise OSError(code, "refused")
    assert str(raised.value).count("no inode is free") == out
    assert ("were free" in str(raised.value)) == (code == errno.ENOSPC and not out)


def test_where_nothing_can_be_asked_of_inodes_nothing_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(space.os, "statvfs")
    assert space.lacks_files(tmp_path) == ""
