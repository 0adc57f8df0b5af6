from __future__ import annotations

from typing import Any

import gymnasium as gym
import mujoco
import numpy as np
import pyarrow.parquet as pq
import pytest

import lucky_recorder as lr
from lucky_recorder.capture.custom import space_layout
from lucky_recorder.envs import scene_path
from lucky_recorder.errors import CaptureError, SettingsError
from lucky_recorder.testing import CountEnv, check_session
from tests.capture.models import arm, features, forward, rows, scene, source_of, state

SOURCES = {
    "sensor:knuckle_pos": (),
    "sensor:tip_pos": (3,),
    "sensor:puck_acc": (3,),
    "qpos:swivel": (4,),
    "qpos:puck": (7,),
    "qpos:wheel": (),
    "qvel:swivel": (3,),
    "qvel:puck": (6,),
    "qvel:carriage": (),
    "xpos:fingertip": (3,),
    "xquat:flap": (4,),
    "site_xpos:tip": (3,),
    "ctrl:curl": (),
}


def expected(source: str, data: mujoco.MjData, ctrl: np.ndarray) -> Any:
    kind, name = source.split(":")
    if kind == "sensor":
        return data.sensor(name).data
    if kind in ("qpos", "qvel"):
        return getattr(data.joint(name), kind)
    if kind in ("xpos", "xquat"):
        return getattr(data.body(name), kind)
    if kind == "site_xpos":
        return data.site(name).xpos
    return ctrl[[data.actuator(name).id]]


def recorded_while_moving(
    sources: list[str], robots: Any = None
) -> tuple[dict[str, np.ndarray], list[np.ndarray], list[np.ndarray]]:
    """Record a moving scene; returns the columns, and the states and commands of the ticks."""
    model = scene("joint_zoo")
    data = mujoco.MjData(model)
    data.qvel[:] = np.linspace(-1, 1, model.nv)
    columns = [lr.Column(f"c{i}", s, shape=SOURCES[s]) for i, s in enumerate(sources)]
    states, commands = [state(model, data)], []

    def act(step: int) -> None:
        data.ctrl[:] = np.sin(step + np.arange(model.nu))
        commands.append(data.ctrl.copy())
        mujoco.mj_step(model, data, 10)
        states.append(state(model, data))

    derived = rows(source_of(model, "custom", data, columns=columns, robots=robots), 20, act)
    return derived, states[:-1], commands


@pytest.mark.parametrize("source", SOURCES)
def test_a_source_gives_what_mj_forward_gives_on_the_state_of_the_row(source: str) -> None:
    columns, states, commands = recorded_while_moving([source])
    model = scene("joint_zoo")
    for row, values, ctrl in zip(columns["c0"], states, commands, strict=True):
        known = np.asarray(expected(source, forward(model, values), ctrl)).reshape(SOURCES[source])
        np.testing.assert_array_equal(row, known)


def test_all_sources_together_give_the_same_as_each_alone() -> None:
    together, _, _ = recorded_while_moving(list(SOURCES))
    for i, source in enumerate(SOURCES):
        alone, _, _ = recorded_while_moving([source])
        np.testing.assert_array_equal(together[f"c{i}"], alone["c0"])


def test_the_simulations_own_arrays_do_lag_where_a_row_does_not() -> None:
    """After mj_step the user's xpos is one physics step old; the row's is not."""
    model = scene("joint_zoo")
    data = mujoco.MjData(model)
    data.qvel[:] = 1
    source = source_of(model, "custom", data, columns=[lr.Column("tip", "site_xpos:tip", shape=(3,))])
    mujoco.mj_step(model, data)
    lagging = data.site("tip").xpos.copy()
    [row] = rows(source, 1, lambda step: None)["tip"]
    assert np.abs(row - lagging).max() > 1e-6
    np.testing.assert_array_equal(row, forward(model, state(model, data)).site("tip").xpos)


def test_ctrl_is_the_command_during_the_step_and_raw() -> None:
    model = scene("joint_zoo")
    data = mujoco.MjData(model)
    source = source_of(model, "robot_arm", data, columns=[lr.Column("lift", "ctrl:lift")])

    def act(step: int) -> None:
        data.ctrl[0] = 255 * (step % 2)

    columns = rows(source, 2, act)
    assert columns["lift"].tolist() == [0, 255]
    assert columns["action"][:, 0].tolist() == [-0.1, 0.2]


