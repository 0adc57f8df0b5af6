from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lucky_recorder.errors import FormatError, SettingsError
from lucky_recorder.koyu import manifest
from lucky_recorder.koyu.bundle import Bundle
from lucky_recorder.koyu.manifest import Description, rebuild
from lucky_recorder.koyu.writer import DatasetWriter
from tests.koyu.bundles import edit_json, write_bundle, write_dataset
from tests.koyu.making import read_dataset, read_manifest, snapshot

FEATURES = {"observation.state": {"dtype": "float32", "shape": [1]}, "action": {"dtype": "float32", "shape": [1]}}
CUBES = Description("cubes", "teleop", 50.0, FEATURES)


def make(number: int, reward: float | None = None, description: Description = CUBES) -> Bundle:
    name = f"{number:032x}"
    sidecar = {
        "schema_version": 1,
        "capture_id": name,
        "recorded_at": f"2026-01-01T00:{number % 60:02d}:00+00:00",
        "length": 3,
        "fps": description.fps,
        "task": "lift",
        "task_description": "Lift the cube",
        "collection_mode": description.type,
        "features": dict(description.features),
        "reward": reward,
        "dataset": description.name,
        "encoding": {},
    }
    vectors = {key: np.full((3, 1), number, np.float32) for key in FEATURES}
    return Bundle(name, np.arange(3), vectors, sidecar)


def append(dataset: Path, numbers: Any, **options: Any) -> None:
    writer = DatasetWriter(dataset, CUBES, **options)
    for number in numbers:
        writer.prepare(make(number)).commit()
    writer.close()


def listed(dataset: Path) -> list[int]:
    return [int(entry["id"].removeprefix("ep_"), 16) for entry in read_manifest(dataset)["episodes"]]


def test_a_new_dataset_says_what_it_is(tmp_path: Path) -> None:
    append(tmp_path / "cubes", [])
    content = read_manifest(tmp_path / "cubes")
    assert content.pop("id") == manifest.manifest_id("cubes")
    assert content.pop("action_source") == "actuators"
    assert content == {
        "name": "cubes",
        "type": "teleop",
        "fps": 50.0,
        "features": FEATURES,
        "episode_count": 0,
        "success_rate": None,
        "mean_reward": None,
        "episodes": [],
    }


def test_an_entry_says_what_a_sampling_index_needs(tmp_path: Path) -> None:
    writer = DatasetWriter(tmp_path, CUBES)
    for number, reward in enumerate([None, 1.0, 0.0, 0.25]):
        writer.prepare(make(number, reward)).commit()
    writer.close()
    content = read_manifest(tmp_path)
    assert content["episode_count"] == 4
    assert (content["success_rate"], content["mean_reward"]) == (1 / 3, 1.25 / 3)
    assert content["episodes"][3] == {
        "id": "ep_" + "0" * 31 + "3",
        "length": 3,
        "task": "lift",
        "task_description": "Lift the cube",
        "reward": 0.25,
    }
    assert content["id"].startswith("mf_")
    assert len(content["id"]) == 35


def test_it_is_written_every_so_many_bundles_and_at_the_end(tmp_path: Path) -> None:
    writer = DatasetWriter(tmp_path, CUBES, every=3)
    counts = []
    for number in range(7):
        writer.prepare(make(number)).commit()
        counts.append(read_manifest(tmp_path)["episode_count"])
    assert counts == [0, 0, 3, 3, 3, 6, 6]
    writer.close()
    assert listed(tmp_path) == [*range(7)]
    assert not list(tmp_path.glob("*.tmp"))


def test_no_sidecar_is_read_while_bundles_are_added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    append(tmp_path, range(5))
    writer = DatasetWriter(tmp_path, CUBES, every=2)
    monkeypatch.setattr(manifest, "read_sidecar", lambda *place: pytest.fail("a bundle was read"))
    for number in range(5, 12):
        writer.prepare(make(number)).commit()
    writer.close()
    assert listed(tmp_path) == [*range(12)]


def test_a_dataset_is_appended_to(tmp_path: Path) -> None:
    append(tmp_path, [5, 1])
    name = read_manifest(tmp_path)["id"]
    edit_json(tmp_path / "manifest.json", id="mf_of-its-own", note="by hand")
    append(tmp_path, [4, 0])
    content = read_manifest(tmp_path)
    assert listed(tmp_path) == [5, 1, 4, 0]
    assert (content["id"], content["note"]) == ("mf_of-its-own", "by hand")
    assert name == manifest.manifest_id("cubes")


