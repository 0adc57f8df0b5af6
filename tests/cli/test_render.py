"""``record --render deferred`` and ``render``: what they say, and what they exit with."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

import lucky_recorder as lr
from lucky_recorder.cli.main import app
from lucky_recorder.testing import check_session


def run(*words: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, [str(word) for word in words])
    return result.exit_code, result.output


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    words = ("--episodes", 2, "--seed", 1, "--camera", "front:32x32", "--render", "deferred", "--policy", POLICY)
    code, output = run("record", "--env", "LuckyRecorder/PickCube-v0", *words, "--output-dir", tmp_path)
    assert code == 0, output
    (path,) = (tmp_path / "DataSessions").iterdir()
    return path


POLICY = "tests.cli.test_render:Short"


class Short:
    """Acts at random, for a few steps."""

    def __init__(self, env: lr.RecordSession) -> None:
        self._env = env
        self._steps = 0
        env.unwrapped.spec.max_episode_steps = 4

    def __call__(self, observation: object) -> object:
        return self._env.action_space.sample()


def test_a_session_is_recorded_without_pictures_and_drawn(recorded: Path, tmp_path: Path) -> None:
    assert not check_session(recorded).cameras
    code, output = run("info", recorded)
    assert code == 0
    assert "to be drawn" in output
    assert "front: `lucky-recorder render` does it" in output
    drawn = tmp_path / "drawn"
    code, output = run("render", recorded, "-o", drawn, "--dry-run")
    assert (code, drawn.exists()) == (0, False), output
    assert "would be drawn: 2 episodes" in " ".join(output.split())
    code, output = run("render", recorded, "-o", drawn)
    assert code == 0, output
    assert "drawn and checked: 2 episodes" in " ".join(output.split())
    assert [*check_session(drawn).cameras] == ["front"]
    assert "to be drawn" not in run("info", drawn)[1]
    code, output = run("render", recorded, "-o", tmp_path / "top", "--camera", "wrist:32x32", "--depth", "separate")
    assert code == 0, output
    assert [*lr.Session(tmp_path / "top").cameras] == ["wrist", "wrist_depth"]


def test_what_cannot_be_drawn_exits_with_2(recorded: Path, tmp_path: Path) -> None:
    code, output = run("render", recorded, "-o", recorded)
    assert code == 2
    assert "is there already" in " ".join(output.split())
    code, output = run("render", recorded, "-o", tmp_path / "drawn", "--camera", "nobody")
    assert code == 2
    assert "nobody" in output
    assert not (tmp_path / "drawn.shards").exists()