@pytest.mark.parametrize("source", ["qpos:left_elbow_flex", "xpos:left_hand", "sensor:tip", "ctrl:left_gripper"])
def test_a_source_is_the_same_for_every_robot(source: str) -> None:
    model = scene("twin_arms")
    spec = mujoco.MjSpec.from_file(str(scene_path("twin_arms")))
    spec.add_sensor(
        name="tip", type=mujoco.mjtSensor.mjSENS_FRAMEPOS, objtype=mujoco.mjtObj.mjOBJ_SITE, objname="left_grasp"
    )
    model = spec.compile()
    data = mujoco.MjData(model)
    data.qpos[:6], data.ctrl[:] = 0.3, np.arange(12)
    shape = () if source.startswith(("qpos", "ctrl")) else (3,)
    columns = [lr.Column("c", source, shape=shape)]
    robots = ("left_base", "right_base")
    derived = rows(source_of(model, data=data, robots=robots, columns=columns), 2, lambda step: None)["c"]
    known = np.asarray(expected(source, forward(model, state(model, data)), data.ctrl)).reshape(shape)
    assert derived.tolist() == [known.tolist()] * 4


@pytest.mark.parametrize(
    ("source", "near"),
    [
        ("sensor:tip_po", "tip_pos"),
        ("qpos:whee", "wheel"),
        ("qvel:pck", "puck"),
        ("xpos:finger_tip", "fingertip"),
        ("xquat:flaps", "flap"),
        ("site_xpos:tipp", "tip"),
        ("ctrl:lft", "lift"),
    ],
)
def test_an_unknown_name_suggests_near_ones(source: str, near: str) -> None:
    with pytest.raises(SettingsError, match=f"column 'c': source='{source.split(':')[1]}'.*it has: .*{near}"):
        features(scene("joint_zoo"), "custom", columns=[lr.Column("c", source)])


@pytest.mark.parametrize(("source", "shape"), list(SOURCES.items()))
def test_another_shape_than_the_sources_is_refused_and_the_right_one_named(source: str, shape: tuple[int, ...]) -> None:
    wrong = (5,)
    natural = shape or (1,)
    with pytest.raises(SettingsError, match=f"column 'c': shape.*{source} gives shape.*{natural[0]}"):
        features(scene("joint_zoo"), "custom", columns=[lr.Column("c", source, shape=wrong)])


@pytest.mark.parametrize("shape", [(), (1,)])
def test_a_scalar_source_may_be_declared_with_and_without_its_one(shape: tuple[int, ...]) -> None:
    field = features(scene("joint_zoo"), "custom", columns=[lr.Column("c", "qpos:wheel", shape=shape)])["c"]
    assert field.shape == ()


@pytest.mark.parametrize("dtype", ["int64", "bool", "uint8"])
def test_a_dtype_that_holds_no_floats_is_refused(dtype: str) -> None:
    with pytest.raises(SettingsError, match=f"column 'c': dtype='{dtype}'.*float64"):
        features(scene("joint_zoo"), "custom", columns=[lr.Column("c", "qpos:wheel", dtype=dtype)])


def test_float32_is_the_rounded_value() -> None:
    model = scene("joint_zoo")
    data = mujoco.MjData(model)
    data.joint("wheel").qpos[0] = 0.1
    [value] = rows(
        source_of(model, "custom", data, columns=[lr.Column("c", "qpos:wheel", dtype="float32")]), 1, lambda s: None
    )["c"]
    assert value.dtype == np.float32
    assert value == np.float32(0.1)


def test_names_and_unit_are_kept() -> None:
    column = lr.Column("c", "xpos:flap", shape=(3,), names=("x", "y", "z"), unit="m")
    field = features(scene("joint_zoo"), "custom", columns=[column])["c"]
    assert (field.names, field.unit, field.has_stats) == (("x", "y", "z"), "m", True)


def test_unnamed_things_are_found_by_what_the_recorder_calls_them() -> None:
    model = arm("<motor joint='pan'/>", joints='<joint name="pan"/><joint axis="0 1 0" ref="0.25"/>')
    columns = [lr.Column("q", "qpos:joint_1"), lr.Column("u", "ctrl:actuator_0")]
    assert rows(source_of(model, "custom", columns=columns), 1, lambda s: None)["q"].tolist() == [0.25]


@pytest.mark.parametrize("source", ["qpos:wheel", "xpos:flap", "sensor:tip_pos", "ctrl:lift"])
def test_without_mujoco_a_source_of_it_is_refused(record: Any, source: str) -> None:
    env = record(CountEnv(), columns=[lr.Column("c", source)])
    with pytest.raises(SettingsError, match=f"column 'c': source='{source}'.*no MuJoCo model"):
        env.reset()


