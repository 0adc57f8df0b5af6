"""Looking never calls a callback of the user's a second time: it is not needed, or it is refused."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest

import lucky_recorder as lr
from lucky_recorder.capture.mujoco import callbacks, simulation
from lucky_recorder.capture.mujoco.camera import focal_of
from lucky_recorder.capture.mujoco.lidar import Caster
from lucky_recorder.capture.mujoco.simulation import Simulation
from lucky_recorder.capture.mujoco.snapshot import ScenePool, capture_camera, capture_state
from lucky_recorder.capture.source import open_source
from lucky_recorder.capture.sync import Sync
from lucky_recorder.errors import CaptureError, SettingsError
from tests.capture.callbacks import (
    KINDS,
    RANGEFINDER,
    USER_SENSORS,
    called_back,
    called_back_from_c,
    calling,
    counted,
)
from tests.capture.models import settings, source_of

LIDAR = lr.Lidar("lidar", azimuth=(-90, 90, 3), elevation=(-80, -10, 2))


def test_the_model_of_these_tests_calls_every_kind() -> None:
    model, data = calling()
    with counted(*KINDS) as calls:
        mujoco.mj_forward(model, data)
    assert set(calls) == set(KINDS)


@pytest.mark.parametrize("older", [False, True])
def test_no_stage_that_places_things_calls_one(older: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if older:
        monkeypatch.delattr(mujoco, "mj_fwdKinematics", raising=False)
    model, data = calling()
    with counted(*KINDS) as calls:
        for stage in simulation.kinematics(model):
            stage(model, data)
        Simulation(model, data).sync(Sync.KINEMATICS)
    assert calls == {}


def pictures(model: mujoco.MjModel, data: mujoco.MjData) -> None:
    looked_at = Simulation(model, data)
    looked_at.sync(Sync.PICTURES)
    looked_at.fingerprint()
    capture_camera(looked_at, lr.Camera("eye", width=32, height=32), 0, ScenePool(model, 1, 1.0), None)()


def scans(model: mujoco.MjModel, data: mujoco.MjData) -> None:
    snapshot = capture_state(Simulation(model, data), 0)()
    Caster(LIDAR, copy.copy(model)).cast(snapshot.state, np.random.default_rng(0))


@pytest.mark.parametrize("looks", [pictures, scans])
@pytest.mark.parametrize("sensors", ["", RANGEFINDER, USER_SENSORS])
def test_neither_pictures_nor_scans_call_one(looks: Callable[..., None], sensors: str) -> None:
    model, data = calling(sensors)
    with counted(*KINDS) as calls:
        looks(model, data)
    assert calls == {}


@pytest.mark.parametrize(
    "camera", [lr.Camera("eye", width=32, height=32), lr.Camera("free", source=lr.FreeCamera(), width=32, height=32)]
)
def test_asking_for_a_focal_length_calls_none(camera: lr.Camera) -> None:
    simulation = Simulation(*calling())
    with counted(*KINDS) as calls:
        assert focal_of(simulation, camera) > 0
    assert calls == {}


COMPUTES = re.compile(r"mujoco\.mj_(forward|inverse|step|sensor|fwd(?!Kinematics)|collision|passive)\w*")
# The sensors of pictures are asked for where there is no callback to call; the physics of an environment's own step is
# the user's; a trial picture is drawn in a process of its own, the sample environments are users themselves. States are
# stepped again where somebody has asked for it, or where no callback is installed. The bench films a scene of its own.
MAY_COMPUTE = {
    "bench/floor.py",
    "capture/mujoco/callbacks.py",
    "capture/mujoco/given.py",
    "capture/mujoco/simulation.py",
    "capture/mujoco/states.py",
    "capture/mujoco/substeps.py",
    "capture/draw/trial.py",
    "envs/lifting.py",
    "testing.py",
}


def test_nothing_else_of_the_package_computes_what_calls_them() -> None:
    house = Path(lr.__file__).parent
    lines = [
        (p.relative_to(house).as_posix(), line) for p in house.rglob("*.py") for line in p.read_text().splitlines()
    ]
    calls = {place for place, line in lines if COMPUTES.search(line.partition("#")[0])}
    # These show loops of the user's own, in examples and in a message.
    assert calls - {"recorder/observer.py", "recorder/ticks.py"} == MAY_COMPUTE


def test_a_scan_calls_none_either_where_a_picture_would() -> None:
    model, data = calling()
    with counted(*KINDS) as calls:
        scans(model, data)
    assert calls == {}


@pytest.mark.parametrize("kind", KINDS)
def test_forward_is_refused_for_every_kind_and_calls_nothing(kind: str) -> None:
    model, data = calling()
    looked_at = Simulation(model, data)
    with counted(kind) as calls:
        assert callbacks.installed() == (kind,)
        assert kind in looked_at.refusal(Sync.FORWARD)
        with pytest.raises(CaptureError, match=rf"calls {kind}, which is installed.*take the callback away"):
            looked_at.sync(Sync.FORWARD)
        assert calls == {}
    assert callbacks.installed() == ()
    assert looked_at.refusal(Sync.FORWARD) == ""
    looked_at.sync(Sync.FORWARD)


def test_several_are_all_named() -> None:
    looked_at = Simulation(*calling())
    with counted("mjcb_control", "mjcb_passive"), pytest.raises(CaptureError, match="mjcb_control and mjcb_passive"):
        looked_at.sync(Sync.FORWARD)


@pytest.mark.parametrize("kind", sorted(callbacks._POINTERS))
def test_a_c_function_counts_as_well_as_pythons(kind: str) -> None:
    looked_at = Simulation(*calling())
    with called_back_from_c(kind):
        assert getattr(mujoco, f"get_{kind}")() is None
        assert callbacks.installed() == (kind,)
        with pytest.raises(CaptureError, match=kind):
            looked_at.sync(Sync.FORWARD)
    assert not callbacks.are_installed()


def test_every_callback_but_the_clock_is_found_by_its_pointer_here() -> None:
    assert set(KINDS) - set(callbacks._POINTERS) == {"mjcb_time"}


@pytest.mark.parametrize("why", ["no library", "no symbol"])
def test_where_the_pointers_cannot_be_found_python_is_asked(why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if why == "no library":
        monkeypatch.setattr(mujoco, "mj_forward", len)  # of a module without a file
    else:
        monkeypatch.setattr(callbacks, "NAMES", ("mjcb_of_tomorrow",))
    assert callbacks._pointers() == {}


@pytest.mark.parametrize(
    ("kind", "sensors", "is_refused"),
    [
        ("mjcb_sensor", USER_SENSORS + RANGEFINDER, True),
        ("mjcb_sensor", USER_SENSORS.replace('"pos"', '"vel"') + RANGEFINDER, False),
        ("mjcb_sensor", USER_SENSORS, False),
        ("mjcb_sensor", RANGEFINDER, False),
        ("mjcb_control", USER_SENSORS + RANGEFINDER, False),
    ],
)
def test_pictures_are_refused_only_where_a_drawn_ray_needs_the_stage_of_user_sensors(
    kind: str, sensors: str, is_refused: bool
) -> None:
    model, data = calling(sensors)
    looked_at = Simulation(model, data)
    with counted(kind) as calls:
        assert bool(looked_at.refusal(Sync.PICTURES)) is is_refused
        assert looked_at.refusal(Sync.KINEMATICS) == ""
        if is_refused:
            with pytest.raises(CaptureError, match="mjcb_sensor"):
                looked_at.sync(Sync.PICTURES)
        else:
            looked_at.sync(Sync.PICTURES)
        assert calls == {}


def test_the_rays_are_read_where_user_sensors_are_but_no_callback() -> None:
    model, data = calling()
    mujoco.mj_step(model, data, 20)
    looked_at = Simulation(model, data)
    looked_at.sync(Sync.PICTURES)
    known = mujoco.MjData(model)
    mujoco.mj_setState(model, known, state_of(model, data), int(mujoco.mjtState.mjSTATE_INTEGRATION))
    mujoco.mj_forward(model, known)
    far = int(model.sensor("far").adr[0])
    assert known.sensordata[far] != 0
    assert looked_at.private.sensordata[far] == known.sensordata[far]


def state_of(model: mujoco.MjModel, data: mujoco.MjData) -> np.ndarray:
    everything = int(mujoco.mjtState.mjSTATE_INTEGRATION)
    values = np.empty(mujoco.mj_stateSize(model, everything))
    mujoco.mj_getState(model, data, values, everything)
    return values


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"columns": [lr.Column("f", "sensor:force")]}, r"column 'f': source='sensor:force'.*mjcb_passive.*qpos:"),
        ({"columns": [lr.Column("f", lambda moment: 1.0)]}, r"column 'f': source=.*mjcb_passive.*observer.step\(\)"),
        ({"columns": [lr.Column("f", "math:sqrt")]}, r"column 'f': source='math:sqrt'.*mjcb_passive"),
    ],
)
def test_what_needs_forward_is_refused_when_it_is_set_up(asked: dict[str, Any], message: str) -> None:
    model, _ = calling()
    with called_back("mjcb_passive", lambda model, data: None), pytest.raises(SettingsError, match=message):
        source_of(model, **asked)
    source_of(model, **asked)


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"columns": [lr.Column("f", "sensor:force")], "record_data": False},
        {"columns": [lr.Column("x", "site_xpos:tip", shape=(3,)), lr.Column("q", "qpos:slide")]},
        {"success": "math:sqrt"},  # nobody asks for it without an environment
        {"lidars": [LIDAR]},
    ],
)
def test_what_needs_kinematics_alone_is_not(asked: dict[str, Any]) -> None:
    model, _ = calling()
    asked = {"cameras": [lr.Camera("eye", width=32, height=32)]} | asked if asked.get("record_data") is False else asked
    with counted("mjcb_passive", "mjcb_control") as calls:
        source_of(model, **asked)
    assert calls == {}


def test_pictures_of_rays_are_refused_when_they_are_set_up() -> None:
    model, _ = calling()
    camera = lr.Camera("eye", width=32, height=32)
    with counted("mjcb_sensor"), pytest.raises(SettingsError, match=r"cameras=\('eye',\).*mjcb_sensor.*rangefinders"):
        source_of(model, cameras=[camera])


EYE = lr.Camera("eye", width=32, height=32)
TOUCHED = lr.Camera("touched", source="eye", width=32, height=32, flags={"contactpoint": True})
LATER: list[tuple[dict[str, Any], str, list[str]]] = [
    ({"columns": [lr.Column("f", "sensor:force")]}, "mjcb_control", ["column 'f': source='sensor:force'"]),
    ({"columns": [lr.Column("f", "math:sqrt")]}, "mjcb_passive", ["column 'f': source='math:sqrt'"]),
    ({"cameras": [TOUCHED]}, "mjcb_control", ["camera 'touched': flags={'contactpoint': True}"]),
    ({"cameras": [EYE]}, "mjcb_sensor", ["cameras=('eye',)"]),
    ({"task": "math:sqrt"}, "mjcb_control", ["task='math:sqrt'"]),
    (
        {"columns": [lr.Column("f", "sensor:force"), lr.Column("q", "qpos:slide")], "cameras": [EYE, TOUCHED]},
        "mjcb_sensor",
        ["column 'f': source='sensor:force'", "camera 'touched': flags={'contactpoint': True}"],
    ),
]


@pytest.mark.parametrize(("asked", "kind", "named"), LATER)
def test_one_that_comes_later_is_refused_with_the_settings_that_need_it(
    asked: dict[str, Any], kind: str, named: list[str]
) -> None:
    model, _ = calling()
    source = source_of(model, **asked)
    assert source.sync is not None
    source.sync()
    with counted(kind) as calls, pytest.raises(CaptureError, match=f"calls {kind}.*take the callback away") as caught:
        source.sync()
    assert calls == {}
    # Those, each with what to do about it, and no other.
    every = dict.fromkeys(name for _, _, names in LATER for name in names)
    assert [name for name in every if f"{name}: " in str(caught.value).partition("computation: ")[2]] == named


def test_a_verdict_before_which_one_comes_is_refused_by_its_name() -> None:
    model, data = calling()
    source = open_source(settings(success="math:sqrt"), model, data, env=object())
    source.refresh()
    with (
        counted("mjcb_control"),
        pytest.raises(CaptureError, match=r"computation: success='math:sqrt': use 'info:KEY'"),
    ):
        source.refresh()
