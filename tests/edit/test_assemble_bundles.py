"""Datasets made of the bundles of others: every byte of them as it was, the manifest that of one recording."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lucky_recorder as lr
from lucky_recorder.edit.assemble_bundles import BundlePick, assemble_dataset, plan_dataset
from lucky_recorder.edit.bundled import Bundled
from lucky_recorder.episode.record import Outcome
from lucky_recorder.errors import FormatError, SettingsError, StorageError
from lucky_recorder.koyu.check import check_koyu
from lucky_recorder.koyu.index import Entry
from lucky_recorder.settings.koyu import KoyuSettings
from tests.edit.bundling import LIFT, bundle_id, dataset, ids, label, manifest, whole
from tests.edit.shaping import files, hashes
from tests.koyu.bundles import CAMERAS, count_of, edit_json, features
from tests.koyu.making import keep, make_sink
from tests.session.building import arm_schema, camera


def test_a_recording_in_parts_is_merged_into_that_of_one_recording(tmp_path: Path) -> None:
    """Every file to the last byte; but for the id of the manifest, which no two datasets have."""
    schema = arm_schema([camera("Front"), camera("Wrist")])
    episodes = [
        {"ticks": 3, "attempt": 0},
        {"ticks": 5, "attempt": 1, "outcome": Outcome(False), "tasks": (0, 1)},
        {"ticks": 4, "attempt": 2, "tasks": (1,)},
    ]
    for name, part in (("one", episodes), ("a", episodes[:2]), ("b", episodes[2:])):
        sink = make_sink(tmp_path / name, schema, KoyuSettings("cubes", id_seed=3))
        for episode in part:
            keep(sink, schema, **episode)
        sink.close()
    before = hashes(tmp_path / "a", tmp_path / "b")
    made = assemble_dataset(whole(tmp_path / "a", tmp_path / "b"), tmp_path / "made", "cubes")
    mine, one = files(made), files(tmp_path / "one")
    said, expected = (json.loads(content.pop("manifest.json")) for content in (mine, one))
    one.pop(".lock")
    assert mine == one
    assert said.pop("id") not in (expected.pop("id"), manifest(tmp_path / "a")["id"])
    assert [*said.items()] == [*expected.items()]
    assert expected["success_rate"] == 2 / 3
    assert hashes(tmp_path / "a", tmp_path / "b") == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "b", "made", "one"]


def test_bundles_are_taken_in_the_order_of_the_picks_and_linked(tmp_path: Path) -> None:
    first, second = Bundled(dataset(tmp_path / "a", (0, 1, 2))), Bundled(dataset(tmp_path / "b", (3, 4)))
    told: list[tuple[int, int]] = []
    picks = [BundlePick(second, 1), BundlePick(first, 2), BundlePick(first, 0)]
    made = assemble_dataset(picks, tmp_path / "made", on_episode=lambda *n: told.append(n))
    assert ids(made) == [bundle_id(4), bundle_id(2), bundle_id(0)]
    assert told == [(1, 3), (2, 3), (3, 3)]
    assert (manifest(made)["name"], manifest(made)["episode_count"], manifest(made)["success_rate"]) == ("made", 3, 0.0)
    for home, number in (("b", 4), ("a", 2), ("a", 0)):
        for name in ("data.parquet", "episode.json", f"{CAMERAS[0]}.mp4"):
            file = f"episodes/{bundle_id(number)}/{name}"
            assert os.path.samefile(made / file, tmp_path / home / file)
    assert check_koyu(made) == []
    read = lr.koyu.Dataset(made)
    assert [lr.testing.read_count(row[CAMERAS[0]]) for row in read] == [
        count_of(number, step, 0) for number in (4, 2, 0) for step in range(3 + number)
    ]


def test_where_links_fail_the_files_are_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    source = dataset(tmp_path / "a", (0, 1))
    label(source, "progress", "dense", 0)
    monkeypatch.setattr(os, "link", refuse)
    made = assemble_dataset(whole(source), tmp_path / "made")
    assert {p.stat().st_nlink for p in made.rglob("*") if p.is_file()} == {1}
    theirs, mine = files(source), files(made)
    for unlike in ("manifest.json", ".lock"):
        theirs.pop(unlike, None)
        mine.pop(unlike, None)
    assert mine == theirs


def test_the_same_picks_give_the_same_bytes_and_others_another_id(tmp_path: Path) -> None:
    source = dataset(tmp_path / "a", (0, 1, 2))
    made = [assemble_dataset(whole(source), tmp_path / str(k) / "set") for k in range(2)]
    assert files(made[0]) == files(made[1])
    fewer = assemble_dataset(whole(source)[:2], tmp_path / "2" / "set")
    every = [manifest(path)["id"] for path in (source, made[0], fewer)]
    assert len(set(every)) == 3
    assert all(one.startswith("mf_") and len(one) == 35 for one in every)


# What does not fit.


def test_every_difference_is_listed_and_nothing_is_made(tmp_path: Path) -> None:
    shaped = {**features(CAMERAS[:1]), "action": {"dtype": "float32", "shape": [7]}}
    one = dataset(tmp_path / "one", (0,), action_source="gym")
    other = dataset(
        tmp_path / "other", (1,), fps=25.0, type="eval", action_source="actuators", features=shaped | {"Action": {}}
    )
    third = dataset(tmp_path / "third", (2,))
    label(one, "progress", "dense", 0)
    label(third, "progress", "spans", 2)
    with pytest.raises(FormatError) as refused:
        assemble_dataset(whole(one, other, third), tmp_path / "made")
    told = str(refused.value).removeprefix("these datasets do not fit into one: ").split("; ")
    a, b, c = one, other, third
    two, seven = ({"dtype": "float32", "shape": [size]} for size in (2, 7))
    assert told == [
        f"fps: {a} has 50.0, {b} has 25.0",
        f"type: {a} has 'teleop', {b} has 'eval'",
        f"action_source: {a} has 'gym', {b} has 'actuators'",
        f"features['action']: {a} has {two}, {b} has {seven}",
        f"features: 'Action' of {b} is the same name on some systems as 'action' of {a}",
        f"overlay 'progress': {a} has ['dense', 1], {c} has ['spans']",
    ]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["one", "other", "third"]


def test_a_feature_that_some_lack_is_optional_and_warned_of(tmp_path: Path) -> None:
    one, two = dataset(tmp_path / "one", (0,)), dataset(tmp_path / "two", (1, 2), CAMERAS)
    with pytest.warns(RuntimeWarning, match="observation.images.wrist: only some of the bundles have this"):
        made = assemble_dataset(whole(one, two), tmp_path / "made")
    assert [*manifest(made)["optional_features"]] == [CAMERAS[1]]
    assert CAMERAS[1] not in manifest(made)["features"]
    assert check_koyu(made) == []
    # Those that have it all have it in a dataset of their own.
    again = assemble_dataset(whole(made)[1:], tmp_path / "again")
    assert manifest(again)["features"] == features()
    assert "optional_features" not in manifest(again)


def test_what_others_say_in_a_manifest_is_kept_where_it_holds(tmp_path: Path) -> None:
    one = dataset(tmp_path / "one", (0,), team="red", place="lab", source_project_id="p")
    two = dataset(tmp_path / "two", (1,), team="blue", place="lab", action_source="gym")
    for path, note in ((one, "good"), (two, None)):
        content = manifest(path)
        content["episodes"][0]["note"] = note
        (path / "manifest.json").write_text(json.dumps(content))
    with pytest.warns(RuntimeWarning, match="team, source_project_id: the datasets do not say the same of this"):
        said = manifest(assemble_dataset(whole(one, two), tmp_path / "made"))
    assert said["place"] == "lab"
    assert not {"team", "source_project_id"} & said.keys()
    assert said["action_source"] == "gym"
    assert [entry["note"] for entry in said["episodes"]] == ["good", None]
    assert [entry["reward"] for entry in said["episodes"]] == [0.0, 1.0]


# The same bundle twice.


def test_a_bundle_that_two_datasets_have_alike_is_taken_once(tmp_path: Path) -> None:
    source = dataset(tmp_path / "a", (0, 1, 2))
    label(source, "progress", "dense", 0, 1)
    one, two = (
        assemble_dataset(whole(source)[part], tmp_path / f"{part.start}") for part in (slice(0, 2), slice(1, 3))
    )
    label(two, "phases", "spans", 1)
    made = assemble_dataset(whole(one, two), tmp_path / "made")
    assert ids(made) == ids(source)
    assert lr.koyu.read_overlay(made, "progress").episodes == (bundle_id(0), bundle_id(1))
    assert lr.koyu.read_overlay(made, "phases").spans(bundle_id(1))[0].text == "episode 1, 0.0"
    assert check_koyu(made) == []


@pytest.mark.parametrize("name", ["data.parquet", "episode.json", "observation.images.front.mp4", "more.bin"])
def test_two_bundles_of_one_id_are_refused_by_name(tmp_path: Path, name: str) -> None:
    one, two = dataset(tmp_path / "one", (0, 1)), dataset(tmp_path / "two", (2, 1))
    file = two / "episodes" / bundle_id(1) / name
    file.write_bytes((file.read_bytes() if file.exists() else b"") + b"\n")
    with pytest.raises(FormatError, match=f"{one} and {two} both have the bundle {bundle_id(1)}, and {name} is not"):
        assemble_dataset(whole(one, two), tmp_path / "made")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["one", "two"]


def test_overlays_that_say_two_things_of_one_episode_are_refused(tmp_path: Path) -> None:
    one, two = dataset(tmp_path / "one", (0, 1)), dataset(tmp_path / "two", (1, 2))
    label(one, "progress", "dense", 1)
    label(two, "progress", "dense", 1, offset=0.5)
    with pytest.raises(FormatError, match=f"{one} and {two}: overlays/progress/{bundle_id(1)}.parquet is not the same"):
        assemble_dataset(whole(one, two), tmp_path / "made")


def test_a_bundle_is_picked_once(tmp_path: Path) -> None:
    source = Bundled(dataset(tmp_path / "a", (0, 1)))
    with pytest.raises(SettingsError, match=r"episode=1: .*is picked twice"):
        plan_dataset([BundlePick(source, 1), BundlePick(source, 1)], tmp_path / "made")
    with pytest.raises(SettingsError, match="has 2 episodes, and none of this number"):
        plan_dataset([BundlePick(source, 2)], tmp_path / "made")


# Overlays.


def test_overlays_follow_the_bundles_that_are_kept(tmp_path: Path) -> None:
    one, two = dataset(tmp_path / "one", (0, 1)), dataset(tmp_path / "two", (2, 3))
    label(one, "progress", "dense", 0, 1, description="how far")
    label(two, "progress", "dense", 3, description="another text")
    label(two, "phases", "spans", 2)
    before = hashes(one, two)
    picks = whole(one, two)
    with pytest.warns(RuntimeWarning, match=f"overlay 'progress' is described otherwise in {two}"):
        made = assemble_dataset([picks[1], picks[3]], tmp_path / "made")
    progress = lr.koyu.read_overlay(made, "progress")
    assert progress.description == "how far"
    assert progress.episodes == (bundle_id(1), bundle_id(3))
    assert progress.dense(bundle_id(3))[:, 0].tolist() == [300.0 + k for k in range(6)]
    # It can be asked for, and says nothing.
    assert lr.koyu.read_overlay(made, "phases").episodes == ()
    assert lr.koyu.Dataset(made, overlays=["progress", "phases"])[0]["overlay.phases"] == ""
    assert check_koyu(made) == []
    # What is said later is said of the new dataset alone.
    label(made, "progress", "dense", 1, offset=7.0)
    assert hashes(one, two) == before


# Sources that are not whole.


def test_a_dataset_whose_manifest_is_behind_or_ahead_is_refused(tmp_path: Path) -> None:
    source = dataset(tmp_path / "a", (0, 1, 2))
    content = manifest(source)
    (source / "manifest.json").write_text(json.dumps(content | {"episodes": content["episodes"][:2]}))
    with pytest.raises(FormatError, match=r"1 bundles that manifest.json does not list, .* recover .* lists them"):
        Bundled(source)
    (source / "manifest.json").write_text(json.dumps(content))
    (source / "episodes" / bundle_id(1)).rename(tmp_path / "away")
    with pytest.raises(FormatError, match=f"lists {bundle_id(1)}, which is not in episodes/"):
        Bundled(source)


def test_a_dataset_that_is_recorded_into_is_refused(tmp_path: Path) -> None:
    schema = arm_schema([])
    sink = make_sink(tmp_path / "a", schema)
    keep(sink, schema, 3)
    with pytest.raises(StorageError, match="is being recorded into"):
        Bundled(tmp_path / "a")
    sink.close()
    assert len(Bundled(tmp_path / "a")) == 1


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [("capture_id", "9" * 32, "capture_id 'ep_999"), ("length", 9, "length 9, manifest.json says 4")],
)
def test_a_sidecar_that_says_otherwise_than_the_manifest_is_refused(
    tmp_path: Path, field: str, value: Any, message: str
) -> None:
    source = dataset(tmp_path / "a", (0, 1))
    edit_json(source / "episodes" / bundle_id(1) / "episode.json", **{field: value})
    with pytest.raises(FormatError, match=message):
        assemble_dataset(whole(source), tmp_path / "made")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a"]


def test_faults_of_a_source_do_not_reach_a_new_dataset(tmp_path: Path) -> None:
    source = dataset(tmp_path / "a", (0, 1))
    video = source / "episodes" / bundle_id(1) / f"{CAMERAS[0]}.mp4"
    video.write_bytes(video.read_bytes()[:200])
    with pytest.raises(FormatError, match=f"what was made has faults, and was removed: .*{bundle_id(1)}/{CAMERAS[0]}"):
        assemble_dataset(whole(source), tmp_path / "made")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a"]


def test_a_file_behind_a_link_to_elsewhere_is_not_taken(tmp_path: Path) -> None:
    source = dataset(tmp_path / "a", (0, 1))
    (tmp_path / "secret").write_text("not yours")
    (source / "episodes" / bundle_id(1) / "more").symlink_to(tmp_path / "secret")
    with pytest.raises(FormatError, match="lies outside the dataset folder"):
        assemble_dataset(whole(source), tmp_path / "made")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "secret"]


def test_folders_of_other_names_keep_them_unless_another_has_it(tmp_path: Path) -> None:
    one, two = dataset(tmp_path / "one", (0, 1)), dataset(tmp_path / "two", (2, 3))
    for path, number in ((one, 0), (two, 2)):
        (path / "episodes" / bundle_id(number)).rename(path / "episodes" / "first")
    made = assemble_dataset(whole(one, two), tmp_path / "made")
    assert {p.name for p in (made / "episodes").iterdir()} == {"first", bundle_id(1), bundle_id(2), bundle_id(3)}
    assert ids(made) == [bundle_id(k) for k in range(4)]
    assert lr.koyu.Dataset(made).episodes[0] == Entry(bundle_id(0), 3, "lift", LIFT)
    assert check_koyu(made) == []


# The place.


def test_the_place_must_be_free_and_outside_and_its_name_one_of_a_dataset(tmp_path: Path) -> None:
    source = dataset(tmp_path / "a", (0,))
    before = hashes(source)
    with pytest.raises(SettingsError, match="is there already"):
        assemble_dataset(whole(source), source)
    with pytest.raises(SettingsError, match="lies inside"):
        assemble_dataset(whole(source), source / "more" / "made")
    with pytest.raises(SettingsError, match="name='my set'"):
        assemble_dataset(whole(source), tmp_path / "my set")
    with pytest.raises(SettingsError, match="no episode is left"):
        assemble_dataset([], tmp_path / "made")
    assert hashes(source) == before
    assert manifest(assemble_dataset(whole(source), tmp_path / "my set", "mine"))["name"] == "mine"


def test_an_interrupt_leaves_nothing(tmp_path: Path) -> None:
    source = dataset(tmp_path / "a", (0, 1))

    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        assemble_dataset(whole(source), tmp_path / "made", on_episode=interrupt)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a"]


KILLED = """
import os, sys
from pathlib import Path
from lucky_recorder.edit import assemble_bundles
from tests.edit.bundling import whole
root, where = Path(sys.argv[1]), sys.argv[2]
if where == "check":
    assemble_bundles.check_koyu = lambda *_, **__: os._exit(9)
