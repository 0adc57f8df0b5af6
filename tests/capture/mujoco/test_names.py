from __future__ import annotations

import mujoco
import pytest

from lucky_recorder.capture.mujoco import names
from lucky_recorder.errors import SettingsError
from tests.capture.models import arm, scene


def joints_of(model: mujoco.MjModel, actuator: str) -> tuple[str, ...]:
    driven = names.driven_joints(model, names.id_of(model, "actuator", actuator, "test"))
    return tuple(names.name_of(model, "joint", joint) for joint in driven)


@pytest.mark.parametrize(
    ("actuator", "joints"),
    [
        ("lift", ("carriage",)),
        ("spin", ("wheel",)),
        ("curl", ("knuckle", "fingertip")),
        ("hover", ()),
        ("twist", ("swivel",)),
    ],
)
def test_driven_joints_are_those_of_joint_transmissions_and_fixed_tendons(
    actuator: str, joints: tuple[str, ...]
) -> None:
    assert joints_of(scene("joint_zoo"), actuator) == joints


BALL = '<joint name="ball" type="ball"/>'
ROPE = '<tendon><spatial name="rope"><site site="anchor"/><site site="hand"/></spatial></tendon>'


@pytest.mark.parametrize(
    ("model", "joints"),
    [
        (arm('<motor name="m" jointinparent="ball"/>', joints=BALL), ("ball",)),
        (arm('<motor name="m" tendon="rope"/>', extra=ROPE), ()),
        (arm('<motor name="m" site="hand"/>'), ()),
        (arm('<adhesion name="m" body="link" ctrlrange="0 1"/>'), ()),
        (arm('<motor name="m" cranksite="hand" slidersite="anchor" cranklength="0.2"/>'), ()),
    ],
    ids=["joint in parent", "spatial tendon", "site", "body", "slider-crank"],
)
def test_what_every_other_transmission_drives(model: mujoco.MjModel, joints: tuple[str, ...]) -> None:
    assert joints_of(model, "m") == joints


@pytest.mark.parametrize(
    ("model", "bodies"),
    [
        (arm('<motor name="m" joint="pan"/>'), {"link"}),
        (arm('<motor name="m" tendon="rope"/>', extra=ROPE), {"world", "link"}),
        (arm('<motor name="m" site="hand"/>'), {"link"}),
        (arm('<adhesion name="m" body="link" ctrlrange="0 1"/>'), {"link"}),
        (arm('<motor name="m" cranksite="hand" slidersite="anchor" cranklength="0.2"/>'), {"link"}),
    ],
    ids=["joint", "spatial tendon", "site", "body", "slider-crank"],
)
def test_which_bodies_an_actuator_acts_on(model: mujoco.MjModel, bodies: set[str]) -> None:
    assert {names.name_of(model, "body", body) for body in names.actuator_bodies(model, 0)} == bodies


def test_a_thing_without_a_name_is_called_by_its_kind_and_id_and_found_by_that() -> None:
    model = arm("<motor joint='named'/><motor joint='named'/>", joints='<joint name="named"/><joint axis="0 1 0"/>')
    assert names.all_of(model, "joint") == ["named", "joint_1"]
    assert names.all_of(model, "actuator") == ["actuator_0", "actuator_1"]
    assert names.id_of(model, "joint", "joint_1", "test") == 1


def test_a_real_name_goes_before_one_that_is_made_up() -> None:
    model = arm("", joints='<joint/><joint name="joint_0" axis="0 1 0"/>')
    assert names.id_of(model, "joint", "joint_0", "test") == 1


def test_an_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(SettingsError, match=r"here='knuckel': .*it has: knuckle"):
        names.id_of(scene("joint_zoo"), "joint", "knuckel", "here")


def test_where_nothing_is_near_the_first_few_are_listed() -> None:
    with pytest.raises(SettingsError, match="swivel, carriage, flap"):
        names.id_of(scene("joint_zoo"), "joint", "@@@@", "here")


def test_where_there_is_nothing_of_a_kind_the_error_says_none() -> None:
    with pytest.raises(SettingsError, match="it has: none"):
        names.id_of(arm(""), "sensor", "touch", "here")


