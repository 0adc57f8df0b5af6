from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from lucky_recorder.capture.channels import Channel, DerivedColumn
from lucky_recorder.episode import clock
from lucky_recorder.episode.keys import NEW_POLICY_STEP, POST_RESET
from lucky_recorder.episode.record import EpisodeRecord, Outcome
from lucky_recorder.episode.schema import Field, Schema
from lucky_recorder.recorder.buffer import BLOCK_ROWS, Block, EpisodeBuffer

HZ = Fraction(200, 3)
ROW = Channel("row", "before", (2,), "float64")
INFO = Channel("info", "after", (), "int32", nullable=True)
STATE = Field("observation.state", "float64", (2,))
LEVEL = Field("level", "int32", nullable=True)
SCHEMA = Schema("robot_id", "ur5e", ("left", "right"), HZ, (STATE, LEVEL))
COLUMNS = (DerivedColumn(STATE, ROW), DerivedColumn(LEVEL, INFO))


def _fill(block: Block, values: NDArray[Any]) -> None:
    row = 0
    for value in values:
        block.open[row] = value
        row += 1
        if row == BLOCK_ROWS:
            block.next()
            row = 0


def _buffer(ticks: int, task: int = 0) -> EpisodeBuffer:
    """Record ticks whose values say which tick they are; every third has no level."""
    buffer = EpisodeBuffer([ROW, INFO], task, None)
    _fill(buffer.blocks["row"], np.stack([np.arange(ticks), -np.arange(ticks)], axis=1))
    _fill(buffer.blocks["info"], np.arange(ticks))
    buffer.missing["info"] += bytes(k % 3 == 0 for k in range(ticks))
    buffer.flags += bytes([NEW_POLICY_STEP] * ticks)
    return buffer


def _finish(buffer: EpisodeBuffer, entities: Sequence[int] = (7,)) -> dict[str, Any]:
    return buffer.finish(COLUMNS, SCHEMA, entities)._asdict()


@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 2)])
@pytest.mark.parametrize("count", [0, 1, BLOCK_ROWS - 1, BLOCK_ROWS, BLOCK_ROWS + 1, 3 * BLOCK_ROWS])
def test_a_block_gives_back_what_went_in(shape: tuple[int, ...], count: int) -> None:
    values = np.random.default_rng(1).standard_normal((count, *shape))
    block = Block(shape, "float64")
    _fill(block, values)
    np.testing.assert_array_equal(block.rows(count), values)
    assert block.rows(count).shape == (count, *shape)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "float32"])
def test_a_block_keeps_its_dtype(dtype: str) -> None:
    block = Block((2,), dtype)
    _fill(block, np.ones((BLOCK_ROWS + 1, 2), dtype))
    assert block.rows(BLOCK_ROWS + 1).dtype == dtype


@pytest.mark.parametrize("shape", [(), (3,)])
@pytest.mark.parametrize(
    "count", [1, 2, BLOCK_ROWS - 1, BLOCK_ROWS, BLOCK_ROWS + 1, 2 * BLOCK_ROWS, 2 * BLOCK_ROWS + 5]
)
def test_the_last_row_can_be_written_to_later(shape: tuple[int, ...], count: int) -> None:
    values = np.arange(count, dtype=np.float64).reshape(count, *(1 for _ in shape)) + np.zeros(shape)
    block = Block(shape, "float64")
    _fill(block, values)
    last = block.last(count)
    last[...] = last + 0.5
    values[-1] += 0.5
    np.testing.assert_array_equal(block.rows(count), values)


def test_rows_are_a_copy_that_later_ticks_leave_alone() -> None:
    block = Block((), "int64")
    block.open[:2] = (1, 2)
    rows = block.rows(2)
    block.open[:2] = (3, 4)
    assert rows.tolist() == [1, 2]


def test_fewer_rows_than_blocks_hold() -> None:
    values = np.arange(3 * BLOCK_ROWS)
    block = Block((), "int64")
    _fill(block, values)
    np.testing.assert_array_equal(block.rows(5), values[:5])


def test_an_open_block_of_wide_rows_is_not_copied_whole() -> None:
    block = Block((1_000_000,), "float64")
    block.open[0] = 1.0
    rows = block.rows(1)
    assert rows[0, 0] == 1.0
    assert rows.base is not None
    assert rows.base.nbytes == 8_000_000


