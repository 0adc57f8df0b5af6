from __future__ import annotations

from fractions import Fraction

import pytest

from lucky_recorder.episode.keys import FLAG_NAMES, NEW_POLICY_STEP, POST_RESET
from lucky_recorder.episode.schema import Field, Schema, Stream


@pytest.mark.parametrize(("shape", "size"), [((), 1), ((1,), 1), ((7,), 7), ((2, 3), 6)])
def test_size_of_a_field(shape: tuple[int, ...], size: int) -> None:
    assert Field("x", "float64", shape).size == size


@pytest.mark.parametrize(
    ("entity", "label"), [("robot_id", "robot_type"), ("sim_id", "sim_type"), ("entity_id", "entity_type")]
)
def test_rows_start_with_the_columns_of_the_format(entity: str, label: str) -> None:
    schema = Schema(entity, "custom", ("arm",), Fraction(50), (Field("action", "float64", (2,)),))
    leading = ["index", entity, "timestamp", "episode_index", "frame_index", "task_index", "frame_flags"]
    assert [f.name for f in schema.fields] == [*leading, "action"]
    assert [f.dtype for f in schema.leading] == ["int64", "int64", "float64", "int64", "int64", "int64", "uint8"]
    assert schema.entity_type_field == label


def test_flags_are_the_bits_their_names_stand_for() -> None:
    assert [1 << FLAG_NAMES.index(name) for name in ("new_policy_step", "post_reset")] == [NEW_POLICY_STEP, POST_RESET]


def test_a_schema_can_be_a_key() -> None:
    stream = Stream("observation.images.Front", "Front", "color", 64, 64, Fraction(50), info={"has_audio": False})
    assert stream.channels == 3
    schema = Schema("robot_id", "ur5e", ("arm",), Fraction(50), (), (stream,))
    assert {schema: 1}[Schema("robot_id", "ur5e", ("arm",), Fraction(50), (), (stream,))] == 1
