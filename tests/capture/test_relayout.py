"""What is said of a model that has made another layout of the rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import lucky_recorder as lr
from lucky_recorder.capture.relayout import difference
from lucky_recorder.episode.schema import Schema
from tests.capture.models import OVERVIEW, arm, scene, source_of


def of(*names: str, **fields: Any) -> Schema:
    """The schema of an arm with a motor for each of these joints."""
    joints = "".join(f'<joint name="{name}" axis="0 0 1" range="-1 2"/>' for name in names)
    motors = "".join(f'<motor name="m_{name}" joint="{name}"/>' for name in names)
    return source_of(arm(motors, joints=joints), **fields).schema


def test_the_same_layout_differs_in_nothing() -> None:
    assert difference(of("a", "b"), of("a", "b")) == ""


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        (("a",), ("a", "b"), "observation.state has 2 values, it had 1 (new: b)"),
        (("a", "b"), ("a",), "observation.state has 1 values, it had 2 (gone: b)"),
        (("a", "b"), ("a", "c"), "observation.state has values of other names (new: c, gone: b)"),
        (("a", "b"), ("b", "a"), "observation.state has values of other names"),
        (("a",), tuple("abcdef"), "observation.state has 6 values, it had 1 (new: b, c, d, e and 1 more)"),
    ],
)
def test_joints_that_came_and_went_are_named(before: tuple[str, ...], now: tuple[str, ...], said: str) -> None:
    assert said in difference(of(*before), of(*now)).split("; ")


def test_robots_columns_and_streams_are_named_too() -> None:
    schema = of("a", columns=[lr.Column("extra", "qpos:a")])
    assert difference(schema, replace(schema, robots=("other",))) == "its robots are other, they were one"
    assert difference(schema, of("a")) == "it has no extra"
    filmed = source_of(scene("joint_zoo"), cameras=[OVERVIEW]).schema
    other = replace(filmed, streams=(replace(filmed.streams[0], width=128),))
    assert difference(filmed, other) == "what its cameras and lidars record is something else"
