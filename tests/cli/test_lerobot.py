from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from lucky_recorder.cli.main import app
from lucky_recorder.episode.schema import Field
from lucky_recorder.lerobot.rules import Broken, check_lerobot
from lucky_recorder.session.reader import Session
from tests.session.building import Recording, arm_schema, camera, full_session


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["lerobot", *map(str, arguments)])


def test_a_copy_that_lerobot_opens(tmp_path: Path) -> None:
    source = full_session(tmp_path / "session").root
    result = run(source, tmp_path / "view")
    assert result.exit_code == 0, result.output
    assert "left out: observation.images.Front_depth: depth\n" in result.output
    assert "left out: lidar top\n" in result.output
    assert result.output.endswith(f"ok: {tmp_path / 'view'}: 3 episodes that LeRobot opens\n")
    assert check_lerobot(tmp_path / "view") == []
    assert run(source, tmp_path / "deep", "--depth").exit_code == 0
    assert "Front_depth" in Session(tmp_path / "deep").cameras


def test_one_robot_is_chosen(tmp_path: Path) -> None:
    recording = Recording(tmp_path / "session", arm_schema([camera("Front")], robots=("left", "right")))
    recording.keep(3)
    source = recording.close()
    result = run(source, tmp_path / "view")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "choose one of left, right" in result.stderr
    assert run(source, tmp_path / "view", "--robot", "right").exit_code == 0
    assert Session(tmp_path / "view").robots == ("right",)


def test_what_is_no_session(tmp_path: Path) -> None:
    result = run(tmp_path / "nowhere", tmp_path / "view")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "no such folder" in result.stderr


def test_a_copy_that_lerobot_would_not_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = [Broken(4, "meta/info.json", "it is odd", "make it even")]
    monkeypatch.setattr("lucky_recorder.cli.lerobot.check_lerobot", lambda path: broken)
    recording = Recording(tmp_path / "session", arm_schema())
    recording.keep(2)
    result = run(recording.close(), tmp_path / "view")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "rule 4: meta/info.json: it is odd; make it even\n"


def test_a_column_with_gaps_is_left_out_and_named(tmp_path: Path) -> None:
    """Nothing stands in the place of what is missing: neither 0 nor NaN."""
    kinds = {"score": "float64", "count": "int64", "held": "bool"}
    columns = [Field(name, kind, nullable=True, has_stats=True) for name, kind in kinds.items()]
    pair = Field("pair", "float32", (2,), nullable=True, has_stats=True)
    whole = Field("whole", "int64", nullable=True, has_stats=True)
    recording = Recording(tmp_path / "session", arm_schema([camera("Front")], extra=[*columns, pair, whole]))
    recording.keep(3)
    gaps = np.array([True, False, True, False])
    recording.keep(4, missing={name: gaps for name in (*kinds, "pair")})
    source = recording.close()
    result = run(source, tmp_path / "view")
    assert result.exit_code == 0, result.output
    for name in (*kinds, "pair"):
        assert f"left out: column {name}: 2 rows have no value\n" in result.output
    view = Session(tmp_path / "view")
    assert (
        view.features.keys() & {*kinds, "pair", "whole"} == view.stats.keys() & {*kinds, "pair", "whole"} == {"whole"}
    )
    rows = [episode.rows() for episode in view]
    assert all(table.column_names == rows[0].column_names and "score" not in table.column_names for table in rows)
    assert np.concatenate([t["whole"].to_numpy() for t in rows]).tolist() == recording.all_rows("whole").tolist()
    assert all(not table[name].null_count for table in rows for name in table.column_names)