kill = (lambda *_: os._exit(9)) if where == "bundle" else None
assemble_bundles.assemble_dataset(whole(root / "a"), root / "made", on_episode=kill)
"""


@pytest.mark.parametrize("where", ["bundle", "check"])
def test_what_a_crash_leaves_is_seen_and_the_next_attempt_removes_it(tmp_path: Path, where: str) -> None:
    source = dataset(tmp_path / "a", (0, 1))
    label(source, "progress", "dense", 0)
    before = hashes(source)
    done = subprocess.run([sys.executable, "-c", KILLED, tmp_path, where], check=False)
    assert done.returncode == 9
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "made.partial"]
    made = assemble_dataset(whole(source), tmp_path / "made")
    assert check_koyu(made) == []
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "made"]
    assert hashes(source) == before


@pytest.mark.parametrize("there", ["dataset", "begun", "link", "more", "held"])
def test_what_somebody_else_has_put_there_stays(tmp_path: Path, there: str) -> None:
    source, partial = dataset(tmp_path / "a", (0, 1)), tmp_path / "made.partial"
    if there == "held":
        with pytest.raises(StorageError, match="is there already: it is being written"):
            assemble_dataset(
                whole(source),
                tmp_path / "made",
                on_episode=lambda *_: assemble_dataset(whole(source), tmp_path / "made"),  # type: ignore[arg-type,return-value]
            )
        assert sorted(p.name for p in tmp_path.iterdir()) == ["a"]
        return
    if there == "link":
        partial.symlink_to(source)
    else:
        dataset(partial, (5,))
    if there == "begun":
        (partial / "episodes").rename(partial / "own")
    if there == "more":
        (partial / ".tmp-1-ab").mkdir()
        (partial / "notes.txt").write_text("mine")
    before = hashes(partial)
    with pytest.raises(StorageError, match=r"made\.partial: is there already"):
        assemble_dataset(whole(source), tmp_path / "made")
    assert hashes(partial) == before


def test_a_large_dataset_is_listed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a bundle costs does not grow with the dataset: its manifest is written when all bundles are there."""
    source = dataset(tmp_path / "a", range(40), ())
    written: list[str] = []
    write = os.replace
    monkeypatch.setattr(os, "replace", lambda a, b: (written.append(Path(b).name), write(a, b)))
    made = assemble_dataset(whole(source), tmp_path / "made")
    assert written == ["manifest.json"]
    assert manifest(made)["episode_count"] == 40
    assert np.isclose(manifest(made)["mean_reward"], 0.5)
