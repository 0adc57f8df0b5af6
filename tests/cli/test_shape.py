"""The commands that make sessions out of others: what they say, and what they end with."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import lucky_recorder as lr
from lucky_recorder.cli.main import app
from tests.session.building import Recording, arm_schema


@pytest.fixture
def session(tmp_path: Path) -> Path:
    recording = Recording(tmp_path / "session", arm_schema())
    for number in range(4):
        recording.keep(3 + number, success=number != 1, tasks=(number % 2,))
    return recording.close()


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [*map(str, arguments)])


@pytest.mark.parametrize(
    ("command", "options", "told"),
    [
        ("select", ["--success-only", "--min-length", "5"], "2 episodes, 11 rows, 2 left out"),
        ("select", ["--task", "Put it down", "--episodes", "0:2"], "1 episodes, 4 rows, 3 left out"),
        ("delete", ["--episodes", "0,2:4"], "1 episodes, 4 rows, 3 left out"),
        ("rename-task", ["Put it down", "Pick up the cube"], "4 episodes, 18 rows"),
        ("trim", ["--start", "1", "--end", "1", "--episodes", "3"], "4 episodes, 16 rows"),
        ("merge", [], "4 episodes, 18 rows"),
    ],
)
def test_what_is_made_is_told_and_a_dry_run_makes_nothing(
    session: Path, tmp_path: Path, command: str, options: list[str], told: str
) -> None:
    made = tmp_path / "made"
    planned = run(command, session, *options, "-o", made, "--dry-run")
    assert (planned.exit_code, planned.stderr) == (0, "")
    assert planned.stdout == f"{made}: would be made: {told}\nnothing was written\n"
    assert not made.exists()
    done = run(command, session, *options, "--output", made)
    assert (done.exit_code, done.stderr, done.stdout) == (0, "", f"{made}: made and checked: {told}\n")
    assert str(len(lr.Session(made))) == told.split()[0]


def test_split_makes_a_session_of_each_part(session: Path, tmp_path: Path) -> None:
    done = run("split", session, "-o", tmp_path / "parts", "--train", "0.5", "--part", "rest=0.5", "--by-task")
    assert (done.exit_code, done.stderr) == (0, "")
    assert [line.split(": ")[:2] for line in done.stdout.splitlines()] == [
        [str(tmp_path / "parts" / name), "made and checked"] for name in ("train", "rest")
    ]
    assert [len(lr.Session(tmp_path / "parts" / name)) for name in ("train", "rest")] == [2, 2]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["merge", "{s}", "{t}"], "error: "),
        (["merge", "{s}", "{s}"], "is named twice"),
        (["select", "{s}", "--episodes", "9"], "there is no episode 9"),
        (["split", "{s}"], "say how much each part is to have"),
        (["split", "{s}", "--part", "x"], "write a name and a share"),
        (["split", "{s}", "--train", "0.5", "--part", "train=0.5"], "the part 'train' has a share already"),
        (["split", "{s}", "--part", "a=0.5", "--part", "a=0.5"], "the part 'a' has a share already"),
        (["rename-task", "{s}", "Dance", "x"], "has no such task"),
        (["trim", "{s}"], "say how many ticks"),
    ],
)
def test_what_cannot_be_made_ends_with_status_2(session: Path, tmp_path: Path, arguments: list[str], told: str) -> None:
    other = Recording(tmp_path / "other", arm_schema(hz=25))
    other.keep(2)
    other.close()
    done = run(*(a.format(s=session, t=other.root) for a in arguments), "-o", tmp_path / "made")
    assert (done.exit_code, done.stdout) == (2, "")
    assert told in done.stderr
    assert not (tmp_path / "made").exists()
