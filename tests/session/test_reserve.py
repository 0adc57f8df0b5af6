"""A session's reserve: there while it is recorded, freed before its last write, and nowhere afterwards."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import lucky_recorder as lr
from lucky_recorder.errors import StorageError
from lucky_recorder.session import layout
from lucky_recorder.session.check import check_session
from lucky_recorder.session.features import episodes_schema
from lucky_recorder.session.metadata import MetadataWriter, write_episodes
from lucky_recorder.session.reader import Session
from lucky_recorder.storage import reserve
from tests.session.building import Recording, arm_schema, camera


def held(root: Path) -> int:
    path = root / reserve.NAME
    return path.stat().st_blocks * 512 if path.exists() else 0


def meta_size(root: Path) -> int:
    return sum(p.stat().st_size for p in root.glob("meta/*.*")) + max(
        p.stat().st_size for p in root.glob("meta/episodes/*/*")
    )


def test_it_holds_what_the_last_write_takes_and_goes_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recording = Recording(tmp_path, arm_schema([camera("Front")]))
    assert held(tmp_path) > 100_000
    recording.keep(3)
    assert held(tmp_path) > meta_size(tmp_path)
    assert len(Session(tmp_path)) == 1
    working, seen = MetadataWriter.write, []

    def write(writer: MetadataWriter) -> None:
        seen.append(held(tmp_path))
        working(writer)

    monkeypatch.setattr(MetadataWriter, "write", write)
    recording.close()
    assert (seen, reserve.left_in(tmp_path), check_session(tmp_path)) == ([0], [], [])


def test_it_holds_a_list_of_ten_thousand_episodes(tmp_path: Path) -> None:
    schema = arm_schema([camera("Front")])
    recording = Recording(tmp_path / "session", schema, metadata_every=10_000)
    recording.keep(3)
    recording.keep(3)
    size = held(tmp_path / "session")
    one = Session(tmp_path / "session").episode(0).meta
    path = layout.episodes_path(tmp_path, layout.Place(0, 0))
    write_episodes(path, episodes_schema([s.key for s in schema.described]), [one] * 10_000)
    assert size > path.stat().st_size + meta_size(tmp_path / "session")
    recording.close()


@pytest.mark.parametrize("per_file", [1, 3])
def test_a_recording_that_dies_leaves_one_that_recover_removes(tmp_path: Path, per_file: int) -> None:
    path = tmp_path / "session_2026-10-08_14-30-05"
    recording = Recording(path, arm_schema(), episodes_per_file=per_file)
    recording.keep(3)
    recording.sink._lock.release()
    assert reserve.left_in(path)
    assert (Session(path).state, len(Session(path))) == ("cut short", 1)
    assert not [fault for fault in check_session(path) if reserve.NAME in fault.file]
    (planned,) = lr.recover(path, dry_run=True)
    assert reserve.left_in(path)
    (done,) = lr.recover(path)
    assert (planned.verdict, done.verdict, reserve.left_in(path)) == ("recovered", "recovered", [])
    assert (Session(path).state, check_session(path)) == ("complete", [])
    assert lr.recover(path)[0].verdict == "complete"


def test_recover_frees_it_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "session_2026-10-08_14-30-05"
    recording = Recording(path, arm_schema(), metadata_every=100)
    recording.keep(3)
    recording.keep(3)
    recording.sink._lock.release()
    working, seen = os.replace, []

    def rename(source: Any, target: Any) -> None:
        seen.append(held(path))
        working(source, target)

    monkeypatch.setattr(os, "replace", rename)
    lr.recover(path)
    assert set(seen) == {0}


@pytest.mark.parametrize("has_rows", [True, False])
def test_it_goes_where_the_last_write_is_refused_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_rows: bool
) -> None:
    recording = Recording(tmp_path, replace(arm_schema([camera("Front")]), has_rows=has_rows), metadata_every=100)
    assert bool(reserve.left_in(tmp_path)) == has_rows
    for _ in range(3):
        recording.keep(2)

    def refuse(source: Any, target: Any) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO), str(target))

    monkeypatch.setattr(os, "replace", refuse)
    if not has_rows:
        recording.close()
    else:
        with pytest.raises(
            StorageError, match=r"meta/.*: Input/output error; 2 finished episodes are whole on the disk"
        ):
            recording.close()
        assert len(Session(tmp_path)) == 3
    assert not list(tmp_path.rglob(f"{reserve.NAME}*"))
