"""Columns of one's own: names, sources, types and shapes."""

from __future__ import annotations

import functools
from fractions import Fraction
from typing import Any

import attrs
import numpy as np
import pytest

from lucky_recorder.episode.schema import Schema
from lucky_recorder.settings.column import Column
from tests.settings.refusals import HUGE, each_of, refused

DTYPE = "give one of float64, float32, int64"
SOURCE = "give a callable, 'module:function', or one of sensor:NAME"
TAKEN = "this name belongs to the recorder; choose another"
SPELLING = "a column name holds no '/' and no control characters"
LENGTH = "give a whole number from 1 to 1000000"

REFUSED: list[tuple[str, Any, str]] = [
    ("name", "", "name='': give a text that is not empty"),
    ("name", "a/b", f"name='a/b': {SPELLING}"),
    ("name", "a\nb", f"name='a\\nb': {SPELLING}"),
    ("name", "a\x7fb", f"name='a\\x7fb': {SPELLING}"),
    ("name", "observation.images.x", f"name='observation.images.x': {TAKEN}"),
    ("name", "observation.masks.x", f"name='observation.masks.x': {TAKEN}"),
    ("name", "videos/x", f"name='videos/x': {TAKEN}"),
    ("name", "Timestamp", f"name='Timestamp': {TAKEN}"),
    ("name", "Observation.Images.x", f"name='Observation.Images.x': {TAKEN}"),
    ("name", "nul.x", "name='nul.x': Windows keeps this name for a device"),
    ("name", "x.", "name='x.': Windows drops a dot or a space at the end"),
    *(("source", value, f"source={value!r}: {SOURCE}")
      for value in ["", None, 1.5, [], "imu", "sensor:", "sensor: ", ":imu", "a b:c", "sensr imu:x", "1:2"]),
    *(("dtype", value, f"dtype={value!r}: {DTYPE}")
      for value in [None, "", "float128", "complex64", "O", "U5", "f4,f8", "f4,,f8", "(2,)f4", bytes, object, 5,
                    [("a", 5)], np.array(5)]),
    ("dtype", HUGE, "dtype=<int>: give one of"),
    ("shape", "3", "shape='3': give a list"),
    ("shape", 1.5, "shape=1.5: give a list"),
    ("shape", {3}, "shape={3}: give a list"),
    ("shape", 0, f"shape[0]=0: {LENGTH}"),
    ("shape", True, f"shape[0]=True: {LENGTH}"),
    ("shape", [3, -1], f"shape[1]=-1: {LENGTH}"),
    ("shape", [[3]], f"shape[0]=[3]: {LENGTH}"),
    ("shape", (1000, 1001), "shape=(1000, 1001): at most 1000000 values a row"),
    ("shape", (10**6,) * 4, "shape=(1000000, 1000000, 1000000, 1000000): at most 1000000 values a row"),
    ("names", "x", "names='x': give a list"),
    ("names", ["x", "y"], "names=('x', 'y'): give 1 names, one per value"),
    ("names", [""], "names[0]='': give a text"),
    ("names", ["x", "x"], "names='x': stands twice"),
    ("unit", "", "unit='': give a text"),
    ("allow_nan", 1, "allow_nan=1: give true or false"),
    ("when", "after", "when='after': sensor:grip: this is read before the step, when the action is chosen; leave it"),
    ("when", "later", "when='later': sensor:grip: this is read before the step"),
    ("when", 5, "when=5: sensor:grip: this is read before the step"),
]  # fmt: skip


@each_of(REFUSED)
def test_a_column_refuses(field: str, value: Any, message: str) -> None:
    given = {"name": "grip", "source": "sensor:grip", field: value}
    refused(lambda: Column(**given), f"column {given['name']!r}: {message}")


def test_every_field_is_in_the_table() -> None:
    assert {field for field, _, _ in REFUSED} == {f.name for f in attrs.fields(Column)}


@pytest.mark.parametrize(
    ("shape", "settled", "scalar"),
    [((), (), True), (1, (1,), True), ([1], (1,), True), (np.int64(3), (3,), False), ([2, 3], (2, 3), False),
     (np.array([2, 3]), (2, 3), False), (1_000_000, (1_000_000,), False)],
)  # fmt: skip
def test_shapes_of_a_column(shape: Any, settled: tuple[int, ...], scalar: bool) -> None:
    column = Column("x", "sensor:x", shape=shape)
    assert column.shape == settled
    assert all(type(n) is int for n in column.shape)
    assert column.is_scalar is scalar


