from __future__ import annotations

from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import mujoco
import numpy as np
import pytest

import lucky_recorder as lr
from lucky_recorder.capture.schedule import clocks
from lucky_recorder.capture.source import Source, open_source
from lucky_recorder.capture.sync import Sync
from lucky_recorder.envs import scene_path
from lucky_recorder.episode.schema import entity_id
from lucky_recorder.errors import SettingsError, StateError
from lucky_recorder.testing import CountEnv
from tests.capture.drawing import Film, reference
from tests.capture.models import arm, rows, scene, settings, source_of

CAMERA = lr.Camera("overview", width=64, height=48)


@pytest.mark.parametrize(
    ("data_hz", "control", "expected"),
    [
        (None, Fraction(50), (50, 50, 1)),
        (None, Fraction(200, 3), (Fraction(200, 3), Fraction(200, 3), 1)),
        (50, None, (50, 50, 1)),
        (50, Fraction(50), (50, 50, 1)),
        (10, Fraction(50), (10, 50, 5)),
        ("100/3", Fraction(200, 3), (Fraction(100, 3), Fraction(200, 3), 2)),
        (66.666666666, Fraction(200, 3), (Fraction(200, 3), Fraction(200, 3), 1)),
    ],
)
def test_the_data_rate_is_the_control_rate_unless_one_that_divides_it_is_asked_for(
    data_hz: Any, control: Any, expected: Any
) -> None:
    settled = clocks(settings(data_hz=data_hz), control)
    assert (settled.data, settled.control, settled.ticks_per_row) == expected


@pytest.mark.parametrize(
    ("data_hz", "control", "why"),
    [
        (None, None, "nothing here says how long a step is"),
        (30, Fraction(50), "does not divide the fastest rate here, 50 Hz, evenly; nearest that do: 25 or 50 Hz"),
        (40, Fraction(200, 3), r"nearest that do: 100/3 or 200/3 Hz"),
        (100, Fraction(50), "above the fastest rate here; the nearest: 50 Hz"),
        (67, Fraction(200, 3), "above the fastest rate here; the nearest: 200/3 Hz"),
    ],
)
def test_a_data_rate_that_cannot_be_is_refused_naming_those_that_can(data_hz: Any, control: Any, why: str) -> None:
    with pytest.raises(SettingsError, match=f"data_hz=.*{why}"):
        clocks(settings(data_hz=data_hz), control)


@pytest.mark.parametrize("frame_rate", [30, 100, 40])
def test_a_frame_rate_that_does_not_divide_the_data_rate_is_refused(frame_rate: int) -> None:
    with pytest.raises(SettingsError, match=f"camera 'overview': frame_rate='{frame_rate}'.*nearest( that do)?: "):
        source_of(scene("joint_zoo"), cameras=[lr.Camera("overview", width=64, height=48, frame_rate=frame_rate)])


@pytest.mark.parametrize("frame_rate", [None, 50, 25, 1, Fraction(50, 3)])
def test_a_stream_has_the_rate_that_its_frames_come_at(frame_rate: Any) -> None:
    camera = lr.Camera("overview", width=64, height=48, frame_rate=frame_rate)
    [stream] = source_of(scene("joint_zoo"), cameras=[camera]).schema.streams
    assert stream.rate == (frame_rate or 50)
    assert (stream.key, stream.width, stream.height) == ("observation.images.overview", 64, 48)


# How much must follow from a state.


@pytest.mark.parametrize(
    ("columns", "cameras", "level"),
    [
        ([], [], Sync.NOTHING),
        ([lr.Column("c", "qpos:wheel"), lr.Column("d", "ctrl:lift"), lr.Column("e", "qvel:wheel")], [], Sync.NOTHING),
        ([lr.Column("c", "xpos:flap", shape=(3,))], [], Sync.KINEMATICS),
        ([lr.Column("c", "site_xpos:tip", shape=(3,))], [], Sync.KINEMATICS),
        ([], [CAMERA], Sync.KINEMATICS),
        ([lr.Column("c", "sensor:knuckle_pos")], [], Sync.FORWARD),
        ([lr.Column("c", lambda moment: 1.0)], [], Sync.FORWARD),
        ([lr.Column("c", "math:sqrt")], [CAMERA], Sync.FORWARD),
    ],
)
def test_no_more_is_computed_than_is_recorded(columns: Any, cameras: Any, level: Sync) -> None:
    source = source_of(scene("joint_zoo"), columns=columns, cameras=cameras)
    assert source.sync_level is level
    assert (source.sync is None) == (level is Sync.NOTHING)
    assert (source.snapshot is None) == (not cameras)


