"""No more is computed than is recorded, and what needs a model says so."""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np
import pytest

import lucky_recorder as lr
from lucky_recorder.capture.source import open_source
from lucky_recorder.capture.sync import Sync
from lucky_recorder.episode.schema import entity_id
from lucky_recorder.errors import SettingsError
from lucky_recorder.testing import CountEnv
from tests.capture.models import OVERVIEW, scene, settings, source_of


@pytest.mark.parametrize(
    ("columns", "cameras", "level"),
    [
        ([], [], Sync.NOTHING),
        ([lr.Column("c", "qpos:wheel"), lr.Column("d", "ctrl:lift"), lr.Column("e", "qvel:wheel")], [], Sync.NOTHING),
        ([lr.Column("c", "xpos:flap", shape=(3,))], [], Sync.KINEMATICS),
        ([lr.Column("c", "site_xpos:tip", shape=(3,))], [], Sync.KINEMATICS),
        ([], [OVERVIEW], Sync.PICTURES),
        ([lr.Column("c", "xpos:flap", shape=(3,))], [OVERVIEW], Sync.PICTURES),
        ([lr.Column("c", "sensor:knuckle_pos")], [], Sync.FORWARD),
        ([lr.Column("c", lambda moment: 1.0)], [], Sync.FORWARD),
        ([lr.Column("c", "math:sqrt")], [OVERVIEW], Sync.FORWARD),
    ],
)
def test_no_more_is_computed_than_is_recorded(columns: Any, cameras: Any, level: Sync) -> None:
    source = source_of(scene("joint_zoo"), columns=columns, cameras=cameras)
    assert source.sync_level is level
    assert (source.sync is None) == (level is Sync.NOTHING)
    assert (source.snapshot is None) == (not cameras)


def test_columns_that_are_not_recorded_cost_nothing() -> None:
    columns = [lr.Column("c", "sensor:knuckle_pos")]
    source = source_of(scene("joint_zoo"), columns=columns, cameras=[OVERVIEW], record_data=False)
    assert source.sync_level is Sync.PICTURES


def test_without_pictures_there_is_no_painter_and_no_copy_of_the_model() -> None:
    source = source_of(scene("joint_zoo"))
    assert source.renderer is None
    assert source.model_copy() is None
    assert source.asset_change() is None
    assert not source.needs_gl


def test_only_the_environments_own_pictures_need_no_gl() -> None:
    model = scene("joint_zoo")
    camera = lr.Camera("seen", source="render", width=64, height=48)
    source = open_source(
        settings(cameras=[camera]), model, mujoco.MjData(model), render=lambda: np.zeros((48, 64, 3), np.uint8)
    )
    assert source.renderer is None
    assert not source.needs_gl
    assert source.model_copy() is None
    assert source.asset_change() is None
    assert source.sync is None
    assert source.snapshot is not None
    assert source.snapshot(0)[0].pixels is not None


def test_a_camera_of_a_model_needs_one(record: Any) -> None:
    env = record(CountEnv(), cameras=[OVERVIEW])
    with pytest.raises(SettingsError, match=r"cameras=\('overview',\).*no MuJoCo model.*source='render'"):
        env.reset()


def test_robots_need_a_model(record: Any) -> None:
    env = record(CountEnv(), robots=["left"])
    with pytest.raises(SettingsError, match=r"robots=\('left',\).*no MuJoCo model"):
        env.reset()


def test_an_environment_without_mujoco_is_one_entity(record: Any, read_back: Any, run: Any) -> None:
    env = record(CountEnv())
    run(env)
    env.close()
    [episode] = read_back(env.session_path)
    assert set(episode.rows["entity_id"].tolist()) == {entity_id("env")}


def test_commands_are_none_where_no_column_holds_them() -> None:
    assert source_of(scene("joint_zoo"), "custom", columns=[lr.Column("c", "ctrl:lift")]).commands() is None
    assert source_of(scene("joint_zoo")).commands() is not None
