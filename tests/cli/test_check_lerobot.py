from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lucky_recorder.cli.main import app
from tests.session.building import Recording, arm_schema, camera


@pytest.fixture
def session(tmp_path: Path) -> Path:
    recording = Recording(tmp_path / "session_2026-10-08_14-30-05", arm_schema([camera("Front")]))
    for ticks in (3, 5, 4):
        recording.keep(ticks)
    return recording.close()


def run(session: Path):
    return CliRunner().invoke(app, ["check", "--lerobot", str(session)])


def test_a_session_that_lerobot_opens(session: Path) -> None:
    result = run(session)
    assert (result.exit_code, result.stdout) == (0, "ok: LeRobot opens it as it is\n")


def test_a_session_that_it_does_not_open(session: Path) -> None:
    info = json.loads((session / "meta/info.json").read_text())
    info["codebase_version"] = "0.1"
    del info["features"]["action"]
    (session / "meta/info.json").write_text(json.dumps(info))
    result = run(session)
    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        "rule 1: meta/info.json: codebase_version is '0.1'; write 'v3.0' in a copy of the folder",
        "rule 6: data/chunk-000/file-000.parquet and 2 other files: has a column action, info.json has no feature of "
        "that name; make features and columns the same in a copy of the folder",
    ]
    assert result.stderr == f"LeRobot does not open {session} as it is, or would read it wrong\n"


def test_what_is_no_session_is_a_wrong_argument(tmp_path: Path) -> None:
    result = run(tmp_path)
    assert result.exit_code == 2
    assert "is no session" in result.stderr
