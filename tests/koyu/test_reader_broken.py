"""The reader of bundles names what is wrong with a broken one, with a hostile manifest, and with no dataset."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lucky_recorder as lr
from tests.koyu.bundles import edit_json, film
from tests.koyu.reading import FRONT, assert_is, bundle, rewrite


def break_rows(dataset: Path) -> None:
    path = bundle(dataset, 0) / "data.parquet"
    pq.write_table(pq.read_table(path).slice(0, 11), path)


def break_list(dataset: Path) -> None:
    rewrite(dataset, 0, "action", lambda column: pa.array([[1.0]] * 12, pa.list_(pa.float32())))


def break_null(dataset: Path) -> None:
    rewrite(dataset, 0, "action", lambda column: pa.array([None] + [[1.0, 2.0]] * 11, pa.list_(pa.float32())))


def break_value(dataset: Path) -> None:
    rewrite(dataset, 0, "action", lambda column: pa.array([[None, 1.0]] * 12, pa.list_(pa.float32())))


def break_text(dataset: Path) -> None:
    rewrite(dataset, 0, "action", lambda column: pa.array([["a", "b"]] * 12))


def break_struct(dataset: Path) -> None:
    rewrite(dataset, 0, "action", lambda column: pa.array([{"x": 1.0}] * 12))


def break_time(dataset: Path) -> None:
    rewrite(dataset, 0, "timestamp", lambda column: pa.array([0.5] * 12))


def drop_column(dataset: Path) -> None:
    path = bundle(dataset, 0) / "data.parquet"
    pq.write_table(pq.read_table(path).drop_columns(["action"]), path)


def truncate(name: str) -> Any:
    def change(dataset: Path) -> None:
        path = bundle(dataset, 0) / name
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])

    return change


def short_video(dataset: Path) -> None:
    film(bundle(dataset, 0) / f"{FRONT}.mp4", list(range(11)))


def link_video(dataset: Path) -> None:
    path = bundle(dataset, 0) / f"{FRONT}.mp4"
    path.rename(dataset.parent / "elsewhere.mp4")
    path.symlink_to(dataset.parent / "elsewhere.mp4")


def other_length(dataset: Path) -> None:
    edit_json(bundle(dataset, 0) / "episode.json", length=11)


def no_json(dataset: Path) -> None:
    (bundle(dataset, 0) / "episode.json").write_text("[1, 2")


def a_list(dataset: Path) -> None:
    (bundle(dataset, 0) / "episode.json").write_text("[1, 2]")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (break_rows, r"data\.parquet: 11 rows, the manifest says 12"),
        (break_list, r"data\.parquet: action: a list is missing or does not hold 2 values"),
        (break_null, r"data\.parquet: action: a list is missing"),
        (break_value, r"data\.parquet: action: a value is missing"),
        (break_text, r"data\.parquet: action: holds list<.*string>, expected list<float>"),
        (break_struct, r"data\.parquet: action: holds struct<x: double>"),
        (break_time, r"data\.parquet: timestamp is double"),
        (drop_column, r"data\.parquet: has no column 'action'"),
        (truncate("data.parquet"), r"data\.parquet: cannot be read"),
        (truncate("episode.json"), r"episode\.json: cannot be read"),
        (truncate(f"{FRONT}.mp4"), r"front\.mp4: "),
        (short_video, r"front\.mp4: frames 11, the manifest says 12"),
        (link_video, r"front\.mp4: lies outside the dataset folder"),
        (other_length, r"episode\.json: length=11, the manifest says 12"),
        (no_json, r"episode\.json: cannot be read"),
        (a_list, r"episode\.json: holds a list"),
    ],
)
def test_a_broken_bundle(copy: Path, change: Any, message: str) -> None:
    change(copy)
    dataset = lr.koyu.Dataset(copy)
    with pytest.raises(lr.FormatError, match=message):
        dataset[3]
    assert_is(dataset[12], 1, 0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"episodes": None}, "episodes=None: expected a list"),
        ({"episodes": [3]}, r"episodes\[0\]: 3: expected an object"),
        ({"episodes": [{"id": "../../etc", "length": 1}]}, r"id='\.\./\.\./etc': is no episode's name"),
        ({"episodes": [{"id": "a..b", "length": 1}]}, "is no episode's name"),
        ({"episodes": [{"id": ".tmp-1", "length": 1}]}, "is no episode's name"),
        ({"episodes": [{"id": "ep_1", "length": -1}]}, "length=-1"),
        ({"episodes": [{"id": "ep_1", "length": True}]}, "length=True"),
        ({"episodes": [{"id": "ep_1", "length": 10**12}]}, "length=1000000000000"),
        ({"episodes": [{"id": "ep_1", "length": 1}] * 2}, "listed twice"),
        ({"episodes": [{"id": "ep_1", "length": 1, "task": 3}]}, "task=3: expected a text"),
        ({"features": []}, "features="),
        ({"features": {"action": 3}}, "expected an object with dtype and shape"),
        ({"features": {"action": {"dtype": "float32", "shape": [-1]}}}, r"shape=\[-1\]"),
        ({"features": {"action": {"dtype": "float32", "shape": [1 << 20, 1 << 20]}}}, "is no row's value"),
        ({"features": {"observation.images.a/../../b": {"dtype": "video", "shape": [2, 2, 3]}}}, "no camera's name"),
        ({"features": {"observation.images.a": {"dtype": "video", "shape": [2, 2]}}}, "is no row's value"),
    ],
)
def test_a_hostile_manifest(copy: Path, changes: dict[str, Any], message: str) -> None:
    edit_json(copy / "manifest.json", **changes)
    with pytest.raises(lr.FormatError, match=message):
        lr.koyu.Dataset(copy)


def test_what_is_no_dataset(tmp_path: Path) -> None:
    with pytest.raises(lr.FormatError, match="no such folder"):
        lr.koyu.Dataset(tmp_path / "nowhere")
    with pytest.raises(lr.FormatError, match=r"has no manifest\.json; `lucky-recorder koyu index`"):
        lr.koyu.Dataset(tmp_path)
