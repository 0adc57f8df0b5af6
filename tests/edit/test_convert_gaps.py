"""Rows of a session that lack a value, or hold a list of another length: NaN in a bundle, or an error; never a 0."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lucky_recorder as lr
from lucky_recorder.edit.convert import session_to_koyu
from lucky_recorder.testing import check_koyu
from tests.session.foreign import VECTOR, Recorder, write_session

NAN = float("nan")
GRID = pa.list_(VECTOR)
# Features, and two rows that are whole.
KINDS: dict[str, tuple[str, list[int], list[Any], pa.DataType]] = {
    "one": ("float64", [1], [1.5, 2.5], pa.float64()),
    "held": ("bool", [1], [True, False], pa.bool_()),
    "count": ("int16", [1], [7, 8], pa.int16()),
    "tip": ("float64", [3], [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], VECTOR),
    "grid": ("float64", [2, 2], [[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [7.0, 8.0]]], GRID),
}
# What stands in the second row of the second episode, in the place of a whole value.
GAPS: list[tuple[str, Any]] = [
    ("one", None),
    ("held", None),
    ("count", None),
    ("tip", None),
    ("tip", [4.0, None, 6.0]),
    ("grid", None),
    ("grid", [[5.0, 6.0], None]),
    ("grid", [[5.0, 6.0], [None, 8.0]]),
]
RAGGED: list[tuple[str, list[Any], pa.DataType]] = [
    ("tip", [[1.0, 2.0], [4.0, 5.0, 6.0, 7.0]], VECTOR),
    ("tip", [[1.0], [4.0, 5.0, 6.0]], VECTOR),
    ("tip", [1.0, 2.0], pa.float64()),
    ("tip", [[["a", "b", "c"]]] * 2, pa.list_(pa.list_(pa.string()))),
    ("tip", [["a", "b", "c"]] * 2, pa.list_(pa.string())),
    ("grid", [[1.0, 2.0, 3.0, 4.0]] * 2, VECTOR),
    ("grid", [[[1.0, 2.0, 3.0], [4.0]]] * 2, GRID),
    ("one", [[1.0], [2.0]], VECTOR),
    ("one", ["a", "b"], pa.string()),
    ("action", [[1.0, 2.0], [1.0, 2.0, 3.0, 4.0]], VECTOR),
]


def data(root: Path, episode: int) -> Path:
    return root / "data/chunk-{:03d}/file-{:03d}.parquet".format(*divmod(episode, 2))


def put(file: Path, name: str, values: list[Any], kind: pa.DataType) -> None:
    table = pq.read_table(file, partitioning=None).replace_schema_metadata(None)
    if name in table.column_names:
        table = table.drop_columns([name])
    pq.write_table(table.append_column(name, pa.array(values, kind)), file)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A session of another recorder, with a column of every kind."""
    root = write_session(tmp_path / "session", Recorder(streams=(), lengths=(2, 2, 2)))
    info = json.loads((root / "meta/info.json").read_text())
    for name, (dtype, shape, values, kind) in KINDS.items():
        info["features"][name] = {"dtype": dtype, "shape": shape}
        for episode in range(3):
            put(data(root, episode), name, values, kind)
    (root / "meta/info.json").write_text(json.dumps(info))
    return root


def convert(root: Path, path: Path) -> lr.koyu.Dataset:
    return check_koyu(session_to_koyu(root, lr.KoyuSettings(name="converted", path=path)).path)


def test_what_is_whole_is_itself(root: Path, tmp_path: Path) -> None:
    dataset = convert(root, tmp_path / "bundles")
    for name, (_, shape, values, _) in KINDS.items():
        assert np.array_equal(dataset.columns(1)[name], np.array(values, np.float32).reshape(2, *shape))


@pytest.mark.parametrize(("name", "gap"), GAPS)
def test_a_row_with_a_gap_is_nan_and_told(root: Path, tmp_path: Path, name: str, gap: Any) -> None:
    _, shape, values, kind = KINDS[name]
    put(data(root, 1), name, [values[0], gap], kind)
    with pytest.warns(UserWarning, match=f"hold NaN where a column has no value in a row: {name} .1 row.$"):
        dataset = convert(root, tmp_path / "bundles")
    read = dataset.columns(1)[name]
    assert np.array_equal(read[0], np.array(values[0], np.float32).reshape(shape))
    assert np.isnan(read[1]).all()
    for other, (_, form, whole, _) in KINDS.items():
        if other != name:
            assert np.array_equal(dataset.columns(1)[other], np.array(whole, np.float32).reshape(2, *form))


@pytest.mark.parametrize(("name", "values", "kind"), RAGGED)
def test_what_is_not_of_its_shape_is_refused(
    root: Path, tmp_path: Path, name: str, values: list[Any], kind: pa.DataType
) -> None:
    put(data(root, 1), name, values, kind)
    with pytest.raises(lr.FormatError, match=re.escape(f"{root}: episode 1: {name}: ")):
        convert(root, tmp_path / "bundles")


@pytest.mark.parametrize("shape", [[10**39], [1 << 62], [1 << 20, 1 << 20], [3, -1], [2.0], [True], [], "3", None])
def test_a_shape_that_is_none_is_refused(root: Path, tmp_path: Path, shape: Any) -> None:
    info = json.loads((root / "meta/info.json").read_text())
    info["features"]["tip"]["shape"] = shape
    (root / "meta/info.json").write_text(json.dumps(info))
    with pytest.raises(lr.FormatError, match=re.escape("features['tip']: shape=")):
        convert(root, tmp_path / "bundles")
    with pytest.raises(lr.FormatError, match="tip: "):
        lr.merge([root], tmp_path / "merged")


@pytest.mark.parametrize("name", ["action", "observation.state"])
@pytest.mark.parametrize("gap", [None, [1.0, None, 3.0]])
def test_a_bundle_lacks_no_action_and_no_state(root: Path, tmp_path: Path, name: str, gap: Any) -> None:
    put(data(root, 1), name, [[1.0, 2.0, 3.0], gap], VECTOR)
    with pytest.raises(lr.CaptureError, match=f"take 1, row 1, column '{name}': has no value"):
        convert(root, tmp_path / "bundles")
    assert len(check_koyu(tmp_path / "bundles").episodes) == 1


def test_a_task_or_a_column_that_is_not_there_is_an_error(root: Path, tmp_path: Path) -> None:
    put(data(root, 1), "task_index", [0, None], pa.int64())
    with pytest.raises(lr.FormatError, match="episode 1: task_index: a row has none"):
        convert(root, tmp_path / "bundles")
    file = data(root, 1)
    pq.write_table(pq.read_table(file, partitioning=None).drop_columns(["one"]), file)
    with pytest.raises(lr.FormatError, match="episode 1: one: stands 0 times"):
        convert(root, tmp_path / "others")
