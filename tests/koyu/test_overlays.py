from __future__ import annotations

import json
import pickle
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lucky_recorder import koyu
from lucky_recorder.errors import FormatError, SettingsError
from lucky_recorder.koyu import overlays
from lucky_recorder.koyu.check import check_koyu
from lucky_recorder.koyu.checks.overlays import check_overlays
from lucky_recorder.koyu.overlays import Span, open_overlays, read_overlay, write_overlay
from tests.koyu.making import snapshot
from tests.koyu.test_manifest import append, make

FIRST, SECOND, THIRD = (make(number).id for number in range(3))
PROGRESS = [0.0, 0.5, 1.0]


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    """Three episodes of three steps each."""
    append(tmp_path / "cubes", range(3))
    return tmp_path / "cubes"


def test_a_value_per_step_is_read_back_and_joined(dataset: Path) -> None:
    bundles = snapshot(dataset)
    values = {FIRST: PROGRESS, SECOND: [1, np.nan, 2]}
    written = write_overlay(dataset, "progress", "dense", values, description="how far")
    assert {name: held for name, held in snapshot(dataset).items() if not name.startswith("overlays")} == bundles
    overlay = read_overlay(dataset, "progress")
    assert overlay == written
    assert (overlay.kind, overlay.shape, overlay.description) == ("dense", (1,), "how far")
    assert overlay.episodes == (FIRST, SECOND)
    assert overlay.dense(FIRST).tolist() == [[0.0], [0.5], [1.0]]
    joined = [overlay.at(SECOND, step)["overlay.progress"] for step in range(3)]
    assert np.array_equal(joined, [[1], [np.nan], [2]], equal_nan=True)
    assert joined[0].dtype == np.float32
    assert np.isnan(overlay.at(THIRD, 1)["overlay.progress"]).all()
    assert overlay.at(THIRD, 1)["overlay.progress"].shape == (1,)
    assert check_overlays(dataset) == []


def test_the_files_are_the_formats(dataset: Path) -> None:
    write_overlay(dataset, "progress", "dense", {FIRST: np.arange(6).reshape(3, 2)})
    write_overlay(dataset, "words", "spans", {FIRST: [(0, 2, "reach")]})
    assert json.loads((dataset / "overlays/progress/overlay.json").read_text()) == {
        "schema_version": 1,
        "name": "progress",
        "kind": "dense",
        "description": "",
        "dtype": "float32",
        "shape": [2],
    }
    assert json.loads((dataset / "overlays/words/overlay.json").read_text())["end_step"] == "exclusive"
    dense = pq.read_table(dataset / f"overlays/progress/{FIRST}.parquet").to_pylist()
    assert dense == [{"step": step, "value": [2 * step, 2 * step + 1]} for step in range(3)]
    spans = pq.read_table(dataset / f"overlays/words/{FIRST}.parquet").to_pylist()
    assert spans == [{"start_step": 0, "end_step": 2, "text": "reach"}]
    assert not list(dataset.rglob("*.tmp"))


def test_spans_are_read_back_and_joined(dataset: Path) -> None:
    given = [Span(1, 3, "lift"), (0, 2, "立方体に手を伸ばす")]
    write_overlay(dataset, "words", "spans", {FIRST: given, SECOND: []})
    overlay = read_overlay(dataset, "words")
    assert overlay.spans(FIRST) == (Span(0, 2, "立方体に手を伸ばす"), Span(1, 3, "lift"))
    assert overlay.spans(SECOND) == ()
    said = [overlay.at(FIRST, step)["overlay.words"] for step in range(3)]
    assert said == ["立方体に手を伸ばす", "立方体に手を伸ばす\nlift", "lift"]
    assert overlay.at(SECOND, 0) == overlay.at(THIRD, 0) == {"overlay.words": ""}
    assert check_overlays(dataset) == []


def test_more_episodes_follow_and_one_may_be_said_anew(dataset: Path) -> None:
    write_overlay(dataset, "progress", "dense", {FIRST: PROGRESS, SECOND: PROGRESS})
    write_overlay(dataset, "progress", "dense", {SECOND: [7, 8, 9], THIRD: PROGRESS})
    overlay = read_overlay(dataset, "progress")
    assert overlay.episodes == (FIRST, SECOND, THIRD)
    assert overlay.dense(SECOND)[:, 0].tolist() == [7, 8, 9]
    assert overlay.dense(FIRST)[:, 0].tolist() == PROGRESS


