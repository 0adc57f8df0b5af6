from __future__ import annotations

import warnings

import mujoco
import numpy as np
import pytest

from lucky_recorder.capture.mujoco import names
from lucky_recorder.capture.mujoco.robots import find_robots, model_name
from lucky_recorder.capture.robots import entity_id
from lucky_recorder.errors import SettingsError
from tests.capture.models import arm, features, rows, scene, source_of

SIDES = ("left_base", "right_base")


def two_robots(left: str, right: str, more: str = "", actuators: str = "") -> mujoco.MjModel:
    """Two bodies ``left`` and ``right``, a site on each and one in the world, and what is asked for."""
    return mujoco.MjModel.from_xml_string(
        f"""<mujoco><compiler autolimits="true"/><worldbody><site name="wall" pos="0 0 1"/>
        <body name="left">{left}<geom size="0.1"/><site name="left"/></body>
        <body name="right" pos="1 0 0">{right}<geom size="0.1"/><site name="right"/></body></worldbody>
        {more}<actuator>{actuators}</actuator></mujoco>"""
    )


def hinge(name: str, kind: str = "hinge") -> str:
    return f'<joint name="{name}" type="{kind}"/>'


BOTH = '<motor name="l" joint="l"/><motor name="r" joint="r"/>'


def test_a_whole_model_is_one_robot_called_as_the_model_is() -> None:
    model = scene("joint_zoo")
    [robot] = find_robots(model, None)
    assert robot.name == "joint_zoo"
    assert robot.actuators == (0, 1, 2, 3, 4)


def test_each_joint_is_named_by_the_lowest_actuator_that_drives_it_and_stands_in_the_models_order() -> None:
    tendon = '<tendon><fixed name="t"><joint joint="b" coef="1"/><joint joint="a" coef="1"/></fixed></tendon>'
    model = arm(
        """<motor name="m2" joint="b"/><motor name="mt" tendon="t"/>
        <motor name="m1" joint="a"/><motor name="m3" joint="b"/>""",
        joints='<joint name="a" axis="1 0 0"/><joint name="idle" axis="0 1 0"/><joint name="b"/>',
        extra=tendon,
    )
    field = features(model)["observation.state"]
    assert field.lucky_names == ("a", "b")
    assert field.names == ("mt", "m2")
    assert features(model)["action"].names == ("m2", "mt", "m1", "m3")


def test_rows_of_two_robots_alternate_and_each_has_its_own_values() -> None:
    model = scene("twin_arms")
    data = mujoco.MjData(model)
    source = source_of(model, data=data, robots=SIDES)

    def act(step: int) -> None:
        data.ctrl[:] = np.arange(12) * 0.01 + step * 0.001
        data.qpos[:12] = np.arange(12) + 100 * (step + 1)

    data.qpos[:12] = np.arange(12)
    columns = rows(source, 3, act)
    assert columns["robot_id"].tolist() == [entity_id("left_base"), entity_id("right_base")] * 3
    assert columns["frame_index"].tolist() == [0, 0, 1, 1, 2, 2]
    assert columns["observation.state"].tolist() == [
        [100 * tick + first + joint for joint in range(6)] for tick in range(3) for first in (0, 6)
    ]
    expected = [[0.01 * (first + i) + 0.001 * tick for i in range(6)] for tick in range(3) for first in (0, 6)]
    np.testing.assert_allclose(columns["action"], expected, rtol=0, atol=1e-15)


def test_the_order_of_the_robots_is_the_one_asked_for() -> None:
    source = source_of(scene("twin_arms"), robots=SIDES[::-1])
    assert source.schema.robots == ("right_base", "left_base")
    assert rows(source, 1, lambda step: None)["robot_id"].tolist() == [entity_id("right_base"), entity_id("left_base")]


def test_names_cover_every_robot_in_turn() -> None:
    columns = features(scene("twin_arms"), robots=SIDES)
    joints = ("shoulder_pan", "shoulder_lift", "elbow_flex", "wrist_flex", "wrist_roll", "gripper")
    expected = tuple(f"{side}_{joint}" for side in ("left", "right") for joint in joints)
    assert columns["action"].names == expected
    assert columns["observation.state"].names == expected
    assert columns["observation.state"].lucky_names == expected
    assert columns["action"].shape == columns["observation.state"].shape == (6,)


def test_robots_that_differ_in_actuators_are_refused_naming_both() -> None:
    model = two_robots(hinge("l"), hinge("r"), actuators=f'{BOTH}<motor name="r2" site="right"/>')
    with pytest.raises(SettingsError, match=r"'left' has 1 actuators.*'right' has 2"):
        find_robots(model, ["left", "right"])


