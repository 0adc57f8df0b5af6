"""Columns of texts: LeRobot hands them out, unless one is missing, or is called like what a policy reads."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import lucky_recorder as lr
from lucky_recorder.episode.schema import Field
from lucky_recorder.lerobot.rules import check_lerobot
from lucky_recorder.session.reader import Session
from lucky_recorder.testing import check_session
from tests.session.building import Recording, arm_schema, camera

FILE = "data/chunk-000/file-001.parquet"


def session_of(path: Path, *names: str, lacking: str = "", robots: tuple[str, ...] = ("arm",)) -> Path:
    schema = arm_schema([camera("Front")], robots, extra=[Field(name, "string", nullable=True) for name in names])
    recording = Recording(path / "session", schema)
    for episode in range(2):
        texts = np.array([None, *(["x"] * (4 * len(robots) - 1))], object)
        recording.keep(4, values={lacking: texts} if lacking and episode else {})
    recording.close()
    check_session(recording.root)
    return recording.root


def test_texts_are_kept_where_every_row_has_one(tmp_path: Path) -> None:
    source = session_of(tmp_path, "said")
    assert check_lerobot(source) == []
    made = lr.lerobot_view(source, tmp_path / "view")
    assert made.left_out == ()
    assert os.path.samefile(source / FILE, made.path / FILE)
    assert Session(made.path).episode(1).rows()["said"] == Session(source).episode(1).rows()["said"]


@pytest.mark.parametrize("robots", [("arm",), ("left", "right")])
def test_a_text_that_is_missing_anywhere_leaves_its_column_out(tmp_path: Path, robots: tuple[str, ...]) -> None:
    source = session_of(tmp_path, "whole", "said", lacking="said", robots=robots)
    assert [b.message for b in check_lerobot(source) if b.rule == 6] == ["said has rows without a value"]
    made = lr.lerobot_view(source, tmp_path / "view", robot=robots[0])
    assert made.left_out == ("column said: 1 row has no value",)
    assert check_lerobot(made.path) == []
    view = Session(made.path)
    assert "said" not in view.features
    assert view.features["whole"] == Session(source).features["whole"]
    rows = view.episode(1).rows()
    assert "said" not in rows.column_names
    assert rows["whole"].to_pylist() == Session(source).episode(1).rows()["whole"].to_pylist()[:: len(robots)]


@pytest.mark.parametrize("robot", ["left", "right"])
def test_only_what_the_chosen_robot_s_rows_lack_counts(tmp_path: Path, robot: str) -> None:
    lacks = {"left": [True, False] * 4, "right": [False, False, False, True, False, True, False, False]}
    extra = [Field(name, "float64", nullable=True, has_stats=True) for name in lacks]
    recording = Recording(tmp_path / "session", arm_schema(robots=("left", "right"), extra=extra))
    recording.keep(4)
    recording.keep(4, missing={name: np.array(gone) for name, gone in lacks.items()})
    made = lr.lerobot_view(recording.close(), tmp_path / "view", robot=robot)
    rows = {"left": 4, "right": 2}[robot]
    assert made.left_out == (f"column {robot}: {rows} rows have no value",)
    assert check_lerobot(made.path) == []
    other = {"left": "right", "right": "left"}[robot]
    kept = np.concatenate([np.array(e.rows([other])[other].to_pylist()) for e in Session(made.path)])
    np.testing.assert_array_equal(kept, recording.all_rows(other)[("left", "right").index(robot) :: 2])


NAMES = ("observation.said", "observation_said", "observations", "action.said", "action_said", "actions")


@pytest.mark.parametrize("name", NAMES)
def test_a_text_that_policies_would_take_for_numbers_is_left_out(tmp_path: Path, name: str) -> None:
    source = session_of(tmp_path, name)
    [broken] = check_lerobot(source)
    assert broken.rule == 9
    assert broken.message == f"{name} is a text, and policies take every column that is called so for numbers"
    made = lr.lerobot_view(source, tmp_path / "view")
    assert made.left_out == (f"column {name}: a text",)
    assert check_lerobot(made.path) == []
