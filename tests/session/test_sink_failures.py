"""A disk that refuses: what ``meta/`` lists is there, what was committed is kept, and what was not leaves nothing."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from lucky_recorder.episode.statistics import ColumnStatistics
from lucky_recorder.errors import FormatError, MetadataError, StorageError
from lucky_recorder.session import layout, rows
from lucky_recorder.session.check import check_session
from lucky_recorder.session.reader import Session
from lucky_recorder.storage import lock
from tests.session.building import Recording, arm_schema, camera


def refusing(monkeypatch: pytest.MonkeyPatch, name: str, is_struck: Callable[[str], bool]) -> list[str]:
    """Refuse a call on a file or folder, for as long as ``is_struck`` says of its path."""
    working, asked = getattr(os, name), []

    def refuse(target: Any, *more: Any) -> Any:
        path = os.readlink(f"/proc/self/fd/{target}") if name == "fsync" else str(more[0])
        if is_struck(path):
            asked.append(path)
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return working(target, *more)

    monkeypatch.setattr(os, name, refuse)
    return asked


def listed(root: Path) -> list[int]:
    """What other people's readers find in ``meta/``, in data files that are there."""
    found = [r for p in sorted(root.glob("meta/episodes/*/*")) for r in pq.ParquetFile(p).read().to_pylist()]
    for row in found:
        assert layout.data_path(root, layout.Place(row["chunk_index"], row["file_index"])).is_file()
    return [row["episode_index"] for row in found]


def test_meta_lists_what_is_assembled_and_readers_find_what_is_spooled(tmp_path: Path) -> None:
    recording = Recording(tmp_path, arm_schema([camera("Front")]), episodes_per_file=3, metadata_every=2)
    seen = []
    for _ in range(7):
        recording.keep(2)
        seen.append(listed(tmp_path))
        assert len(Session(tmp_path)) == len(recording.committed)
    assert seen == [[], [], [0, 1, 2], [0, 1, 2], [0, 1, 2], [*range(6)], [*range(6)]]
    recording.close()
    assert (listed(tmp_path), check_session(tmp_path)) == ([*range(7)], [])


@pytest.mark.parametrize("name", ["replace", "fsync"])
@pytest.mark.parametrize("is_once", [True, False])
def test_spools_are_kept_and_not_listed_where_assembling_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, is_once: bool
) -> None:
    recording = Recording(tmp_path, arm_schema(), episodes_per_file=2)
    recording.keep(2)
    struck: list[str] = []

    def is_struck(path: str) -> bool:
        # Of the folder only the sync after the data file's rename: the spools are in it before.
        is_data = path.endswith(("file-000.parquet", "file-000.parquet.tmp"))
        return "/meta/" not in path and is_data and not (is_once and struck)

    with monkeypatch.context() as patch:
        struck = refusing(patch, name, is_struck)
        with pytest.raises(MetadataError, match=r"file-000\.parquet"):
            recording.keep(3)
        assert (listed(tmp_path), len(Session(tmp_path))) == ([], 2)
        if is_once:
            recording.close()
        else:
            with pytest.raises(StorageError, match=r"file-000\.parquet"):
                recording.close()
    assert [episode.length for episode in Session(tmp_path)] == [2, 3]
    assert listed(tmp_path) == ([0, 1] if is_once else [])
    if is_once:
        assert check_session(tmp_path) == []


@pytest.mark.parametrize("per_file", [1, 2])
def test_a_folder_that_cannot_be_synced_leaves_no_file_uncounted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, per_file: int
) -> None:
    recording = Recording(tmp_path, arm_schema([camera("Front")]), episodes_per_file=per_file)
    recording.keep(2)
    before = {p for p in tmp_path.rglob("*") if p.is_file()}
    for folder in ("data/chunk-000", "videos/observation.images.Front/chunk-000"):
        record = recording.record(3)
        prepared = recording.sink.prepare(record)
        with monkeypatch.context() as patch:
            assert not refusing(patch, "fsync", lambda path, folder=folder: path.endswith(folder))
            with pytest.raises(StorageError):
                prepared.commit()
        prepared.discard()
        record.videos["observation.images.Front"].file.path.unlink(missing_ok=True)
        assert {p for p in tmp_path.rglob("*") if p.is_file()} == before
    recording.keep(4)
    recording.close()
    assert ([e.length for e in Session(tmp_path)], check_session(tmp_path)) == ([2, 4], [])


