"""A session without a finished episode: every command says so, and what helps."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

import lucky_recorder as lr
from lucky_recorder.cli.main import app
from lucky_recorder.storage.lock import hold
from lucky_recorder.storage.reserve import NAME as RESERVE
from tests.session.building import Recording, arm_schema

SESSION = "session_2026-10-08_14-30-05"
COMMANDS = ["info", "check", "checksum", "view"]


def said(command: str, path: Path) -> str:
    result = CliRunner().invoke(app, [command, str(path)])
    assert result.exit_code != 0
    return result.output


def begun(root: Path) -> Recording:
    """A recording in which nothing is finished."""
    return Recording(root, arm_schema())


@pytest.mark.parametrize("name", [SESSION, "mine"])
@pytest.mark.parametrize("command", COMMANDS)
def test_of_one_that_is_being_recorded(tmp_path: Path, command: str, name: str) -> None:
    recording = begun(tmp_path / name)
    text = said(command, tmp_path / name)
    assert "it is being recorded, and no episode is finished yet; look again when one is" in text
    assert "is no session" not in text
    with pytest.raises(lr.FormatError, match="no episode is finished yet"):
        lr.Session(tmp_path / name)
    recording.close()


@pytest.mark.parametrize("command", COMMANDS)
def test_nobody_is_told_to_remove_one_that_was_made_a_moment_ago(tmp_path: Path, command: str) -> None:
    (tmp_path / SESSION).mkdir()
    text = said(command, tmp_path / SESSION)
    assert "it was made a moment ago, and there is nothing in it yet; look again in some seconds" in text
    assert "or remove it" not in text


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("left", ["", RESERVE])
def test_of_one_that_was_cut_short(tmp_path: Path, command: str, left: str) -> None:
    # Without a trace only its name says what it is.
    path = tmp_path / ("mine" if left else SESSION)
    path.mkdir()
    if left:
        (path / left).touch()
    else:
        os.utime(path, (0, 0))
    assert "cut short before an episode was finished; record into it with resume, or remove it" in said(command, path)
    (done,) = lr.recover(path, dry_run=True)
    assert (done.verdict, done.why) == (
        "no episode",
        "its recording was cut short before an episode was finished; record into it with resume, or remove it "
        "(without rows, record_data=False, only that)",
    )


def test_recover_leaves_one_alone_that_is_being_recorded(tmp_path: Path) -> None:
    (tmp_path / SESSION).mkdir()
    lock = hold(tmp_path / SESSION)
    assert lock is not None
    (done,) = lr.recover(tmp_path / SESSION)
    assert done.verdict == "in progress"
    lock.release()


@pytest.mark.parametrize("command", COMMANDS)
def test_another_folder_is_no_session(tmp_path: Path, command: str) -> None:
    (tmp_path / "notes.txt").touch()
    assert "is no session" in said(command, tmp_path)


def test_resume_is_what_helps(tmp_path: Path) -> None:
    recording = begun(tmp_path / SESSION)
    recording.sink._lock.release()  # as if the process had died
    recording.resume()
    recording.keep(3)
    assert len(lr.Session(recording.close())) == 1
