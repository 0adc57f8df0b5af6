"""``record --workers`` and ``eval --workers``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from lucky_recorder.cli.main import app
from lucky_recorder.rollouts import gather
from lucky_recorder.testing import check_koyu, check_session
from tests.rollouts.inline import Inline


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "counting_here.py").write_text(
        "import gymnasium as gym\n"
        "from lucky_recorder.testing import CountEnv\n"
        "gym.register('CountHere-v0', CountEnv)\n"
        "def still(observation):\n"
        "    return [0.0]\n"
        "def broken(observation):\n"
        "    raise ZeroDivisionError('of the policy')\n"
    )
    (tmp_path / "settings.toml").write_text('mode = "custom"\ngym_columns = true\nworkers = 2\n')
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(one) for one in arguments])


def test_records_with_workers_that_find_the_modules_of_the_folder(place: Path) -> None:
    given = ["--config", "settings.toml", "--env", "counting_here:CountHere-v0", "--policy", "counting_here:still"]
    result = run("record", *given, "--episodes", 3)
    assert result.exit_code == 0, result.output
    assert "3/3 episodes kept" in result.output
    assert "0 still wanted" in result.output
    assert "3 episodes kept, 3 succeeded, 0 discarded; 9 steps in" in result.output
    (path,) = (place / "DataSessions").iterdir()
    assert f"session: {path}" in result.output
    assert len(check_session(path)) == 3
    # More of them, and the seeds go on.
    result = run("record", *given, "--episodes", 4, "--resume", path)
    assert result.exit_code == 0, result.output
    assert "; the session has 4 episodes" in result.output
    assert [episode.seed for episode in check_session(path)] == ["0", "1", "2", "3"]


def test_records_bundles_alone(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gather, "Workers", Inline)
    columns = [{"name": "observation.state", "source": "gym:obs"}, {"name": "action", "source": "gym:action"}]
    text = "".join(f'[[columns]]\nname = "{one["name"]}"\nsource = "{one["source"]}"\n' for one in columns)
    (place / "bundles.toml").write_text(f'mode = "custom"\nformats = ["koyu"]\n{text}[koyu]\nname = "cubes"\n')
    given = ["--config", "bundles.toml", "--env", "counting_here:CountHere-v0", "--policy", "counting_here:still"]
    for workers in (1, 2):
        result = run("record", *given, "--episodes", 3, "--workers", workers)
        assert result.exit_code == 0, result.output
        assert f"dataset: {place / 'cubes'}" in result.output
        assert f"ok: {3 * workers} episodes" in result.output
        assert "3 episodes kept, 3 succeeded, 0 discarded; 9 steps in" in result.output
    assert "; the dataset has 6 episodes" in result.output
    assert len(check_koyu(place / "cubes")) == 18
    assert not (place / "DataSessions").exists()


def test_evaluates_with_workers(place: Path) -> None:
    given = ["--config", "settings.toml", "--env", "counting_here:CountHere-v0", "--policy", "counting_here:still"]
    result = run("eval", *given, "--action", "gym", "--episodes", 3, "--json", "result.json")
    assert result.exit_code == 0, result.output
    told = json.loads((place / "result.json").read_text())
    assert [one["seed"] for one in told["rollouts"]] == [0, 1, 2]
    assert (told["policy"], told["successes"]) == ("counting_here:still", 3)
    assert len(check_session(told["session"])) == 3


def test_an_error_in_a_worker_is_told_with_its_traceback(place: Path) -> None:
    given = ["--config", "settings.toml", "--env", "counting_here:CountHere-v0", "--policy", "counting_here:broken"]
    result = run("record", *given, "--episodes", 1, "--workers", 2)
    assert result.exit_code == 2
    assert "error: seed 0: 3 workers tried it, and none lived" in result.stderr
    assert "in broken" in result.stderr
    assert not (place / "DataSessions").exists()
