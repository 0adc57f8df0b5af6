from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from lucky_recorder.files import make_file, open_file, read_file


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as bound, pytest.MonkeyPatch.context() as patch:
        patch.chdir(path.parent)  # a socket's path is short
        bound.bind(path.name)


NO_FILES = [_pipe, _socket, lambda p: p.symlink_to("/dev/zero"), lambda p: p.symlink_to("/dev/full"), Path.mkdir]


@pytest.mark.parametrize("make", NO_FILES)
def test_what_is_no_file_is_not_opened_and_nobody_waits(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "x")
    with pytest.raises(OSError, match="is no file"):
        read_file(tmp_path / "x", 100)


@pytest.mark.parametrize("make", NO_FILES)
def test_nor_for_writing(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "x")
    with pytest.raises(OSError, match=r"is no file|Too many levels|No such device|Is a directory"):
        open_file(tmp_path / "x", os.O_RDWR | os.O_CREAT, follow=False)


def test_a_link_is_followed_only_where_that_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("content")
    (tmp_path / "link").symlink_to("file")
    assert read_file(tmp_path / "link", 100) == b"content"
    with pytest.raises(OSError, match="Too many levels of symbolic links"):
        open_file(tmp_path / "link", follow=False)


def test_a_link_to_nowhere_makes_nothing_there(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "made")
    with pytest.raises(OSError, match="Too many levels of symbolic links"):
        open_file(tmp_path / "link", os.O_RDONLY | os.O_CREAT, follow=False)
    assert not (tmp_path / "made").exists()


def test_no_more_is_read_than_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"1234")
    assert read_file(tmp_path / "x", 4) == b"1234"
    with pytest.raises(OSError, match="holds more than 3 bytes"):
        read_file(tmp_path / "x", 3)


@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_a_file_is_made_anew_and_never_written_through_another_name(
    tmp_path: Path, link: Callable[[Path, Path], None]
) -> None:
    (tmp_path / "precious").write_text("as it was")
    link(tmp_path / "precious", tmp_path / "x.tmp")
    make_file(tmp_path / "x.tmp")
    (tmp_path / "x.tmp").write_text("new")
    assert (tmp_path / "precious").read_text() == "as it was"
    assert not (tmp_path / "x.tmp").is_symlink()
