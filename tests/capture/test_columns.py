from __future__ import annotations

from typing import Any

import gymnasium as gym
import mujoco
import numpy as np
import pytest

import lucky_recorder as lr
from lucky_recorder.capture.source import open_source
from lucky_recorder.errors import SettingsError
from lucky_recorder.testing import CountEnv
from tests.capture.models import arm, features, rows, scene, settings, source_of

QUATERNION = ("_qw", "_qx", "_qy", "_qz")


def test_robot_arm_holds_the_actuated_joints_only() -> None:
    columns = features(scene("joint_zoo"))
    state = columns["observation.state"]
    ball = tuple(f"swivel{s}" for s in QUATERNION)
    assert state.lucky_names == (*ball, "carriage", "knuckle", "fingertip", "wheel")
    assert state.names == (*(f"twist{s}" for s in QUATERNION), "lift", "curl", "curl", "spin")
    assert state.shape == (8,)
    assert columns["action"].names == ("lift", "spin", "curl", "hover", "twist")
    assert list(columns) == ["action", "observation.state"]


def test_full_scene_holds_every_joint_passive_and_free_ones_too() -> None:
    columns = features(scene("joint_zoo"), "full_scene")
    state = columns["observation.state"]
    free = tuple(f"puck{s}" for s in ("_x", "_y", "_z", *QUATERNION))
    assert state.lucky_names == (
        *(f"swivel{s}" for s in QUATERNION), "carriage", "flap", "knuckle", "fingertip", "wheel", *free,
    )  # fmt: skip
    assert state.names == (*(f"twist{s}" for s in QUATERNION), "lift", "flap", "curl", "curl", "spin", *free)
    assert state.shape == (16,)
    assert columns["action"].names == ("lift", "spin", "curl", "hover", "twist")


def test_full_scene_is_qpos_and_robot_arm_a_part_of_it() -> None:
    model = scene("joint_zoo")
    data = mujoco.MjData(model)
    data.qpos[:] = np.arange(model.nq) + 1
    full = rows(source_of(model, "full_scene", data), 1, lambda step: None)["observation.state"]
    part = rows(source_of(model, "robot_arm", data), 1, lambda step: None)["observation.state"]
    assert full.tolist() == [list(range(1, 17))]
    assert part.tolist() == [[1, 2, 3, 4, 5, 7, 8, 9]]


@pytest.mark.parametrize(
    ("mode", "entity", "label"),
    [("robot_arm", "robot_id", "ur5e"), ("full_scene", "sim_id", "mujoco_scene"), ("custom", "entity_id", "custom")],
)
def test_each_mode_names_its_entities(mode: str, entity: str, label: str) -> None:
    columns = [lr.Column("wheel", "qpos:wheel")] if mode == "custom" else []
    schema = source_of(scene("joint_zoo"), mode, columns=columns).schema
    assert (schema.entity_column, schema.entity_label) == (entity, label)


def test_custom_has_neither_action_nor_state() -> None:
    assert list(features(scene("joint_zoo"), "custom", columns=[lr.Column("wheel", "qpos:wheel")])) == ["wheel"]


@pytest.mark.parametrize("mode", ["robot_arm", "full_scene"])
def test_own_columns_follow_the_modes(mode: str) -> None:
    columns = features(scene("joint_zoo"), mode, columns=[lr.Column("b", "qpos:wheel"), lr.Column("a", "qvel:wheel")])
    assert list(columns) == ["action", "observation.state", "b", "a"]


@pytest.mark.parametrize(
    ("model", "what"),
    [
        (arm(""), "no actuator"),
        (arm('<motor site="hand"/>'), "no actuated joint"),
        (
            arm(
                '<motor tendon="t"/>',
                extra='<tendon><spatial name="t"><site site="anchor"/><site site="hand"/></spatial></tendon>',
            ),
            "no actuated joint",
        ),
    ],
)
def test_robot_arm_without_actuated_joints_is_refused_naming_the_other_modes(model: mujoco.MjModel, what: str) -> None:
    with pytest.raises(SettingsError, match=f"mode='robot_arm'.*{what}.*full_scene.*custom"):
        features(model)


@pytest.mark.skipif(not hasattr(mujoco.MjModel, "nactuator"), reason="this MuJoCo has one command an actuator")
def test_robot_arm_whose_actuators_take_no_command_is_refused() -> None:
    with pytest.raises(SettingsError, match="no actuator that takes a command"):
        features(arm('<dcmotor joint="pan" motorconst="1" resistance="1" input="none"/>'))