def user_sensor() -> mujoco.MjModel:
    return arm("", extra='<sensor><user name="u" dim="2" needstage="pos"/></sensor>')


def sense(value: float) -> None:
    def fill(model: Any, data: Any, stage: int) -> None:
        if stage == mujoco.mjtStage.mjSTAGE_POS:
            data.sensordata[:] = value

    mujoco.set_mjcb_sensor(fill)


@pytest.fixture
def _without_callbacks() -> Any:
    yield
    mujoco.set_mjcb_sensor(None)


@pytest.mark.usefixtures("_without_callbacks")
def test_a_sensor_that_reads_nan_is_refused_unless_allowed() -> None:
    model = user_sensor()
    sense(np.nan)
    with pytest.raises(CaptureError, match="sensor holds NaN"):
        rows(source_of(model, "custom", columns=[lr.Column("u", "sensor:u", shape=(2,))]), 1, lambda step: None)
    allowed = [lr.Column("u", "sensor:u", shape=(2,), allow_nan=True)]
    assert np.isnan(rows(source_of(model, "custom", columns=allowed), 1, lambda step: None)["u"]).all()
    sense(2.5)
    assert rows(source_of(model, "custom", columns=allowed), 1, lambda step: None)["u"].tolist() == [[2.5, 2.5]]


def test_allowing_nan_changes_no_other_value() -> None:
    sources = [s for s in SOURCES if s != "ctrl:curl"]
    model = scene("joint_zoo")
    data = mujoco.MjData(model)
    data.qvel[:] = 1
    mujoco.mj_step(model, data, 20)
    plain, allowed = (
        rows(
            source_of(model, "custom", data, columns=[lr.Column(s, s, shape=SOURCES[s], allow_nan=a) for s in sources]),
            1,
            lambda step: None,
        )
        for a in (False, True)
    )
    for source in sources:
        np.testing.assert_array_equal(plain[source], allowed[source])


# Callables.


def speed(moment: Any) -> float:
    """A column of the user's own, found by its name."""
    return float(moment.data.qvel[0])


def test_a_callable_by_its_name_or_itself() -> None:
    model = scene("joint_zoo")
    data = mujoco.MjData(model)
    data.qvel[0] = 0.75
    columns = [lr.Column("a", f"{__name__}:speed"), lr.Column("b", speed), lr.Column("c", lambda m: m.data.time)]
    derived = rows(source_of(model, "custom", data, columns=columns), 1, lambda step: None)
    assert (derived["a"].tolist(), derived["b"].tolist(), derived["c"].tolist()) == ([0.75], [0.75], [0.0])


def test_a_callable_that_cannot_be_imported_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"column 'c': source='no\.such:thing'.*cannot be imported"):
        features(scene("joint_zoo"), "custom", columns=[lr.Column("c", "no.such:thing")])


def test_a_callable_sees_everything_that_follows_from_the_state() -> None:
    model = scene("joint_zoo")
    data = mujoco.MjData(model)
    data.qvel[:] = 1
    mujoco.mj_step(model, data, 10)
    known = forward(model, state(model, data))
    columns = [
        lr.Column("acc", lambda m: m.data.qacc, shape=(model.nv,)),
        lr.Column("sensors", lambda m: m.data.sensordata, shape=(model.nsensordata,)),
    ]
    derived = rows(source_of(model, "custom", data, columns=columns), 1, lambda step: None)
    np.testing.assert_array_equal(derived["acc"][0], known.qacc)
    np.testing.assert_array_equal(derived["sensors"][0], known.sensordata)


def test_a_callable_is_asked_once_per_robot() -> None:
    model = scene("twin_arms")
    data = mujoco.MjData(model)
    data.qpos[[0, 6]] = 0.25, 0.5

    def pan(moment: Any) -> float:
        return float(moment.data.joint(moment.robot.replace("base", "shoulder_pan")).qpos[0])

    columns = [lr.Column("pan", pan), lr.Column("hand", lambda m: m.data.body(m.robot).xpos, shape=(3,))]
    derived = rows(
        source_of(model, data=data, robots=("left_base", "right_base"), columns=columns), 2, lambda step: None
    )
    assert derived["pan"].tolist() == [0.25, 0.5] * 2
    np.testing.assert_allclose(derived["hand"][:2, 1], [0.17, -0.17])