def test_opening_brings_it_up_to_date_with_the_bundles(tmp_path: Path) -> None:
    append(tmp_path, range(4))
    content = read_manifest(tmp_path)
    content["episodes"] = [e for e in content["episodes"] if e["id"][-1] not in "13"]
    (tmp_path / "manifest.json").write_text(json.dumps(content))
    shutil.rmtree(tmp_path / "episodes" / content["episodes"][0]["id"])
    append(tmp_path, [])
    assert listed(tmp_path) == [2, 1, 3]
    assert read_manifest(tmp_path)["episode_count"] == 3


def test_rewards_that_another_writer_did_not_list_are_read_once(tmp_path: Path) -> None:
    write_dataset(tmp_path, (2, 3, 1), name="cubes", features=FEATURES)
    for folder, reward in zip(sorted((tmp_path / "episodes").iterdir()), (1.0, None, 0.5), strict=True):
        edit_json(folder / "episode.json", reward=reward)
    DatasetWriter(tmp_path, CUBES).close()
    content = read_manifest(tmp_path)
    assert (content["success_rate"], content["mean_reward"]) == (1.0, 0.75)
    assert [e["reward"] for e in content["episodes"]] == [1.0, None, 0.5]
    assert content["id"] == "mf_" + "0" * 32


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"name": "boxes"}, "name is 'cubes' in this dataset and 'boxes' here; give another koyu.name"),
        ({"type": "eval"}, "type is 'teleop' in this dataset and 'eval' here"),
        ({"fps": 25.0}, "fps is 50.0 in this dataset and 25.0 here"),
        ({"action_source": "gym"}, "action_source is 'actuators' in this dataset and 'gym' here"),
        (
            {"features": FEATURES | {"action": {"dtype": "float32", "shape": [2]}}},
            r"features\['action'\] is .*\[1\].* in this dataset and .*\[2\]",
        ),
        (
            {"features": FEATURES | {"action": {"dtype": "float64", "shape": [1]}}},
            r"features\['action'\] is .*float32.* in this dataset and .*float64",
        ),
    ],
)
def test_a_dataset_of_another_kind_is_refused(tmp_path: Path, changed: dict[str, Any], message: str) -> None:
    append(tmp_path, [0])
    before = snapshot(tmp_path)
    with pytest.raises(SettingsError, match=message):
        DatasetWriter(tmp_path, Description(**{**vars(CUBES), **changed}))
    assert snapshot(tmp_path) == before


X, Y = {"dtype": "float32", "shape": [3]}, {"dtype": "video", "shape": [48, 64, 3]}


def described(*more: str) -> Description:
    features = FEATURES | {key: {"x": X, "observation.images.y": Y}[key] for key in more}
    return Description("cubes", "teleop", 50.0, features)


def grow(dataset: Path, number: int, *more: str) -> None:
    writer = DatasetWriter(dataset, described(*more))
    writer.prepare(make(number, description=described(*more))).commit()
    writer.close()


@pytest.mark.parametrize(
    ("runs", "optional"),
    [
        ([[], ["x"]], ["x"]),
        ([["x"], []], ["x"]),
        ([["x"], ["x"]], []),
        ([["x"], ["observation.images.y"]], ["x", "observation.images.y"]),
        ([["x"], [], ["x", "observation.images.y"], ["x"]], ["x", "observation.images.y"]),
    ],
)
def test_a_dataset_may_grow_and_keeps_the_features_that_all_bundles_share(
    tmp_path: Path, runs: list[list[str]], optional: list[str]
) -> None:
    for number, more in enumerate(runs):
        grow(tmp_path, number, *more)
    content = read_manifest(tmp_path)
    assert content["features"] == described(*(set(runs[0]) - set(optional))).features
    assert content.get("optional_features", {}) == {key: described(key).features[key] for key in optional}
    again = rebuild(tmp_path)
    assert (again["features"], again.get("optional_features", {})) == (
        content["features"],
        content.get("optional_features", {}),
    )


