"""The flag new_policy_step, robot by robot: through an Observer and through a RecordSession."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium as gym
import mujoco
import numpy as np
import pytest

import lucky_recorder as lr
from lucky_recorder.recorder.policies import ran_of

ROBOTS = ["left_base", "right_base"]
# What is said of both robots at a tick, and the flags of their rows.
SAID: list[tuple[bool | Mapping[str, bool], list[int]]] = [
    (True, [1, 1]),
    (False, [0, 0]),
    ({}, [0, 0]),
    *(
        ({name: ran for name, ran in zip(ROBOTS, said, strict=True) if ran is not None}, [int(bool(r)) for r in said])
        for said in itertools.product((True, False, None), repeat=2)
    ),
]


@pytest.fixture
def arms() -> Any:
    env = gym.make("LuckyRecorder/TwinArms-v0")
    env.reset(seed=0)
    yield env
    env.close()


def flags_of(read_back: Any, path: Path | None, bit: int = 1) -> list[list[int]]:
    [episode] = read_back(path)
    return (episode.rows["frame_flags"].reshape(-1, 2) & bit).tolist()


def observer_of(arms: Any, path: Path, **fields: Any) -> lr.Observer:
    env = arms.unwrapped
    return lr.Observer(output_dir=path, data_hz=50, robots=ROBOTS, model=env.model, data=env.data, **fields)


def advance(observer: lr.Observer, arms: Any, face: str, said: Any) -> None:
    model, data = arms.unwrapped.model, arms.unwrapped.data
    if face == "tick":
        observer.tick(new_policy_step=said)
        mujoco.mj_step(model, data, 10)
    else:
        with observer.step(new_policy_step=said):
            mujoco.mj_step(model, data, 10)


@pytest.mark.parametrize("face", ["tick", "step"])
def test_an_observer_is_told_whose_policy_has_run(arms: Any, tmp_path: Path, read_back: Any, face: str) -> None:
    observer = observer_of(arms, tmp_path)
    observer.start_recording()
    for said, _ in SAID:
        advance(observer, arms, face, said)
    observer.stop_recording()
    assert flags_of(read_back, observer.session_path) == [flags for _, flags in SAID]


@pytest.mark.parametrize("face", ["tick", "step"])
def test_both_flags_of_one_robot_stand_together(arms: Any, tmp_path: Path, read_back: Any, face: str) -> None:
    observer = observer_of(arms, tmp_path)
    observer.start_recording()
    observer.mark_reset("right_base")
    advance(observer, arms, face, {"right_base": True})
    advance(observer, arms, face, {"left_base": True})
    observer.mark_reset()
    advance(observer, arms, face, {"left_base": True})
    observer.stop_recording()
    assert flags_of(read_back, observer.session_path, 3) == [[0, 3], [1, 0], [3, 2]]


@pytest.mark.parametrize("face", ["tick", "step"])
@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"middle": True}, r"robot='middle': is not recorded; known: left_base, right_base"),
        ({"left_base": True, "middle": False}, r"robot='middle'"),
        ({"left_base": "no"}, r"new_policy_step\['left_base'\]='no': give True or False"),
        ("left_base", r"new_policy_step='left_base': give True or False, or a mapping"),
        (["left_base"], "a mapping of robots' names"),
        (None, "new_policy_step=None"),
        (2, "new_policy_step=2"),
    ],
)
def test_what_nobody_can_mean_is_refused_before_anything_is_recorded(
    arms: Any, tmp_path: Path, read_back: Any, face: str, said: Any, message: str
) -> None:
    observer = observer_of(arms, tmp_path)
    observer.start_recording()
    with pytest.raises(lr.SettingsError, match=message):
        advance(observer, arms, face, said)
    advance(observer, arms, face, True)
    observer.stop_recording()
    assert flags_of(read_back, observer.session_path) == [[1, 1]]


@pytest.mark.parametrize(("said", "ran"), [(np.bool_(True), True), (np.bool_(False), False), (1, True), (0, False)])
def test_other_truth_values_are_taken_as_such(said: Any, ran: bool) -> None:
    assert ran_of(said, ROBOTS) is ran
    assert ran_of({"left_base": said}, ROBOTS) == (frozenset({0}) if ran else frozenset())


def test_frames_between_rows_do_not_flag_the_next_row(arms: Any, tmp_path: Path, read_back: Any) -> None:
    camera = lr.Camera("front", width=32, height=32, frame_rate=50)
    slow = lr.RecordSession(arms, output_dir=tmp_path, data_hz=25, robots=ROBOTS, cameras=[camera])
    slow.reset(seed=0)
    for step in range(6):
        # Held on the first step of a row, but not on the second, which has no row: only the first counts.
        if step % 2 == 0:
            slow.hold(ROBOTS[step // 2 % 2])
        slow.step(np.zeros(slow.action_space.shape, np.float32))
    slow.close()
    assert flags_of(read_back, slow.session_path) == [[0, 1], [1, 0], [0, 1]]


HELD: list[tuple[list[str | None], list[int]]] = [
    ([], [1, 1]),
    ([None], [0, 0]),
    (["left_base"], [0, 1]),
    (["right_base"], [1, 0]),
    (["left_base", "right_base"], [0, 0]),
    (["left_base", "left_base"], [0, 1]),
    (["left_base", None], [0, 0]),
    ([None, "right_base"], [0, 0]),
    ([], [1, 1]),
]


@pytest.mark.parametrize("period", [1, 2])
def test_an_environment_is_told_who_holds(arms: Any, tmp_path: Path, read_back: Any, period: int) -> None:
    env = lr.RecordSession(arms, output_dir=tmp_path, robots=ROBOTS, policy_period=period)
    env.reset(seed=0)
    for held, _ in HELD:
        for robot in held:
            env.hold(robot)
        env.step(np.zeros(env.action_space.shape, np.float32))
    env.close()
    expected = [flags if step % period == 0 else [0, 0] for step, (_, flags) in enumerate(HELD)]
    assert flags_of(read_back, env.session_path) == expected


def test_a_hold_does_not_outlive_its_episode(arms: Any, tmp_path: Path, read_back: Any) -> None:
    env = lr.RecordSession(arms, output_dir=tmp_path, robots=ROBOTS)
    env.reset(seed=0)
    env.hold(robot="left_base")
    env.reset(seed=1)
    env.step(np.zeros(env.action_space.shape, np.float32))
    env.close()
    assert flags_of(read_back, env.session_path) == [[1, 1]]


def test_only_the_first_row_of_a_step_says_whose_policy_has_run(arms: Any, tmp_path: Path, read_back: Any) -> None:
    env = lr.RecordSession(arms, output_dir=tmp_path, robots=ROBOTS, data_hz=100)
    env.reset(seed=0)
    for robot in ("left_base", "right_base"):
        env.hold(robot=robot)
        env.step(np.zeros(env.action_space.shape, np.float32))
    env.close()
    assert flags_of(read_back, env.session_path) == [[0, 1], [0, 0], [1, 0], [0, 0]]


def test_holding_an_unknown_robot_is_refused_and_forgotten(arms: Any, tmp_path: Path, read_back: Any) -> None:
    env = lr.RecordSession(arms, output_dir=tmp_path, robots=ROBOTS)
    with pytest.raises(lr.SettingsError, match=r"robot='left_base': is not recorded; known: none yet"):
        env.hold(robot="left_base")
    env.hold()
    env.reset(seed=0)
    with pytest.raises(lr.SettingsError, match=r"robot='middle': is not recorded; known: left_base, right_base"):
        env.hold(robot="middle")
    env.step(np.zeros(env.action_space.shape, np.float32))
    env.close()
    assert flags_of(read_back, env.session_path) == [[1, 1]]