def test_a_callable_may_reuse_its_array() -> None:
    held = np.zeros(2)

    def fill(moment: Any) -> Any:
        held[:] = len(moment.robot), moment.data.time
        return held

    model = scene("twin_arms")
    data = mujoco.MjData(model)

    def act(step: int) -> None:
        data.time += 0.02

    robots = ("left_base", "right_base")
    source = source_of(model, data=data, robots=robots, columns=[lr.Column("c", fill, shape=(2,))])
    assert rows(source, 2, act)["c"].tolist() == [[9, 0], [10, 0], [9, 0.02], [10, 0.02]]


@pytest.mark.parametrize(
    ("source", "column", "why"),
    [
        (lambda m: [1, 2], {}, r"shape \(2,\)"),
        (lambda m: 1.0, {"shape": (2,)}, r"shape \(\)"),
        (lambda m: None, {}, "no number"),
        (lambda m: "x", {}, "no number"),
        (lambda m: np.nan, {}, "not finite"),
        (lambda m: np.inf, {"dtype": "float32"}, "not finite"),
        (lambda m: 300, {"dtype": "uint8"}, "does not fit uint8"),
        (lambda m: 0.5, {"dtype": "int64"}, "does not fit int64"),
    ],
)
def test_what_a_callable_may_not_return(source: Any, column: dict[str, Any], why: str) -> None:
    made = source_of(scene("joint_zoo"), "custom", columns=[lr.Column("mine", source, **column)])
    with pytest.raises(CaptureError, match=f"column 'mine'.*{why}"):
        rows(made, 1, lambda step: None)


def test_an_error_of_a_callable_reaches_the_caller_and_fails_the_episode(record: Any, read_back: Any) -> None:
    def late(moment: Any) -> float:
        if moment.obs[0] == 2:
            raise ZeroDivisionError("mine")
        return 1.0

    env = record(CountEnv(length=5), columns=[lr.Column("c", late)])
    env.reset()
    env.step(np.zeros(1))
    env.step(np.zeros(1))
    with pytest.raises(ZeroDivisionError, match="mine"):
        env.step(np.zeros(1))
    env.close()
    [episode] = read_back(env.session_path)
    assert episode.meta["success"] is False
    assert len(episode.rows["c"]) == 2


@pytest.mark.parametrize(
    "dtype", ["float64", "float32", "int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8", "bool"]
)
@pytest.mark.parametrize("shape", [(), (2,), (2, 2)])
def test_every_dtype_and_shape_comes_back_from_the_file(
    record: Any, read_back: Any, run: Any, dtype: str, shape: tuple[int, ...]
) -> None:
    given = [(np.arange(np.prod(shape, dtype=int)).reshape(shape) + t) % 2 for t in range(3)]
    env = record(CountEnv(), columns=[lr.Column("c", lambda m: given[int(m.obs[0]) % 100], dtype=dtype, shape=shape)])
    run(env)
    env.close()
    [episode] = read_back(env.session_path)
    assert episode.rows["c"].reshape(3, *shape).tolist() == np.array(given, dtype).tolist()
    schema = pq.read_schema(env.session_path / "data/chunk-000/file-000.parquet")
    leaf = schema.field("c").type
    while hasattr(leaf, "value_type"):
        leaf = leaf.value_type
    assert str(leaf).replace("float", "float32").replace("double", "float64") == dtype


# What gymnasium says.


class Says(CountEnv):
    """An environment of dicts: observations of two parts, and infos that come and go."""

    def __init__(self) -> None:
        super().__init__(length=4)
        box = gym.spaces.Box(-np.inf, np.inf, (2,), np.float64)
        self.observation_space = gym.spaces.Dict({"pose": box, "grip.force": gym.spaces.Discrete(100)})

    def _observation(self) -> Any:
        return {"pose": np.array([self.t, -self.t], np.float64), "grip.force": np.int64(self.t)}

    def _info(self) -> dict[str, Any]:
        info: dict[str, Any] = {"is_success": True}
        if self.t % 2 == 0:
            info |= {"distance": self.t / 4, "hits": self.t, "where": np.array([self.t, 0.0]), "maybe": None}
        return info


def test_parts_of_an_observation_are_those_the_action_was_chosen_on(record: Any, read_back: Any, run: Any) -> None:
    columns = [lr.Column("pose", "gym:obs.pose", shape=(2,)), lr.Column("force", "gym:obs.grip.force", dtype="int64")]
    env = record(Says(), columns=[*columns, lr.Column("a", "gym:action"), lr.Column("r", "gym:reward")])
    run(env)
    env.close()
    [episode] = read_back(env.session_path)
    assert episode.rows["pose"].tolist() == [[t, -t] for t in range(4)]
    assert episode.rows["force"].tolist() == [0, 1, 2, 3]
    assert episode.rows["a"].tolist() == [0, 1, 2, 3]
    assert episode.rows["r"].tolist() == [0, 1, 2, 3]


