from __future__ import annotations

import io
import sys
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

from lucky_recorder.cli import console
from lucky_recorder.cli.main import app
from lucky_recorder.testing import check_session


def drawn(folder: Path) -> list[str]:
    file = io.StringIO()
    Console(file=file, width=100).print(console.tree(folder))
    return [line.rstrip() for line in file.getvalue().splitlines()]


def test_the_demo_records_a_session_and_shows_it(tmp_path):
    result = CliRunner().invoke(app, ["demo", "--episodes", "2", "--output-dir", str(tmp_path)])
    assert result.exit_code == 0, result.output
    (path,) = tmp_path.glob("DataSessions/session_*")
    session = check_session(path)
    assert session.tasks == ["Pick up the cube"]
    assert {c.name: (c.width, c.height) for c in session.cameras.values()} == {"front": (320, 240), "wrist": (320, 240)}
    assert session.info["bit_reproducible"] is True
    assert "ok: 2 episodes" in result.output
    assert "videos/" in result.output
    assert f"{sys.argv[0]} info {path}" in result.output


def test_the_demo_has_two_meta_files_and_episodes_of_both_kinds(tmp_path, monkeypatch):
    plans = []
    monkeypatch.setattr("lucky_recorder.cli.demo.record_plan", lambda plan: plans.append(plan) or tmp_path)
    assert CliRunner().invoke(app, ["demo"]).exit_code == 0
    (plan,) = plans
    assert plan.settings.metadata_every < plan.episodes <= 2 * plan.settings.metadata_every
    assert 0 < plan.fail < 1
    assert not plan.settings.discard_and_retry_failed


def test_the_demo_of_every_stream(tmp_path):
    result = CliRunner().invoke(app, ["demo", "--streams", "--episodes", "1", "--output-dir", str(tmp_path)])
    assert result.exit_code == 0, result.output
    (path,) = tmp_path.glob("DataSessions/session_*")
    session = check_session(path)
    assert list(session.cameras) == ["front", "front_depth", "wrist"]
    episode = session.episode(0)
    assert episode.rgbd_path("front").stat().st_size > 0
    assert episode.masks("front").labels == {0: "background", 1: "cube", 2: "hand"}
    scans = episode.scans("grasp")
    assert scans.rate == 10
    assert len(scans) == -(-episode.ticks // 5)
    assert np.isfinite(scans.ranges(0)).any()


def test_a_demo_that_cannot_be_written_says_so(tmp_path):
    (tmp_path / "DataSessions").write_text("in the way")
    result = CliRunner().invoke(app, ["demo", "--output-dir", str(tmp_path)])
    assert result.exit_code == 2
    assert "error: " in result.stderr
    assert "DataSessions" in result.stderr


@pytest.mark.parametrize(("files", "more"), [(4, None), (7, "└── … 3 more")])
def test_the_tree_shows_the_first_few_of_many(tmp_path, files, more):
    for index in range(files):
        (tmp_path / f"file-{index:03d}.mp4").write_bytes(bytes(1500))
    lines = drawn(tmp_path)
    assert lines[0] == f"{tmp_path.name}/"
    assert lines[1] == "├── file-000.mp4  1.5 kB"
    assert sum("file-" in line for line in lines) == 4
    assert (lines[-1] == more) is bool(more)


def test_the_tree_draws_folders_first_and_names_as_text(tmp_path):
    (tmp_path / "zoo").mkdir()
    (tmp_path / "zoo" / "[bold]a\x1b[0m").touch()
    (tmp_path / "a.json").touch()
    assert drawn(tmp_path)[1:3] == ["├── zoo/", "│   └── [bold]a\N{REPLACEMENT CHARACTER}[0m  0.0 kB"]
