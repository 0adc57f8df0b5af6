"""Datasets merged, selected, split, and with a task called otherwise."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

import pytest

import lucky_recorder as lr
from lucky_recorder.edit import datasets
from lucky_recorder.edit.bundled import Bundled, table_of
from lucky_recorder.edit.shaped import Shaped
from lucky_recorder.errors import FormatError, SettingsError
from lucky_recorder.koyu.check import check_koyu
from tests.edit.bundling import LIFT, LOWER, bundle_id, dataset, events, ids, label, manifest, sidecar
from tests.edit.shaping import hashes

SAID = {"seed": "5", "end_reason": "success", "annotations": {"operator": "Zoë", "rating": 4}}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Eight bundles of 3 to 10 rows without a camera; 0, 2, … have failed, and 5 was not judged."""
    of: dict[int, Any] = {
        1: {"task": "lower-the-cube", "task_description": LOWER},
        3: {"task": "lower-the-cube", "task_description": LOWER},
        4: {"events": [*events(LOWER), {"step": 2, "type": "grasp", "task_description": LOWER}]},
        5: {"reward": None},
        7: {"reward": 0.5, "policy_name": "bc"} | SAID,
    }
    return dataset(tmp_path / "source", range(8), (), of=of)


def numbers(path: Path) -> list[int]:
    return [int(name.removeprefix("ep_"), 16) - 1 for name in ids(path)]


def test_merge_says_what_it_did_and_touches_nothing_in_a_dry_run(tmp_path: Path, source: Path) -> None:
    other = dataset(tmp_path / "other", (8, 7), (), of={7: {"reward": 0.5, "policy_name": "bc"} | SAID})
    before = hashes(tmp_path)
    meant = datasets.merge([source, other], tmp_path / "made", dry_run=True)
    assert meant == Shaped(tmp_path / "made", 9, sum(range(3, 12)), 1)
    assert hashes(tmp_path) == before
    assert datasets.merge([source, other], tmp_path / "made") == meant
    assert numbers(tmp_path / "made") == [*range(9)]
    assert check_koyu(tmp_path / "made") == []
    assert hashes(source, other) == before


def test_merge_names_each_dataset_once(tmp_path: Path, source: Path) -> None:
    with pytest.raises(SettingsError, match=r"datasets=.*is named twice"):
        datasets.merge([source, source / "../source"], tmp_path / "made")
    with pytest.raises(SettingsError, match="name the datasets to be merged"):
        datasets.merge([], tmp_path / "made")
    with pytest.raises(FormatError, match="no such folder"):
        datasets.merge([tmp_path / "nowhere"], tmp_path / "made")


@pytest.mark.parametrize(
    ("conditions", "kept"),
    [
        ({}, [0, 1, 2, 3, 4, 5, 6, 7]),
        ({"success_only": True}, [1, 3, 7]),
        ({"tasks": [LOWER]}, [1, 3, 4]),
        ({"tasks": LIFT}, [0, 2, 4, 5, 6, 7]),
        ({"episodes": "0:2,5,6:"}, [0, 1, 5, 6, 7]),
        ({"episodes": [6, 1]}, [1, 6]),
        ({"min_length": 8}, [5, 6, 7]),
        ({"min_length": 6, "success_only": True, "episodes": ":7"}, [3]),
    ],
)
def test_select_takes_what_meets_every_condition(
    tmp_path: Path, source: Path, conditions: dict[str, Any], kept: list[int]
) -> None:
    before = hashes(source)
    done = datasets.select(source, tmp_path / "made", **conditions)
    assert numbers(tmp_path / "made") == kept
    assert done == Shaped(tmp_path / "made", len(kept), sum(3 + k for k in kept), 8 - len(kept))
    assert check_koyu(tmp_path / "made") == []
    assert hashes(source) == before