def test_a_declared_info_is_null_when_it_is_absent(record: Any, run: Any) -> None:
    columns = [
        lr.Column("distance", "info:distance"),
        lr.Column("hits", "info:hits", dtype="int64"),
        lr.Column("where", "info:where", shape=(2,)),
        lr.Column("maybe", "info:maybe"),
        lr.Column("never", "info:never", dtype="bool"),
    ]
    env = record(Says(), columns=columns)
    run(env)
    env.close()
    table = pq.read_table(env.session_path / "data/chunk-000/file-000.parquet", partitioning=None)
    assert table["distance"].to_pylist() == [None, 0.5, None, 1.0]
    assert table["hits"].to_pylist() == [None, 2, None, 4]
    assert table["where"].to_pylist() == [None, [2.0, 0.0], None, [4.0, 0.0]]
    assert table["maybe"].to_pylist() == [None] * 4
    assert table["never"].to_pylist() == [None] * 4
    assert str(table.schema.field("hits").type) == "int64"
    check_session(env.session_path)


def test_an_info_of_another_kind_than_declared_is_refused(record: Any) -> None:
    env = record(Says(), columns=[lr.Column("hits", "info:hits", dtype="bool")])
    env.reset()
    env.step(np.zeros(1))
    with pytest.raises(CaptureError, match=r"'hits'.*2 does not fit bool"):
        env.step(np.zeros(1))


@pytest.mark.parametrize("source", ["gym:obs.pse", "gym:obs", "gym:action.x", "gym:observation", "gym:done"])
def test_an_unknown_part_of_gymnasium_lists_those_there_are(record: Any, source: str) -> None:
    env = record(Says(), columns=[lr.Column("c", source)])
    with pytest.raises(SettingsError, match=r"known: gym:action, gym:reward, gym:obs\.grip\.force, gym:obs\.pose"):
        env.reset()


def test_a_key_of_an_observation_without_keys_is_refused(record: Any) -> None:
    env = record(CountEnv(), columns=[lr.Column("c", "gym:obs.pose")])
    with pytest.raises(SettingsError, match=r"known: gym:action, gym:reward, gym:obs$"):
        env.reset()


@pytest.mark.parametrize("source", ["gym:obs", "gym:reward", "gym:action"])
def test_a_bare_model_has_no_gymnasium(source: str) -> None:
    with pytest.raises(SettingsError, match=f"source='{source}'.*no Gymnasium environment"):
        features(scene("joint_zoo"), "custom", columns=[lr.Column("c", source)])


def test_an_observation_is_copied_even_if_the_environment_keeps_writing_into_it(
    record: Any, read_back: Any, run: Any
) -> None:
    class Reuses(CountEnv):
        held = np.zeros(1)

        def _observation(self) -> Any:
            self.held[0] = self.count
            return self.held

    env = record(Reuses(length=3))
    run(env)
    env.close()
    [episode] = read_back(env.session_path)
    assert episode.rows["obs"].tolist() == [0, 1, 2]


def test_an_observation_of_another_shape_names_the_column(record: Any) -> None:
    env = record(CountEnv(), columns=[lr.Column("obs", "gym:obs", shape=(2,))])
    env.reset()
    with pytest.raises(CaptureError, match=r"column 'obs': the source gave shape \(1,\), declared is \(2,\)"):
        env.step(np.zeros(1))


@pytest.mark.parametrize(
    ("space", "layout"),
    [
        (gym.spaces.Box(-1, 1, (3,)), ((3,), "float32")),
        (gym.spaces.Discrete(3), ((), "int64")),
        (gym.spaces.MultiBinary([2, 2]), ((2, 2), "int8")),
        (gym.spaces.MultiDiscrete([2, 3]), ((2,), "int64")),
    ],
)
def test_the_layout_of_a_space(space: Any, layout: Any) -> None:
    assert space_layout(space, "here") == layout


@pytest.mark.parametrize(
    "space", [gym.spaces.Text(3), gym.spaces.Dict(), gym.spaces.Sequence(gym.spaces.Discrete(2)), object()]
)
def test_a_space_that_is_no_array_has_no_layout(space: Any) -> None:
    with pytest.raises(SettingsError, match="only spaces of arrays"):
        space_layout(space, "here")
