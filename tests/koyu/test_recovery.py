from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import lucky_recorder as lr
from lucky_recorder.edit.recover import Recovered
from lucky_recorder.koyu.check import check_koyu
from lucky_recorder.koyu.manifest import rebuild
from lucky_recorder.koyu.writer import DatasetWriter
from tests.koyu.bundles import edit_json
from tests.koyu.making import read_manifest, snapshot
from tests.koyu.test_manifest import CUBES


def recovered(dataset: Path, **how: Any) -> Recovered:
    (done,) = lr.recover(dataset, **how)
    return done


def bundles(dataset: Path) -> list[Path]:
    return sorted(dataset.glob("episodes/ep_*"))


def test_a_whole_dataset_is_left_as_it_is(copy: Path) -> None:
    before = {p: p.stat().st_mtime_ns for p in copy.rglob("*")}
    assert recovered(copy).verdict == "complete"
    assert {p: p.stat().st_mtime_ns for p in copy.rglob("*")} == before


@pytest.mark.parametrize("lost", ["manifest", "entry"])
def test_bundles_that_are_not_listed_are(copy: Path, lost: str) -> None:
    whole = read_manifest(copy)
    manifest = copy / "manifest.json"
    if lost == "manifest":
        manifest.unlink()
    else:
        fewer = whole | {"episodes": whole["episodes"][:-1], "episode_count": len(whole["episodes"]) - 1, "mine": 1}
        manifest.write_text(json.dumps(fewer))
    done = recovered(copy)
    assert (done.verdict, done.episodes) == ("recovered", len(whole["episodes"]))
    assert done.brought_back == (1 if lost == "entry" else done.episodes)
    assert {e["id"] for e in read_manifest(copy)["episodes"]} == {e["id"] for e in whole["episodes"]}
    # What others have put into it stays.
    assert read_manifest(copy).get("mine") == (1 if lost == "entry" else None)
    assert check_koyu(copy) == []


def test_half_made_bundles_of_the_dead_go(copy: Path) -> None:
    workshop = copy / "episodes/.tmp-1-0123"
    shutil.copytree(bundles(copy)[0], workshop / "ep_half")
    assert "1 folders with half-made bundles would be removed" in recovered(copy, dry_run=True).why
    assert workshop.exists()
    assert recovered(copy).verdict == "recovered"
    assert not workshop.exists()
    assert check_koyu(copy) == []


def damage(bundle: Path, what: str) -> Path:
    """Damage a bundle in one way; returns the file that is not as it was."""
    names = {"sidecar": "episode.json", "rows": "data.parquet", "frames": "observation.images.front.mp4"}
    how, kind = what.split()
    if how == "missing":
        file = bundle / names[kind]
        file.unlink()
    elif how == "torn":
        file = bundle / names[kind]
        file.write_bytes(file.read_bytes()[:60])
    else:
        # Each file is whole, and has the rows or frames of an episode that is longer or shorter.
        file = bundle / names[kind]
        shutil.copy(next(b for b in bundles(bundle.parents[1]) if b.name != bundle.name) / names[kind], file)
    return file


DAMAGES = [f"{how} {kind}" for how in ("missing", "torn", "other") for kind in ("sidecar", "rows", "frames")]
DAMAGES.remove("other sidecar")


@pytest.mark.parametrize("what", DAMAGES)
@pytest.mark.parametrize("manifest", ["is gone", "does not list it"])
def test_a_bundle_that_is_none_is_set_aside_where_it_is_not_listed(copy: Path, what: str, manifest: str) -> None:
    count, bundle = len(bundles(copy)), bundles(copy)[0]
    damage(bundle, what)
    if manifest == "is gone":
        (copy / "manifest.json").unlink()
    else:
        listed = [e for e in read_manifest(copy)["episodes"] if e["id"] != bundle.name]
        edit_json(copy / "manifest.json", episodes=listed, episode_count=len(listed))
    (planned,) = lr.recover(copy, dry_run=True)
    done = recovered(copy)
    assert (done, planned) == (planned, done)
    assert ([one.file for one in done.set_aside], done.episodes) == ([f"episodes/{bundle.name}"], count - 1)
    assert done.set_aside[0].reason in (copy / f"lost+found/episodes/{bundle.name}.txt").read_text()
    assert (check_koyu(copy), recovered(copy).verdict) == ([], "complete")
    dataset = lr.koyu.Dataset(copy)
    assert [len(dataset[i]) > 0 for i in range(len(dataset))] == [True] * len(dataset)


@pytest.mark.parametrize("what", [*DAMAGES, "gone"])
def test_damage_to_what_is_listed_is_refused(copy: Path, what: str) -> None:
    bundle = bundles(copy)[0]
    if what == "gone":
        shutil.rmtree(bundle)
    else:
        damage(bundle, what)
    before = snapshot(copy)
    done = recovered(copy)
    assert done.verdict == "refused"
    assert bundle.name in done.why
    assert "bring it back from a copy" in done.why
    assert snapshot(copy) == before


