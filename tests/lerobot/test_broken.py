"""Sessions of others that no view can be made of: an error that names file or column, and no folder."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lucky_recorder as lr
from tests.session.foreign import IMAGES, VECTOR, Recorder, write_session

DATA = "data/chunk-000/file-001.parquet"
RAGGED = {
    "a value short in one row": ([[1.0, 2.0], [1.0, 2.0, 3.0]], VECTOR),
    "too many and too few add up": ([[1.0, 2.0], [1.0, 2.0, 3.0, 4.0]], VECTOR),
    "an empty list": ([[], [1.0] * 6], VECTOR),
    "another length everywhere": ([[1.0, 2.0], [1.0, 2.0]], VECTOR),
    "plain values": ([1.0, 2.0], pa.float64()),
    "lists of one": ([[1.0], [2.0]], VECTOR),
    "lists of lists": ([[[1.0, 2.0, 3.0]], [[1.0, 2.0, 3.0]]], pa.list_(VECTOR)),
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A session of another recorder, whole, of three episodes of two rows."""
    return write_session(tmp_path / "session", Recorder(streams=(), lengths=(2, 2, 2)))


def put(root: Path, name: str, values: list[Any], kind: pa.DataType) -> None:
    table = pq.read_table(root / DATA, partitioning=None)
    changed = table.set_column(table.column_names.index(name), name, pa.array(values, kind))
    pq.write_table(changed.replace_schema_metadata(None), root / DATA)


@pytest.mark.parametrize("name", ["action", "observation.state"])
@pytest.mark.parametrize("case", RAGGED)
def test_a_list_of_another_length_is_refused_before_the_folder_is_made(
    root: Path, tmp_path: Path, case: str, name: str
) -> None:
    put(root, name, *RAGGED[case])
    why = re.escape(f"{root}: episode 1: {name}: a row holds no value of shape [3]")
    with pytest.raises(lr.FormatError, match=why):
        lr.lerobot_view(root, tmp_path / "view")
    assert not (tmp_path / "view").exists()


def test_lists_of_one_value_that_are_not_are_refused(tmp_path: Path) -> None:
    root = write_session(tmp_path / "session", Recorder(entity="entity_id", streams=(), lengths=(2, 2, 2)))
    put(root, "gripper", [[1.0, 2.0], []], VECTOR)
    with pytest.raises(lr.FormatError, match=r"episode 1: gripper: a row holds no value of shape \[1\]"):
        lr.lerobot_view(root, tmp_path / "view")
    assert not (tmp_path / "view").exists()


def without(name: str) -> Callable[[Path], None]:
    return lambda root: (root / name).unlink()


def without_a_column(root: Path) -> None:
    pq.write_table(pq.read_table(root / DATA, partitioning=None).drop_columns(["frame_flags"]), root / DATA)


def with_texts_for_numbers(root: Path) -> None:
    put(root, "action", [["a", "b", "c"]] * 2, pa.list_(pa.string()))


def with_broken_statistics(root: Path) -> None:
    (root / "meta/stats.json").write_text("{")


def with_values_that_do_not_fit(root: Path) -> None:
    info = json.loads((root / "meta/info.json").read_text())
    info["features"]["action"]["dtype"] = "uint8"
    (root / "meta/info.json").write_text(json.dumps(info))


BROKEN = [
    without(DATA),
    without("meta/tasks.parquet"),
    without("meta/stats.json"),
    without_a_column,
    with_texts_for_numbers,
    with_broken_statistics,
    with_values_that_do_not_fit,
]


@pytest.mark.parametrize("break_", BROKEN)
def test_nothing_is_left_behind_of_a_session_with_a_broken_part(
    root: Path, tmp_path: Path, break_: Callable[[Path], None]
) -> None:
    break_(root)
    with pytest.raises(lr.FormatError, match=re.escape(str(root))):
        lr.lerobot_view(root, tmp_path / "view")
    assert not (tmp_path / "view").exists()


@pytest.mark.parametrize("name", [f"videos/{IMAGES}Front/chunk-000/file-001.mp4", DATA, "meta/tasks.parquet"])
def test_nothing_is_left_behind_of_a_session_of_ours_without_a_file(full_copy: Path, tmp_path: Path, name: str) -> None:
    (full_copy / name).unlink()
    with pytest.raises(lr.FormatError, match=re.escape(name)):
        lr.lerobot_view(full_copy, tmp_path / "view")
    assert not (tmp_path / "view").exists()