def test_columns_that_are_not_recorded_cost_nothing() -> None:
    columns = [lr.Column("c", "sensor:knuckle_pos")]
    source = source_of(scene("joint_zoo"), columns=columns, cameras=[CAMERA], record_data=False)
    assert source.sync_level is Sync.KINEMATICS


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
    env = record(CountEnv(), cameras=[CAMERA])
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


# Rates that are learned.

WITHOUT_RATES = {"data_hz": None, "mode": "full_scene"}


def learning(model: mujoco.MjModel, data: mujoco.MjData | None = None, **fields: Any) -> Source:
    data = mujoco.MjData(model) if data is None else data
    return open_source(settings(**{**WITHOUT_RATES, **fields}), model, data, learns_rate=True)


def every_stream(rate: Any = None) -> dict[str, Any]:
    depth = lr.Camera("overview", width=64, height=48, frame_rate=rate, depth_mode="rgbd", sensor_model="ActiveStereo")
    return {"cameras": [CAMERA_AT_DATA_RATE, depth], "lidars": [lr.Lidar("l", site="tip", rate=rate)]}


CAMERA_AT_DATA_RATE = lr.Camera("plain", source="overview", width=64, height=48)


def test_a_rate_that_nothing_says_is_refused_unless_it_will_be_learned() -> None:
    model = scene("joint_zoo")
    with pytest.raises(SettingsError, match="data_hz=None: nothing here says how long a step is"):
        open_source(settings(**WITHOUT_RATES), model, mujoco.MjData(model))
    assert not learning(model).has_rates


@pytest.mark.parametrize("known", [{"data_hz": 50}, {"control": Fraction(50)}])
def test_a_rate_that_is_known_is_not_learned(known: Any) -> None:
    model, control = scene("joint_zoo"), known.get("control")
    asked = settings(mode="full_scene", data_hz=known.get("data_hz"))
    source = open_source(asked, model, mujoco.MjData(model), control=control, learns_rate=True)
    assert source.has_rates
    with pytest.raises(StateError, match="known already: 50 steps a second"):
        source.settle_rates(Fraction(100))
    assert source.clocks.data == 50


def test_what_is_learned_is_what_would_have_been_known() -> None:
    model = scene("joint_zoo")
    fields = every_stream(25)
    known = open_source(settings(**WITHOUT_RATES, **fields), model, mujoco.MjData(model), control=Fraction(50))
    source = learning(model, **fields)
    source.settle_rates(Fraction(50))
    assert source.has_rates
    assert source.clocks == known.clocks
    assert source.schema == known.schema
    assert [s.rate for s in source.schema.streams] == [50, 25, 25, 25]
    assert [s.rate for s in source.schema.scans] == [25]
    assert source.snapshot is not None
    source.refresh()
    due = [len(taken) for taken in map(source.snapshot, range(4))]
    assert due == [3, 1, 3, 1]


def test_at_tick_0_all_is_due_before_the_rates_are_known() -> None:
    model, data = scene("joint_zoo"), None
    source = learning(model, data, **every_stream(1))
    assert source.sync is not None
    assert source.snapshot is not None
    source.sync()
    assert len(source.snapshot(0)) == 3


def test_what_a_stream_says_is_what_was_there_when_the_source_was_opened() -> None:
    model = scene("joint_zoo")
    source = learning(model, **every_stream())
    before = source.schema.stream("observation.images.overview_depth").info["sensor_params"]["focal_px"]
    model.cam_fovy[:] *= 1.5
    source.settle_rates(Fraction(50))
    assert source.schema.stream("observation.images.overview_depth").info["sensor_params"]["focal_px"] == before


