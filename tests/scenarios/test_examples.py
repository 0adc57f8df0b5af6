"""Every script in examples/, and every piece of Python in the README and the manual, runs as it is printed."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import av
import numpy as np
import pytest
from typer.main import get_command

import lucky_recorder as lr
from lucky_recorder.cli.main import app
from lucky_recorder.testing import check_session

ROOT = Path(__file__).parents[2]
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


def imread(file: Path) -> np.ndarray:
    with av.open(str(file)) as picture:
        (frame,) = picture.decode(video=0)
        return frame.to_ndarray(format="rgb24")


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], Path]:
    """Return a function that runs all the Python of a page, once; it returns the folder in which it ran."""

    @cache
    def ran(page: Path) -> Path:
        folder = tmp_path_factory.mktemp(page.stem)
        (folder / "page.py").write_text("\n".join(python_of(page)))
        run(folder, "page.py")
        return folder

    return ran


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
def test_the_python_of_a_page_runs_from_top_to_bottom(page, ran):
    for path in sessions_in(ran(page)):
        check_session(path)


@pytest.mark.parametrize("name", sorted(set(lr.__all__) - {"__version__"}))
def test_the_manual_lists_every_public_name(name):
    lines = [line for page in PAGES for line in page.read_text().splitlines()]
    listed = "::: lucky_recorder.errors" if lr._HOMES[name] == "errors" else f".{name}"
    assert any(line.startswith("::: lucky_recorder.") and line.endswith(listed) for line in lines)


def test_the_readme_s_example_is_ten_lines_and_records(ran):
    example = python_of(ROOT / "README.md")[0]
    assert len([line for line in example.splitlines() if line.strip()]) == 10
    # It comes first on the page.
    path = sessions_in(ran(ROOT / "README.md"))[0]
    session = check_session(path)
    assert session.episodes["success"].to_pylist() == [True] * 3
    assert list(session.cameras) == ["front"]


def pictures_in(folder: Path) -> dict[str, tuple[int, ...]]:
    return {file.stem: imread(file).shape for file in folder.glob("*.png")}


def pages_with_pictures() -> set[str]:
    return {name for page in PAGES for name in re.findall(r"images/streams/(\w+)\.png", page.read_text())}


def test_the_pages_on_streams_show_what_was_recorded(tmp_path):
    assert run(tmp_path, str(ROOT / "docs/images/streams.py"), str(tmp_path / "drawn")) == ""
    drawn = pictures_in(tmp_path / "drawn")
    assert set(drawn) == pages_with_pictures() == {"color", "depth", "rgbd", "masks", "lidar", "rates"}
    assert all(imread(file).std() > 20 for file in (tmp_path / "drawn").iterdir())


def test_without_opengl_the_pages_on_streams_have_empty_pictures(tmp_path):
    script = f"""
import runpy, sys
from lucky_recorder.capture.draw import context as gl
from lucky_recorder.errors import GLError
def broken():
    raise GLError("nothing draws here")
gl.make_context = broken
sys.argv = ["streams.py", "drawn"]
runpy.run_path({str(ROOT / "docs/images/streams.py")!r}, run_name="__main__")
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stderr == "the pages on streams get empty pictures: nothing draws here\n"
    assert set(pictures_in(tmp_path / "drawn")) == pages_with_pictures()


def test_the_manual_shows_the_defaults_as_they_are():
    assert f"```toml\n{lr.RecorderSettings().to_toml()}```" in (ROOT / "docs" / "settings.md").read_text()


def test_the_manual_knows_every_command_and_option():
    page = (ROOT / "docs" / "command-line.md").read_text()
    for name, command in get_command(app).commands.items():
        assert f"\n## {name}\n" in page
        for option in (p for p in command.params if p.param_type_name == "option"):
            assert any(said in page for said in option.opts + option.secondary_opts), f"{name} {option.name}"