@pytest.mark.parametrize(
    ("name", "kind", "episodes", "message"),
    [
        ("../x", "dense", {FIRST: PROGRESS}, "overlay='../x': use letters"),
        ("x", "sparse", {FIRST: PROGRESS}, "kind='sparse': choose one of dense, spans"),
        ("x", "dense", {"ep_0": PROGRESS}, "episode='ep_0': is not in the dataset's manifest"),
        ("x", "dense", {}, "give at least one episode"),
        ("x", "dense", {FIRST: PROGRESS[:2]}, r"shape \(2,\): the episode has 3 steps"),
        ("x", "dense", {FIRST: np.zeros((3, 2, 2))}, r"shape \(3, 2, 2\)"),
        ("x", "dense", {FIRST: np.zeros((3, 0))}, r"shape \(3, 0\)"),
        ("x", "dense", {FIRST: ["a", "b", "c"]}, "are no numbers"),
        ("x", "dense", {FIRST: PROGRESS, SECOND: np.zeros((3, 2))}, r"have one shape, and these have \(1,\), \(2,\)"),
        ("x", "spans", {FIRST: [(0, 4, "a")]}, r"\[0\]: end_step=4: give a whole number from 1 to 3"),
        ("x", "spans", {FIRST: [(1, 1, "a")]}, r"end_step=1"),
        ("x", "spans", {FIRST: [(3, 4, "a")]}, r"start_step=3"),
        ("x", "spans", {FIRST: [(-1, 2, "a")]}, r"start_step=-1"),
        ("x", "spans", {FIRST: [(0, 2, " ")]}, "text=' ': give a text"),
        ("x", "spans", {FIRST: [(0, 2)]}, r"give \(start_step, end_step, text\)"),
        ("old", "dense", {FIRST: np.zeros((3, 2))}, r"this overlay is dense \(1,\), not dense \(2,\)"),
        ("old", "spans", {FIRST: []}, r"this overlay is dense \(1,\), not spans \(\)"),
    ],
)
def test_what_does_not_fit_is_refused(dataset: Path, name: str, kind: str, episodes: Any, message: str) -> None:
    write_overlay(dataset, "old", "dense", {FIRST: PROGRESS})
    before = snapshot(dataset)
    with pytest.raises(SettingsError, match=message):
        write_overlay(dataset, name, kind, episodes)
    assert snapshot(dataset) == before


def test_an_overlay_that_is_not_there_is_named_beside_those_that_are(dataset: Path) -> None:
    write_overlay(dataset, "progress", "dense", {FIRST: PROGRESS})
    with pytest.raises(SettingsError, match=r"overlay='pogress': is not in .*; there are: progress"):
        read_overlay(dataset, "pogress")
    assert [o.name for o in open_overlays(dataset, ["progress"])] == ["progress"]


def test_the_other_kind_and_the_other_episode_are_refused(dataset: Path) -> None:
    overlay = write_overlay(dataset, "progress", "dense", {FIRST: PROGRESS})
    with pytest.raises(FormatError, match="is of kind 'dense', not 'spans'"):
        overlay.spans(FIRST)
    with pytest.raises(FormatError, match=rf"{SECOND}\.parquet: is missing"):
        overlay.dense(SECOND)


def test_it_needs_a_manifest(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"has no manifest\.json"):
        write_overlay(tmp_path, "progress", "dense", {FIRST: PROGRESS})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"schema_version": 2}, "schema_version=2"),
        ({"kind": "sparse"}, "kind='sparse'"),
        ({"shape": []}, "a dense overlay has a vector per step"),
        ({"shape": [0]}, "expected a list of lengths"),
        ({"shape": "3"}, "expected a list of lengths"),
    ],
)
def test_a_broken_declaration_is_refused(dataset: Path, content: dict[str, Any], message: str) -> None:
    write_overlay(dataset, "progress", "dense", {FIRST: PROGRESS})
    path = dataset / "overlays/progress/overlay.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | content))
    with pytest.raises(FormatError, match=rf"overlay\.json: .*{message}"):
        read_overlay(dataset, "progress")
    (fault,) = check_overlays(dataset)
    assert message in fault


def dense(steps: list[Any], values: list[Any]) -> pa.Table:
    return pa.table({"step": pa.array(steps, pa.int64()), "value": pa.array(values, pa.list_(pa.float32()))})


def spans(*rows: tuple[Any, ...]) -> pa.Table:
    names = ("start_step", "end_step", "text")
    return pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows], overlays._SPANS)


@pytest.mark.parametrize(
    ("kind", "table", "message"),
    [
        ("dense", dense([0, 1], [[1.0], [1.0, 2.0]]), "every value must be 1 numbers"),
        ("dense", dense([0], [[None]]), "every value must be 1 numbers"),
        ("dense", dense([1, 0], [[1.0], [1.0]]), "steps must ascend"),
        ("dense", dense([0, 0], [[1.0], [1.0]]), "steps must ascend"),
        ("dense", dense([-1], [[1.0]]), "steps must ascend"),
        ("dense", dense([2**60], [[1.0]]), "steps must ascend"),
        ("dense", dense([0], [None]), "has missing values"),
        ("dense", dense([3], [[1.0]]), "says something of step 3, the episode has 3 steps"),
        ("dense", pa.table({"step": [0]}), "needs a column 'value'"),
        ("dense", pa.table({"step": [0.5], "value": [[1.0]]}), "needs a column 'step' of type int64"),
        ("spans", spans((0, 4, "a")), "says something of step 3, the episode has 3 steps"),
        ("spans", spans((2, 2, "a")), "covers at least one step"),
        ("spans", spans((-1, 2, "a")), "covers at least one step"),
        ("spans", spans((0, 2, None)), "has missing values"),
    ],
)
def test_a_broken_file_is_found(dataset: Path, kind: str, table: pa.Table, message: str) -> None:
    write_overlay(dataset, "x", kind, {FIRST: PROGRESS if kind == "dense" else [(0, 1, "a")]})
    pq.write_table(table, dataset / f"overlays/x/{FIRST}.parquet")
    (fault,) = check_overlays(dataset)
    assert f"{FIRST}.parquet" in fault
    assert message in fault


