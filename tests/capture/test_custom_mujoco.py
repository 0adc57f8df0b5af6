"""Columns of a MuJoCo model: a row's value is what follows from the row's own state."""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np
import pytest

import lucky_recorder as lr
from lucky_recorder.envs import scene_path
from lucky_recorder.errors import CaptureError, SettingsError
from lucky_recorder.testing import CountEnv
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


def test_a_sensor_that_reads_nan_is_refused_unless_allowed() -> None:
    model = scene("joint_zoo")
    data = mujoco.MjData(model)
    data.joint("knuckle").qpos[0] = np.nan
    with pytest.raises(CaptureError, match="sensor holds NaN"):
        rows(source_of(model, "custom", data, columns=[lr.Column("u", "sensor:knuckle_pos")]), 1, lambda step: None)
    allowed = [lr.Column("u", "sensor:knuckle_pos", allow_nan=True)]
    assert np.isnan(rows(source_of(model, "custom", data, columns=allowed), 1, lambda step: None)["u"]).all()
    data.joint("knuckle").qpos[0] = 0.25
    assert rows(source_of(model, "custom", data, columns=allowed), 1, lambda step: None)["u"].tolist() == [0.25]


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
