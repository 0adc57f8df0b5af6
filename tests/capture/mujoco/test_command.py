from __future__ import annotations

import copy

import mujoco
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lucky_recorder as lr
from lucky_recorder.capture.mujoco.command import CommandMap
from tests.capture.models import arm, features, rows, scene, source_of

LIMITED_SLIDE = '<joint name="pan" type="slide" range="-0.1 0.2"/>'
PAN_AND_TILT = '<joint name="pan" axis="0 0 1" range="-1 2"/><joint name="tilt" axis="0 1 0" range="-3 3"/>'
TWO_OVER = '<tendon><fixed name="rope"><joint joint="pan" coef="1"/><joint joint="tilt" coef="1"/></fixed></tendon>'
SPATIAL = '<tendon><spatial name="rope"><site site="anchor"/><site site="hand"/></spatial></tendon>'
ROPE = '<tendon><fixed name="rope"><joint joint="pan" coef="1"/></fixed></tendon>'
SERVO = arm('<position name="m" joint="pan" ctrlrange="0 1"/>')
EQUAL = arm('<position name="m" joint="pan" ctrlrange="-1 2"/>')


def action_of(model: mujoco.MjModel, ctrl: list[float]) -> list[float]:
    return CommandMap.of(model, range(model.nu)).to_action(ctrl).tolist()


@pytest.mark.parametrize(
    ("command", "value"), [(0, -1.0), (255, 2.0), (127.5, 0.5), (51, -0.4), (-10, -1.0), (1000, 2.0)]
)
def test_a_command_is_clamped_and_mapped_linearly_onto_the_joints_range(command: float, value: float) -> None:
    model = arm('<position name="m" joint="pan" ctrlrange="0 255"/>')
    assert action_of(model, [command]) == pytest.approx([value], abs=1e-15)


@pytest.mark.parametrize(
    "model",
    [
        arm('<position name="m" joint="pan" ctrlrange="0 255"/>', joints=LIMITED_SLIDE),
        arm('<motor name="m" jointinparent="pan" ctrlrange="-1 1"/>'),
        arm('<position name="m" joint="pan" ctrlrange="0.1 0.7"/>'),
        arm('<motor name="m" tendon="rope" ctrlrange="0 255"/>', extra=ROPE),
        arm('<motor name="m" tendon="rope" ctrlrange="0 255"/>', extra=ROPE, joints=LIMITED_SLIDE),
        arm('<motor name="m" tendon="rope" ctrlrange="0 255"/>', extra=ROPE, joints=PAN_AND_TILT),
        arm('<motor name="m" tendon="rope" ctrlrange="0 255"/>', extra=ROPE.replace('"1"', '"-0.5"')),
        arm('<motor name="m" tendon="rope" ctrlrange="0 255" gear="-2"/>', extra=ROPE),
    ],
    ids=[
        "slide",
        "joint in parent",
        "ends that are no binary fractions",
        "tendon",
        "tendon over a slide",
        "tendon over one of two joints",
        "tendon with a negative coefficient",
        "tendon with a negative gear",
    ],
)
def test_the_ends_of_the_control_range_are_the_ends_of_the_joints_exactly(model: mujoco.MjModel) -> None:
    low, high = model.actuator_ctrlrange[0]
    assert action_of(model, [low]) == [model.jnt_range[0, 0]]
    assert action_of(model, [high]) == [model.jnt_range[0, 1]]
    assert lr.commands_to_ctrl(model, model.jnt_range[0, :1]).tolist() == [low]
    assert lr.commands_to_ctrl(model, model.jnt_range[0, 1:]).tolist() == [high]


