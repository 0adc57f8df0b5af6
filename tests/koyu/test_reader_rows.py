"""The reader of bundles: row i is frame i, alone or in a window, and nothing is read or written before it must."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lucky_recorder as lr
from lucky_recorder.testing import read_count
from tests.koyu.bundles import (
    CAMERAS,
    HEIGHT,
    WIDTH,
    capture_id,
    count_of,
    state_of,
    write_manifest,
)
from tests.koyu.reading import FRONT, LENGTHS, WRIST, assert_is, places


def test_row_i_is_frame_i_for_every_row_of_every_camera(stored: Path) -> None:
    dataset = lr.koyu.Dataset(stored)
    assert len(dataset) == sum(LENGTHS)
    for i, (episode, step) in enumerate(places()):
        assert_is(dataset[i], episode, step)


def test_rows_in_any_order(stored: Path) -> None:
    dataset = lr.koyu.Dataset(stored, open_videos=2)
    for i in np.random.default_rng(0).permutation(len(dataset)):
        assert_is(dataset[i], *places()[i])


def test_dtypes_and_shapes(stored: Path) -> None:
    row = lr.koyu.Dataset(stored)[0]
    assert (row["observation.state"].dtype, row["observation.state"].shape) == (np.float32, (3,))
    assert (row["action"].dtype, row["action"].shape) == (np.float32, (2,))
    assert (row[FRONT].dtype, row[FRONT].shape) == (np.uint8, (HEIGHT, WIDTH, 3))
    assert all(array.flags.writeable and array.flags.owndata for array in (row["action"], row["observation.state"]))


def test_an_index_like_a_lists(stored: Path) -> None:
    dataset = lr.koyu.Dataset(stored)
    assert_is(dataset[-1], 2, 24)
    assert_is(dataset[np.int64(12)], 1, 0)
    for beyond in (len(dataset), -len(dataset) - 1):
        with pytest.raises(IndexError, match=f"row {beyond} of 38"):
            dataset[beyond]
    assert [row["step"] for row in dataset] == [step for _, step in places()]


def test_no_bundle_is_touched_before_a_row_is_asked_for(copy: Path) -> None:
    shutil.rmtree(copy / "episodes")
    dataset = lr.koyu.Dataset(copy)
    assert (len(dataset), dataset.rows_of(2)) == (38, range(13, 38))
    assert [e.length for e in dataset.episodes] == list(LENGTHS)
    with pytest.raises(lr.FormatError, match=r"episode\.json: is missing"):
        dataset[0]


def test_a_chunk_of_actions_is_padded_past_the_end(stored: Path) -> None:
    dataset = lr.koyu.Dataset(stored, horizon=4)
    for i, (episode, step) in enumerate(places()):
        row, length = dataset[i], LENGTHS[episode]
        steps = [min(k, length - 1) for k in range(step, step + 4)]
        assert row["action"].tolist() == [[100 * episode + k, -k] for k in steps]
        assert row["action_is_pad"].tolist() == [k >= length for k in range(step, step + 4)]
        assert row["observation.state"].shape == (3,)


def test_a_history_is_padded_before_the_beginning(stored: Path) -> None:
    dataset = lr.koyu.Dataset(stored, history=3)
    for i, (episode, step) in enumerate(places()):
        row = dataset[i]
        steps = [max(k, 0) for k in range(step - 2, step + 1)]
        assert row["observation.state"].tolist() == [state_of(episode, k) for k in steps]
        assert row["observation_is_pad"].tolist() == [k < 0 for k in range(step - 2, step + 1)]
        assert [read_count(f) for f in row[WRIST]] == [count_of(episode, k, 1) for k in steps]
        assert row["action"].shape == (2,)


def test_a_window_of_one_has_its_axis(stored: Path) -> None:
    row = lr.koyu.Dataset(stored, horizon=1, history=1)[0]
    assert (row["action"].shape, row["observation.state"].shape, row[FRONT].shape) == ((1, 2), (1, 3), (1, 48, 64, 3))
    assert (row["action_is_pad"].tolist(), row["observation_is_pad"].tolist()) == ([False], [False])


@pytest.mark.parametrize("wrong", [{"horizon": 0}, {"history": -1}, {"horizon": 1.5}, {"open_videos": 0}])
def test_a_window_that_makes_no_sense(stored: Path, wrong: dict[str, Any]) -> None:
    with pytest.raises(lr.SettingsError, match=next(iter(wrong))):
        lr.koyu.Dataset(stored, **wrong)


def test_only_the_keys_asked_for(copy: Path) -> None:
    for video in copy.rglob("*.mp4"):
        video.unlink()
    row = lr.koyu.Dataset(copy, keys=["action"])[3]
    assert row["action"].tolist() == [3, -3]
    assert {"observation.state", *CAMERAS}.isdisjoint(row)
    with pytest.raises(lr.SettingsError, match=r"keys='actions': no such feature; all have observation\.state"):
        lr.koyu.Dataset(copy, keys=["actions"])


def test_an_episode_as_a_whole(stored: Path) -> None:
    dataset = lr.koyu.Dataset(stored)
    columns = dataset.columns(2)
    assert columns["observation.state"].tolist() == [state_of(2, k) for k in range(25)]
    assert dataset.sidecar(2)["capture_id"] == capture_id(2)
    with dataset.frames(2, FRONT) as frames:
        assert [read_count(f) for f in frames] == [count_of(2, k, 0) for k in range(25)]
    with pytest.raises(KeyError, match="the dataset has observation"):
        dataset.frames(2, "front")
    with pytest.raises(IndexError, match="episode 3 of 3"):
        dataset.columns(3)


def test_reading_writes_nothing(stored: Path) -> None:
    before = {p: p.stat().st_mtime_ns for p in stored.rglob("*")}
    list(lr.koyu.Dataset(stored, horizon=3, history=2))
    assert {p: p.stat().st_mtime_ns for p in stored.rglob("*")} == before


def test_an_empty_dataset(tmp_path: Path) -> None:
    write_manifest(tmp_path, [])
    dataset = lr.koyu.Dataset(tmp_path)
    assert (len(dataset), list(dataset)) == (0, [])
    assert json.loads((tmp_path / "manifest.json").read_text())["episodes"] == []
    with pytest.raises(IndexError):
        dataset[0]
