from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lucky_recorder.episode import clock
from lucky_recorder.errors import SettingsError, shown

RATES = st.one_of(
    st.sampled_from([Fraction(200, 3), Fraction(30000, 1001), Fraction(60), Fraction(50), Fraction(1, 3)]),
    st.fractions(min_value=Fraction(1, 1000), max_value=100_000, max_denominator=2000),
    st.fractions(min_value=Fraction(1, 1000), max_value=10**9),
)


@pytest.mark.parametrize(
    ("value", "exact"),
    [
        (50, Fraction(50)),
        (np.int64(50), Fraction(50)),
        (np.uint8(250), Fraction(250)),
        (Fraction(200, 3), Fraction(200, 3)),
        (0.5, Fraction(1, 2)),
        (29.97, Fraction(2997, 100)),
        (1 / 0.015, Fraction(200, 3)),
        (66.6666667, Fraction(200, 3)),
        (30000 / 1001, Fraction(30000, 1001)),
        (24000 / 1001, Fraction(24000, 1001)),
        (59.94005994, Fraction("59.94005994")),
        (np.float64(200 / 3), Fraction(200, 3)),
        (np.float32(200 / 3), Fraction(200, 3)),
        (np.float16(30), Fraction(30)),
        (np.longdouble(50), Fraction(50)),
        ("200/3", Fraction(200, 3)),
        ("30000/1001", Fraction(30000, 1001)),
        (" 50 ", Fraction(50)),
        ("29.97", Fraction(2997, 100)),
        ("66.66666666666667", Fraction(200, 3)),
        (1e-6, Fraction(1, 10**6)),
        (1e9, Fraction(10**9)),
    ],
)
def test_a_rate_is_the_exact_fraction_it_stands_for(value: object, exact: Fraction) -> None:
    settled = clock.rate(value)
    assert settled == exact
    assert type(settled) is Fraction
    # numpy's integers would overflow in what is computed from a rate.
    assert type(settled.numerator) is int
    assert type(settled.denominator) is int


@pytest.mark.parametrize(
    "value",
    [
        0, -1, 0.0, -0.5, "0", "-50", "0/3", Fraction(-1, 3), math.nan, math.inf, -math.inf, "nan", "inf", "", " ",
        "50 Hz", "fast", "1/0", "1/2/3", "200 / x", "1e400", "1e999999999", "9" * 5000, "1/" + "9" * 5000, 10**5000,
        5e-324, 1e-7, 1.1e9, 1e308, True, False, np.True_, None, b"50", [50], (50,), {"hz": 50}, 50j,
        np.array([50]), np.array(50.0), Decimal(50), object(), np.float32("nan"), np.float64("inf"),
    ],
    ids=lambda value: shown(value)[:20],
)  # fmt: skip
def test_what_is_no_rate_is_refused_by_name(value: object) -> None:
    with pytest.raises(SettingsError, match=r"(?s)^camera 'Front': frame_rate=.*: (give|a rate must)"):
        clock.rate(value, "camera 'Front': frame_rate")


@settings(deadline=None)
@given(st.fractions(min_value=Fraction(1, 1000), max_value=10_000, max_denominator=1000))
def test_a_float_finds_back_to_its_simple_fraction(exact: Fraction) -> None:
    assert clock.rate(float(exact)) == exact
    assert clock.rate(str(exact)) == exact
    assert clock.rate(1 / float(1 / exact)) == exact


@settings(deadline=None)
@given(st.floats(min_value=1e-6, max_value=1e9))
def test_a_rate_is_never_further_from_the_float_than_a_billionth(value: float) -> None:
    assert abs(clock.rate(value) - Fraction(value)) <= Fraction(value) * Fraction(1, 10**9)


@pytest.mark.parametrize(
    ("seconds", "hz"),
    [
        (0.015, Fraction(200, 3)),
        (0.003 * 5, Fraction(200, 3)),
        (0.002 * 10, 50),
        (np.float32(0.02), 50),
        (np.float64(1 / 60), 60),
        (np.float32(1 / 60), 60),
        (1001 / 30000, Fraction(30000, 1001)),
        (0.0041666, Fraction(5_000_000, 20_833)),
        (1, 1),
        (2, Fraction(1, 2)),
    ],
)
def test_a_control_step_gives_the_rate_it_stands_for(seconds: float, hz: Fraction) -> None:
    assert clock.rate_of_step(seconds) == hz


@pytest.mark.parametrize("seconds", [0, 0.0, -0.02, math.nan, math.inf, -math.inf, None, "soon", True, 1e-12, 1e300])
def test_a_control_step_that_is_no_time_is_refused(seconds: float) -> None:
    with pytest.raises(SettingsError, match=r"^control step=.*set control_hz"):
        clock.rate_of_step(seconds)


@pytest.mark.parametrize(
    ("fast", "slow", "ticks"),
    [("50", "50", 1), ("50", "25", 2), ("200/3", "200/9", 3), ("60", "30000/1001", None), ("1", "1/7", 7)],
)
def test_a_divider_is_whole(fast: str, slow: str, ticks: int | None) -> None:
    if ticks is None:
        with pytest.raises(SettingsError, match=r"frame_rate='30000/1001'.*rate here, 60 Hz,.*: 20 or 30 Hz$"):
            clock.divider(Fraction(fast), Fraction(slow), "frame_rate")
    else:
        assert clock.divider(Fraction(fast), Fraction(slow), "frame_rate") == ticks


def test_a_rate_above_the_control_rate_is_told_the_control_rate() -> None:
    with pytest.raises(SettingsError, match=r"data_hz='60'.*is above the fastest.*the nearest: 50 Hz$"):
        clock.divider(Fraction(50), Fraction(60), "data_hz")