@pytest.mark.parametrize(
    "model",
    [
        arm('<position name="m" joint="pan"/>'),
        arm('<position name="m" joint="pan" ctrlrange="0 255" ctrllimited="false"/>'),
        arm('<position name="m" joint="pan" ctrlrange="0 255"/>', joints='<joint name="pan"/>'),
        arm(
            '<position name="m" joint="pan" ctrlrange="0 255"/>',
            joints='<joint name="pan" range="-1 1" limited="false"/>',
        ),
        arm('<motor name="m" joint="ball" ctrlrange="-1 1"/>', joints='<joint name="ball" type="ball" range="0 1"/>'),
        arm('<motor name="m" tendon="rope" ctrlrange="-1 1"/>', extra=TWO_OVER, joints=PAN_AND_TILT),
        arm('<motor name="m" tendon="rope" ctrlrange="-1 1"/>', extra=SPATIAL),
        arm('<motor name="m" tendon="rope"/>', extra=ROPE),
        arm('<motor name="m" tendon="rope" ctrlrange="-1 1"/>', extra=ROPE, joints='<joint name="pan"/>'),
        arm('<motor name="m" site="hand" ctrlrange="-1 1"/>'),
        arm('<motor name="m" cranksite="hand" slidersite="anchor" cranklength="0.2" ctrlrange="-1 1"/>'),
        arm('<adhesion name="m" body="link" ctrlrange="0 1"/>'),
    ],
    ids=[
        "no control range",
        "control not limited",
        "no joint range",
        "joint not limited",
        "ball",
        "tendon over two joints",
        "spatial tendon",
        "tendon, no control range",
        "tendon over a joint without a range",
        "site",
        "crank",
        "body",
    ],
)
def test_every_other_command_is_recorded_raw_and_not_clamped(model: mujoco.MjModel) -> None:
    assert action_of(model, [1000.25]) == [1000.25]
    assert lr.commands_to_ctrl(model, [1000.25]).tolist() == [1000.25]


def test_a_tendon_is_looked_through_to_the_joint_it_runs_over() -> None:
    """Tendon 1 is no joint 1: the ids are of different kinds, and the joint's own range counts."""
    extra = (
        '<tendon><fixed name="other"><joint joint="pan" coef="1"/><joint joint="tilt" coef="1"/></fixed>'
        '<fixed name="rope"><joint joint="pan" coef="2"/></fixed></tendon>'
    )
    model = arm('<motor name="m" tendon="rope" ctrlrange="0 10"/>', extra=extra, joints=PAN_AND_TILT)
    assert action_of(model, [2.5]) == [-0.25]
    assert lr.commands_to_ctrl(model, [-0.25]).tolist() == [2.5]
    state, action = (features(model)[name] for name in ("observation.state", "action"))
    assert (state.names, state.lucky_names, action.names) == (("m",), ("pan",), ("m",))


def test_the_action_column_of_a_tendon_is_mapped_and_goes_back() -> None:
    model = arm('<motor name="m" tendon="rope" ctrlrange="0 255"/>', extra=ROPE)
    data = mujoco.MjData(model)
    commands = [0.0, 51.0, 102.0, 255.0]

    def act(step: int) -> None:
        data.ctrl[0] = commands[step]

    action = rows(source_of(model, data=data), 4, act)["action"]
    np.testing.assert_allclose(action[:, 0], [-1.0, -0.4, 0.2, 2.0], rtol=0, atol=1e-15)
    np.testing.assert_allclose(lr.commands_to_ctrl(model, action)[:, 0], commands, rtol=0, atol=1e-12)


def test_a_free_joint_is_never_mapped() -> None:
    model = mujoco.MjModel.from_xml_string(
        """<mujoco><worldbody><body><freejoint name="f"/><geom size="0.1"/></body></worldbody>
        <actuator><motor joint="f" gear="1 0 0 0 0 0" ctrllimited="true" ctrlrange="-1 1"/></actuator></mujoco>"""
    )
    assert action_of(model, [7.5]) == [7.5]


@settings(deadline=None)
@given(st.floats(-1, 2))
def test_where_the_ranges_are_equal_nothing_changes(command: float) -> None:
    assert action_of(EQUAL, [command]) == [command]
    assert lr.commands_to_ctrl(EQUAL, [command]).tolist() == [command]


def test_equal_ranges_still_clamp() -> None:
    assert action_of(EQUAL, [3.0]) == [2.0]


sizes = st.floats(0.01, 100)
middles = st.floats(-10, 10)


@st.composite
def ranges(draw: st.DrawFn) -> tuple[float, float]:
    low, width = draw(middles), draw(sizes)
    return low, low + width


@settings(deadline=None)
@given(ranges(), ranges(), st.floats(0, 1))
def test_commands_to_ctrl_is_the_inverse(
    control: tuple[float, float], joint: tuple[float, float], share: float
) -> None:
    model = copy.copy(SERVO)
    model.actuator_ctrlrange[0], model.jnt_range[0] = control, joint
    command = np.clip(control[0] + share * (control[1] - control[0]), *control)
    value = CommandMap.of(model, [0]).to_action([command])
    back = lr.commands_to_ctrl(model, value)
    # As good as doubles of this size in ranges of these widths can be.
    conditioning = max(1.0, *map(abs, control)) * max(1.0, (control[1] - control[0]) / (joint[1] - joint[0]))
    assert abs(back[0] - command) <= 1e-12 * conditioning


