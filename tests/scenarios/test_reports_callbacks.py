"""Field reports of callbacks (mujoco#733, mujoco#2735): a stateful controller in the simulation, and a recorder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import mujoco
import numpy as np
import pytest

import lucky_recorder as lr
from tests.capture.callbacks import KINDS, RANGEFINDER, USER_SENSORS, called_back, calling
from tests.capture.models import state
from tests.pairs import in_pairs

TICKS = 12
SUBSTEPS = 5


class Stateful:
    """User code of every kind: what it does depends on how often it was called."""

    def __init__(self) -> None:
        self.calls = 0
        self.integral = 0.0

    def mjcb_control(self, model: mujoco.MjModel, data: mujoco.MjData) -> None:
        self.calls += 1
        self.integral += 0.5 - data.qpos[0]
        data.ctrl[1] = 20 * (0.5 - data.qpos[0]) + 0.08 * self.integral - 2 * data.qvel[0]

    def mjcb_passive(self, model: mujoco.MjModel, data: mujoco.MjData) -> None:
        self.calls += 1
        data.qfrc_passive[0] += 0.1 * self.calls

    def mjcb_sensor(self, model: mujoco.MjModel, data: mujoco.MjData, stage: int) -> None:
        self.calls += 1
        data.sensordata[int(model.sensor("at_positions").adr[0])] = self.calls

    def mjcb_contactfilter(self, model: mujoco.MjModel, data: mujoco.MjData, one: int, other: int) -> int:
        self.calls += 1
        return int(self.calls % 7 == 0)

    def mjcb_time(self) -> float:
        self.calls += 1
        return float(self.calls)

    def mjcb_act_dyn(self, model: mujoco.MjModel, data: mujoco.MjData, actuator: int) -> float:
        self.calls += 1
        return 0.1 * self.calls

    mjcb_act_gain = mjcb_act_bias = mjcb_act_dyn


Drive = Callable[[mujoco.MjModel, mujoco.MjData, Any], None]


def run(kind: str, drive: Drive, sensors: str, recorder: Any = None) -> tuple[np.ndarray, np.ndarray, int]:
    """Run with a callback installed; return every state, all sensors, and how often it was called."""
    model, data = calling(sensors)
    user, states, read = Stateful(), [], []
    observer = recorder(model, data) if recorder else None
    with called_back(kind, getattr(user, kind)):
        if observer is not None:
            observer.start_recording()
        for tick in range(TICKS):
            data.ctrl[0] = np.sin(tick)
            drive(model, data, observer)
            states.append(state(model, data))
            read.append(data.sensordata.copy())
        if observer is not None:
            observer.end_current_episode(True)
            observer.stop_recording()
    return np.array(states), np.array(read), user.calls


def ticked(model: mujoco.MjModel, data: mujoco.MjData, observer: lr.Observer | None) -> None:
    if observer is not None:
        observer.tick()
    mujoco.mj_step(model, data, SUBSTEPS)


def stepped(model: mujoco.MjModel, data: mujoco.MjData, observer: lr.Observer | None) -> None:
    if observer is None:
        ticked(model, data, None)
        return
    with observer.step():
        mujoco.mj_step(model, data, SUBSTEPS)


CAMERA = lr.Camera("eye", width=32, height=32, masks=("ball",))
LIDAR = lr.Lidar("lidar", azimuth=(-90, 90, 5), elevation=(-80, -10, 3))
RECORDED: dict[str, dict[str, Any]] = {
    "commands and positions": {"mode": "full_scene"},
    "arm": {"columns": [lr.Column("q", "qpos:slide"), lr.Column("v", "qvel:slide"), lr.Column("c", "ctrl:lift")]},
    "places": {"columns": [lr.Column("x", "xpos:ball", shape=(3,)), lr.Column("tip", "site_xpos:tip", shape=(3,))]},
    "pictures and scans": {"mode": "full_scene", "cameras": [CAMERA], "lidars": [LIDAR], "record_masks": True},
}
# A ray is drawn in pictures, and read together with the sensors of the user's.
SENSORS = {"commands and positions": USER_SENSORS + RANGEFINDER, "pictures and scans": USER_SENSORS}


@in_pairs(kind=list(KINDS), recorded=list(RECORDED), drive=[ticked, stepped])
def test_a_run_with_a_callback_is_the_same_with_a_recorder(
    kind: str, recorded: str, drive: Drive, tmp_path: Path, read_back: Any
) -> None:
    made = []

    def recorder(model: mujoco.MjModel, data: mujoco.MjData) -> lr.Observer:
        made.append(lr.Observer(output_dir=tmp_path, data_hz=100, model=model, data=data, **RECORDED[recorded]))
        return made[-1]

    sensors = SENSORS.get(recorded, USER_SENSORS + RANGEFINDER)
    alone, watched = run(kind, drive, sensors), run(kind, drive, sensors, recorder)
    np.testing.assert_array_equal(alone[0], watched[0])
    np.testing.assert_array_equal(alone[1], watched[1])
    assert alone[2] == watched[2] > 0
    [episode] = read_back(made[0].session_path)
    assert len(episode.rows["action"]) == TICKS


def test_action_is_what_the_control_callback_applied_during_the_tick(tmp_path: Path, read_back: Any) -> None:
    made, applied = [], []

    def recorder(model: mujoco.MjModel, data: mujoco.MjData) -> lr.Observer:
        made.append(lr.Observer(output_dir=tmp_path, data_hz=100, model=model, data=data, mode="full_scene"))
        return made[-1]

    def drive(model: mujoco.MjModel, data: mujoco.MjData, observer: lr.Observer | None) -> None:
        stepped(model, data, observer)
        applied.append(float(data.ctrl[1]) * 2 / 100)  # a range of 100 onto the joint's range of 2

    run("mjcb_control", drive, "", recorder)
    [episode] = read_back(made[0].session_path)
    np.testing.assert_allclose(episode.rows["action"][:, 1], applied, rtol=0, atol=1e-15)
    assert len(set(applied)) == TICKS


def test_a_sensor_beside_a_control_callback_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    model, data = calling()
    observer = lr.Observer(
        output_dir=tmp_path, data_hz=100, model=model, data=data, columns=[lr.Column("f", "sensor:force")]
    )
    user = Stateful()
    with (
        called_back("mjcb_control", user.mjcb_control),
        pytest.raises(lr.SettingsError, match=r"column 'f': source='sensor:force'.*mjcb_control.*observer\.step\(\)"),
    ):
        observer.start_recording()
    assert user.calls == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("drive", [ticked, stepped])
def test_a_callback_that_comes_later_ends_the_episode_at_its_tick(drive: Drive, tmp_path: Path, read_back: Any) -> None:
    model, data = calling()
    fields: dict[str, Any] = {"output_dir": tmp_path, "data_hz": 100, "columns": [lr.Column("f", "sensor:force")]}
    observer, user = lr.Observer(model=model, data=data, **fields), Stateful()
    observer.start_recording()
    for _ in range(3):
        drive(model, data, observer)
    with called_back("mjcb_control", user.mjcb_control):
        with pytest.raises(lr.CaptureError, match=r"mjcb_control.*take the callback away"):
            drive(model, data, observer)
        assert user.calls == 0
    drive(model, data, observer)
    observer.end_current_episode(True)
    observer.stop_recording()
    first, second = read_back(observer.session_path)
    assert [(e.meta["length"], e.meta["success"]) for e in (first, second)] == [(3, False), (1, True)]


def wrapped(path: Path, **fields: Any) -> lr.RecordSession:
    return lr.RecordSession(gym.make("LuckyRecorder/PickCube-v0"), output_dir=path, **fields)


def idle(model: mujoco.MjModel, data: mujoco.MjData) -> None:
    """A callback that only has to be there."""


@pytest.mark.parametrize("success", [lambda moment: True, "builtins:bool"])
def test_a_callable_verdict_is_refused_at_the_first_reset_and_leaves_nothing(success: Any, tmp_path: Path) -> None:
    env = wrapped(tmp_path, success=success)
    with (
        called_back("mjcb_passive", idle),
        pytest.raises(lr.SettingsError, match=r"success=.*mjcb_passive.*'info:KEY' or 'terminated'"),
    ):
        env.reset(seed=0)
    env.close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("gym_columns", [True, False])
@pytest.mark.parametrize("success", ["auto", "info:is_success", "terminated"])
def test_other_verdicts_need_no_more_than_kinematics(
    success: str, gym_columns: bool, tmp_path: Path, read_back: Any
) -> None:
    env = wrapped(tmp_path, success=success, gym_columns=gym_columns)
    with called_back("mjcb_passive", idle):
        env.reset(seed=0)
        for _ in range(3):
            env.step(np.zeros(env.action_space.shape, np.float32))
        env.end_episode()
    env.close()
    assert [e.meta["length"] for e in read_back(env.session_path)] == [3]


@pytest.mark.parametrize("gym_columns", [True, False])
def test_a_callback_that_comes_before_a_callable_verdict_fails_the_episode(
    gym_columns: bool, tmp_path: Path, read_back: Any
) -> None:
    env = wrapped(tmp_path, success=lambda moment: True, gym_columns=gym_columns)
    env.reset(seed=0)
    action = np.zeros(env.action_space.shape, np.float32)
    for _ in range(2):
        env.step(action)
    with called_back("mjcb_passive", idle), pytest.raises(lr.CaptureError, match="mjcb_passive"):
        env.step(action) if gym_columns else env.end_episode()
    env.reset(seed=1)
    env.step(action)
    env.end_episode()
    env.close()
    episodes = [(e.meta["length"], e.meta["success"]) for e in read_back(env.session_path)]
    assert episodes == [(2, False), (1, True)]
