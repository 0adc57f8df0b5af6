from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import lucky_recorder as lr
from lucky_recorder.edit.recover import Recovered
from lucky_recorder.koyu.check import check_koyu
from tests.koyu.making import read_manifest


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


@pytest.mark.parametrize("damage", ["torn", "missing"])
def test_a_bundle_that_is_none_is_set_aside(copy: Path, damage: str) -> None:
    count, bundle = len(bundles(copy)), bundles(copy)[0]
    sidecar = bundle / "episode.json"
    if damage == "torn":
        sidecar.write_text(sidecar.read_text()[:40])
    else:
        sidecar.unlink()
    done = recovered(copy)
    assert ([one.file for one in done.set_aside], done.episodes) == ([f"episodes/{bundle.name}"], count - 1)
    assert (copy / f"lost+found/episodes/{bundle.name}.txt").is_file()
    assert (check_koyu(copy), recovered(copy).verdict) == ([], "complete")


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
