from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from lucky_recorder.cli.main import app
from tests.session.building import Recording, arm_schema, camera, small_session


@pytest.fixture
def session(tmp_path: Path) -> Path:
    return small_session(tmp_path / "DataSessions/session_2026-10-08_14-30-05").root


def check(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["check", *map(str, arguments)])


def test_a_good_session(session: Path) -> None:
    result = check(session)
    assert (result.exit_code, result.stdout, result.stderr) == (0, "ok: 7 episodes, 68 rows, 52 frames checked\n", "")


def test_frames_may_be_counted_only(session: Path) -> None:
    result = check(session, "--no-decode")
    assert (result.exit_code, result.stdout) == (0, "ok: 7 episodes, 68 rows, 52 frames counted\n")


def test_each_fault_is_a_line_with_file_and_episode(session: Path) -> None:
    (session / "meta/notes.txt").touch()
    (session / "videos/observation.images.Front/chunk-002/file-001.mp4").unlink()
    result = check(session)
    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        "videos/observation.images.Front/chunk-002/file-001.mp4 (episode 5): is missing",
        "meta/notes.txt: no episode names this file",
    ]
    assert result.stderr == f"2 faults in {session}\n"


def test_one_fault_is_no_faults(session: Path) -> None:
    (session / "meta/notes.txt").touch()
    assert check(session).stderr == f"1 fault in {session}\n"


def test_a_video_only_session(session: Path) -> None:
    shutil.rmtree(session / "meta")
    shutil.rmtree(session / "data")
    result = check(session)
    assert (result.exit_code, result.stdout) == (0, "ok: video only, 52 frames checked\n")


def test_what_is_no_session(tmp_path: Path, session: Path) -> None:
    for folder, message in {
        tmp_path / "nowhere": "no such folder",
        session / "meta": "is no session",
        session.parent: f"the latest is {session}",
        tmp_path: f"the latest is {session}",
    }.items():
        result = check(folder)
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr.startswith(f"error: {folder}: ")
        assert message in result.stderr


def test_an_argument_is_needed() -> None:
    assert check().exit_code == 2


def test_names_from_a_folder_cannot_drive_the_terminal(session: Path) -> None:
    (session / "data/\x1b[2J\n.txt").touch()
    result = check(session)
    assert "\x1b" not in result.stdout
    shown = "data/?[2J?.txt".replace("?", "\N{REPLACEMENT CHARACTER}")
    assert result.stdout == f"{shown}: no episode names this file\n"


def test_nothing_is_written(session: Path) -> None:
    before = {p: p.stat().st_mtime_ns for p in session.rglob("*")}
    check(session)
    assert {p: p.stat().st_mtime_ns for p in session.rglob("*")} == before


def test_a_session_in_progress(tmp_path: Path) -> None:
    recording = Recording(tmp_path, arm_schema([camera("Front")]), metadata_every=2)
    for _ in range(3):
        recording.keep(2)
    result = check(tmp_path)
    assert result.exit_code == 1
    assert "data/chunk-000/file-002.parquet: holds episodes that meta/episodes does not list" in result.stdout
    recording.close()
    assert check(tmp_path).exit_code == 0
    assert json.loads((tmp_path / "meta/info.json").read_text())["total_episodes"] == 3
