from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from lucky_recorder.cli.main import app
from lucky_recorder.lerobot.rules import Broken, check_lerobot
from lucky_recorder.session.reader import Session
from tests.session.building import Recording, arm_schema, camera, full_session


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["lerobot", *map(str, arguments)])


def test_a_copy_that_lerobot_opens(tmp_path: Path) -> None:
    source = full_session(tmp_path / "session").root
    result = run(source, tmp_path / "view")
    assert result.exit_code == 0, result.output
    assert "left out: observation.images.Front_depth: depth\n" in result.output
    assert "left out: lidar top\n" in result.output
    assert result.output.endswith(f"ok: {tmp_path / 'view'}: 3 episodes that LeRobot opens\n")
    assert check_lerobot(tmp_path / "view") == []
    assert run(source, tmp_path / "deep", "--depth").exit_code == 0
    assert "Front_depth" in Session(tmp_path / "deep").cameras


def test_one_robot_is_chosen(tmp_path: Path) -> None:
    recording = Recording(tmp_path / "session", arm_schema([camera("Front")], robots=("left", "right")))
    recording.keep(3)
    source = recording.close()
    result = run(source, tmp_path / "view")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "choose one of left, right" in result.stderr
    assert run(source, tmp_path / "view", "--robot", "right").exit_code == 0
    assert Session(tmp_path / "view").robots == ("right",)


def test_what_is_no_session(tmp_path: Path) -> None:
    result = run(tmp_path / "nowhere", tmp_path / "view")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "no such folder" in result.stderr


def test_a_copy_that_lerobot_would_not_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = [Broken(4, "meta/info.json", "it is odd", "make it even")]
    monkeypatch.setattr("lucky_recorder.cli.lerobot.check_lerobot", lambda path: broken)
    recording = Recording(tmp_path / "session", arm_schema())
    recording.keep(2)
    result = run(recording.close(), tmp_path / "view")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "rule 4: meta/info.json: it is odd; make it even\n"