@settings(deadline=None)
@given(fast=RATES, slow=RATES)
def test_a_divider_either_divides_or_names_rates_that_do(fast: Fraction, slow: Fraction) -> None:
    try:
        assert clock.divider(fast, slow, "data_hz") * slow == fast
    except SettingsError as error:
        named = str(error).removesuffix(" Hz").rpartition(": ")[2].split(" or ")
        for option in named:
            assert clock.divider(fast, Fraction(option), "data_hz") >= 1


@settings(deadline=None)
@given(ticks=st.integers(0, 300), hz=RATES)
@example(ticks=200, hz=Fraction(200, 3))
@example(ticks=200, hz=Fraction(30000, 1001))
@example(ticks=200, hz=Fraction(60))
@example(ticks=0, hz=Fraction(12912117, 12911413000))
def test_the_ticks_of_an_episode_are_the_single_ticks(ticks: int, hz: Fraction) -> None:
    times = clock.ticks_ns(ticks, hz)
    assert times.dtype == np.int64
    assert times.tolist() == [clock.tick_ns(k, hz) for k in range(ticks)]


@settings(deadline=None)
@given(tick=st.integers(0, 10**9), hz=RATES)
def test_a_tick_is_at_its_exact_time_rounded_once(tick: int, hz: Fraction) -> None:
    ns = clock.tick_ns(tick, hz)
    exact = Fraction(tick * 1_000_000_000) / hz
    assert abs(ns - exact) <= Fraction(1, 2)
    if abs(ns - exact) == Fraction(1, 2):
        assert ns % 2 == 0
    assert clock.tick_ns(np.int64(tick), hz) == ns  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("hz", "tick", "ns"),
    [
        (Fraction(50), 3, 60_000_000),
        (Fraction(200, 3), 200_000, 3_000_000_000_000),
        (Fraction(60), 1, 16_666_667),
        (Fraction(30000, 1001), 30_000, 1_001_000_000_000),
        (Fraction(400_000_000), 1, 2),  # 2.5 ns: halves go to the even neighbour
        (Fraction(400_000_000), 3, 8),  # 7.5 ns
    ],
)
def test_known_ticks(hz: Fraction, tick: int, ns: int) -> None:
    assert clock.tick_ns(tick, hz) == ns
    assert clock.ticks_ns(tick + 1, hz)[tick] == ns


@pytest.mark.parametrize("hz", [Fraction(30000, 1001), Fraction("59.94005994")])  # int64, and beyond it
def test_a_long_episode_does_not_drift(hz: Fraction) -> None:
    ticks = 100_000
    times = clock.ticks_ns(ticks, hz)
    some = [*range(0, ticks, 997), ticks - 1]
    assert times[some].tolist() == [clock.tick_ns(k, hz) for k in some]
    assert (np.diff(times) > 0).all()


def test_seconds_are_the_nanoseconds_divided_once() -> None:
    hz = Fraction(200, 3)
    seconds = clock.ticks_s(1000, hz)
    assert seconds.dtype == np.float64
    assert seconds.tolist() == [clock.tick_ns(k, hz) / 1e9 for k in range(1000)]
    assert seconds[0] == 0.0
    assert seconds[200] == 3.0


@pytest.mark.parametrize(
    ("seconds", "hz", "ticks"),
    [
        (1.0, Fraction(50), 50),
        (0.06, Fraction(50), 3),  # 0.06 * 50 is 3, though the float is a little above
        (0.061, Fraction(50), 4),
        (1e-9, Fraction(50), 1),
        (5e-324, Fraction(50), 1),
        (2.0, Fraction(200, 3), 134),
        (3.0, Fraction(200, 3), 200),
        (0.7, Fraction(10), 7),
    ],
)
def test_ticks_within_a_time(seconds: float, hz: Fraction, ticks: int) -> None:
    assert clock.ticks_within(seconds, hz) == ticks


@settings(deadline=None)
@given(seconds=st.floats(1e-3, 1e4), hz=st.fractions(min_value=1, max_value=1000, max_denominator=1001))
def test_ticks_within_are_those_that_start_before_the_end(seconds: float, hz: Fraction) -> None:
    ticks = clock.ticks_within(seconds, hz)
    slack = 1 + 2e-9
    assert (ticks - 1) / hz < Fraction(seconds) * Fraction(slack)
    assert ticks / hz * Fraction(slack) >= Fraction(seconds)


def test_rates_are_written_for_people_and_for_json() -> None:
    assert clock.show(Fraction(50)) == "50"
    assert clock.show(Fraction(200, 3)) == "200/3"
    assert clock.number(Fraction(50)) == 50
    assert type(clock.number(Fraction(50))) is int
    assert clock.number(Fraction(30000, 1001)) == 30000 / 1001


@pytest.mark.parametrize(
    ("now", "known"),
    [
        *((now, True) for now in (0, 10**18, clock.LATEST_NS - 1)),
        *((now, False) for now in (clock.LATEST_NS, 2**63, 10**25, -1, -(10**19))),
    ],
)
def test_a_clock_that_is_wrong_says_nothing(monkeypatch: pytest.MonkeyPatch, now: int, known: bool) -> None:
    monkeypatch.setattr(clock.time, "time_ns", lambda: now)
    assert clock.now_ns() == (now if known else 0)
    # What is recorded from then on has times too: ten million ticks, one a second.
    assert clock.end_ns(clock.now_ns(), 10_000_000, Fraction(1)) < 2**63