@pytest.mark.skipif(not hasattr(mujoco.MjModel, "nactuator"), reason="this MuJoCo has one command an actuator")
def test_actuators_that_take_several_commands_have_a_value_for_each() -> None:
    model = arm(
        """<motor name="m" joint="pan"/>
        <pid name="p" joint="pan" kp="1" kv="1" input="pos vel"/><motor name="n" joint="pan"/>"""
    )
    data = mujoco.MjData(model)
    assert features(model)["action"].names == ("m", "p_pos", "p_vel", "n")

    def act(step: int) -> None:
        data.ctrl[:] = [1, 2, 3, 4]

    source = source_of(model, data=data, columns=[lr.Column("p", "ctrl:p", shape=(2,)), lr.Column("n", "ctrl:n")])
    columns = rows(source, 1, act)
    assert columns["action"].tolist() == [[1, 2, 3, 4]]
    assert columns["p"].tolist() == [[2, 3]]
    assert columns["n"].tolist() == [4]


@pytest.mark.parametrize("mode", ["robot_arm", "full_scene"])
def test_without_mujoco_a_mode_of_joints_is_refused(mode: str) -> None:
    with pytest.raises(SettingsError, match=f"mode='{mode}'.*needs a MuJoCo model.*custom"):
        open_source(settings(mode))


def test_full_scene_without_joints_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"full_scene.*no joint.*custom"):
        features(
            mujoco.MjModel.from_xml_string("<mujoco><worldbody><geom size='1'/></worldbody></mujoco>"), "full_scene"
        )


def test_full_scene_without_actuators_has_an_empty_action() -> None:
    model = arm("")
    source = source_of(model, "full_scene")
    columns = rows(source, 2, lambda step: None)
    assert columns["action"].shape == (2, 0)
    assert columns["observation.state"].shape == (2, 1)


def test_two_robots_in_full_scene_share_the_state_and_have_an_action_each() -> None:
    model = scene("twin_arms")
    data = mujoco.MjData(model)
    data.qpos[:] = np.arange(model.nq)
    source = source_of(model, "full_scene", data, robots=("left_base", "right_base"))
    state = next(f for f in source.schema.columns if f.name == "observation.state")
    assert state.shape == (model.nq,)
    assert len(state.names or ()) == 2 * model.nq
    columns = rows(source, 1, lambda step: None)
    assert columns["observation.state"].tolist() == [list(range(model.nq))] * 2
    assert columns["action"].shape == (2, 6)


def test_unnamed_joints_and_actuators_are_called_by_kind_and_id() -> None:
    model = arm("<motor joint='x'/><motor joint='x'/>", joints='<joint name="x"/><joint axis="0 1 0"/>')
    columns = features(model, "full_scene")
    assert columns["action"].names == ("actuator_0", "actuator_1")
    assert columns["observation.state"].names == ("actuator_0", "joint_1")
    assert columns["observation.state"].lucky_names == ("x", "joint_1")


def test_without_rows_there_are_no_columns() -> None:
    cameras = [lr.Camera("overview", width=32, height=32)]
    assert source_of(scene("joint_zoo"), record_data=False, cameras=cameras).columns == ()


# What gymnasium says.


class Odd(gym.Env[Any, Any]):
    """An environment whose action space is whatever is asked for."""

    def __init__(self, action_space: gym.Space[Any]) -> None:
        self.observation_space = gym.spaces.Box(-1, 1, (2,))
        self.action_space = action_space

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        self.actions: list[Any] = []
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> Any:
        self.actions.append(action)
        return np.zeros(2, np.float32), 0.5, False, len(self.actions) == 3, {}


@pytest.mark.parametrize(
    ("space", "actions", "dtype", "shape"),
    [
        (gym.spaces.Discrete(4), [0, 3, np.int64(2)], "int64", ()),
        (gym.spaces.Discrete(4), [np.array([1]), np.array(2), 3], "int64", ()),
        (gym.spaces.MultiDiscrete([3, 4]), [[0, 1], [2, 3], (1, 1)], "int64", (2,)),
        (gym.spaces.MultiBinary(3), [[0, 1, 1], [1, 1, 1], [0, 0, 0]], "int8", (3,)),
        (gym.spaces.Box(-1, 1, (2,), np.float64), [[0.1, 0.2], [0.3, 0.4], [1, -1]], "float64", (2,)),
        (gym.spaces.Box(0, 255, (2, 2), np.uint8), np.arange(12).reshape(3, 2, 2), "uint8", (2, 2)),
    ],
)
def test_gym_columns_take_the_actions_as_they_are_given(
    record: Any, space: gym.Space[Any], actions: Any, dtype: str, shape: tuple[int, ...], read_back: Any
) -> None:
    env = record(Odd(space), columns=[], gym_columns=True, data_hz=10, success="terminated")
    env.reset()
    for action in actions:
        env.step(action)
    env.close()
    [episode] = read_back(env.session_path)
    given = np.array([np.asarray(a).reshape(shape) for a in actions])
    assert episode.rows["gym.action"].reshape(given.shape).tolist() == given.tolist()
    field = next(f for f in env.recorder.recording.source.schema.columns if f.name == "gym.action")
    assert (field.dtype, field.shape) == (dtype, shape)


