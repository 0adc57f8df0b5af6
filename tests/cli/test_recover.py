from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from lucky_recorder.cli.main import app
from lucky_recorder.session.check import check_session
from tests.edit.test_recover import NAME, cut_short, tree


def recover(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["recover", *map(str, arguments)])


def cells(result: Result) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in result.stdout.splitlines()]


@pytest.fixture
def sessions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("COLUMNS", "300")
    cut_short(tmp_path / "DataSessions" / NAME, 3).record(3)
    cut_short(tmp_path / "DataSessions" / f"{NAME[:-1]}6", 2).sink.close()
    return tmp_path / "DataSessions"


def test_a_table_says_what_became_of_each(sessions: Path) -> None:
    path = sessions / NAME
    result = recover(sessions)
    assert result.exit_code == 0
    assert [str(path), "recovered", "3", "2", "1"] in cells(result)
    assert [f"{path}6"[:-2] + "6", "complete", "2", "0", "0"] in cells(result)
    assert "went to lost+found/: incomplete" in result.stdout
    assert check_session(path) == []


def test_a_dry_run_changes_nothing(sessions: Path) -> None:
    before = tree(sessions)
    result = recover(sessions, "--dry-run")
    assert result.exit_code == 0
    assert "would go to lost+found/" in result.stdout
    assert result.stdout.endswith("nothing was changed\n")
    assert tree(sessions) == before


def test_what_cannot_be_completed_is_told(sessions: Path) -> None:
    (sessions / NAME / "data/chunk-000/file-000.parquet").write_bytes(b"?")
    result = recover(sessions / NAME, sessions / f"{NAME[:-1]}6")
    assert result.exit_code == 1
    assert "refused: episode 0 is listed, and is not whole" in result.stderr
    assert "complete" in result.stdout


def test_a_folder_of_another_kind(tmp_path: Path) -> None:
    result = recover(tmp_path)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "is no session" in result.stderr


def test_names_in_a_folder_are_no_escapes(sessions: Path) -> None:
    (sessions / NAME / "data/\x1b[31m.bin").touch()
    result = recover(sessions)
    assert "\x1b" not in result.output
    assert result.exit_code == 0