@pytest.mark.parametrize("name", ["copy_of_it", f"ep_{'f' * 32}"])
@pytest.mark.parametrize("manifest", ["is gone", "is there"])
def test_two_folders_with_one_bundle_are_refused(copy: Path, name: str, manifest: str) -> None:
    shutil.copytree(bundles(copy)[1], copy / "episodes" / name)
    if manifest == "is gone":
        (copy / "manifest.json").unlink()
    before = snapshot(copy)
    done = recovered(copy)
    assert (done.verdict, "the same capture_id" in done.why) == ("refused", True)
    assert snapshot(copy) == before
    with pytest.raises(lr.FormatError, match="capture_id"):
        rebuild(copy)


def test_a_bundle_may_lie_in_a_folder_of_any_name(copy: Path) -> None:
    for number, bundle in enumerate(bundles(copy)):
        bundle.rename(bundle.with_name(f"number-{number}"))
    assert recovered(copy).verdict == "complete"
    (copy / "manifest.json").unlink()
    assert (recovered(copy.parent).verdict, check_koyu(copy)) == ("recovered", [])


def test_other_faults_that_remain_are_told(copy: Path) -> None:
    shutil.copy(bundles(copy)[0] / "observation.images.front.mp4", bundles(copy)[0] / "observation.images.spare.mp4")
    listed = read_manifest(copy)["episodes"][:-1]
    edit_json(copy / "manifest.json", episodes=listed, episode_count=len(listed))
    done = recovered(copy)
    assert (done.verdict, done.brought_back) == ("faulty", 1)
    assert "1 faults remain, the first: episodes/" in done.why


def test_a_dataset_of_which_nothing_is_whole_has_no_episode(copy: Path) -> None:
    for bundle in bundles(copy):
        (bundle / "data.parquet").unlink()
    (copy / "manifest.json").unlink()
    done = recovered(copy)
    assert (done.verdict, done.episodes, len(done.set_aside)) == ("no episode", 0, 3)
    assert not (copy / "manifest.json").exists()


FOREIGN = ['{"name": "podcast"}', '{"schema_version": "9", "episodes": 3}', '{"episodes": ["a"]}', "// no JSON", "[]"]


@pytest.mark.parametrize("manifest", [*FOREIGN, None])
@pytest.mark.parametrize("sidecar", [None, '{"title": "one"}', "{"])
@pytest.mark.parametrize("below", ["", "podcast"])
def test_other_programs_folders_are_no_datasets(
    tmp_path: Path, manifest: str | None, sidecar: str | None, below: str
) -> None:
    folder = tmp_path / below
    (folder / "episodes/one").mkdir(parents=True)
    (folder / "episodes/one/a.mp3").touch()
    if manifest is not None:
        (folder / "manifest.json").write_text(manifest)
    if sidecar is not None:
        (folder / "episodes/one/episode.json").write_text(sidecar)
    (folder / "checksums.json").touch()
    before = snapshot(tmp_path)
    for change, path in ((lr.recover, tmp_path), (lr.checksum, tmp_path), (rebuild, folder)):
        with pytest.raises(lr.FormatError, match=str(path)):
            change(path)
    assert snapshot(tmp_path) == before


OTHERS = [
    {"schema_version": "99.0"},
    {"schema_version": 2, "episodes": {}},
    {"episodes": {}},
    {"episodes": "all"},
    {"features": ["action"]},
    {"optional_features": []},
]


@pytest.mark.parametrize("changes", OTHERS)
def test_a_manifest_that_somebody_else_has_written_is_not_replaced(copy: Path, changes: dict[str, Any]) -> None:
    edit_json(copy / "manifest.json", **changes, annotations="by hand")
    before = snapshot(copy)
    for path in (copy, copy.parent):
        done = recovered(path)
        assert (done.verdict, next(iter(changes)) in done.why) == ("refused", True)
    assert snapshot(copy) == before
    # Nor is one added to, or one of a later version made anew.
    changing = [lambda: DatasetWriter(copy, CUBES), *([lambda: rebuild(copy)] if "schema_version" in changes else [])]
    for change in changing:
        with pytest.raises(lr.FormatError, match=next(iter(changes))):
            change()
    assert snapshot(copy) == before


@pytest.mark.parametrize("path", ["", ".."])
def test_a_torn_manifest_beside_bundles_is_made_anew(copy: Path, path: str) -> None:
    file = copy / "manifest.json"
    file.write_text(file.read_text()[:-30])
    done = recovered(copy / path)
    assert (done.verdict, [one.file for one in done.set_aside]) == ("recovered", ["manifest.json"])
    assert (done.episodes, check_koyu(copy)) == (3, [])


def test_a_manifest_that_is_none_is_set_aside(copy: Path) -> None:
    (copy / "manifest.json").write_text("{")
    done = recovered(copy)
    assert [one.file for one in done.set_aside] == ["manifest.json"]
    assert check_koyu(copy) == []


def test_a_bundle_of_a_later_version_is_not_touched(copy: Path) -> None:
    sidecar = bundles(copy)[0] / "episode.json"
    sidecar.write_text(json.dumps(json.loads(sidecar.read_text()) | {"schema_version": 2}))
    done = recovered(copy)
    assert done.verdict == "refused"
    assert "schema_version=2" in done.why
    assert not (copy / "lost+found").exists()