@pytest.mark.parametrize(
    ("fields", "control", "why"),
    [
        ({"cameras": [lr.Camera("overview", width=64, height=48, frame_rate=30)]}, 50, "frame_rate='30'.*25 or 50 Hz"),
        ({"lidars": [lr.Lidar("l", site="tip", rate=100)]}, 50, "lidar 'l': rate='100'.*nearest: 50 Hz"),
        (
            {"cameras": [lr.Camera("overview", width=64, height=48, depth_mode="separate")]},
            2000,
            "data_hz='2000'.*at most 1000 frames a second",
        ),
    ],
)
def test_a_learned_rate_that_cannot_be_is_refused_and_nothing_is_settled(
    fields: dict[str, Any], control: int, why: str
) -> None:
    source = learning(scene("joint_zoo"), **fields)
    schema, snapshot = source.schema, source.snapshot
    with pytest.raises(SettingsError, match=why):
        source.settle_rates(Fraction(control))
    assert not source.has_rates
    assert source.schema is schema
    assert source.snapshot == snapshot
    assert source.clocks.every(None) == 1


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"cameras": [lr.Camera("nowhere", width=64, height=48)]}, "camera 'nowhere'"),
        ({"lidars": [lr.Lidar("l", site="nowhere")]}, "lidar 'l'"),
        ({"columns": [lr.Column("c", "qpos:nowhere")]}, "column 'c'"),
    ],
)
def test_what_cannot_be_recorded_at_any_rate_is_refused_at_once(fields: dict[str, Any], why: str) -> None:
    with pytest.raises(SettingsError, match=why):
        learning(scene("joint_zoo"), **fields)


def test_new_data_are_followed_before_the_rates_are_known() -> None:
    model = scene("joint_zoo")
    source, fresh = learning(model), mujoco.MjData(model)
    assert source.rebind(model, fresh) is False
    source.settle_rates(Fraction(50))
    assert source.time is fresh
    assert source.schema.hz == 50


# Environments that make a new model, or new data, at every reset.


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
    assert source.time is fresh
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
    assert source.time is data
    assert source.moment.model is model
    assert rows(source, 1, lambda step: None)["observation.state"].tolist() == [[0.5]]
    assert source.rebind(model, data) is False


def test_a_camera_that_the_new_model_lacks_is_refused() -> None:
    source = source_of(scene("joint_zoo"), cameras=[CAMERA])
    spec = mujoco.MjSpec.from_file(str(scene_path("joint_zoo")))
    spec.delete(spec.camera("overview"))
    other = spec.compile()
    with pytest.raises(SettingsError, match="camera 'overview'"):
        source.rebind(other, mujoco.MjData(other))


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
    with Film(model, data, [CAMERA]) as film:
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
        cameras=[CAMERA],
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
        with pytest.raises(SettingsError, match="changed its model"):
            env.reset()
    env.close()
    [episode] = read_back(env.session_path)
    assert episode.rows["observation.state"].tolist() == [[0]]


def test_keeping_the_episode_across_a_new_model(record: Any, read_back: Any) -> None:
    env = record(Rebuilt(), mode="robot_arm", columns=[lr.Column("a", "gym:action")], cameras=[CAMERA])
    env.reset()
    env.step(np.ones(1))
    env.reset(options={"keep_episode": True})
    env.step(np.full(1, 0.5))
    env.end_episode(success=True)
    env.close()
    [episode] = read_back(env.session_path)
    assert episode.rows["observation.state"][:, 0].tolist() == [0, 10]
    assert episode.rows["a"].tolist() == [1, 0.5]
    assert episode.rows["frame_flags"].tolist() == [3, 3]
    means = episode.frames["overview"].reshape(2, -1, 3).mean(axis=1)
    assert means.argmax(axis=1).tolist() == [0, 1]
