"""A terminal that knows ASCII alone: every command tells what it has to tell, with question marks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import lucky_recorder as lr
from lucky_recorder.cli.main import app
from lucky_recorder.edit.convert import session_to_koyu
from tests.session.building import Recording, arm_schema, camera

WÜRFEL = "Würfel greifen — 立方体"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder and robots of any script, with a session, and a dataset that was made of it."""
    folder = tmp_path_factory.mktemp("größe")
    recording = Recording(folder / "sitzung", arm_schema([camera("Front")], robots=("linké",)), tasks=[WÜRFEL])
    recording.keep(3)
    session_to_koyu(recording.close(), lr.KoyuSettings(name="daten", path=folder / "daten"))
    return folder


COMMANDS = {
    "info": (["info", "{}/sitzung"], "W?rfel greifen ? ???"),
    "info of what is none": (["info", "{}/nirgendwo-ß"], "nirgendwo-"),
    "a frame": (["info", "{}/sitzung", "--frame", "0:1", "--output", "{}/bild-ß.png"], "bild-?.png"),
    "check": (["check", "{}/sitzung"], "ok: 1 episodes"),
    "check for LeRobot": (["check", "{}/sitzung", "--lerobot"], "ok"),
    "check of a dataset": (["check", "{}/daten"], "ok: 1 episodes"),
    "check of what is none": (["check", "{}/nirgendwo-ß"], "error"),
    "lerobot": (["lerobot", "{}/sitzung", "{}/für-lerobot"], "f?r-lerobot: 1 episodes"),
    "convert": (["convert", "{}/daten", "--session", "{}/zurück"], "ok"),
    "convert twice": (["convert", "{}/daten", "--session", "{}/sitzung"], "is there already"),
    "koyu info": (["koyu", "info", "{}/daten"], "W?rfel greifen"),
    "koyu check": (["koyu", "check", "{}/daten"], "ok: 1 episodes"),
    "koyu index": (["koyu", "index", "{}/daten"], "ok: 1 episodes"),
    "help": (["--help"], "info"),
    "help of record": (["record", "--help"], "--policy"),
    "a setting that is none": (["record", "--env", "Würfel-v0"], "error"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_on_an_ascii_terminal(made: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    words, told = COMMANDS[name]
    result = CliRunner(charset="ascii").invoke(app, [word.format(made) for word in words])
    assert result.exception is None or isinstance(result.exception, SystemExit)
    assert told in result.output.replace("\n", " ")
    assert result.output.isascii()


def test_the_process_itself(made: Path) -> None:
    """Not only the runner of tests: the interpreter takes its encoding from the environment."""
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "LANG": "C", "LC_ALL": "C", "COLUMNS": "200"}
    program = "from lucky_recorder.cli.main import app; app()"
    words = [sys.executable, "-c", program, "info", str(made / "sitzung")]
    done = subprocess.run(words, capture_output=True, env=environment, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"W?rfel greifen ? ???" in done.stdout
    assert b"link?.pan" in done.stdout


def test_a_folder_for_whose_name_the_locale_has_no_letters_is_an_error_that_says_so(tmp_path: Path) -> None:
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    program = f"""
import lucky_recorder as lr
path = {str(tmp_path)!r} + "/\\xe4"
for use in (lr.Session, lr.koyu.Dataset, lr.recover, lambda path: lr.RecorderSettings(output_dir=path)):
    try:
        use(path)
    except lr.LuckyRecorderError as error:
        print(ascii(str(error)))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, env=environment, check=False, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    told = done.stdout.splitlines()
    assert len(told) == 4
    assert all("\\xe4" in line for line in told)
    assert sum("PYTHONUTF8=1" in line for line in told) >= 3