@pytest.mark.parametrize(
    ("left", "right", "actuators"),
    [
        (hinge("l"), hinge("r", "slide"), BOTH),
        (hinge("l"), hinge("r", "ball"), BOTH),
        (
            hinge("l") + '<joint name="l2" axis="0 1 0"/>',
            hinge("r") + '<joint name="r2" axis="0 1 0"/>',
            '<motor joint="l"/><motor joint="l2"/><motor joint="r2"/><motor joint="r"/>',
        ),
        (
            hinge("l") + '<joint name="l2" axis="0 1 0"/>',
            hinge("r") + '<joint name="r2" axis="0 1 0"/>',
            '<motor joint="l"/><motor joint="l2"/><motor joint="r"/><motor joint="r"/>',
        ),
    ],
    ids=["slide", "ball", "driven in another order", "one joint driven twice"],
)
def test_robots_that_differ_in_joints_or_in_what_drives_them_are_refused(left: str, right: str, actuators: str) -> None:
    with pytest.raises(SettingsError, match=r"robots=\('left', 'right'\).*of other kinds"):
        find_robots(two_robots(left, right, actuators=actuators), ["left", "right"])


@pytest.mark.skipif(not hasattr(mujoco.MjModel, "nactuator"), reason="this MuJoCo has one command an actuator")
def test_robots_whose_actuators_take_other_numbers_of_commands_are_refused() -> None:
    actuators = '<pid joint="l" kp="1" kv="1" input="pos vel"/><pid joint="r" kp="1" kv="1" input="pos"/>'
    with pytest.raises(SettingsError, match=r"robots=\('left', 'right'\)"):
        find_robots(two_robots(hinge("l"), hinge("r"), actuators=actuators), ["left", "right"])


def test_an_unknown_body_suggests_the_nearest() -> None:
    with pytest.raises(SettingsError, match=r"robots\[1\]='rigth_base'.*right_base"):
        find_robots(scene("twin_arms"), ["left_base", "rigth_base"])


@pytest.mark.parametrize("roots", [("left_base", "left_hand"), ("left_hand", "left_base"), ("world", "left_base")])
def test_robots_that_overlap_are_refused_naming_both(roots: tuple[str, str]) -> None:
    inner, outer = ("left_hand", "left_base") if "left_hand" in roots else ("left_base", "world")
    with pytest.raises(SettingsError, match=f"robots='{inner}': lies within the robot '{outer}'"):
        find_robots(scene("twin_arms"), roots)


def test_no_robot_at_all_is_refused() -> None:
    with pytest.raises(SettingsError, match="name at least one root body"):
        find_robots(scene("twin_arms"), [])


def test_a_robot_may_be_the_whole_world() -> None:
    [robot] = find_robots(scene("twin_arms"), ["world"])
    assert len(robot.actuators) == 12


def test_actuators_of_no_robot_are_left_out_with_a_warning_that_names_them() -> None:
    with pytest.warns(RuntimeWarning, match="right_shoulder_pan.*right_gripper"):
        [robot] = find_robots(scene("twin_arms"), ["left_base"])
    assert robot.actuators == tuple(range(6))


def test_no_warning_where_every_actuator_is_a_robots() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        find_robots(scene("twin_arms"), SIDES)


def test_an_actuator_that_acts_on_two_robots_is_neithers() -> None:
    tendon = '<tendon><fixed name="t"><joint joint="l" coef="1"/><joint joint="r" coef="1"/></fixed></tendon>'
    model = two_robots(hinge("l"), hinge("r"), tendon, f'{BOTH}<motor name="both" tendon="t"/>')
    with pytest.warns(RuntimeWarning, match="not recorded: both$"):
        robots = find_robots(model, ["left", "right"])
    assert [robot.actuators for robot in robots] == [(0,), (1,)]
    assert [[d.joint for d in robot.driven] for robot in robots] == [[0], [1]]


def test_an_actuator_between_a_robot_and_the_world_is_the_robots() -> None:
    ropes = """<tendon><spatial name="l"><site site="wall"/><site site="left"/></spatial>
    <spatial name="r"><site site="wall"/><site site="right"/></spatial></tendon>"""
    model = two_robots(hinge("l"), hinge("r"), ropes, f'{BOTH}<motor tendon="l"/><motor tendon="r"/>')
    assert [robot.actuators for robot in find_robots(model, ["left", "right"])] == [(0, 2), (1, 3)]


@pytest.mark.parametrize(("given", "name"), [('model="my arm"', "my arm"), ("", "MuJoCo Model"), ('model=""', "robot")])
def test_a_models_name(given: str, name: str) -> None:
    model = mujoco.MjModel.from_xml_string(f"<mujoco {given}><worldbody/></mujoco>")
    assert model_name(model) == name


def test_actuated_joints_of_a_part_of_the_model_keep_the_models_order() -> None:
    model = scene("twin_arms")
    [robot] = find_robots(model, ["world"])
    assert [d.joint for d in robot.driven] == sorted(d.joint for d in robot.driven)
    assert names.all_of(model, "joint")[robot.driven[0].joint] == "left_shoulder_pan"