@pytest.mark.parametrize("ticks", [1, 2, BLOCK_ROWS, BLOCK_ROWS + 3])
@pytest.mark.parametrize("entities", [(7,), (7, -9)])
def test_rows_are_one_per_robot_per_tick(ticks: int, entities: tuple[int, ...]) -> None:
    finished = _finish(_buffer(ticks), entities)
    columns, robots = finished["columns"], len(entities)
    assert finished["data_ticks"] == ticks
    assert set(columns) == {f.name for f in SCHEMA.fields} - {"index", "episode_index"}
    assert {len(values) for values in columns.values()} == {ticks * robots}
    assert columns["robot_id"].tolist() == list(entities) * ticks
    assert columns["frame_index"].tolist() == [k for k in range(ticks) for _ in entities]
    assert columns["timestamp"].tolist() == [clock.tick_ns(k, HZ) / 1e9 for k in range(ticks) for _ in entities]
    np.testing.assert_array_equal(columns["observation.state"][::robots, 1], -np.arange(ticks, dtype=np.float64))
    for field in SCHEMA.fields:
        if field.name in columns:
            assert columns[field.name].dtype == field.dtype, field.name


def test_what_is_missing_is_missing_for_every_robot() -> None:
    finished = _finish(_buffer(7), (1, 2))
    assert finished["missing"]["level"].tolist() == [k % 3 == 0 for k in range(7) for _ in range(2)]
    assert finished["missing"]["level"].dtype == np.bool_
    assert list(finished["missing"]) == ["level"]


@settings(deadline=None)
@given(
    ticks=st.integers(1, 30),
    changes=st.lists(st.tuples(st.integers(0, 30), st.integers(0, 5)), max_size=6).map(
        lambda c: sorted(c, key=lambda x: x[0])
    ),
)
def test_a_task_holds_from_the_tick_it_is_set(ticks: int, changes: list[tuple[int, int]]) -> None:
    buffer = EpisodeBuffer([], 4, None)
    expected = []
    task = 4
    for tick in range(ticks):
        for _, index in (c for c in changes if c[0] == tick):
            buffer.set_task(index)
            task = index
        buffer.flags.append(0)
        expected.append(task)
    assert buffer.finish((), SCHEMA, (1,)).columns["task_index"].tolist() == expected


def test_a_task_set_after_the_last_tick_is_no_rows() -> None:
    buffer = _buffer(3)
    buffer.set_task(1)
    assert _finish(buffer)["columns"]["task_index"].tolist() == [0, 0, 0]


def test_flags_of_one_robot_are_its_own() -> None:
    buffer = _buffer(3)
    buffer.robot_flags[(1, 0)] = POST_RESET
    buffer.robot_flags[(3, 1)] = POST_RESET  # a tick that never came
    flags = _finish(buffer, (1, 2))["columns"]["frame_flags"]
    both = NEW_POLICY_STEP | POST_RESET
    assert flags.tolist() == [NEW_POLICY_STEP, NEW_POLICY_STEP, both, NEW_POLICY_STEP, NEW_POLICY_STEP, NEW_POLICY_STEP]
    assert flags.dtype == np.uint8


@pytest.mark.parametrize("kept", [0, 1, 4, 10])
def test_an_episode_until_a_tick_is_one_that_ended_earlier(kept: int) -> None:
    buffer = _buffer(10)
    buffer.robot_flags[(4, 0)] = POST_RESET
    buffer = buffer.until(kept, kept)
    assert buffer.data_ticks == kept
    trimmed, expected = _finish(buffer), _finish(_buffer(kept))
    for part in ("columns", "missing"):
        for name, values in expected[part].items():
            if name != "frame_flags" or kept <= 4:
                np.testing.assert_array_equal(trimmed[part][name], values, err_msg=name)
                assert trimmed[part][name].shape == values.shape


def test_an_outcome_is_a_verdict_unless_said_otherwise() -> None:
    assert Outcome(True) == (True, "verdict", None)


def test_records_share_no_videos() -> None:
    first, second = (EpisodeRecord(i, 0, 0, {}, Outcome(False), {}) for i in range(2))
    assert first.videos == {}
    assert first.videos is not second.videos
    assert first.reproducible is False