def test_steps_may_be_left_out_by_others(dataset: Path) -> None:
    write_overlay(dataset, "x", "dense", {FIRST: PROGRESS})
    pq.write_table(dense([2], [[5.0]]), dataset / f"overlays/x/{FIRST}.parquet")
    assert check_overlays(dataset) == []
    values = [read_overlay(dataset, "x").at(FIRST, step)["overlay.x"][0] for step in range(3)]
    assert np.array_equal(values, [np.nan, np.nan, 5], equal_nan=True)


def test_files_that_are_not_whole_or_not_listed_are_found(dataset: Path) -> None:
    write_overlay(dataset, "x", "dense", {FIRST: PROGRESS, SECOND: PROGRESS})
    whole = dataset / f"overlays/x/{FIRST}.parquet"
    whole.rename(dataset / "overlays/x/ep_unknown.parquet")
    broken = dataset / f"overlays/x/{SECOND}.parquet"
    broken.write_bytes(broken.read_bytes()[:-4])
    torn, unknown = check_overlays(dataset)
    assert "cannot be read" in torn
    assert "no such episode" in unknown


def test_links_out_of_the_dataset_are_not_followed(dataset: Path, tmp_path: Path) -> None:
    write_overlay(dataset, "x", "dense", {FIRST: PROGRESS})
    path = dataset / f"overlays/x/{FIRST}.parquet"
    path.rename(tmp_path / "outside.parquet")
    path.symlink_to(tmp_path / "outside.parquet")
    with pytest.raises(FormatError, match="lies outside"):
        read_overlay(dataset, "x").at(FIRST, 0)


def test_what_is_joined_is_not_shared_and_what_is_held_is_bounded(
    dataset: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    overlay = write_overlay(dataset, "x", "dense", {FIRST: PROGRESS, SECOND: PROGRESS, THIRD: PROGRESS})
    monkeypatch.setattr(overlays, "_MOST_HELD", 2)
    overlay.at(FIRST, 0)["overlay.x"][:] = 5
    for episode in (FIRST, SECOND, THIRD, FIRST):
        assert overlay.at(episode, 0)["overlay.x"] == [0]
        assert len(overlay._held) <= 2


def test_it_can_be_pickled_and_shared_by_threads(dataset: Path) -> None:
    overlay = write_overlay(dataset, "x", "dense", {FIRST: PROGRESS, SECOND: [7, 8, 9]})
    overlay.at(FIRST, 0)
    copy = pickle.loads(pickle.dumps(overlay))
    assert copy == overlay
    assert copy._held == {}
    wrong: list[Any] = []

    def ask(episode: str, expected: list[float]) -> None:
        for turn in range(300):
            if copy.at(episode, turn % 3)["overlay.x"][0] != expected[turn % 3]:
                wrong.append(turn)

    asked: list[Callable[[], None]] = [lambda: ask(FIRST, PROGRESS), lambda: ask(SECOND, [7, 8, 9])]
    threads = [threading.Thread(target=one) for one in asked * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_they_are_public() -> None:
    assert koyu.write_overlay is write_overlay
    assert koyu.read_overlay is read_overlay
    assert {"write_overlay", "read_overlay", "Span", "Overlay", "rebuild"} <= set(dir(koyu))
    with pytest.raises(AttributeError, match=r"koyu' has no attribute 'nothing'"):
        _ = koyu.nothing


@pytest.mark.parametrize("length", [None, "3", -1, True, 2.0])
def test_a_manifest_that_does_not_say_how_long_an_episode_is(dataset: Path, length: object) -> None:
    manifest = dataset / "manifest.json"
    content = json.loads(manifest.read_text())
    if length is None:
        del content["episodes"][1]["length"]
    else:
        content["episodes"][1]["length"] = length
    manifest.write_text(json.dumps(content))
    with pytest.raises(FormatError, match=r"manifest\.json: episodes\[1\]: length=.*: expected a number of rows"):
        write_overlay(dataset, "late", "dense", {content["episodes"][0]["id"]: PROGRESS})
    assert any(fault.file == "manifest.json" and "length" in fault.message for fault in check_koyu(dataset))