@pytest.mark.parametrize(
    ("conditions", "message"),
    [
        ({"tasks": ["Dance"]}, f"tasks='Dance': .* has no such task; it has \\['{LIFT}', '{LOWER}'\\]"),
        ({"episodes": "0:9"}, "0:9: there are the episodes 0 to 7, as 0:8"),
        ({"episodes": [8]}, "there is no episode 8"),
        ({"min_length": 11}, "none of the 8 episodes of .* meets every condition"),
    ],
)
def test_select_refuses_what_is_not_there(
    tmp_path: Path, source: Path, conditions: dict[str, Any], message: str
) -> None:
    with pytest.raises(SettingsError, match=message):
        datasets.select(source, tmp_path / "made", **conditions)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["source"]


def test_the_table_of_conditions_has_what_a_sidecar_says(source: Path) -> None:
    rows = table_of(Bundled(source).episodes()).to_pylist()
    assert [row["success"] for row in rows] == [False, True, False, True, False, False, False, True]
    assert rows[7] == {
        "episode_index": 7,
        "id": bundle_id(7),
        "length": 10,
        "task": "lift",
        "task_description": LIFT,
        "recorded_at": "2026-10-08T14:30:05Z",
        "collection_mode": "teleop",
        "source_run_id": None,
        "source_checkpoint": None,
        "policy_name": "bc",
        "robot": None,
        "dataset": None,
        "seed": "5",
        "end_reason": "success",
        "annotations": '{"operator": "Zoë", "rating": 4}',
        "reward": 0.5,
        "fps": 50.0,
        "record_hz": 50.0,
        "success": True,
    }


def test_a_condition_in_sql(tmp_path: Path, source: Path) -> None:
    datasets.select(source, tmp_path / "made", where="reward >= 0.5 AND length > 4 OR policy_name = 'bc'")
    assert numbers(tmp_path / "made") == [3, 7]
    with pytest.raises(SettingsError, match="where"):
        datasets.select(source, tmp_path / "other", where="no_such_column > 1")


def test_delete_leaves_the_rest(tmp_path: Path, source: Path) -> None:
    assert datasets.delete(source, tmp_path / "made", episodes="1:7").left_out == 6
    assert numbers(tmp_path / "made") == [0, 7]
    with pytest.raises(SettingsError, match="these are all"):
        datasets.delete(source, tmp_path / "none", episodes=":")
    with pytest.raises(SettingsError, match="there is no episode 9"):
        datasets.delete(source, tmp_path / "none", episodes=[9])


@pytest.mark.parametrize("by_task", [False, True])
def test_split_puts_each_bundle_into_one_part(tmp_path: Path, source: Path, by_task: bool) -> None:
    label(source, "progress", "dense", *range(8))
    told: list[tuple[int, int]] = []
    shares = {"train": 0.75, "val": 0.25}
    done = datasets.split(
        source, shares, output=tmp_path / "parts", seed=3, by_task=by_task, on_episode=lambda *n: told.append(n)
    )
    assert [(one.episodes, one.left_out) for one in done.values()] == [(6, 2), (2, 6)]
    parts = [numbers(tmp_path / "parts" / name) for name in shares]
    assert sorted(parts[0] + parts[1]) == [*range(8)]
    assert all(part == sorted(part) for part in parts)
    assert told == [(k + 1, 8) for k in range(8)]
    elsewhere = {"train": tmp_path / "a", "val": tmp_path / "b"}
    again = datasets.split(source, shares, output=elsewhere, seed=3, by_task=by_task)
    assert [numbers(one.path) for one in again.values()] == parts
    assert manifest(tmp_path / "a")["name"] == "train"
    planned = datasets.split(source, shares, output=tmp_path / "x", seed=3, by_task=by_task, dry_run=True)
    assert [one[1:] for one in planned.values()] == [one[1:] for one in done.values()]
    assert not (tmp_path / "x").exists()
    for name in shares:
        path = tmp_path / "parts" / name
        assert check_koyu(path) == []
        assert lr.koyu.read_overlay(path, "progress").episodes == tuple(sorted(ids(path)))
    assert manifest(tmp_path / "parts/train")["id"] != manifest(tmp_path / "parts/val")["id"]


