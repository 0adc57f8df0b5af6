"""Sessions that were recorded without rows: read as such, whatever streams they have, and what is finished stays."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

import lucky_recorder as lr
from lucky_recorder.cli.main import app
from lucky_recorder.episode.schema import Schema
from lucky_recorder.session.check import check_session
from lucky_recorder.session.layout import Chunking
from lucky_recorder.session.sink import SessionSink
from tests.session.building import Recording, arm_schema, camera, lidar, mask

NAME = "session_2026-10-08_14-30-05"
STREAMS = {
    "lidar": arm_schema(lidars=[lidar("top")]),
    "lidar and its video": arm_schema(lidars=[lidar("top", has_proxy=True)]),
    "camera": arm_schema([camera("Front")]),
    "mask": arm_schema([mask("Front")]),
    "lidar and camera": arm_schema([camera("Front")], lidars=[lidar("top")]),
}


def tree(path: Path) -> dict[str, bytes]:
    return {p.relative_to(path).as_posix(): p.read_bytes() for p in sorted(path.rglob("*")) if p.is_file()}


def finished(path: Path) -> dict[str, bytes]:
    return {name: content for name, content in tree(path).items() if not name.endswith(".tmp")}


def recorded(path: Path, schema: Schema, *, is_killed: bool) -> Path:
    recording = Recording(path, dataclasses.replace(schema, has_rows=False))
    for _ in range(3):
        recording.keep(3)
    if not is_killed:
        return recording.close()
    # Of the episode it has died in, everything is there and nothing has its name.
    recording.sink.prepare(recording.record(3))
    recording.sink._lock.release()
    return path


@pytest.mark.parametrize("streams", STREAMS)
@pytest.mark.parametrize("is_killed", [False, True])
@pytest.mark.parametrize("beside", ["", "meta/notes.txt", "meta/empty/", "data/notes.csv"])
def test_it_is_read_and_recovered_as_what_it_is(tmp_path: Path, streams: str, is_killed: bool, beside: str) -> None:
    path = recorded(tmp_path / NAME, STREAMS[streams], is_killed=is_killed)
    if beside:
        (path / beside).parent.mkdir(parents=True, exist_ok=True)
        (path / beside).mkdir() if beside.endswith("/") else (path / beside).touch()
    before = finished(path)
    session = lr.Session(path)
    assert (session.is_video_only, session.state) == (True, "cut short" if is_killed else "complete")
    assert session.lidars == (("top",) if "lidar" in streams else ())
    assert [session.scan_count(name) for name in session.lidars] == [3] * len(session.lidars)
    kind = "lidar only" if streams.startswith("lidar") and "camera" not in streams else "video only"
    assert kind in CliRunner().invoke(app, ["info", str(path)]).output
    for _ in range(2):
        (done,) = lr.recover(path)
        assert (done.verdict, finished(path)) == (
            "recovered" if is_killed else "complete",
            before | finished_notes(path),
        )
        is_killed = False
    assert {f.file for f in check_session(path)} == ({beside} if beside.startswith("data") else set())
    if not beside:
        assert f"ok: {kind}, " in CliRunner().invoke(app, ["check", str(path)]).output
    resumed = SessionSink(path, Chunking(40), resumes=True)
    with pytest.raises(lr.FormatError, match="says nothing of itself"):
        resumed.open(STREAMS[streams], [])
    resumed.close()
    assert lr.Session(path).state == "complete"


def finished_notes(path: Path) -> dict[str, bytes]:
    """What recover says of what it has set aside."""
    return {name: content for name, content in finished(path).items() if name.startswith("lost+found/")}


@pytest.mark.parametrize("what", ["meta/tasks.parquet", "meta/stats.json"])
def test_finished_files_are_never_moved_without_a_trace_of_their_rows(tmp_path: Path, what: str) -> None:
    """Such a folder no interruption leaves: somebody has taken files away, and may bring them back."""
    recording = Recording(tmp_path / NAME, STREAMS["lidar and camera"])
    recording.keep(3)
    path = recording.close()
    for name in tree(path):
        if name.startswith(("meta/", "data/chunk-000/file")) and name != what:
            (path / name).unlink()
    before = tree(path)
    (done,) = lr.recover(path)
    assert (done.verdict, "nothing was changed" in done.why) == ("refused", True)
    resumed = SessionSink(path, Chunking(40), resumes=True)
    with pytest.raises(lr.FormatError, match="nothing was changed"):
        resumed.open(STREAMS["lidar and camera"], [])
    resumed.close()
    assert tree(path) == before


def test_a_first_commit_that_was_cut_off_leaves_no_session_without_rows(tmp_path: Path) -> None:
    """Streams have their names before the rows: as long as these have a trace, it is no session without rows."""
    path = tmp_path / NAME
    recording = Recording(path, STREAMS["lidar and camera"])
    prepared = recording.sink.prepare(recording.record(3))
    recording.sink._lock.release()
    for staged in prepared._files[:-1]:
        staged.commit()
    everything = {name for name in tree(path) if name.startswith(("data", "videos"))}
    (planned,) = lr.recover(path, dry_run=True)
    # Killed in the midst of it, it is still none: the rows are moved last.
    assert planned.set_aside[-1].file == "data/chunk-000/file-000.parquet.tmp"
    assert {one.file for one in planned.set_aside} == everything
    reasons = {one.file.rsplit("/", 1)[1]: one.reason for one in planned.set_aside}
    assert reasons["file-000.mp4"] == "of an episode whose rows were not finished when the recording was cut short"
    shutil.copytree(path, tmp_path / "copy")
    (done,) = lr.recover(path)
    assert (done.verdict, done.set_aside) == ("no episode", planned.set_aside)
