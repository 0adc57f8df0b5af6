"""Environments that make a new model, or new data, at every reset: it is followed where its columns are the same."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import mujoco
import numpy as np
import pytest

import lucky_recorder as lr
from lucky_recorder.errors import SettingsError
from tests.capture.drawing import Film, reference
from tests.capture.models import OVERVIEW, arm, rows, scene, source_of


def test_the_same_simulation_is_not_bound_again() -> None:
    model = scene("joint_zoo")
    data = mujoco.MjData(model)
    source = source_of(model, data=data)
    columns = source.columns
    assert source.rebind(model, data) is False
    assert source.columns is columns


def test_new_data_of_the_same_model_are_followed() -> None:
    model = scene("joint_zoo")
    source = source_of(model, "full_scene")
    fresh = mujoco.MjData(model)
    fresh.qpos[:] = np.arange(model.nq)
    assert source.rebind(model, fresh) is False
    assert source.pulse.data is fresh
    assert rows(source, 1, lambda step: None)["observation.state"].tolist() == [list(range(model.nq))]


def test_a_new_model_with_new_ranges_is_followed() -> None:
    source = source_of(arm('<position name="m" joint="pan" ctrlrange="0 1"/>'))
    other = arm('<position name="m" joint="pan" ctrlrange="0 1"/>', joints='<joint name="pan" range="5 7"/>')
    data = mujoco.MjData(other)
    data.ctrl[:] = 1
    assert source.rebind(other, data) is True
    assert rows(source, 1, lambda step: None)["action"].tolist() == [[7]]


def test_callables_see_the_new_model_in_the_same_moment() -> None:
    source = source_of(scene("joint_zoo"), columns=[lr.Column("c", lambda m: m.data.qpos[0])])
    moment, other = source.moment, scene("joint_zoo")
    fresh = mujoco.MjData(other)
    fresh.qpos[0] = 0.25
    source.rebind(other, fresh)
    assert source.moment is moment
    assert moment.model is other
    assert rows(source, 1, lambda step: None)["c"].tolist() == [0.25]


@pytest.mark.parametrize(
    "other",
    [
        arm('<motor name="renamed" joint="pan"/>'),
        arm('<motor name="m" joint="pan"/><motor name="n" joint="pan"/>'),
        arm('<motor name="m" joint="tilt"/>', joints='<joint name="tilt"/>'),
        arm(""),
    ],
    ids=["another name", "one more actuator", "another joint", "no actuator"],
)
def test_a_model_with_other_columns_is_refused_every_time_and_the_old_one_kept(other: mujoco.MjModel) -> None:
    model = arm('<motor name="m" joint="pan"/>')
    data = mujoco.MjData(model)
    data.qpos[0] = 0.5
    source = source_of(model, data=data)
    for _ in range(2):
        with pytest.raises(SettingsError):
            source.rebind(other, mujoco.MjData(other))
    assert source.pulse.data is data
    assert source.moment.model is model
    assert rows(source, 1, lambda step: None)["observation.state"].tolist() == [[0.5]]
    assert source.rebind(model, data) is False


INSIDE = (
    """<camera name="eye" pos="0 0 1"/><body name="cube" pos="0 0 .3"><geom size=".1"/><site name="spot"/></body>"""
)
EYE = {"name": "eye", "width": 64, "height": 48}


@pytest.mark.parametrize(
    ("recorded", "name", "lacks"),
    [
        ({"cameras": [EYE]}, "eye", "camera 'eye': source='eye': the model has no camera of that name"),
        (
            {"cameras": [{**EYE, "masks": ["cube"]}], "record_masks": True},
            "cube",
            "camera 'eye': masks='cube': the mode",
        ),
        (
            {"columns": [lr.Column("c", "xpos:cube", shape=(3,))]},
            "cube",
            "column 'c': source='cube': the model has no body",
        ),
        ({"lidars": [{"name": "spot"}]}, "spot", "lidar 'spot': site='spot'"),
        ({"robots": ["link"]}, "link", r"robots\[0\]='link': the model has no body"),
    ],
)
def test_what_a_new_model_lacks_is_named_with_the_difference(recorded: Any, name: str, lacks: str) -> None:
    def model(inside: str) -> mujoco.MjModel:
        base = arm('<position name="m" joint="pan"/>', inside=INSIDE.replace(f'"{name}"', f'"{inside}"'))
        return base if name != "link" or inside == name else scene("pick_cube")

    source = source_of(model(name), **recorded)
    other = model("another")
    said = "the environment replaced its model, or its data, and this session cannot go on with the new one: "
    for _ in range(2):
        with pytest.raises(SettingsError, match=said + lacks):
            source.rebind(other, mujoco.MjData(other))
    again = model(name)
    assert source.rebind(again, mujoco.MjData(again)) is True


def test_new_data_and_a_changed_texture_at_once() -> None:
    """What the context holds is remembered as long as the model is the same, whoever's data is looked at."""
    model = mujoco.MjModel.from_xml_string(
        """<mujoco><visual><quality shadowsize="0" offsamples="0"/></visual>
        <asset><texture name="t" type="2d" builtin="flat" rgb1="1 0 0" width="8" height="8"/>
        <material name="t" texture="t"/></asset>
        <worldbody><light pos="0 0 3"/><camera name="overview" pos="0 0 1"/>
        <geom type="box" size="1 1 .1" material="t"/><body pos="0 0 9"><joint/><geom size=".1"/></body>
        </worldbody></mujoco>"""
    )
    data = mujoco.MjData(model)
    with Film(model, data, [OVERVIEW]) as film:
        before = film.frame()[0]
        model.tex_data[:] = 120
        fresh = mujoco.MjData(model)
        assert film.source.rebind(model, fresh) is False
        assert film.begin() is not None
        after = film.frame()[0]
        assert (after != before).any()
        np.testing.assert_array_equal(after, reference(model, fresh, "overview"))


