from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from lucky_recorder.capture.channels import Channel, DerivedColumn, bounds_of, exact, exactly
from lucky_recorder.episode.keys import NUMBERS
from lucky_recorder.episode.schema import Field
from lucky_recorder.errors import CaptureError

INTEGERS = ("int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8")


@pytest.mark.parametrize("value", [1.5, np.float32(1.5), np.array(1.5), np.array([1.5]), [1.5], np.array([[1.5]])])
def test_one_number_may_come_in_any_wrapping(value: Any) -> None:
    settled = exact("c", value, (), "float64", False)
    assert settled.shape == ()
    assert settled == 1.5


@pytest.mark.parametrize(
    ("value", "shape"), [([1, 2], (3,)), (np.zeros((2, 3)), (3, 2)), (np.zeros(0), ()), (1.0, (3,))]
)
def test_another_shape_is_refused_naming_the_column_and_both_shapes(value: Any, shape: tuple[int, ...]) -> None:
    given_shape = str(np.shape(value)).replace("(", r"\(").replace(")", r"\)")
    with pytest.raises(CaptureError, match=f"column 'c': the source gave shape {given_shape}, declared is"):
        exact("c", value, shape, "float64", False)


@pytest.mark.parametrize(
    "value", ["1.0", None, {"a": 1}, 1j, object(), [[1], [1, 2]], np.array("x"), np.datetime64("2024-01-01")]
)
def test_what_is_no_number_is_refused_naming_the_column(value: Any) -> None:
    with pytest.raises(CaptureError, match="column 'c': the source gave"):
        exact("c", value, (), "float64", False)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_nan_and_infinity_are_refused_unless_allowed(value: float) -> None:
    with pytest.raises(CaptureError, match=r"column 'c': \[0.0, .*\] is not finite; set allow_nan=True"):
        exact("c", [0.0, value], (2,), "float64", False)
    np.testing.assert_array_equal(exact("c", [0.0, value], (2,), "float32", True), np.array([0, value], np.float32))


@pytest.mark.parametrize("allow_nan", [True, False])
@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (256, "uint8"),
        (-1, "uint8"),
        (-1, "uint64"),
        (2**63, "int64"),
        (1.5, "int64"),
        (np.nan, "int32"),
        (2, "bool"),
        (0.5, "bool"),
        (1e300, "float32"),
        (2**53 + 1, "float64"),
        (2**24 + 1, "float32"),
        (2**70, "float64"),
    ],
)
def test_a_cast_that_loses_something_is_refused(value: Any, dtype: str, allow_nan: bool) -> None:
    with pytest.raises(CaptureError, match=f"column 'c'.*(does not fit {dtype}; declare|no number)"):
        exact("c", value, (), dtype, allow_nan)


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (255, "uint8"),
        (3.0, "int64"),
        (True, "float64"),
        (1, "bool"),
        (1.0, "bool"),
        (2**63, "uint64"),
        (2**53, "float64"),
        (False, "int8"),
        (np.uint64(2**64 - 1), "uint64"),
    ],
)
def test_a_cast_that_loses_nothing_is_made(value: Any, dtype: str) -> None:
    settled = exact("c", value, (), dtype, False)
    assert settled.dtype == dtype
    assert settled.item() == value


def test_a_float_may_be_rounded_to_the_shorter_one_that_was_declared() -> None:
    assert exact("c", 0.1, (), "float32", False) == np.float32(0.1)


READINGS: list[Any] = [1.5, np.nan, np.inf, -0.0, True, 3, 1e300, np.float64(2), np.array(2.5), [1, 2, 3], "x", None]
READINGS += [
    np.arange(3.0),
    np.array([0, np.nan, 1]),
    np.arange(3, dtype=np.float32),
    np.arange(3),
    np.arange(6.0)[::2],
]
READINGS += [np.zeros((3, 1)), 1e200 * np.ones(3), np.ones(3, bool)]


def outcome(settle: Any, *arguments: Any) -> Any:
    """What a reading becomes: an array, or the words it is refused with."""
    try:
        return np.array(settle(*arguments))
    except CaptureError as error:
        return str(error)


@pytest.mark.parametrize("shape", [(), (3,), (3, 1)])
@pytest.mark.parametrize("dtype", ["float64", "float32", "bool", "int64"])
@pytest.mark.parametrize("allow_nan", [True, False])
def test_the_quick_way_settles_and_refuses_as_the_thorough_one_does(shape: Any, dtype: str, allow_nan: bool) -> None:
    settle = exactly("c", shape, dtype, allow_nan)
    for value in READINGS:
        known, settled = outcome(exact, "c", value, shape, dtype, allow_nan), outcome(settle, value)
        np.testing.assert_array_equal(settled, known)
        if not isinstance(known, str):
            assert (settled.shape, settled.dtype) == (known.shape, known.dtype)


