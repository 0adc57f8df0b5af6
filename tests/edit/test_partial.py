"""The folder in which something is made: what an attempt has left there goes, and whatever else has its name stays."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lucky_recorder as lr
from lucky_recorder.edit.partial import MARK, made_whole
from lucky_recorder.errors import LuckyRecorderError, SettingsError, StorageError
from lucky_recorder.session.check import check_session
from lucky_recorder.storage.lock import hold, is_held
from tests.edit.bundling import dataset
from tests.edit.shaping import hashes
from tests.session.building import Recording, arm_schema


@pytest.fixture
def session(tmp_path: Path) -> Path:
    return recorded(tmp_path / "one")


def recorded(path: Path) -> Path:
    recording = Recording(path, arm_schema())
    for _ in range(2):
        recording.keep(2)
    return recording.close()


def names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


def left(partial: Path) -> Path:
    """What an attempt leaves that was killed."""
    recorded(partial / "made")
    (partial / MARK).touch()
    return partial


def _without_info(path: Path) -> None:
    (recorded(path) / "meta" / "info.json").unlink()


def _with_a_note(path: Path) -> None:
    (left(path) / "mine.txt").touch()


def _marked_by_a_link(path: Path) -> None:
    recorded(path / "made")
    (path / MARK).symlink_to(path / "made" / "meta" / "info.json")


def _linked(path: Path) -> None:
    path.symlink_to(left(path.with_name("other")))


def _linked_inside(path: Path) -> None:
    path.mkdir()
    (path / MARK).touch()
    (path / "made").symlink_to(recorded(path.with_name("other")))


OTHERS: dict[str, Callable[[Path], Any]] = {
    "session": recorded,
    "without info.json": _without_info,
    "dataset": lambda path: dataset(path, (0, 1)),
    "file": Path.touch,
    "with a note": _with_a_note,
    "marked by a link": _marked_by_a_link,
    "link": _linked,
    "link inside": _linked_inside,
}


@pytest.mark.parametrize("make", OTHERS.values(), ids=OTHERS)
@pytest.mark.parametrize("kind", ["session", "dataset"])
def test_what_no_attempt_has_left_stays(tmp_path: Path, session: Path, make: Callable[[Path], Any], kind: str) -> None:
    source = session if kind == "session" else dataset(tmp_path / "bundles", (0, 1))
    make(tmp_path / "made.partial")
    before, there = hashes(tmp_path), names(tmp_path)
    for dry_run in (True, False):
        with pytest.raises(StorageError, match=r"made\.partial: is there already: .* name another folder"):
            lr.merge([source], tmp_path / "made", dry_run=dry_run)
    assert (hashes(tmp_path), names(tmp_path)) == (before, there)


@pytest.mark.parametrize("kind", ["session", "dataset"])
def test_what_it_is_made_of_stays(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "made.partial"
    _ = recorded(path) if kind == "session" else dataset(path, (0, 1))
    before = hashes(tmp_path)
    for dry_run in (True, False):
        with pytest.raises(SettingsError, match=r"output=.*is made in made\.partial"):
            lr.merge([path], tmp_path / "made", dry_run=dry_run)
    assert hashes(tmp_path) == before


def test_what_somebody_makes_use_of_in_what_was_left_stays(tmp_path: Path) -> None:
    source = left(tmp_path / "made.partial") / "made"
    before = hashes(tmp_path)
    with pytest.raises(SettingsError, match=r"is made in made\.partial"):
        lr.merge([source], tmp_path / "made")
    assert hashes(tmp_path) == before


def test_what_an_attempt_has_left_goes(tmp_path: Path, session: Path) -> None:
    left(tmp_path / "made.partial")
    assert check_session(lr.merge([session], tmp_path / "made").path) == []
    assert names(tmp_path) == ["made", "one"]
    assert lr.Session(tmp_path / "made").path == tmp_path / "made"


def test_an_empty_folder_goes_that_is_not_about_to_be_locked(tmp_path: Path, session: Path) -> None:
    """A kill leaves one, between its making and its mark, and after its mark."""
    partial = tmp_path / "made.partial"
    partial.mkdir()
    for dry_run in (True, False):
        with pytest.raises(StorageError, match="is being written; wait for it"):
            lr.merge([session], tmp_path / "made", dry_run=dry_run)
    os.utime(partial, (0, 0))
    lr.merge([session], tmp_path / "made", dry_run=True)
    assert check_session(lr.merge([session], tmp_path / "made").path) == []
    assert names(tmp_path) == ["made", "one"]


def test_what_another_makes_stays(tmp_path: Path, session: Path) -> None:
    lock = hold(left(tmp_path / "made.partial"))
    assert lock is not None
    with pytest.raises(StorageError, match="is being written; wait for it"):
        lr.merge([session], tmp_path / "made")
    lock.release()
    assert names(tmp_path) == ["made.partial", "one"]


def test_what_began_meanwhile_stays(tmp_path: Path, session: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another attempt has removed what was left, and made its own, after this one has looked."""
    partial = left(tmp_path / "made.partial")
    take = "lucky_recorder.edit.partial.take_over"

    def begin(folder: Path) -> Any:
        lock = hold(folder)
        shutil.rmtree(folder)
        left(partial)
        return lock

    monkeypatch.setattr(take, begin)
    with pytest.raises(StorageError, match="is being written by now"):
        lr.merge([session], tmp_path / "made")
    assert names(partial) == [MARK, "made"]


def test_the_mark_is_there_as_long_as_anything_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However it is cut short, what is left bears it; and whoever sees it sees also that somebody is at it."""
    partial, seen = tmp_path / "made.partial", list[tuple[str, bool, bool | None]]()
    remove = shutil.rmtree

    def look(path: Path) -> None:
        seen.append((path.name, (partial / MARK).is_file(), is_held(partial)))
        remove(path)

    def fail(made: Path) -> None:
        seen.append((made.name, (partial / MARK).is_file(), is_held(partial)))
        raise LuckyRecorderError("no more")

    monkeypatch.setattr(shutil, "rmtree", look)
    with pytest.raises(LuckyRecorderError, match="no more"), made_whole(tmp_path / "made") as made:
        fail(made)
    assert (seen, names(tmp_path)) == ([("made", True, True)] * 2, [])


@pytest.mark.parametrize("kind", ["session", "dataset"])
@pytest.mark.parametrize("output", [None, {"a": "x/a", "b": "x/a.partial"}, {"a": "x/a", "b": "x/a.partial/b"}])
def test_a_part_where_another_is_made_is_refused(
    tmp_path: Path, session: Path, kind: str, output: dict[str, str] | None
) -> None:
    source = session if kind == "session" else dataset(tmp_path / "bundles", (0, 1))
    before = names(tmp_path)
    parts = {"b": 0.5, "a": 0.5} if output else {"a.partial": 0.5, "a": 0.5}
    where = {name: tmp_path / place for name, place in output.items()} if output else tmp_path / "parts"
    with pytest.raises(SettingsError, match=r"parts=.*is where 'a' is made"):
        lr.split(source, parts, output=where)
    assert names(tmp_path) == before