class Rebuilt(gym.Env[Any, Any]):
    """Like robosuite: model and data are made anew at every reset, wrapped, and the wall has another colour."""

    action_space = gym.spaces.Box(-1, 1, (1,))
    observation_space = gym.spaces.Box(-1, 1, (1,))
    control_freq = 50

    def __init__(self, renames: bool = False) -> None:
        self.episode = -1
        self._renames = renames
        self._load()

    def _load(self) -> None:
        joint = f"pan{self.episode}" if self._renames and self.episode > 0 else "pan"
        colour = ("1 0 0", "0 1 0", "0 0 1")[self.episode % 3]
        self.native = mujoco.MjModel.from_xml_string(
            f"""<mujoco model="rebuilt"><compiler angle="radian"/>
            <visual><quality shadowsize="0" offsamples="0"/><headlight active="0"/></visual>
            <asset><texture name="t" type="2d" builtin="flat" rgb1="{colour}" width="8" height="8"/>
            <material name="t" texture="t" emission="1"/></asset>
            <worldbody><camera name="overview" pos="0 0 1"/><geom type="box" size="4 4 .1" material="t"/>
            <body pos="0 0 -9"><joint name="{joint}" range="0 {self.episode + 2}" limited="true"/><geom size=".1"/>
            </body></worldbody>
            <actuator><position name="m" joint="{joint}" ctrlrange="-1 1" ctrllimited="true"/></actuator></mujoco>"""
        )
        self.data = mujoco.MjData(self.native)
        self.sim = SimpleNamespace(model=SimpleNamespace(_model=self.native), data=SimpleNamespace(_data=self.data))

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.episode += 1
        self._load()
        self.data.qpos[0] = 10 * self.episode
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> Any:
        self.data.ctrl[:] = action
        self.data.qpos[0] += 1
        self.data.time += 0.02
        return np.zeros(1, np.float32), 0.0, False, False, {"success": True}


