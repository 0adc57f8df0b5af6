"""What is somebody else's stays where it is: in a folder that is no session, and among a session's own files."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lucky_recorder as lr
from lucky_recorder.session.check import check_session
from lucky_recorder.session.layout import Chunking, is_own_file
from lucky_recorder.session.sink import SessionSink
from tests.session.building import Recording, arm_schema, camera, lidar, mask
from tests.session.resuming import FIELDS, keep, schema

NAME = "session_2026-10-08_14-30-05"
THEIRS = (
    "data/train-00000-of-00001.parquet", "data/raw/measurements.csv", "data/a.tmp", "data/file-000.parquet",
    "data/chunk-000/notes.txt", "data/chunk-000/file-000.csv", "meta/paper.bib", "meta/tasks.csv.tmp",
    "videos/holiday.mp4", "videos/draft.mp4.tmp", "videos/observation.images.Front/README", "videos/lost+found/#12",
    "videos/observation.images.Front/chunk-000/file-000.png", "videos/raw/notes",
)  # fmt: skip


def tree(path: Path) -> dict[str, bytes | None]:
    return {p.relative_to(path).as_posix(): p.read_bytes() if p.is_file() else None for p in path.rglob("*")}


def put(path: Path, *names: str) -> None:
    for name in names:
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(b"PAR1 mine")


@pytest.mark.parametrize(
    "names",
    [*((name,) for name in THEIRS), THEIRS, ("lost+found/x",), ("lost+found/x", "data/a.csv"),
     # Names that a recording gives too, in a folder that nobody says it has made.
     ("data/chunk-000/file-000.parquet",), ("videos/observation.images.Front/chunk-000/file-000.mp4.tmp",)],
)  # fmt: skip
def test_a_folder_without_a_trace_of_the_recorder_is_refused(tmp_path: Path, names: tuple[str, ...]) -> None:
    path = tmp_path / "project"
    put(path, *names, "train.py")
    (path / "data/empty").mkdir(parents=True, exist_ok=True)
    before = tree(path)
    with pytest.raises(lr.FormatError, match=r"project: .*session"):
        lr.recover(path)
    sink = SessionSink(path, Chunking(3), resumes=True)
    with pytest.raises(lr.FormatError, match=r"project: .*session"):
        sink.open(schema(), [])
    sink.close()
    assert tree(path) == before


def test_another_s_parquet_files_are_no_trace(tmp_path: Path) -> None:
    path = tmp_path / "project"
    put(path, "train.py")
    (path / "data/chunk-000").mkdir(parents=True)
    pq.write_table(pa.table({"x": [1, 2]}), path / "data/chunk-000/file-000.parquet")
    before = tree(path)
    with pytest.raises(lr.FormatError, match="nothing in it says that it is a session"):
        lr.recover(path)
    assert tree(path) == before


def record(path: Path, episodes: int, **changes: Any) -> Recording:
    recording = Recording(path, dataclasses.replace(arm_schema([camera("Front")]), **changes))
    for _ in range(episodes):
        recording.keep(3)
    return recording


@pytest.mark.parametrize(("episodes", "has_rows"), [(0, True), (2, True), (2, False)])
@pytest.mark.parametrize("is_killed", [False, True])
def test_among_a_session_s_files_everything_else_stays(
    tmp_path: Path, episodes: int, has_rows: bool, is_killed: bool
) -> None:
    path = tmp_path / NAME
    recording = record(path, episodes, has_rows=has_rows)
    if is_killed:
        recording.record(3)
        recording.sink._lock.release()
    else:
        recording.close()
    theirs = THEIRS
    path.mkdir(exist_ok=True)
    put(path, *theirs)
    (path / "data/empty").mkdir(exist_ok=True)
    (path / "videos/lost+found.d").mkdir()
    for _ in range(2):
        (done,) = lr.recover(path)
        assert done.verdict in ("complete", "recovered", "no episode", "refused")
        assert all((path / name).read_bytes() == b"PAR1 mine" for name in theirs)
        assert (path / "data/empty").is_dir()
        assert (path / "videos/lost+found.d").is_dir()
    if has_rows and episodes:
        assert (done.verdict, lr.Session(path).state) == ("complete", "complete")
        assert {fault.file for fault in check_session(path)} == set(theirs)
    if has_rows:
        assert f"{len(theirs) - 1} more are not the recorder's, and stayed in place" in done.why


def test_a_recording_that_ends_leaves_them_too(tmp_path: Path) -> None:
    recording = record(tmp_path / NAME, 1)
    put(recording.root, *THEIRS)
    recording.close()
    recording.resume()
    recording.keep(3)
    recording.close()
    assert all((recording.root / name).read_bytes() == b"PAR1 mine" for name in THEIRS)


def seeing(seen: set[Path], rename: Callable[..., None]) -> Callable[..., None]:
    def renamed(old: Path, new: Path) -> None:
        seen.update((Path(old), Path(new)))
        rename(old, new)

    return renamed


def test_every_name_that_a_recording_writes_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under the final name and while it is written: what an interruption leaves of it can be set aside."""
    path, seen = tmp_path / NAME, set[Path]()
    odd = arm_schema([camera("a b"), mask("ünö-take-1")], lidars=[lidar("top-000", has_proxy=True)])
    for number, (made, per_file) in enumerate([(schema(), 1), (schema(), 3), (odd, 3)]):
        recording = Recording(path.with_name(f"{NAME[:-1]}{number}"), made, **FIELDS | {"episodes_per_file": per_file})
        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", seeing(seen, os.replace))
            keep(recording, 4)
            recording.record(3)
            recording.sink._lock.release()
            lr.recover(recording.root)
            recording.resume()
            recording.keep(3)
            recording.close()
    within = {"/".join(p.relative_to(tmp_path).parts[1:]) for p in seen}
    names = {name for name in within if not name.startswith("lost+found/")}
    assert len(names) > 60
    assert [name for name in sorted(names) if not is_own_file(name)] == []
