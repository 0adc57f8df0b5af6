from __future__ import annotations

import sys

import numpy as np
from typer.testing import CliRunner

from lucky_recorder.cli.main import app
from lucky_recorder.testing import check_session


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
    assert len(scans) == -(-episode.data_ticks // 5)
    assert np.isfinite(scans.ranges(0)).any()


def test_a_demo_that_cannot_be_written_says_so(tmp_path):
    (tmp_path / "DataSessions").write_text("in the way")
    result = CliRunner().invoke(app, ["demo", "--output-dir", str(tmp_path)])
    assert result.exit_code == 2
    assert "error: " in result.stderr
    assert "DataSessions" in result.stderr