def test_data_is_safe_before_its_name_and_its_name_before_meta(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a power cut leaves is what was synced: data, folder, meta, folder."""
    done: list[str] = []
    replace = os.replace

    def note(path: str) -> None:
        done.append(os.path.relpath(path, tmp_path).removesuffix(".tmp"))

    monkeypatch.setattr(os, "fsync", lambda d: note(os.readlink(f"/proc/self/fd/{d}")))

    def rename(source: Path, target: Path) -> None:
        replace(source, target)
        done.append(f"name {os.path.relpath(target, tmp_path)}")

    monkeypatch.setattr(os, "replace", rename)
    recording = Recording(tmp_path, arm_schema([camera("Front")]))
    recording.keep(2)
    video, data = "videos/observation.images.Front", "data"
    files = (f"{video}/chunk-000/file-000.mp4", f"{data}/chunk-000/file-000.parquet")
    listing = ("meta/tasks.parquet", "meta/episodes/chunk-000/file-000.parquet", "meta/stats.json", "meta/info.json")
    for file in (*files, *listing):
        named = done.index(f"name {file}")
        # The video was synced under the name of its take.
        assert file in done[:named] or any("take-000000" in one for one in done[:named])
        assert done[named + 1] == os.path.dirname(file)
        # Every folder on the way has been synced into its parent.
        for folder in Path(file).parents:
            assert str(folder) in done[: named + 2]
    names = [one.removeprefix("name ") for one in done if one.startswith("name ")]
    assert names == [*files, *listing]


def test_the_folder_of_a_session_is_named_durably(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda d: synced.append(os.readlink(f"/proc/self/fd/{d}")))
    folder = layout.claim_folder(tmp_path)
    assert synced[-1] == str(folder.parent)

    def refuse(descriptor: int) -> None:
        if os.readlink(f"/proc/self/fd/{descriptor}") == str(folder.parent):
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(StorageError):
        layout.claim_folder(tmp_path)
    assert list(folder.parent.iterdir()) == [folder]


def test_a_spool_that_becomes_a_data_file_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recording = Recording(tmp_path, arm_schema(), episodes_per_file=3)
    first, second = recording.keep(2), recording.keep(3)
    session = Session(tmp_path)
    assert (len(session), session.state, session.spooled) == (2, "in progress", {0, 1})
    episodes = list(session)
    recording.keep(4)
    assert [e.rows()["action"].to_pylist() for e in episodes] == [r.columns["action"].tolist() for r in (first, second)]
    assert session.stats["action"]["count"] == [5]
    assert len(Session(tmp_path)) == 3


def test_how_a_session_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recording = Recording(tmp_path, arm_schema([camera("Front")]))
    recording.keep(2)
    assert Session(tmp_path).state == "in progress"
    recording.keep(2)
    recording.sink._lock.release()
    assert (Session(tmp_path).state, Session(tmp_path).unlisted) == ("cut short", (1,))
    recording.sink.close()
    assert (Session(tmp_path).state, Session(tmp_path).unlisted) == ("complete", ())
    recording.record(3)
    assert Session(tmp_path).state == "cut short"
    monkeypatch.setattr(lock, "fcntl", None)
    assert lock.is_held(tmp_path) is None
    assert Session(tmp_path).state == "cut short"


@pytest.mark.parametrize("struck", [".mp4", ".parquet"])
def test_what_cannot_be_taken_away_again_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, struck: str) -> None:
    """A system makes a disk read only after an error: then the name that a file has got stays."""
    recording = Recording(tmp_path, arm_schema([camera("Front")]))
    recording.keep(2)
    prepared = recording.sink.prepare(recording.record(3))
    named: list[str] = []
    replace = os.replace

    def refuse(*given: Any) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    def rename(source: Any, target: Any) -> None:
        replace(source, target)
        named.append(str(target))
        if str(target).endswith(struck):
            monkeypatch.setattr(os, "fsync", refuse)
            monkeypatch.setattr(os, "unlink", refuse)
            refuse()

    with monkeypatch.context():
        monkeypatch.setattr(os, "replace", rename)
        shown = "readers show its episode, which is not counted" if struck == ".parquet" else "no episode names it"
        with pytest.raises(StorageError, match=rf"file-001\{struck} could not be removed again: {shown}$"):
            prepared.commit()
    monkeypatch.undo()
    # Its video is there still: an episode whose rows can be read has it.
    assert [len(list(episode.frames("Front"))) for episode in Session(tmp_path)] == ([2, 3] if len(named) > 1 else [2])


def test_spools_that_the_disk_keeps_go_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recording = Recording(tmp_path, arm_schema(), episodes_per_file=2)
    recording.keep(2)
    unlink = os.unlink

    def refuse(path: Any, *more: Any, **named: Any) -> None:
        if layout.SPOOL.fullmatch(os.path.relpath(path, tmp_path)):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        unlink(path, *more, **named)

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", refuse)
        with pytest.raises(MetadataError, match=r"file-000\.parquet\.\d\.tmp: Input/output error"):
            recording.keep(3)
        assert [len(episode.rows()) for episode in Session(tmp_path)] == [2, 3]
    recording.close()
    assert (check_session(tmp_path), Session(tmp_path).state) == ([], "complete")


def test_a_value_that_cannot_be_measured_is_refused_before_anything_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = Recording(tmp_path, arm_schema([camera("Front")]))

    def full(*values: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(ColumnStatistics, "of", full)
        with pytest.raises(MemoryError):
            recording.sink.prepare(recording.record(2))
    assert not list(tmp_path.rglob("file-*"))
    recording.keep(2)
    recording.close()
    assert len(Session(tmp_path)) == 1


@pytest.mark.parametrize(
    "error", [FormatError("a spool: cannot be read"), MemoryError(), OSError(errno.EMFILE, "Too many open files")]
)
def test_spools_that_cannot_be_read_back_are_episodes_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """Whatever is raised once an episode's file has its name, the episode is there and counts."""
    recording = Recording(tmp_path, arm_schema(), episodes_per_file=2)
    recording.keep(2)

    def fail(*given: Any) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(rows, "read", fail)
        with pytest.raises(MetadataError):
            recording.keep(2)
        assert len(Session(tmp_path)) == 2
    recording.close()
    assert (listed(tmp_path), check_session(tmp_path)) == ([0, 1], [])
