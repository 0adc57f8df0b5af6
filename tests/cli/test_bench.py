from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lucky_recorder.bench import suite
from lucky_recorder.bench.figures import Figure
from lucky_recorder.bench.suite import Part
from lucky_recorder.cli.main import app

STEP = Figure("a step", 2.5, "us", 3.0, note="1.1 times the bare one's")
FILM = Figure("a film", 0.9, "", 0.97, at_least=True)
BLIND = Figure("a wait", None, "ms", 0.1, note="no OpenGL \x1b[31m")


@pytest.fixture(autouse=True)
def parts(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, Path]]:
    asked: list[tuple[int, Path]] = []

    def measured(*figures: Figure) -> object:
        return lambda pairs, folder: asked.append((pairs, folder)) or list(figures)

    monkeypatch.setattr(
        suite,
        "PARTS",
        (Part("stepping", "rows", measured(STEP)), Part("drawing", "films", measured(FILM, BLIND))),  # type: ignore[arg-type]
    )
    return asked


def test_every_figure_stands_with_its_goal_and_verdict(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["bench", "--output-dir", str(tmp_path)])
    assert result.exit_code == 0, result.output
    lines = [line.split() for line in result.stdout.splitlines()]
    assert ["a", "step", "2.5", "us", "≤", "3", "us", "met"] in lines
    assert ["a", "film", "0.9", "≥", "0.97", "missed"] in lines
    assert ["a", "wait", "≤", "0.1", "ms", "not", "measured"] in lines
    assert "a step: 1.1 times the bare one's" in result.stdout
    assert "no OpenGL" in result.stdout
    assert "\x1b" not in result.stdout
    assert "mujoco" in result.stdout.splitlines()[-1]


def test_json_holds_every_figure_and_the_machine(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["bench", "--json", "--pairs", "2", "--output-dir", str(tmp_path)])
    told = json.loads(result.stdout)
    assert [f["verdict"] for f in told["figures"]] == ["met", "missed", "not measured"]
    assert told["figures"][0] == {**STEP._asdict(), "verdict": "met"}
    assert told["pairs"] == 2
    assert told["machine"] == suite.machine()


def test_a_group_alone_is_measured_where_asked(parts: list[tuple[int, Path]], tmp_path: Path) -> None:
    place = tmp_path / "new"
    result = CliRunner().invoke(app, ["bench", "drawing", "--pairs", "4", "--output-dir", str(place)])
    assert result.exit_code == 0
    assert "a step" not in result.stdout
    assert [(pairs, folder.parent) for pairs, folder in parts] == [(4, place)]
    assert not place.exists()


def test_an_unknown_group_is_refused_before_anything_is_made(parts: list[tuple[int, Path]], tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["bench", "steping", "--output-dir", str(tmp_path / "new")])
    assert result.exit_code == 2
    assert "GROUP='steping'" in result.stderr
    assert "stepping, drawing" in result.stderr
    assert (parts, list(tmp_path.iterdir())) == ([], [])
