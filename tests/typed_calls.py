"""Calls that a type checker accepts, and some that it refuses; see test_typing. Only read, never run."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any, Unpack, assert_type

import attrs
import gymnasium as gym
import mujoco
import numpy as np

import lucky_recorder as lr
from lucky_recorder.settings.fields import RecorderFields


def height(moment: Any) -> float:
    return float(moment.data.body("cube").xpos[2])


def every_third(number: int) -> bool:
    return number % 3 == 0


# Settings as people write them; in the object they are settled, and have one type.

settings = lr.RecorderSettings(
    output_dir=".",
    data_hz=12.5,
    robots=["left", "right"],
    tasks=["Pick up the cube"],
    cameras=[lr.Camera("Front"), {"name": "Wrist", "width": 320}],
    lidars=[lr.Lidar("Top"), {"name": "Hand", "rate": 10}],
    columns=[lr.Column("height", height), {"name": "imu", "source": "sensor:imu", "shape": 3}],
    success=lambda env: True,
    episode_trigger=every_third,
    max_episode_length_s=np.float32(2.5),
    seed=np.int64(7),
    record_masks=np.bool_(True),
    koyu={"name": "pick-cube"},
    formats=["session", "koyu"],
)
assert_type(settings.output_dir, Path)
assert_type(settings.data_hz, Fraction | None)
assert_type(settings.tasks, tuple[str, ...])
assert_type(settings.cameras, tuple[lr.Camera, ...])
assert_type(settings.koyu, lr.KoyuSettings | None)
assert_type(attrs.evolve(settings, tasks=["Push it"], cameras=[{"name": "Top"}]), lr.RecorderSettings)

lr.RecorderSettings(output_dir=Path("data"), data_hz="30000/1001", tasks=("a", "b"), cameras=())
lr.RecorderSettings(data_hz=50, koyu=lr.KoyuSettings("pick-cube", path="bundles", id_seed=3), columns=[])
lr.RecorderSettings(data_hz=Fraction(200, 3), success="info:is_success", episode_trigger="my.module:trigger")
lr.RecorderSettings.of("recorder.toml", seed=7)
lr.RecorderSettings.of({"mode": "custom"}, gym_columns=True)

camera = lr.Camera("Front", source=0, frame_rate=12.5, masks=["cube"], sensor_params={"noise_px": 0})
assert_type(camera.frame_rate, Fraction | None)
assert_type(camera.masks, tuple[str, ...] | None)
lr.Camera("Front", source=lr.FreeCamera(lookat=[0, 0, 1], distance=2), frame_rate="30000/1001", width=np.int32(64))
lr.Camera("Front", source={"lookat": np.zeros(3)}, frame_rate=np.float32(25), depth_scale=1)
lr.Lidar("Top", azimuth=(-90, 90, 5), elevation=[-10, 10.5, 3], rate="25/2")
assert_type(lr.Lidar("Top").azimuth, tuple[float, float, int])
lr.Column("x", "sensor:x", dtype=np.float32, shape=3, names=["x", "y", "z"])
lr.Column("x", "sensor:x", dtype=float, shape=(3,))
assert_type(lr.Column("x", height, shape=[2, np.int64(3)]).shape, tuple[int, ...])

lr.Camera("Front", wdith=3)  # refused: call-arg
lr.Camera()  # refused: call-arg
lr.Camera("Front", width="64")  # refused: arg-type
lr.Camera("Front", masks=5)  # refused: arg-type
lr.Camera("Front", frame_rate=[25])  # refused: arg-type
lr.Column("x", 5)  # refused: arg-type
lr.Lidar("Top", enabled="true")  # refused: arg-type
lr.RecorderSettings(ouput_dir=".")  # refused: call-arg
lr.RecorderSettings(cameras=["Front"])  # refused: list-item
lr.RecorderSettings(tasks=[1])  # refused: list-item
lr.RecorderSettings.of(ouput_dir=".")  # refused: call-arg
settings.mode = "custom"  # refused: misc


# The keyword form.


def sessions(env: gym.Env[Any, Any], fields: dict[str, Any]) -> Iterator[lr.RecordSession]:
    yield lr.RecordSession(env)
    yield lr.RecordSession(env, settings)
    yield lr.RecordSession(env, "recorder.toml", seed=7)
    yield lr.RecordSession(env, {"mode": "custom"}, gym_columns=True)
    yield lr.RecordSession(env, cameras=[lr.Camera("front")], tasks=["Pick up the cube"], output_dir=".", data_hz=12.5)
    yield lr.RecordSession(env, cameras=[{"name": "front"}], koyu={"name": "pick-cube"}, data_hz="200/3")
    yield lr.RecordSession(env, **fields)
    yield lr.RecordSession(env, ouput_dir=".")  # refused: call-arg
    yield lr.RecordSession(env, output_dir=5)  # refused: arg-type
    yield lr.RecordSession(env, cameras=[5])  # refused: list-item
    yield lr.RecordSession(env, seed="7")  # refused: arg-type
    yield lr.RecordSession(env, 5)  # refused: arg-type


def observers(model: mujoco.MjModel, data: mujoco.MjData) -> Iterator[lr.Observer]:
    yield lr.Observer(output_dir=".", data_hz=50, model=model, data=data)
    yield lr.Observer(lr.RecorderSettings(data_hz=50), model=model, data=data, tasks=["x"])
    yield lr.Observer(data_hz=50, modle=model, data=data)  # refused: call-arg
    yield lr.Observer(data_hz=[50], model=model, data=data)  # refused: arg-type


def loops(observer: lr.Observer, env: lr.RecordSession) -> None:
    observer.tick()
    observer.tick(new_policy_step=False)
    observer.tick(new_policy_step={"left": True})
    with observer.step(new_policy_step={"left": True, "right": False}):
        env.hold()
    env.hold(robot="left")
    observer.tick(new_policy_step=["left"])  # refused: arg-type
    observer.step(new_policy_step="left")  # refused: arg-type
    env.hold(robot=0)  # refused: arg-type


def the_constructor_takes_all_that_the_keyword_form_takes(**fields: Unpack[RecorderFields]) -> lr.RecorderSettings:
    return lr.RecorderSettings(**fields)