def test_rows_and_pictures_are_those_of_the_model_of_the_episode(record: Any, read_back: Any) -> None:
    env = record(
        Rebuilt(),
        mode="robot_arm",
        cameras=[OVERVIEW],
        columns=[lr.Column("q", "qpos:pan"), lr.Column("t", lambda m: m.data.qpos[0])],
    )
    for _ in range(4):
        env.reset()
        for _ in range(3):
            env.step(np.ones(1))
    env.end_episode(success=True)
    env.close()
    episodes = read_back(env.session_path)
    assert len(episodes) == 4
    for number, episode in enumerate(episodes):
        expected = [10 * number + t for t in range(3)]
        assert episode.rows["observation.state"][:, 0].tolist() == episode.rows["q"].tolist() == expected
        assert episode.rows["t"].tolist() == expected
        assert episode.rows["action"][:, 0].tolist() == [number + 2] * 3
        means = episode.frames["overview"].reshape(3, -1, 3).mean(axis=1)
        assert (means.argmax(axis=1) == number % 3).all()
        assert (means.max(axis=1) > 200).all()


def test_an_environment_that_renames_a_joint_is_refused_at_every_reset(record: Any, read_back: Any) -> None:
    env = record(Rebuilt(renames=True), mode="robot_arm", columns=[])
    env.reset()
    env.step(np.ones(1))
    for _ in range(2):
        with pytest.raises(SettingsError, match=r"another layout: observation\.state .*new: pan\d, gone: pan"):
            env.reset()
    env.close()
    [episode] = read_back(env.session_path)
    assert episode.rows["observation.state"].tolist() == [[0]]


def test_keeping_the_episode_across_a_new_model(record: Any, read_back: Any) -> None:
    env = record(Rebuilt(), mode="robot_arm", columns=[lr.Column("a", "gym:action")], cameras=[OVERVIEW])
    env.reset()
    env.step(np.ones(1))
    env.reset(options={"keep_episode": True})
    env.step(np.full(1, 0.5))
    env.end_episode(success=True)
    env.close()
    [episode] = read_back(env.session_path)
    assert episode.rows["observation.state"][:, 0].tolist() == [0, 10]
    assert episode.rows["a"].tolist() == [1, 0.5]
    # Each command on the scale of the model that took it.
    assert episode.rows["action"][:, 0].tolist() == [2, 2.25]
    assert episode.rows["frame_flags"].tolist() == [3, 3]
    means = episode.frames["overview"].reshape(2, -1, 3).mean(axis=1)
    assert means.argmax(axis=1).tolist() == [0, 1]


class RebuiltInside(Rebuilt):
    """Makes everything anew inside every step, too; time and the joint go on."""

    def step(self, action: Any) -> Any:
        result = super().step(action)
        old, self.episode = self.data, self.episode + 1
        self._load()
        self.data.time, self.data.qpos[:], self.data.ctrl[:] = old.time, old.qpos, old.ctrl
        return result


@pytest.mark.parametrize("frame_rate", [50, 25])
def test_textures_are_those_of_the_model_of_the_tick(record: Any, read_back: Any, frame_rate: int) -> None:
    """A texture is in the rendering context, which belongs to one model."""
    camera = lr.Camera("overview", width=64, height=48, frame_rate=frame_rate)
    env = record(RebuiltInside(), mode="robot_arm", cameras=[camera], columns=[])
    env.reset()
    for _ in range(8):
        env.step(np.ones(1))
    env.end_episode(success=True)
    env.close()
    [episode] = read_back(env.session_path)
    assert episode.rows["observation.state"][:, 0].tolist() == list(range(8))
    # In step k it is model k + 1 that takes the command, at the end of its range.
    assert episode.rows["action"][:, 0].tolist() == [k + 3 for k in range(8)]
    means = episode.frames["overview"].reshape(8 * frame_rate // 50, -1, 3).mean(axis=1)
    assert means.argmax(axis=1).tolist() == [k % 3 for k in range(0, 8, 50 // frame_rate)]
    assert (means.max(axis=1) > 200).all()