@settings(deadline=None)
@given(ranges(), ranges(), st.floats(-1000, 1000))
def test_what_is_recorded_lies_within_the_joints_range(
    control: tuple[float, float], joint: tuple[float, float], command: float
) -> None:
    model = copy.copy(SERVO)
    model.actuator_ctrlrange[0], model.jnt_range[0] = control, joint
    [value] = CommandMap.of(model, [0]).to_action([command])
    assert joint[0] <= value <= joint[1]


def test_many_rows_are_mapped_at_once_each_command_on_its_own() -> None:
    model = scene("joint_zoo")
    ctrl = np.random.default_rng(0).uniform(-2, 300, (50, model.nu))
    mapped = CommandMap.of(model, range(model.nu)).to_action(ctrl)
    assert mapped.shape == ctrl.shape
    lift = np.clip(ctrl[:, 0], 0, 255) / 255 * 0.3 - 0.1
    np.testing.assert_allclose(mapped[:, 0], lift, rtol=0, atol=1e-15)
    np.testing.assert_array_equal(mapped[:, 1:], ctrl[:, 1:])


def test_commands_of_some_actuators_only() -> None:
    model = scene("joint_zoo")
    spin, lift = 1, 0
    assert lr.commands_to_ctrl(model, [3.5, 0.05], [spin, lift]).tolist() == pytest.approx([3.5, 127.5])


def test_a_range_without_width_maps_onto_its_one_value() -> None:
    model = arm('<position name="m" joint="pan" ctrlrange="0 1"/>')
    model.jnt_range[0] = 0.5, 0.5
    assert action_of(model, [0.25]) == [0.5]
    model.actuator_ctrlrange[0], model.jnt_range[0] = (0.5, 0.5), (0, 1)
    assert action_of(model, [0.25]) == [1.0]


def test_a_model_without_actuators_or_joints_has_nothing_to_map() -> None:
    empty = mujoco.MjModel.from_xml_string("<mujoco><worldbody><geom size='0.1'/></worldbody></mujoco>")
    assert lr.commands_to_ctrl(empty, np.zeros((3, 0))).shape == (3, 0)
    only_site = mujoco.MjModel.from_xml_string(
        """<mujoco><worldbody><body mocap="true"><geom size="0.1"/><site name="s"/></body></worldbody>
        <actuator><motor site="s" gear="1 0 0 0 0 0" ctrlrange="0 1" ctrllimited="true"/></actuator></mujoco>"""
    )
    assert lr.commands_to_ctrl(only_site, [0.5]).tolist() == [0.5]


@pytest.mark.skipif(not hasattr(mujoco.MjModel, "nactuator"), reason="this MuJoCo has one command an actuator")
def test_of_an_actuator_that_takes_several_commands_all_are_raw() -> None:
    model = arm(
        """<pid name="p" joint="pan" kp="1" kv="1" input="pos vel" posrange="0 1" velrange="-3 3"/>
        <dcmotor joint="pan" motorconst="1" resistance="1" input="none"/>
        <motor name="m" joint="pan" ctrlrange="0 1"/>"""
    )
    assert model.nu == 3
    assert CommandMap.of(model, range(model.nactuator)).to_action([9.0, 9.0, 0.5]).tolist() == [9.0, 9.0, 0.5]
    assert CommandMap.of(model, range(model.nactuator)).to_action([0.0, 9.0, 0.0]).tolist() == [0.0, 9.0, -1.0]
    assert lr.commands_to_ctrl(model, [7.0, 8.0, 2.0]).tolist() == [7.0, 8.0, 1.0]


def test_the_action_column_is_mapped_with_the_ranges_at_the_episodes_beginning() -> None:
    model = arm('<position name="m" joint="pan" ctrlrange="0 1"/>')
    data = mujoco.MjData(model)
    source = source_of(model, data=data)

    def act(step: int) -> None:
        data.ctrl[0] = step / 4

    first = rows(source, 5, act)["action"][:, 0]
    model.actuator_ctrlrange[0], model.jnt_range[0] = (-1, 1), (0, 10)
    second = rows(source, 5, act)["action"][:, 0]
    model.jnt_limited[0] = False
    third = rows(source, 5, act)["action"][:, 0]
    assert first.tolist() == [-1, -0.25, 0.5, 1.25, 2]
    assert second.tolist() == [5, 6.25, 7.5, 8.75, 10]
    assert third.tolist() == [0, 0.25, 0.5, 0.75, 1]
