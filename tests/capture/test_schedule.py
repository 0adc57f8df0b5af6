"""The rates of a recording: what divides the fastest tick is recorded, what does not is refused naming what does."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest

from lucky_recorder.capture.schedule import UNSETTLED, Clocks, clocks
from lucky_recorder.errors import SettingsError
from tests.capture.models import settings

PIXELS = {"width": 64, "height": 48}


def settled(
    control: Any = 50, substeps: int = 1, data: Any = None, frames: tuple[Any, ...] = (), scans: tuple[Any, ...] = ()
) -> Clocks:
    cameras = [{"name": f"c{i}", "frame_rate": rate, **PIXELS} for i, rate in enumerate(frames)]
    lidars = [{"name": f"l{i}", "rate": rate} for i, rate in enumerate(scans)]
    rate = None if control is None else Fraction(control)
    return clocks(settings(data_hz=data, cameras=cameras, lidars=lidars), rate, substeps)


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        # data, base; base ticks per row and per step
        ({}, (50, 50, 1, 1)),
        ({"data": 10}, (10, 50, 5, 1)),
        ({"frames": (25, 10, None)}, (50, 50, 1, 1)),
        # A step in parts is stepped in no more of them than are asked for.
        ({"substeps": 10}, (50, 50, 1, 1)),
        ({"substeps": 10, "data": 500}, (500, 500, 1, 10)),
        ({"substeps": 10, "data": 100}, (100, 100, 1, 2)),
        ({"substeps": 10, "frames": (250,)}, (50, 250, 5, 5)),
        ({"substeps": 10, "frames": (100, 250)}, (50, 500, 10, 10)),
        ({"substeps": 10, "scans": (100,)}, (50, 100, 2, 2)),
        ({"substeps": 10, "data": 25, "frames": (100, 5)}, (25, 100, 4, 2)),
        # The base ticks at every step, whatever is looked at more rarely.
        ({"data": 10, "frames": (5,)}, (10, 50, 5, 1)),
        (
            {"control": "200/3", "substeps": 5, "frames": ("1000/3", "200/3")},
            (Fraction(200, 3), Fraction(1000, 3), 5, 5),
        ),
        ({"control": "200/3", "data": "200/9"}, (Fraction(200, 9), Fraction(200, 3), 3, 1)),
        # Without an environment a tick of the caller's is a row.
        ({"control": None, "data": 50, "frames": (25,)}, (50, 50, 1, 1)),
    ],
)
def test_every_rate_is_a_whole_number_of_base_ticks(asked: dict[str, Any], expected: tuple[Any, ...]) -> None:
    one = settled(**asked)
    assert (one.data, one.base, one.ticks_per_row, one.ticks_per_step) == expected
    for rate in (*asked.get("frames", ()), *asked.get("scans", ())):
        every = one.every(None if rate is None else Fraction(rate))
        assert every * (Fraction(rate) if rate else one.data) == one.base


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        (
            {"frames": (30,)},
            "camera 'c0': frame_rate='30': does not divide .* 50 Hz, evenly; nearest that do: 25 or 50 Hz",
        ),
        ({"frames": (50, 100)}, "camera 'c1': frame_rate='100': is above the fastest rate here; the nearest: 50 Hz"),
        ({"control": 20, "frames": (30,)}, "frame_rate='30': is above the fastest rate here; the nearest: 20 Hz"),
        ({"substeps": 10, "frames": (30,)}, "frame_rate='30': does not divide .* 500 Hz.*: 500/17 or 125/4 Hz"),
        ({"substeps": 10, "data": 1000}, "data_hz='1000': is above the fastest rate here; the nearest: 500 Hz"),
        ({"substeps": 10, "data": 60}, "data_hz='60': does not divide .* 500 Hz.*: 500/9 or 125/2 Hz"),
        ({"scans": (15,)}, "lidar 'l0': rate='15': does not divide .* 50 Hz.*: 25/2 or 50/3 Hz"),
        ({"control": "200/3", "data": 50}, "data_hz='50': .*200/3 Hz, evenly; nearest that do: 100/3 or 200/3 Hz"),
        ({"control": None, "data": 50, "frames": (100,)}, "frame_rate='100': is above .*: 50 Hz"),
        ({"control": None}, "data_hz=None: nothing here says how long a step is"),
    ],
)
def test_a_rate_that_cannot_be_met_exactly_is_refused_naming_the_nearest(asked: dict[str, Any], why: str) -> None:
    with pytest.raises(SettingsError, match=why):
        settled(**asked)


def test_what_is_not_recorded_has_no_say() -> None:
    cameras = [{"name": "off", "frame_rate": 7, "enabled": False}, {"name": "on"}]
    one = clocks(
        settings(data_hz=50, cameras=cameras, lidars=[{"name": "l", "rate": 7, "enabled": False}]), Fraction(50)
    )
    assert one.base == 50


@pytest.mark.parametrize("asked", [{}, {"substeps": 10, "data": 25, "frames": (100, 5)}, {"data": 10, "frames": (5,)}])
def test_a_stream_is_due_as_often_as_its_captures_are_counted(asked: dict[str, Any]) -> None:
    one = settled(**asked)
    for rate in (None, *(Fraction(f) for f in asked.get("frames", ()))):
        every = one.every(rate)
        for ticks in range(3 * every + 2):
            assert one.due(ticks, rate) == sum(tick % every == 0 for tick in range(ticks))
            assert one.due(ticks, rate) == math.ceil(ticks * one.rate_of(rate) / one.base)


def test_before_the_rates_are_known_everything_is_due_at_every_tick() -> None:
    assert not UNSETTLED.is_settled
    assert settled().is_settled
    assert (UNSETTLED.ticks_per_row, UNSETTLED.ticks_per_step) == (1, 1)
    for rate in (None, Fraction(1, 7), Fraction(1000)):
        assert UNSETTLED.every(rate) == 1
        assert UNSETTLED.due(1, rate) == 1