@pytest.mark.parametrize(
    ("joint", "suffixes"),
    [("swivel", "_qw _qx _qy _qz"), ("puck", "_x _y _z _qw _qx _qy _qz"), ("carriage", ""), ("wheel", "")],
)
def test_a_ball_has_four_coordinates_and_a_free_joint_seven_with_w_first(joint: str, suffixes: str) -> None:
    model = scene("joint_zoo")
    index = names.id_of(model, "joint", joint, "test")
    assert names.joint_suffixes(model, index) == (tuple(suffixes.split()) or ("",))
    assert len(names.joint_addresses(model, index)) == len(suffixes.split() or [""])


def test_the_addresses_of_all_joints_cover_qpos_once() -> None:
    model = scene("joint_zoo")
    assert [a for j in range(model.njnt) for a in names.joint_addresses(model, j)] == list(range(model.nq))


def test_w_comes_first_in_mujocos_own_quaternions() -> None:
    model = scene("joint_zoo")
    data = mujoco.MjData(model)
    ball = names.joint_addresses(model, names.id_of(model, "joint", "swivel", "test"))
    free = names.joint_addresses(model, names.id_of(model, "joint", "puck", "test"))
    assert data.qpos[list(ball)].tolist() == [1, 0, 0, 0]
    assert data.qpos[list(free)].tolist() == [0, 0.2, 0.1, 1, 0, 0, 0]


def test_within() -> None:
    model = scene("twin_arms")
    left, right, hand = (names.id_of(model, "body", n, "test") for n in ("left_base", "right_base", "left_hand"))
    assert names.is_within(model, hand, left)
    assert names.is_within(model, left, left)
    assert names.is_within(model, hand, 0)
    assert not names.is_within(model, hand, right)
    assert not names.is_within(model, 0, left)


takes_several = pytest.mark.skipif(
    not hasattr(mujoco.MjModel, "nactuator"), reason="this MuJoCo has one command an actuator"
)


@takes_several
@pytest.mark.parametrize(
    ("actuator", "suffixes"),
    [
        ('<pid name="a" joint="pan" kp="1" kv="1" input="pos vel"/>', ("_pos", "_vel")),
        ('<pid name="a" joint="pan" kp="1" kv="1" input="pos ff"/>', ("_pos", "_ff")),
        (
            '<dcmotor name="a" joint="pan" motorconst="1" resistance="1" controller="1 0 1" input="vel voltage"/>',
            ("_vel", "_voltage"),
        ),
        ('<orientation name="a" joint="ball" kp="1" kv="1" input="quat"/>', ("_qw", "_qx", "_qy", "_qz")),
        ('<orientation name="a" joint="ball" kp="1" kv="1" input="expmap"/>', ("_x", "_y", "_z")),
        ('<dcmotor name="a" joint="pan" motorconst="1" resistance="1" input="none"/>', ()),
        ('<motor name="a" joint="pan"/>', ("",)),
    ],
)
def test_an_actuator_that_takes_several_commands_has_a_name_for_each(actuator: str, suffixes: tuple[str, ...]) -> None:
    joints = '<joint name="pan" axis="0 0 1" range="-1 2"/>'
    inside = '<body><joint name="ball" type="ball"/><geom size="0.1"/></body>'
    model = arm(f'<motor name="first" joint="pan"/>{actuator}', joints=joints, inside=inside)
    assert names.command_names(model, 1) == tuple(f"a{suffix}" for suffix in suffixes)
    assert names.commands_of(model, 1) == range(1, 1 + len(suffixes))
    assert names.all_of(model, "actuator") == ["first", "a"]


@takes_several
def test_what_an_orientation_actuator_drives() -> None:
    inside = '<body><joint name="ball" type="ball"/><geom size="0.1"/><site name="tip"/></body>'
    on_joint = arm('<orientation name="o" joint="ball" kp="1" kv="1"/>', inside=inside)
    on_site = arm('<orientation name="o" site="tip" refsite="anchor" kp="1" kv="1"/>', inside=inside)
    assert joints_of(on_joint, "o") == ("ball",)
    assert joints_of(on_site, "o") == ()
    assert names.actuator_bodies(on_site, 0) == (int(on_site.site("tip").bodyid[0]),)


def test_without_several_commands_there_is_one_an_actuator() -> None:
    class Older:
        nu = 3

    assert names.actuator_count(Older()) == 3
    assert names.commands_of(Older(), 2) == range(2, 3)
