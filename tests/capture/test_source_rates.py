"""The rates of a source: those that are known, and those that are learned from the first step."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import mujoco
import pytest

import lucky_recorder as lr
from lucky_recorder.capture.schedule import UNSETTLED, clocks
from lucky_recorder.capture.source import Source, open_source
from lucky_recorder.errors import SettingsError, StateError
from tests.capture.models import scene, settings, source_of


@pytest.mark.parametrize(
    ("data_hz", "control", "expected"),
    [
        (None, Fraction(50), (50, 50, 1)),
        (None, Fraction(200, 3), (Fraction(200, 3), Fraction(200, 3), 1)),
        (50, None, (50, 50, 1)),
        (50, Fraction(50), (50, 50, 1)),
        (10, Fraction(50), (10, 50, 5)),
        ("100/3", Fraction(200, 3), (Fraction(100, 3), Fraction(200, 3), 2)),
        (66.666666666, Fraction(200, 3), (Fraction(200, 3), Fraction(200, 3), 1)),
    ],
)
def test_the_data_rate_is_the_control_rate_unless_one_that_divides_it_is_asked_for(
    data_hz: Any, control: Any, expected: Any
) -> None:
    settled = clocks(settings(data_hz=data_hz), control)
    assert (settled.data, settled.control, settled.ticks_per_row) == expected


@pytest.mark.parametrize(
    ("data_hz", "control", "why"),
    [
        (None, None, "nothing here says how long a step is"),
        (30, Fraction(50), "does not divide the fastest rate here, 50 Hz, evenly; nearest that do: 25 or 50 Hz"),
        (40, Fraction(200, 3), r"nearest that do: 100/3 or 200/3 Hz"),
        (100, Fraction(50), "above the fastest rate here; the nearest: 50 Hz"),
        (67, Fraction(200, 3), "above the fastest rate here; the nearest: 200/3 Hz"),
    ],
)
def test_a_data_rate_that_cannot_be_is_refused_naming_those_that_can(data_hz: Any, control: Any, why: str) -> None:
    with pytest.raises(SettingsError, match=f"data_hz=.*{why}"):
        clocks(settings(data_hz=data_hz), control)


@pytest.mark.parametrize("frame_rate", [30, 100, 40])
def test_a_frame_rate_that_does_not_divide_the_data_rate_is_refused(frame_rate: int) -> None:
    with pytest.raises(SettingsError, match=f"camera 'overview': frame_rate='{frame_rate}'.*nearest( that do)?: "):
        source_of(scene("joint_zoo"), cameras=[lr.Camera("overview", width=64, height=48, frame_rate=frame_rate)])


@pytest.mark.parametrize("frame_rate", [None, 50, 25, 1, Fraction(50, 3)])
def test_a_stream_has_the_rate_that_its_frames_come_at(frame_rate: Any) -> None:
    camera = lr.Camera("overview", width=64, height=48, frame_rate=frame_rate)
    [stream] = source_of(scene("joint_zoo"), cameras=[camera]).schema.streams
    assert stream.rate == (frame_rate or 50)
    assert (stream.key, stream.width, stream.height) == ("observation.images.overview", 64, 48)


# Rates that are learned.

WITHOUT_RATES = {"data_hz": None, "mode": "full_scene"}


def learning(model: mujoco.MjModel, data: mujoco.MjData | None = None, **fields: Any) -> Source:
    data = mujoco.MjData(model) if data is None else data
    return open_source(settings(**{**WITHOUT_RATES, **fields}), model, data, rates=UNSETTLED)


def every_stream(rate: Any = None) -> dict[str, Any]:
    depth = lr.Camera("overview", width=64, height=48, frame_rate=rate, depth_mode="rgbd", sensor_model="ActiveStereo")
    return {"cameras": [CAMERA_AT_DATA_RATE, depth], "lidars": [lr.Lidar("l", site="tip", rate=rate)]}


CAMERA_AT_DATA_RATE = lr.Camera("plain", source="overview", width=64, height=48)


def test_a_rate_that_nothing_says_is_refused_unless_it_will_be_learned() -> None:
    model = scene("joint_zoo")
    with pytest.raises(SettingsError, match="data_hz=None: nothing here says how long a step is"):
        open_source(settings(**WITHOUT_RATES), model, mujoco.MjData(model))
    assert not learning(model).has_rates


@pytest.mark.parametrize("known", [{"data_hz": 50}, {"control_hz": 50}, {"rates": Fraction(50)}])
def test_a_rate_that_is_known_is_not_learned(known: Any) -> None:
    model, control = scene("joint_zoo"), known.pop("rates", None)
    asked = settings(mode="full_scene", **{"data_hz": None, **known})
    rates = clocks(asked, control) if control else None
    source = open_source(asked, model, mujoco.MjData(model), rates=rates)
    assert source.has_rates
    with pytest.raises(StateError, match="known already: 50 steps a second"):
        source.learn_rates(0.01)
    assert source.clocks.data == 50


def test_what_is_learned_is_what_would_have_been_known() -> None:
    model = scene("joint_zoo")
    fields = every_stream(25)
    asked = settings(**WITHOUT_RATES, **fields)
    known = open_source(asked, model, mujoco.MjData(model), rates=clocks(asked, Fraction(50)))
    source = learning(model, **fields)
    source.learn_rates(0.02)
    assert source.has_rates
    assert source.clocks == known.clocks
    assert source.schema == known.schema
    assert [s.rate for s in source.schema.streams] == [50, 25, 25, 25]
    assert [s.rate for s in source.schema.scans] == [25]
    assert source.snapshot is not None
    source.refresh()
    due = [len(taken) for taken in map(source.snapshot, range(4))]
    assert due == [3, 1, 3, 1]


def test_at_tick_0_all_is_due_before_the_rates_are_known() -> None:
    model, data = scene("joint_zoo"), None
    source = learning(model, data, **every_stream(1))
    assert source.sync is not None
    assert source.snapshot is not None
    source.sync()
    assert len(source.snapshot(0)) == 3


def test_what_a_stream_says_is_what_was_there_when_the_source_was_opened() -> None:
    model = scene("joint_zoo")
    source = learning(model, **every_stream())
    before = source.schema.stream("observation.images.overview_depth").info["sensor_params"]["focal_px"]
    model.cam_fovy[:] *= 1.5
    source.learn_rates(0.02)
    assert source.schema.stream("observation.images.overview_depth").info["sensor_params"]["focal_px"] == before


@pytest.mark.parametrize(
    ("fields", "control", "why"),
    [
        ({"cameras": [lr.Camera("overview", width=64, height=48, frame_rate=30)]}, 50, "frame_rate='30'.*25 or 50 Hz"),
        ({"lidars": [lr.Lidar("l", site="tip", rate=100)]}, 50, "lidar 'l': rate='100'.*nearest: 50 Hz"),
        (
            {"cameras": [lr.Camera("overview", width=64, height=48, depth_mode="separate")]},
            2000,
            "data_hz='2000'.*at most 1000 frames a second",
        ),
    ],
)
def test_a_learned_rate_that_cannot_be_is_refused_and_nothing_is_settled(
    fields: dict[str, Any], control: int, why: str
) -> None:
    source = learning(scene("joint_zoo"), **fields)
    schema, snapshot = source.schema, source.snapshot
    with pytest.raises(SettingsError, match=why):
        source.learn_rates(1 / control)
    assert not source.has_rates
    assert source.schema is schema
    assert source.snapshot == snapshot
    assert source.clocks.every(None) == 1


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"cameras": [lr.Camera("nowhere", width=64, height=48)]}, "camera 'nowhere'"),
        ({"lidars": [lr.Lidar("l", site="nowhere")]}, "lidar 'l'"),
        ({"columns": [lr.Column("c", "qpos:nowhere")]}, "column 'c'"),
    ],
)
def test_what_cannot_be_recorded_at_any_rate_is_refused_at_once(fields: dict[str, Any], why: str) -> None:
    with pytest.raises(SettingsError, match=why):
        learning(scene("joint_zoo"), **fields)


def test_new_data_are_followed_before_the_rates_are_known() -> None:
    model = scene("joint_zoo")
    source, fresh = learning(model), mujoco.MjData(model)
    assert source.rebind(model, fresh) is False
    source.learn_rates(0.02)
    assert source.pulse.data is fresh
    assert source.schema.hz == 50
