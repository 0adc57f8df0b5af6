"""The reader of bundles reads what others write: other versions, fields, names and kinds of list."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lucky_recorder as lr
from tests.koyu.bundles import edit_json, features, write_bundle, write_manifest
from tests.koyu.reading import FRONT, assert_is, bundle, places, rewrite


def test_an_unknown_schema_version_is_refused_when_its_bundle_is_touched(copy: Path) -> None:
    edit_json(bundle(copy, 1) / "episode.json", schema_version=2)
    dataset = lr.koyu.Dataset(copy)
    assert_is(dataset[0], 0, 0)
    with pytest.raises(lr.FormatError, match=r"episode\.json: schema_version=2: only 1 is understood"):
        dataset[12]


@pytest.mark.parametrize("version", ["1", None, 1.5, True, "absent"])
def test_a_schema_version_that_is_none(copy: Path, version: Any) -> None:
    edit_json(bundle(copy, 0) / "episode.json", schema_version=version)
    with pytest.raises(lr.FormatError, match="schema_version="):
        lr.koyu.Dataset(copy)[0]


def test_a_manifest_of_an_unknown_version_is_refused_at_once(copy: Path) -> None:
    edit_json(copy / "manifest.json", schema_version=2)
    with pytest.raises(lr.FormatError, match=r"manifest\.json: schema_version=2"):
        lr.koyu.Dataset(copy)


def test_what_is_unknown_is_ignored(tmp_path: Path) -> None:
    more = {"future": np.ones((4, 2))}
    entry = write_bundle(tmp_path, 0, 4, columns=more, weather="fine") | {"score": 3}
    (bundle(tmp_path, 0) / "notes.txt").write_text("hm")
    (tmp_path / "README.md").touch()
    known = features() | {"language": {"dtype": "string", "shape": [1]}, "step": {"dtype": "int64", "shape": [1]}}
    write_manifest(tmp_path, [entry], features=known, colour="blue")
    row = lr.koyu.Dataset(tmp_path)[2]
    assert_is(row, 0, 2)
    assert {"future", "language", "weather"}.isdisjoint(row)


def test_a_bundle_as_koyu_pull_makes_it(tmp_path: Path) -> None:
    entry = write_bundle(tmp_path, 0, 4, recorded_at="absent", record_hz="absent")
    write_manifest(tmp_path, [entry], id="absent", success_rate="absent")
    assert_is(lr.koyu.Dataset(tmp_path)[2], 0, 2)


def test_the_name_of_a_bundle_s_folder_is_cosmetic(copy: Path) -> None:
    bundle(copy, 0).rename(copy / "episodes/first try")
    bundle(copy, 2).rename(copy / "episodes/Z")
    (copy / "episodes/.tmp-1-2").mkdir()
    (copy / "episodes/broken").mkdir()
    (copy / "episodes/broken/episode.json").write_text("[")
    dataset = lr.koyu.Dataset(copy)
    for i, (episode, step) in enumerate(places()):
        assert_is(dataset[i], episode, step)
    with dataset.frames(2, FRONT) as frames:
        assert len(frames) == 25


def test_columns_of_ones_own_and_of_two_axes(tmp_path: Path) -> None:
    own = {"cube": np.arange(28).reshape(4, 7), "grid": np.arange(24).reshape(4, 6)}
    entry = write_bundle(tmp_path, 0, 4, columns=own)
    shapes = features(cube=[7], grid=[2, 3])
    write_manifest(tmp_path, [entry], features=shapes)
    row = lr.koyu.Dataset(tmp_path)[2]
    assert row["cube"].tolist() == list(range(14, 21))
    assert row["grid"].tolist() == [[12, 13, 14], [15, 16, 17]]


@pytest.mark.parametrize("kind", [pa.list_(pa.float64()), pa.large_list(pa.float32()), pa.list_(pa.float32(), 2)])
def test_lists_of_another_kind(copy: Path, kind: pa.DataType) -> None:
    rewrite(copy, 0, "action", lambda column: column.combine_chunks().cast(kind))
    assert_is(lr.koyu.Dataset(copy)[3], 0, 3)
