"""A reserve holds bytes for real, as many as there are, and raises nothing."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from lucky_recorder.storage import reserve
from lucky_recorder.storage.reserve import Reserve
from tests.recorder.disks import small_disk

SIZE = 200_000


@pytest.mark.parametrize("code", [None, errno.EOPNOTSUPP, errno.EINVAL])
def test_the_bytes_are_taken_and_given_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int | None) -> None:
    if code is not None:

        def unknown(*given: int) -> None:
            raise OSError(code, os.strerror(code))

        monkeypatch.setattr(os, "posix_fallocate", unknown)
    held = Reserve(tmp_path / reserve.NAME)
    assert (held.size, list(tmp_path.iterdir())) == (0, [])
    held.hold(SIZE)
    assert SIZE <= held.size == held.path.stat().st_size
    assert held.path.stat().st_blocks * 512 >= SIZE
    assert reserve.left_in(tmp_path) == [reserve.NAME]
    before = held.size
    held.hold(1000)
    assert held.size == before
    held.hold(3 * SIZE)
    assert held.path.stat().st_size == held.size >= 3 * SIZE
    assert held.path.stat().st_blocks * 512 >= 3 * SIZE
    held.release()
    held.release()
    assert (held.size, list(tmp_path.iterdir()), reserve.left_in(tmp_path)) == (0, [], [])


def test_where_there_is_no_room_it_holds_what_there_is(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 300) as disk:
        held = Reserve(disk / reserve.NAME)
        held.hold(1_000_000)
        # Not all of it: what is recorded needs the rest.
        assert 70_000 < held.size <= 300_000 // 4 + 4096
        assert held.path.stat().st_blocks * 512 >= held.size
        before = held.size
        held.hold(2_000_000)
        assert held.size == held.path.stat().st_size == before
        held.release()
        (disk / "ballast").write_bytes(bytes(300_000))
        held.hold(SIZE)
        assert (held.size, [p.name for p in disk.iterdir()]) == (0, ["ballast"])


@pytest.mark.parametrize("code", [errno.EROFS, errno.EIO, errno.ENOSPC])
def test_a_disk_that_refuses_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    def refuse(*given: object) -> None:
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patch:
        patch.setattr(os, "posix_fallocate", refuse)
        held = Reserve(tmp_path / reserve.NAME)
        held.hold(SIZE)
        assert (held.size, list(tmp_path.iterdir())) == (0, [])
    held.hold(SIZE)
    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", refuse)
        held.release()


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("mine")
    (tmp_path / reserve.NAME).symlink_to(other)
    assert reserve.left_in(tmp_path) == [reserve.NAME]
    held = Reserve(tmp_path / reserve.NAME)
    held.hold(SIZE)
    held.release()
    assert [p.name for p in tmp_path.iterdir()] == ["other"]
    assert other.read_text() == "mine"
    (tmp_path / reserve.NAME).mkdir()
    assert reserve.left_in(tmp_path) == []