def test_gym_columns_need_an_environment() -> None:
    with pytest.raises(SettingsError, match=r"gym_columns=True.*no Gymnasium environment"):
        features(scene("joint_zoo"), gym_columns=True)


@pytest.mark.parametrize(
    ("action", "why"),
    [(np.zeros(3), "shape"), ([np.nan, 0], "not finite"), ("left", "no number"), (None, "no number")],
)
def test_an_action_that_cannot_be_recorded_names_the_column(record: Any, action: Any, why: str) -> None:
    env = record(Odd(gym.spaces.Box(-1, 1, (2,))), columns=[], gym_columns=True, data_hz=10, success="terminated")
    env.reset()
    with pytest.raises(lr.CaptureError, match=f"'gym.action'.*{why}"):
        env.step(action)


def test_an_action_is_recorded_as_it_was_given_even_if_the_environment_changes_it(record: Any, read_back: Any) -> None:
    class Clips(Odd):
        def step(self, action: Any) -> Any:
            np.clip(action, -1, 1, out=action)
            return super().step(action)

    columns = [lr.Column("sent", "gym:action", shape=(2,))]
    box = gym.spaces.Box(-1, 1, (2,))
    env = record(Clips(box), columns=columns, gym_columns=True, data_hz=10, success="terminated")
    env.reset()
    for _ in range(3):
        env.step(np.array([5.0, -7.0]))
    env.close()
    [episode] = read_back(env.session_path)
    assert episode.rows["gym.action"].tolist() == [[5, -7]] * 3
    assert episode.rows["sent"].tolist() == [[5, -7]] * 3


def test_what_a_wrapper_takes_is_what_is_recorded(record: Any, read_back: Any) -> None:
    """The policy's action goes to the outermost environment: its space says what the column is."""

    class OneOfTwo(gym.ActionWrapper[Any, Any, Any]):
        action_space = gym.spaces.Discrete(2)

        def action(self, action: Any) -> Any:
            return np.full(1, action, np.float32)

    env = record(OneOfTwo(CountEnv(length=2)), columns=[], gym_columns=True)
    env.reset()
    env.step(1)
    env.step(0)
    env.close()
    [episode] = read_back(env.session_path)
    assert episode.rows["gym.action"].tolist() == [1, 0]
    assert episode.rows["gym.action"].dtype == np.int64


def test_transition_columns_are_those_of_the_step(record: Any, read_back: Any, run: Any) -> None:
    env = record(CountEnv(length=4, mujoco=True), mode="robot_arm", columns=[], gym_columns=True)
    run(env)
    env.close()
    [episode] = read_back(env.session_path)
    assert list(episode.rows)[7:] == [
        "action",
        "observation.state",
        "gym.action",
        "next.reward",
        "next.done",
        "next.success",
    ]
    assert episode.rows["next.reward"].tolist() == [0, 1, 2, 3]
    assert episode.rows["next.done"].tolist() == [False, False, False, True]
    assert episode.rows["next.success"].tolist() == [True] * 4
    assert episode.rows["gym.action"].tolist() == [0, 1, 2, 3]


def test_a_row_that_stands_for_two_steps_adds_their_rewards_and_joins_their_flags(
    record: Any, read_back: Any, run: Any
) -> None:
    env = record(CountEnv(length=5, mujoco=True), mode="robot_arm", columns=[], gym_columns=True, data_hz=25)
    run(env)
    env.close()
    [episode] = read_back(env.session_path)
    assert episode.rows["next.reward"].tolist() == [0 + 1, 2 + 3, 4]
    assert episode.rows["next.done"].tolist() == [False, False, True]
    assert episode.rows["gym.action"].tolist() == [0, 2, 4]
    assert episode.rows["observation.state"][:, 0].tolist() == [0, 2, 4]


@pytest.mark.parametrize("reward", [np.float32(0.5), np.array(0.5), np.array([0.5]), 1, True])
def test_any_reward_that_is_one_number_is_recorded(record: Any, reward: Any, read_back: Any) -> None:
    class Pays(CountEnv):
        def step(self, action: Any) -> Any:
            obs, _, *rest = super().step(action)
            return obs, reward, *rest

    env = record(Pays(length=1), columns=[lr.Column("r", "gym:reward")], gym_columns=True)
    env.reset()
    env.step(np.zeros(1))
    env.close()
    [episode] = read_back(env.session_path)
    assert episode.rows["next.reward"].tolist() == episode.rows["r"].tolist() == [float(np.asarray(reward).item())]