@pytest.mark.parametrize("first", [["x"], []])
def test_another_kind_of_a_feature_is_refused_also_of_one_that_some_bundles_have(
    tmp_path: Path, first: list[str]
) -> None:
    grow(tmp_path, 0, *first)
    grow(tmp_path, 1, *({"x"} - set(first)))
    before = snapshot(tmp_path)
    other = Description("cubes", "teleop", 50.0, FEATURES | {"x": {"dtype": "float32", "shape": [4]}})
    with pytest.raises(SettingsError, match=r"features\['x'\] is .*\[3\].* in this dataset and .*\[4\].* here"):
        DatasetWriter(tmp_path, other)
    assert snapshot(tmp_path) == before


def test_two_writers_of_different_features_at_once(tmp_path: Path) -> None:
    writers = [DatasetWriter(tmp_path, described(*more)) for more in (["x"], [])]
    for number, (writer, more) in enumerate(zip(writers, (["x"], []), strict=True)):
        writer.prepare(make(number, description=described(*more))).commit()
    for writer in writers:
        writer.close()
    content = read_manifest(tmp_path)
    assert (content["features"], content["optional_features"]) == (FEATURES, {"x": X})


def test_a_kind_that_came_up_meanwhile_is_told(tmp_path: Path) -> None:
    other = Description("cubes", "teleop", 50.0, FEATURES | {"x": {"dtype": "float32", "shape": [4]}})
    append(tmp_path, [])
    writers = [DatasetWriter(tmp_path, description) for description in (described("x"), other)]
    for number, (writer, description) in enumerate(zip(writers, (described("x"), other), strict=True)):
        writer.prepare(make(number, description=description)).commit()
    writers[0].close()
    with pytest.raises(SettingsError, match=r"features\['x'\]"):
        writers[1].close()


def test_bundles_that_no_manifest_lists_count_too(tmp_path: Path) -> None:
    grow(tmp_path, 0, "x")
    grow(tmp_path, 1)
    (tmp_path / "manifest.json").unlink()
    grow(tmp_path, 2, "x")
    content = read_manifest(tmp_path)
    assert (content["features"], content["optional_features"]) == (FEATURES, {"x": X})


def test_what_features_say_besides_does_not_matter(tmp_path: Path) -> None:
    append(tmp_path, [0])
    described = {key: {**feature, "unit": "m"} for key, feature in FEATURES.items()}
    DatasetWriter(tmp_path, Description("cubes", "teleop", 50.0, described)).close()
    assert read_manifest(tmp_path)["features"] == FEATURES


@pytest.mark.parametrize(
    "content", ["{", "[]", "{}", '{"episodes": 5}', '{"episodes": [5]}', '{"episodes": [{"id": null}]}', '{"fps": NaN}']
)
def test_a_broken_manifest_is_refused_and_left_alone(tmp_path: Path, content: str) -> None:
    append(tmp_path, [0])
    (tmp_path / "manifest.json").write_text(content)
    before = snapshot(tmp_path)
    with pytest.raises(FormatError, match=r"manifest\.json"):
        DatasetWriter(tmp_path, CUBES)
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"schema_version": 2}, "schema_version=2: only 1 is understood"),
        ({"schema_version": True}, "schema_version=True"),
        ({"schema_version": "absent"}, "schema_version=None"),
        ({"length": "3"}, "length='3': expected int"),
        ({"capture_id": 5}, "capture_id=5: expected str"),
    ],
)
def test_an_unlisted_bundle_that_is_not_understood_is_refused(tmp_path: Path, changes: dict, message: str) -> None:
    append(tmp_path, [0, 1])
    edit_json(tmp_path / "manifest.json", episodes=[])
    edit_json(tmp_path / "episodes" / ("ep_" + "0" * 31 + "1") / "episode.json", **changes)
    with pytest.raises(FormatError, match=rf"ep_0+1/episode\.json: {message}"):
        DatasetWriter(tmp_path, CUBES)
    with pytest.raises(FormatError, match=message):
        rebuild(tmp_path)