@pytest.mark.parametrize(
    ("dtype", "name"),
    [(float, "float64"), (int, "int64"), (bool, "bool"), (np.float32, "float32"), (np.dtype("u1"), "uint8"),
     ("f4", "float32"), (">f8", "float64"), ("double", "float64"), (np.str_("int16"), "int16")],
)  # fmt: skip
def test_dtypes_of_a_column(dtype: Any, name: str) -> None:
    assert Column("x", "sensor:x", dtype=dtype).dtype == name


def gripper_width(simulation: Any) -> float:
    return 0.0


@pytest.mark.parametrize(
    ("source", "is_called"),
    [("sensor:imu", False), ("qpos:a joint", False), ("xpos:b/c", False), ("site_xpos:s", False), ("ctrl:a", False),
     ("gym:obs.a", False), ("info:is_success", False), ("my.module:Class.method", True), (gripper_width, True),
     (functools.partial(gripper_width), True)],
)  # fmt: skip
def test_sources_of_a_column(source: Any, is_called: bool) -> None:
    column = Column("x", source)
    assert column.source is source
    assert column.is_called is is_called


def test_names_of_a_column_are_one_per_value() -> None:
    assert Column("x", "sensor:x", shape=(2, 2), names=("a", "b", "c", "d")).names == ("a", "b", "c", "d")
    refused(
        lambda: Column("x", "sensor:x", shape=(3,), names=("a",)),
        "column 'x': names=('a',): give 3 names, one per value",
    )


@pytest.mark.parametrize("entity", ["robot_id", "sim_id", "entity_id"])
def test_the_names_of_the_leading_columns_are_taken(entity: str) -> None:
    leading = [field.name for field in Schema(entity, "custom", (), Fraction(50), ()).leading]
    for name in [*leading, "task"]:
        refused(lambda name=name: Column(name, "sensor:x"), f"column {name!r}: name={name!r}: {TAKEN}")  # type: ignore[misc]


@pytest.mark.parametrize(
    ("given", "settled"),
    [("float16", "float32"), (np.float16, "float32"), (np.dtype("<f2"), "float32"), ("str", "string"),
     (str, "string"), ("string", "string"), ("f8", "float64")],
)  # fmt: skip
def test_what_a_dtype_is_stored_as(given: Any, settled: str) -> None:
    column = Column("x", abs, dtype=given)
    assert column.dtype == settled
    assert Column("x", abs, dtype=column.dtype) == column
    assert column.is_text is (settled == "string")


@pytest.mark.parametrize("shape", [2, (2, 2)])
def test_a_row_holds_one_text(shape: Any) -> None:
    refused(lambda: Column("x", abs, dtype="str", shape=shape), "column 'x': shape=")
    assert Column("x", abs, dtype="str", shape=1).is_scalar


@pytest.mark.parametrize(
    ("source", "own", "why"),
    [
        ("sensor:imu", "before", "this is read before the step"),
        ("qpos:j", "before", "this is read before the step"),
        ("gym:obs.a", "before", "this is read before the step"),
        ("gym:action", "before", "this is read before the step"),
        ("ctrl:a", "after", "commands are read after the step"),
        ("gym:reward", "after", "the reward is known after the step"),
        ("info:a.b", "after", "the step's info is known after it"),
    ],
)
def test_a_named_source_has_a_moment_of_its_own(source: str, own: str, why: str) -> None:
    assert Column("x", source).when == Column("x", source, when=own).when == own
    other = {"before": "after", "after": "before"}[own]
    refused(lambda: Column("x", source, when=other), f"column 'x': when={other!r}: {source}: {why}")
    assert not Column("x", source).is_called_after


@pytest.mark.parametrize("source", [gripper_width, "my.module:function"])
def test_a_callable_is_asked_before_the_step_unless_it_says_after(source: Any) -> None:
    assert [Column("x", source, when=w).when for w in (None, "before", "after")] == ["before", "before", "after"]
    assert [Column("x", source, when=w).is_called_after for w in (None, "before", "after")] == [False, False, True]
    refused(lambda: Column("x", source, when="during"), "column 'x': when='during': choose one of before, after")
    refused(lambda: Column("x", source, when=1), "column 'x': when=1: choose one of before, after")