LARGEST = float(np.finfo(np.float64).max)
NUMBERS_GIVEN: list[Any] = [0, 1, -1, 255, 256, 2**24, 2**24 + 1, 2**31, 2**53, 2**53 + 1, -(2**53) - 1, 2**63, 2**64]
NUMBERS_GIVEN += [0.1, -0.0, 3.4e38, 3.5e38, -LARGEST, LARGEST, np.inf, -np.inf, np.nan, True, False]
NUMBERS_GIVEN += [np.float64(0.1), np.float64(np.nan), np.float32(0.1), np.float32(np.inf), np.int64(-1), np.int32(7)]
NUMBERS_GIVEN += [np.int64(2**63 - 1), np.uint64(2**64 - 1), np.bool_(True), "1", None]


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("value", NUMBERS_GIVEN)
def test_a_number_within_the_bounds_is_recorded_to_the_bit_as_the_thorough_way_records_it(
    value: Any, dtype: str
) -> None:
    known, cells = bounds_of((), dtype).get(type(value)), np.zeros(1, dtype)
    is_known = known is not None and known[0] <= value <= known[1]
    settled = outcome(exact, "c", value, (), dtype, False)
    if is_known or not isinstance(settled, str):
        cells.data[0] = value if is_known else settled
        assert cells.tobytes() == settled.tobytes()


@pytest.mark.parametrize(
    ("value", "dtype"), [(0.1, "float64"), (True, "bool"), (7, "int32"), (np.float64(3), "float32"), (2**53, "float64")]
)
def test_plain_numbers_are_within_the_bounds(value: Any, dtype: str) -> None:
    low, high = bounds_of((), dtype)[type(value)]
    assert low <= value <= high
    assert bounds_of((1,), dtype) == bounds_of((), "object") == {}


def test_a_reading_is_a_copy() -> None:
    kept = np.zeros(3)
    settled = exact("c", kept, (3,), "float64", False)
    kept[:] = 1
    assert settled.tolist() == [0, 0, 0]


@settings(deadline=None)
@given(hnp.arrays(st.sampled_from([*INTEGERS, "float64", "float32", "bool"]), 3), st.sampled_from([*INTEGERS, "bool"]))
@example(np.full(3, 2.0**64), "uint64")
@example(np.full(3, 2.0**63), "int64")
@example(np.full(3, -1.0), "uint32")
def test_an_integer_column_holds_exactly_what_was_given_or_refuses(value: np.ndarray, dtype: str) -> None:
    if all(np.isfinite(v) and v == int(v) and _holds(dtype, int(v)) for v in value.tolist()):
        assert [int(v) for v in exact("c", value, (3,), dtype, False).tolist()] == [int(v) for v in value.tolist()]
    else:
        with pytest.raises(CaptureError, match="does not fit"):
            exact("c", value, (3,), dtype, False)


def _holds(dtype: str, value: int) -> bool:
    low, high = (0, 1) if dtype == "bool" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    return int(low) <= value <= int(high)


def column(shape: tuple[int, ...], dtype: str = "float64", **how: Any) -> DerivedColumn:
    return DerivedColumn(Field("c", dtype, shape), Channel("raw", "before", shape, "float64"), **how)


def test_a_column_without_a_selection_is_the_same_for_every_robot() -> None:
    raw = np.arange(6.0).reshape(3, 2)
    assert column((2,)).derive(raw, 2, None).tolist() == [[0, 1], [0, 1], [2, 3], [2, 3], [4, 5], [4, 5]]


def test_a_scalar_column_has_one_number_a_row() -> None:
    assert column(()).derive(np.arange(3.0), 2, None).tolist() == [0, 0, 1, 1, 2, 2]


def test_a_selection_per_robot_gives_each_its_own() -> None:
    raw = np.arange(8.0).reshape(2, 4)
    how = {"select": np.array([[0, 1], [3, 2]])}
    assert column((2,), **how).derive(raw, 2, None).tolist() == [[0, 1], [3, 2], [4, 5], [7, 6]]


def test_one_selection_for_all_robots_is_repeated() -> None:
    raw = np.arange(8.0).reshape(2, 4)
    assert column((2,), select=np.array([[1, 3]])).derive(raw, 3, None).tolist() == [[1, 3]] * 3 + [[5, 7]] * 3
    assert column((), select=np.array([[2]])).derive(raw, 2, None).tolist() == [2, 2, 6, 6]


def test_values_that_are_per_robot_already_are_rows_as_they_are() -> None:
    raw = np.arange(12.0).reshape(2, 3, 2)
    assert column((2,), per_robot=True).derive(raw, 3, None).tolist() == raw.reshape(6, 2).tolist()


def test_a_column_has_its_own_dtype_and_lies_in_one_piece() -> None:
    derived = column((2,), "float32", select=np.array([[1, 3]])).derive(np.arange(8.0).reshape(2, 4), 2, None)
    assert derived.dtype == np.float32
    assert derived.flags.c_contiguous


def test_an_episode_without_ticks_has_columns_without_rows() -> None:
    assert column((2,)).derive(np.zeros((0, 2)), 2, None).shape == (0, 2)