def test_it_is_rebuilt_from_the_bundles_alone(tmp_path: Path) -> None:
    writer = DatasetWriter(tmp_path / "folder", CUBES)
    for number, reward in ((2, None), (0, 1.0), (1, 0.0)):
        writer.prepare(make(number, reward)).commit()
    writer.close()
    before = read_manifest(tmp_path / "folder")
    (tmp_path / "folder/manifest.json").write_text("broken")
    content = rebuild(tmp_path / "folder")
    assert content == read_manifest(tmp_path / "folder")
    assert listed(tmp_path / "folder") == [0, 1, 2]
    assert {**content, "episodes": 0} == {**before, "episodes": 0}
    assert sorted(content["episodes"], key=str) == sorted(before["episodes"], key=str)
    read_dataset(tmp_path / "folder")


def test_bundles_of_others_are_rebuilt_from(tmp_path: Path) -> None:
    """Nothing but what the format demands, in a folder of any name, with other things beside it."""
    for episode, length in enumerate((4, 2, 3)):
        gone = {"recorded_at": "absent", "record_hz": "absent", "fps": 19.98}
        write_bundle(tmp_path, episode, length, cameras=(), **gone)
    episodes = tmp_path / "episodes"
    (episodes / ("ep_" + "0" * 31 + "2")).rename(episodes / "second one")
    (episodes / "notes").mkdir()
    (episodes / ".DS_Store").write_bytes(b"")
    (episodes / ".tmp-1-torn").mkdir()
    content = rebuild(tmp_path)
    assert listed(tmp_path) == [1, 2, 3]
    assert [e["length"] for e in content["episodes"]] == [4, 2, 3]
    assert (content["name"], content["type"], content["fps"]) == (tmp_path.name, "teleop", 19.98)


def test_bundles_that_disagree_are_not_rebuilt_from(tmp_path: Path) -> None:
    for episode in range(2):
        write_bundle(tmp_path, episode, 2, cameras=(), columns={"x": np.zeros((2, episode + 1))})
    with pytest.raises(FormatError, match=r"ep_0+2: features\['x'\] is .*\[2\].*, and .*\[1\].* in others before it"):
        rebuild(tmp_path)
    assert not (tmp_path / "manifest.json").exists()


def test_a_bundle_that_is_there_twice_is_named(tmp_path: Path) -> None:
    append(tmp_path, [0, 1])
    first = tmp_path / "episodes" / make(1).id
    shutil.copytree(first, first.with_name("the same"))
    before = snapshot(tmp_path)
    for use in (rebuild, lambda dataset: append(dataset, [])):
        with pytest.raises(FormatError, match=rf"the same: has the same capture_id as {make(1).id}"):
            use(tmp_path)
    assert snapshot(tmp_path) == before


def test_what_is_no_dataset_is_not_rebuilt(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="is no dataset"):
        rebuild(tmp_path)
    (tmp_path / "episodes/one").mkdir(parents=True)
    with pytest.raises(FormatError, match="holds no bundle"):
        rebuild(tmp_path)


def test_a_rebuild_while_bundles_are_written_loses_none(tmp_path: Path) -> None:
    writer = DatasetWriter(tmp_path, CUBES, every=100)
    for number in range(3):
        writer.prepare(make(number)).commit()
    rebuild(tmp_path)
    writer.prepare(make(3)).commit()
    writer.close()
    assert listed(tmp_path) == [0, 1, 2, 3]


WRITE = """
import sys
from pathlib import Path
from tests.koyu.test_manifest import append
first, count = map(int, sys.argv[2:])
append(Path(sys.argv[1]), range(first, first + count), every=4)
"""


def test_several_processes_write_one_dataset(tmp_path: Path) -> None:
    """The manifest is the merge of all of them: every bundle once, each writer's in its order."""
    place = Path(__file__).parents[2]
    path = os.pathsep.join([str(place), str(place.parent), os.environ.get("PYTHONPATH", "")])
    started = [
        subprocess.Popen(
            [sys.executable, "-W", "error", "-c", WRITE, str(tmp_path / "cubes"), str(first), "30"],
            env={**os.environ, "PYTHONPATH": path},
        )
        for first in (0, 100, 200)
    ]
    assert [process.wait(120) for process in started] == [0, 0, 0]
    numbers = listed(tmp_path / "cubes")
    assert sorted(numbers) == [*range(30), *range(100, 130), *range(200, 230)]
    for first in (0, 100, 200):
        assert [n for n in numbers if first <= n < first + 100] == [*range(first, first + 30)]
    values = [read.rows["action"][0, 0] for read in read_dataset(tmp_path / "cubes")]
    assert values == numbers