def test_split_refuses_all_before_the_first_part_is_made(tmp_path: Path, source: Path) -> None:
    with pytest.raises(SettingsError, match="of 8 episodes none would come into 'test'"):
        datasets.split(source, {"train": 0.99, "test": 0.01}, output=tmp_path / "parts")
    (tmp_path / "parts" / "val").mkdir(parents=True)
    with pytest.raises(SettingsError, match="is there already"):
        datasets.split(source, {"train": 0.5, "val": 0.5}, output=tmp_path / "parts")
    assert [p.name for p in (tmp_path / "parts").iterdir()] == ["val"]
    with pytest.raises(SettingsError, match="have to be 1"):
        datasets.split(source, {"train": 0.5}, output=tmp_path / "more")


def test_rename_task_gives_the_bundles_that_have_it_another_sidecar(tmp_path: Path, source: Path) -> None:
    before = hashes(source)
    done = datasets.rename_task(source, tmp_path / "made", LOWER, "Put it down, gently")
    made = done.path
    assert (done.episodes, done.left_out) == (8, 0)
    for number in range(8):
        old, new = sidecar(source, number), sidecar(made, number)
        place = f"episodes/{bundle_id(number)}"
        shared = os.path.samefile(source / place / "episode.json", made / place / "episode.json")
        assert shared == (number not in (1, 3, 4))
        assert os.path.samefile(source / place / "data.parquet", made / place / "data.parquet")
        if number in (1, 3):
            renamed = {"task": "put-it-down-gently", "task_description": "Put it down, gently"}
            assert new == old | renamed
            assert [*new] == [*old]
            assert manifest(made)["episodes"][number].items() >= renamed.items()
        elif number == 4:
            first, second = old["events"]
            said = {"task": "put-it-down-gently", "task_description": "Put it down, gently"}
            # What is no change of the task is somebody's own.
            assert new == old | {"events": [first | said, second]}
        else:
            assert new == old
    assert check_koyu(made) == []
    assert hashes(source) == before
    # Of one id, and not the same.
    with pytest.raises(FormatError, match=r"both have the bundle .*, and episode\.json is not the same"):
        datasets.merge([source, made], tmp_path / "both")


def test_rename_task_unites_tasks_and_refuses_what_is_none(tmp_path: Path, source: Path) -> None:
    made = datasets.rename_task(source, tmp_path / "made", LOWER, LIFT).path
    assert {entry["task_description"] for entry in manifest(made)["episodes"]} == {LIFT}
    for old, new, message in (
        ("Dance", "Jump", "old='Dance': .* has no such task"),
        (LIFT, LIFT, "give another description"),
        (LIFT, "  ", "new='  ': give a text"),
        (LIFT, "\ud800", "new="),
    ):
        with pytest.raises(SettingsError, match=message):
            datasets.rename_task(source, tmp_path / "none", old, new)
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("said", [{"step": 1}, "none", 5, [5, "x"]])
def test_events_of_others_stay_whatever_they_are(tmp_path: Path, said: Any) -> None:
    source = dataset(tmp_path / "source", (0,), (), of={0: {"events": said}})
    assert [episode.tasks for episode in Bundled(source).episodes()] == [(LIFT,)]
    # The checker knows that these are no events.
    with pytest.raises(FormatError, match="events"):
        datasets.rename_task(source, tmp_path / "made", LIFT, LOWER)


def test_trim_names_the_way(tmp_path: Path, source: Path) -> None:
    with pytest.raises(SettingsError, match=r"a bundle is immutable.* trim the session, and convert"):
        datasets.trim(source, tmp_path / "made", start=3)


def test_names_are_given_and_warnings_as_errors_leave_nothing(tmp_path: Path, source: Path) -> None:
    assert manifest(datasets.select(source, tmp_path / "a b", success_only=True, name="good").path)["name"] == "good"
    other = dataset(tmp_path / "other", (9,))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RuntimeWarning, match="only some of the bundles"):
            datasets.merge([source, other], tmp_path / "made")
    assert not (tmp_path / "made").exists()
