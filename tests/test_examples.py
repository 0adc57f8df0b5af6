"""Every script in examples/, and every piece of Python in the README and the manual, runs as it is printed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command

import lucky_recorder as lr
from lucky_recorder.cli.main import app
from lucky_recorder.testing import check_session

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
_PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def python_of(page: Path) -> list[str]:
    return _PYTHON.findall(page.read_text())


def run(folder: Path, *arguments: str) -> str:
    """Run Python in a folder; it must succeed, and have nothing to complain about."""
    command = [sys.executable, "-W", "error", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def sessions_in(folder: Path) -> list[Path]:
    return sorted(folder.glob("DataSessions/session_*"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_an_example_records_as_many_episodes_as_asked(example, tmp_path):
    told = run(tmp_path, str(example), "--output-dir", str(tmp_path / "here"), "--episodes", "2")
    (path,) = sessions_in(tmp_path / "here")
    assert len(check_session(path)) == 2
    assert told.strip()


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_an_example_is_short(example):
    assert len(example.read_text().splitlines()) <= 40


@pytest.mark.parametrize("page", [p for p in PAGES if python_of(p)], ids=lambda path: path.name)
def test_the_python_of_a_page_runs_from_top_to_bottom(page, tmp_path):
    script = tmp_path / "page.py"
    script.write_text("\n".join(python_of(page)))
    run(tmp_path, str(script))
    for path in sessions_in(tmp_path):
        check_session(path)


def test_the_readme_s_example_is_ten_lines_and_records(tmp_path):
    example = python_of(ROOT / "README.md")[0]
    assert len([line for line in example.splitlines() if line.strip()]) == 10
    (tmp_path / "example.py").write_text(example)
    run(tmp_path, "example.py")
    (path,) = sessions_in(tmp_path)
    session = check_session(path)
    assert session.episodes["success"].to_pylist() == [True] * 3
    assert list(session.cameras) == ["front"]


def test_the_manual_shows_the_defaults_as_they_are():
    assert f"```toml\n{lr.RecorderSettings().to_toml()}```" in (ROOT / "docs" / "settings.md").read_text()


def test_the_manual_knows_every_command_and_option():
    page = (ROOT / "docs" / "command-line.md").read_text()
    for name, command in get_command(app).commands.items():
        assert f"\n## {name}\n" in page
        for option in (p for p in command.params if p.param_type_name == "option"):
            assert any(said in page for said in option.opts + option.secondary_opts), f"{name} {option.name}"
