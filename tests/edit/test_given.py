"""What is given to the functions that shape sessions: of any type it is taken as meant, or refused by name."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lucky_recorder as lr
from lucky_recorder.edit.given import settled
from lucky_recorder.errors import FormatError, LuckyRecorderError, SettingsError, StorageError
from tests.session.building import Recording, arm_schema


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Path:
    recording = Recording(tmp_path_factory.mktemp("session") / "one", arm_schema())
    for ticks in (3, 4, 5):
        recording.keep(ticks)
    return recording.close()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("session", one) for one in (5, None, b"a", "a\0b")),
        *(("sessions", one) for one in (5, "a", [5], None, np.array("a"))),
        *(("output", one) for one in (None, 5, {"train": "a"}, "e\ud800")),
        *(("episodes", one) for one in (1, [0.5], ["a"], [True], np.array(2))),
        *(("tasks", one) for one in (5, [5], np.array("a"))),
        *(("min_length", one) for one in ("10", -1, 1.5, True)),
        *(("where", 5), ("old", 5), ("new", 5), ("new", " "), ("new", "\ud800"), ("parts", ["train"]), ("seed", None)),
        *((field, value) for field in ("start", "end") for value in (-1, 1.5, "1", None)),
        *((flag, "false") for flag in ("success_only", "by_task", "snap", "dry_run")),
        ("on_episode", 5),
    ],
)
def test_what_is_of_another_type_is_refused_by_name(field: str, value: Any) -> None:
    with pytest.raises(SettingsError, match=f"^{field}="):
        settled({field: value})


@pytest.mark.parametrize("field", ["session", "output"])
def test_a_name_in_a_folder_that_is_gone_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, field: str
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(SettingsError, match=f"^{field}='a': the folder that this process is in is gone"):
        settled({field: "a"})
    with pytest.raises(FormatError, match=r"^a: "):
        lr.Session("a")
    assert settled({field: str(tmp_path)}) == {field: tmp_path}


def test_what_is_meant_is_taken(session: Path, tmp_path: Path) -> None:
    class Own(os.PathLike[str]):
        def __fspath__(self) -> str:
            return str(session)

    how = {"episodes": np.flatnonzero([1, 0, 1]), "min_length": np.int64(3), "dry_run": np.True_}
    assert lr.select(Own(), tmp_path / "a", **how).episodes == 2  # type: ignore[arg-type]
    assert lr.trim(str(session), tmp_path / "a", end=np.int32(1), episodes={2}, dry_run=True).rows == 3 + 4 + 4
    shares = {"a": np.float32(0.6), "b": np.float32(0.4)}
    made = lr.split(
        session, shares, output={"a": tmp_path / "a", "b": str(tmp_path / "b")}, seed=np.uint8(0), dry_run=True
    )
    assert sum(one.episodes for one in made.values()) == 3
    assert lr.merge(iter([session]), tmp_path / "a", dry_run=True).episodes == 3
    assert list(tmp_path.iterdir()) == []


# Places.


def _in_a_file(folder: Path, session: Path) -> Path:
    (folder / "file").write_text("")
    return folder / "file" / "made"


def _closed(folder: Path, session: Path) -> Path:
    (folder / "closed").mkdir()
    (folder / "closed").chmod(0o500)
    return folder / "closed" / "a" / "made"


def _taken(folder: Path, session: Path) -> Path:
    (folder / "made.partial").mkdir()
    (folder / "made.partial" / "mine").write_text("")
    return folder / "made"


@pytest.mark.parametrize(
    ("place", "message"),
    [
        (lambda folder, session: session / "made", "lies inside"),
        (lambda folder, session: session / "a" / "made", "lies inside"),
        (_in_a_file, "file is no folder"),
        (_closed, "nothing may be written into"),
        (_taken, "is there already"),
        (lambda folder, session: folder / ("n" * 250), "a name may have there"),
        (lambda folder, session: folder / "a" / "..", "is there already|ends in no name"),
        (lambda folder, session: folder, "is there already"),
    ],
    ids=["source", "deep in a source", "file", "closed", "taken", "long", "dots", "there"],
)
def test_a_dry_run_refuses_the_places_that_the_real_run_refuses(
    session: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    place: Callable[[Path, Path], Path],
    message: str,
) -> None:
    target = place(tmp_path, session)
    # Root may write anywhere.
    allowed = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path).name != "closed" and allowed(path, mode))
    before = sorted(tmp_path.rglob("*"))
    for dry_run in (True, False):
        with pytest.raises((SettingsError, StorageError), match=message):
            lr.merge([session], target, dry_run=dry_run)
    assert sorted(tmp_path.rglob("*")) == before


def test_parts_within_one_another_are_refused(session: Path, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="a folder of its own, beside the others"):
        lr.split(session, {"a": 0.5, "b": 0.5}, output={"a": tmp_path / "a", "b": tmp_path / "a" / "b"}, dry_run=True)


@pytest.mark.parametrize("has_others", [False, True])
def test_nothing_is_left_above_what_failed(session: Path, tmp_path: Path, has_others: bool) -> None:
    if has_others:
        (tmp_path / "a").mkdir()
    before = sorted(tmp_path.rglob("*"))

    def fail(done: int, total: int) -> None:
        raise LuckyRecorderError("no more")

    with pytest.raises(LuckyRecorderError, match="no more"):
        lr.merge([session], tmp_path / "a" / "b" / "made", on_episode=fail)
    assert sorted(tmp_path.rglob("*")) == before
