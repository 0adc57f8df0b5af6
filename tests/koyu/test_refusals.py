"""A disk that refuses a bundle or the manifest: an episode's bundles are there all or none, and what is said is so."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lucky_recorder as lr
from lucky_recorder.errors import MetadataError, StorageError
from lucky_recorder.koyu.check import inspect_koyu
from lucky_recorder.settings.koyu import KoyuSettings
from lucky_recorder.storage import reserve
from tests.koyu.making import keep, make_record, make_sink, read_manifest
from tests.session.building import arm_schema, camera

SCHEMA = arm_schema([camera("Front")], robots=("left", "right"))


def refuse(patch: pytest.MonkeyPatch, name: str, is_struck: Callable[[str], bool], does_it: bool = False) -> list[str]:
    """Have a call fail for the paths that are meant, before or after it was done; returns those."""
    working, refused = getattr(os, name), []

    def around(*given: Any) -> Any:
        path = os.readlink(f"/proc/self/fd/{given[0]}") if name == "fsync" else str(given[-1])
        is_meant = is_struck(path)
        done = working(*given) if does_it or not is_meant else None
        if is_meant:
            refused.append(path)
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return done

    patch.setattr(os, name, around)
    return refused


def bundles(dataset: Path) -> int:
    return len(list(dataset.glob("episodes/ep_*")))


# What is struck, after how many of its kind, and whether it was done all the same.
STRIKES = [("rename", 0, False), ("rename", 0, True), ("rename", 1, False), ("rename", 1, True), ("fsync", 0, False)]


@pytest.mark.parametrize(("name", "number", "does_it"), STRIKES)
def test_the_bundles_of_an_episode_are_there_all_or_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, number: int, does_it: bool
) -> None:
    sink = make_sink(tmp_path, SCHEMA, metadata_every=1)
    keep(sink, SCHEMA, 3)
    prepared = sink.prepare(make_record(sink, SCHEMA, 4, attempt=1))
    met: list[str] = []

    def is_struck(path: str) -> bool:
        # What is taken back is renamed too, into the workshop.
        is_name = os.path.dirname(path) == str(tmp_path / "episodes") and os.path.basename(path).startswith("ep_")
        is_meant = is_name if name == "rename" else path == str(tmp_path / "episodes")
        met.extend([path] if is_meant else [])
        return is_meant and len(met) == number + 1

    with monkeypatch.context() as patch:
        refused = refuse(patch, name, is_struck, does_it)
        with pytest.raises(StorageError, match=r"Input/output error$") as raised:
            prepared.commit()
    assert len(refused) == 1
    assert not isinstance(raised.value, MetadataError)
    prepared.discard()
    assert bundles(tmp_path) == 2
    assert len(read_manifest(tmp_path)["episodes"]) == 2
    assert [p.name for p in tmp_path.glob("episodes/.tmp-*/*")] == [reserve.NAME]
    keep(sink, SCHEMA, 5, attempt=2)
    sink.close()
    report = inspect_koyu(tmp_path)
    assert (report.faults, report.episodes) == ([], 4)


def test_a_bundle_that_the_disk_keeps_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = make_sink(tmp_path, SCHEMA)
    keep(sink, SCHEMA, 3)
    prepared = sink.prepare(make_record(sink, SCHEMA, 4, attempt=1))
    named: list[str] = []

    def is_struck(path: str) -> bool:
        # From the second bundle on: it is not renamed, and the first not taken back.
        named.append(path)
        return len(named) > 1

    with monkeypatch.context() as patch:
        refuse(patch, "rename", is_struck)
        told = r"Input/output error; .*/episodes/ep_\w+ could not be taken back: it is a bundle that is not counted$"
        with pytest.raises(StorageError, match=told):
            prepared.commit()
    sink.close()


def test_both_bundles_are_there_although_the_manifest_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = make_sink(tmp_path, SCHEMA, metadata_every=1)
    with monkeypatch.context() as patch:
        refuse(patch, "replace", lambda path: path.endswith("manifest.json"))
        with pytest.raises(MetadataError, match=r"manifest\.json: Input/output error$"):
            keep(sink, SCHEMA, 3)
    assert bundles(tmp_path) == 2
    # Its videos have their names in the bundles; the first ones are gone.
    assert [p.name for p in tmp_path.glob("episodes/.tmp-*/*")] == [reserve.NAME]
    sink.close()
    report = inspect_koyu(tmp_path)
    assert (report.faults, report.episodes) == ([], 2)


def test_what_is_not_listed_at_the_end_is_said_with_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = make_sink(tmp_path, SCHEMA)
    keep(sink, SCHEMA, 3)
    with monkeypatch.context() as patch:
        refuse(patch, "replace", lambda path: path.endswith("manifest.json"))
        remedy = rf"2 finished bundles are whole on the disk .*: `lucky-recorder recover {tmp_path}` lists them$"
        with pytest.raises(StorageError, match=rf"manifest\.json: Input/output error; {remedy}"):
            sink.close()
    assert not list(tmp_path.glob("episodes/.tmp-*"))
    (done,) = lr.recover(tmp_path)
    assert (done.verdict, done.episodes, done.brought_back) == ("recovered", 2, 2)
    assert inspect_koyu(tmp_path).faults == []


def test_the_reserve_holds_a_manifest_of_ten_thousand_and_is_freed_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = make_sink(tmp_path, SCHEMA)
    keep(sink, SCHEMA, 3)
    sink.close()
    manifest = read_manifest(tmp_path)
    # Those of others, in a dataset that has grown for years.
    manifest["notes"] = manifest["episodes"] * 5000
    (tmp_path / "manifest.json").write_text(json.dumps(manifest, indent=4))
    size = (tmp_path / "manifest.json").stat().st_size

    def held() -> int:
        return sum(p.stat().st_blocks * 512 for p in tmp_path.glob(f"episodes/.tmp-*/{reserve.NAME}"))

    sink = make_sink(tmp_path, SCHEMA, KoyuSettings("cubes"))
    assert held() > size > 1_000_000
    keep(sink, SCHEMA, 3, attempt=1)
    seen: list[int] = []
    working = os.replace

    def replace(source: Any, target: Any) -> None:
        seen.append(held())
        working(source, target)

    monkeypatch.setattr(os, "replace", replace)
    sink.close()
    assert (seen, held(), list(tmp_path.glob("episodes/.tmp-*"))) == ([0], 0, [])
