"""Recovering sessions of which a recording has left parts: each kind of part, and each kind of refusal."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import lucky_recorder as lr
from lucky_recorder.edit.recover import Recovered
from lucky_recorder.episode import keys
from lucky_recorder.lerobot.rules import check_lerobot
from lucky_recorder.session.check import check_session
from lucky_recorder.storage import lock as locks
from tests.session.building import Recording, arm_schema, camera, full_session
from tests.session.foreign import EVERY_STREAM, Recorder, write_session
from tests.storage.test_lock import asked

DATA = "data/chunk-000/file-{:03d}.parquet"
NAME = "session_2026-10-08_14-30-05"


def cut_short(root: Path, episodes: int = 4, per_file: int = 1, **settings: Any) -> Recording:
    """A recording whose process has died after so many episodes: nothing is closed, and the lock is gone."""
    recording = Recording(root, arm_schema([camera("Front")]), 40, per_file, **settings)
    for number in range(episodes):
        recording.keep(3 + number % 2, success=number != 1, tasks=(number % 2,))
    recording.sink._lock.release()
    return recording


def recovered(path: Path, **how: Any) -> Recovered:
    (done,) = lr.recover(path, **how)
    return done


def tree(path: Path) -> dict[str, bytes]:
    return {p.relative_to(path).as_posix(): p.read_bytes() for p in sorted(path.rglob("*")) if p.is_file()}


@pytest.mark.parametrize("per_file", [1, 3])
@pytest.mark.parametrize("episodes", [1, 4, 6])
def test_it_becomes_what_the_recording_would_have_written(tmp_path: Path, per_file: int, episodes: int) -> None:
    path, other = tmp_path / NAME, tmp_path / "other"
    cut_short(path, episodes, per_file)
    done = recovered(path)
    assert (done.verdict, done.episodes, done.set_aside) == ("recovered", episodes, ())
    assert check_session(path) == []
    assert check_lerobot(path) == []
    whole = cut_short(other, episodes, per_file)
    whole.sink.close()
    mine, theirs = tree(path), tree(other)
    # The list may be in other files: how many there are depends on when it was written.
    lists = {name for name in {**mine, **theirs} if name.startswith("meta/episodes/")}
    assert {n: b for n, b in mine.items() if n not in lists} == {n: b for n, b in theirs.items() if n not in lists}
    assert lr.Session(path).episodes.drop_columns([keys.META_FILE]) == (
        lr.Session(other).episodes.drop_columns([keys.META_FILE])
    )


def test_every_stream_and_the_tasks_that_were_found_come_back(tmp_path: Path) -> None:
    whole = full_session(tmp_path / "whole")
    path = tmp_path / NAME
    shutil.copytree(whole.root, path)
    shutil.rmtree(path / "meta")
    assert recovered(path).verdict == "recovered"
    assert check_session(path) == []
    for name in ("info", "stats"):
        assert (path / f"meta/{name}.json").read_bytes() == (whole.root / f"meta/{name}.json").read_bytes()
    assert (path / "meta/tasks.parquet").read_bytes() == (whole.root / "meta/tasks.parquet").read_bytes()


@pytest.mark.parametrize("lost", ["info.json", "stats.json", "tasks.parquet", "episodes"])
def test_any_part_of_meta_is_made_anew(tmp_path: Path, lost: str) -> None:
    path = tmp_path / NAME
    cut_short(path).sink.close()
    before = tree(path)
    gone = path / "meta" / lost
    shutil.rmtree(gone) if gone.is_dir() else gone.unlink()
    done = recovered(path)
    assert (done.verdict, done.episodes, check_session(path)) == ("recovered", 4, [])
    if lost != "episodes":
        assert tree(path) == before


def test_a_list_that_cannot_be_read_is_set_aside_and_written_anew(tmp_path: Path) -> None:
    path = tmp_path / NAME
    cut_short(path).sink.close()
    (path / "meta/episodes/chunk-000/file-001.parquet").write_bytes(b"PAR1")
    done = recovered(path)
    assert (done.verdict, done.episodes, check_session(path)) == ("recovered", 4, [])
    assert [one.file for one in done.set_aside] == ["meta/episodes/chunk-000/file-001.parquet"]


def test_what_is_torn_or_no_episode_s_is_set_aside_with_the_reason(tmp_path: Path) -> None:
    path = tmp_path / NAME
    recording = cut_short(path, 3)
    recording.record(3)  # its video has no name yet
    torn = path / DATA.format(2)
    torn.write_bytes(torn.read_bytes()[:-40])
    stray = path / "videos/observation.images.Front/chunk-000/file-007.mp4"
    stray.write_bytes(b"video")
    (path / "notes.txt").write_text("mine")
    done = recovered(path)
    assert (done.verdict, done.episodes) == ("recovered", 2)
    reasons = {one.file.rsplit("/", 1)[1]: one.reason for one in done.set_aside}
    assert reasons.keys() == {
        "file-002.parquet",
        "file-002.mp4",
        "file-007.mp4",
        "observation.images.Front-take-000003.mp4.tmp",
    }
    assert reasons["file-002.parquet"].startswith("not whole: cannot be read")
    assert reasons["file-007.mp4"] == "no episode names this file"
    assert reasons["observation.images.Front-take-000003.mp4.tmp"].startswith("incomplete")
    for file, reason in done.set_aside:
        assert not (path / file).exists()
        assert (path / "lost+found" / file).is_file()
        assert (path / f"lost+found/{file}.txt").read_text() == f"{file}\n{reason}\n"
    assert (path / "notes.txt").read_text() == "mine"
    assert (check_session(path), lr.Session(path).state) == ([], "complete")


def test_numbers_have_no_gap(tmp_path: Path) -> None:
    """A torn episode in the midst: those after it are whole, and stay whole, under lost+found."""
    path = tmp_path / NAME
    cut_short(path, 4)
    video = path / "videos/observation.images.Front/chunk-000/file-001.mp4"
    video.write_bytes(video.read_bytes()[:300])
    done = recovered(path)
    assert (done.episodes, check_session(path)) == (1, [])
    reasons = {one.file: one.reason for one in done.set_aside}
    assert reasons[DATA.format(1)].startswith("of episode 1, which is not whole: ")
    assert reasons[DATA.format(3)].startswith("of episode 3: episode 1 before it is not whole")
    assert pq.ParquetFile(path / "lost+found" / DATA.format(3)).metadata.num_rows == 4


def test_nothing_set_aside_is_written_over(tmp_path: Path) -> None:
    path = tmp_path / NAME
    cut_short(path).sink.close()
    for content in ("one", "two"):
        (path / "meta/info.json.tmp").write_text(content)
        assert [one.file for one in recovered(path).set_aside] == ["meta/info.json.tmp"]
    assert [(path / f"lost+found/meta/info.json.tmp{n}").read_text() for n in ("", ".2")] == ["one", "two"]


@pytest.mark.parametrize("file", [DATA.format(0), "videos/observation.images.Front/chunk-000/file-000.mp4"])
def test_damage_to_what_is_listed_is_no_interruption(tmp_path: Path, file: str) -> None:
    path = tmp_path / NAME
    cut_short(path)
    (path / file).write_bytes(b"?")
    before = tree(path)
    done = recovered(path)
    assert done.verdict in ("refused", "faulty")
    if done.verdict == "refused":
        assert "episode 0 is listed, and is not whole" in done.why
        assert tree(path) == before


def test_a_recording_that_goes_on_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / NAME
    recording = Recording(path, arm_schema([camera("Front")]), episodes_per_file=3)
    for _ in range(4):
        recording.keep(3)
    before = tree(path)
    assert recovered(path).verdict == "in progress"
    assert tree(path) == before
    assert (lr.Session(path).state, len(lr.Session(path)), lr.Session(path).unlisted) == ("in progress", 4, (3,))
    recording.close()
    assert (recovered(path).verdict, lr.Session(path).state) == ("complete", "complete")


def test_before_the_first_episode(tmp_path: Path) -> None:
    path = tmp_path / NAME
    cut_short(path, 0).record(3)
    done = recovered(path)
    assert (done.verdict, len(done.set_aside)) == ("no episode", 1)
    assert sorted(p.name for p in path.iterdir()) == ["lost+found"]
    assert recovered(path) == done._replace(set_aside=())


def test_another_recorder_s_session_is_refused(tmp_path: Path) -> None:
    path = write_session(tmp_path / NAME, Recorder(streams=EVERY_STREAM))
    (path / "data/chunk-000/file-009.parquet.tmp").touch()
    before = tree(path)
    done = recovered(path)
    assert (done.verdict, tree(path)) == ("refused", before)
    assert "another recorder wrote it" in done.why


def forget(path: Path) -> None:
    """Leave in a data file's footer only what earlier versions have written there."""
    table = pq.ParquetFile(path).read()
    notes = {k: v for k, v in table.schema.metadata.items() if k != keys.SESSION_FOOTER}
    pq.write_table(table.replace_schema_metadata(notes), path, write_page_checksum=True, compression="zstd")


def test_sessions_of_the_version_before(tmp_path: Path) -> None:
    path = tmp_path / NAME
    cut_short(path, 6)
    for file in path.glob("data/*/*.parquet"):
        forget(file)
    assert len(lr.Session(path)) == 6
    done = recovered(path)
    assert (done.verdict, done.brought_back, check_session(path)) == ("recovered", 5, [])
    stats = lr.Session(path).stats["observation.images.Front"]
    assert stats["count"] == [6]
    assert lr.Session(path).info["bit_reproducible"] is False


def test_sessions_of_the_version_before_without_info_are_refused(tmp_path: Path) -> None:
    path = tmp_path / NAME
    cut_short(path)
    shutil.rmtree(path / "meta")
    for file in path.glob("data/*/*.parquet"):
        forget(file)
    before = tree(path)
    done = recovered(path)
    assert (done.verdict, tree(path)) == ("refused", before)
    assert "its data files do not say what it would have said" in done.why


def test_a_folder_of_sessions_and_datasets(tmp_path: Path) -> None:
    sessions = tmp_path / "DataSessions"
    cut_short(sessions / NAME)
    cut_short(sessions / f"{NAME[:-1]}6").sink.close()
    (sessions / f"{NAME[:-1]}7").mkdir()
    verdicts = ["recovered", "complete", "no episode"]
    assert [done.verdict for done in lr.recover(tmp_path, dry_run=True)] == verdicts
    assert [done.verdict for done in lr.recover(sessions)] == verdicts
    assert [done.verdict for done in lr.recover(tmp_path)] == ["complete", "complete", "no episode"]


@pytest.mark.parametrize("change", [lr.recover, lr.checksum])
def test_a_reader_that_looks_at_a_session_is_nobody_who_records_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], Any]
) -> None:
    path = tmp_path / NAME
    cut_short(path).sink.close()
    for longest_s, stops in ((1.0, True), (0.0, False)):
        monkeypatch.setattr(locks, "_LONGEST_LOOK_S", longest_s)
        with asked(path) as stop:
            monkeypatch.setattr(locks.time, "sleep", stop)
            if change is lr.recover:
                assert recovered(path).verdict == ("complete" if stops else "in progress")
            elif stops:
                change(path)
            else:
                with pytest.raises(lr.StateError, match="is being recorded"):
                    change(path)


@pytest.mark.parametrize("name", ["meta", "data", "videos", "data/chunk-000", "lost+found"])
def test_nothing_is_written_through_a_link(tmp_path: Path, name: str) -> None:
    path, elsewhere = tmp_path / NAME, tmp_path / "elsewhere"
    cut_short(path)
    if (path / name).exists():
        shutil.move(path / name, elsewhere)
    else:
        elsewhere.mkdir()
    (path / name).symlink_to(elsewhere)
    (path / "videos").mkdir(exist_ok=True)
    before = tree(elsewhere)
    done = recovered(path)
    assert done.verdict == "refused"
    assert "in the folder itself only" in done.why
    assert tree(elsewhere) == before


@pytest.mark.parametrize("path", ["nowhere", "."])
def test_what_is_no_session_at_all(tmp_path: Path, path: str) -> None:
    with pytest.raises(lr.FormatError, match=r"no such folder|is no session"):
        lr.recover(tmp_path / path)


def striking(monkeypatch: pytest.MonkeyPatch, at: int) -> list[str]:
    """Refuse the ``at``-th call that changes the disk, and all that follow, as if the process had died there."""
    called: list[str] = []

    def around(call: Callable[..., Any], name: str) -> Callable[..., Any]:
        def struck(*given: Any, **named: Any) -> Any:
            called.append(name)
            if len(called) >= at:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return call(*given, **named)

        return struck

    for name in ("fsync", "replace", "rename", "mkdir", "rmdir", "unlink"):
        monkeypatch.setattr(os, name, around(getattr(os, name), name))
    return called


@pytest.mark.parametrize("per_file", [1, 3])
def test_killed_in_the_midst_it_is_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, per_file: int) -> None:
    origin = tmp_path / "origin"
    cut_short(origin, 5, per_file).record(3)
    (origin / "meta/info.json").unlink(missing_ok=True)
    expected = None
    for at in range(1, 200):
        path = tmp_path / f"{at}" / NAME
        shutil.copytree(origin, path)
        with monkeypatch.context() as patch:
            called = striking(patch, at)
            first = recovered(path)
        readable = lr.Session(path)
        assert (len(readable), readable.info["total_episodes"]) == (5, 5)
        second = recovered(path)
        assert second.episodes == 5
        assert second.verdict == "complete" or (first.verdict, second.verdict) == ("refused", "recovered")
        listed = {name: content for name, content in tree(path).items() if not name.startswith("lost+found")}
        assert not any(".tmp" in name for name in listed)
        expected = expected or listed
        assert listed.keys() == expected.keys()
        for name in ("meta/info.json", "meta/stats.json"):
            assert listed[name] == expected[name]
        if len(called) < at:
            assert check_session(path) == []
            assert first.verdict == "recovered"
            return
    raise AssertionError("it never came to its end")


def test_json_of_a_session_that_is_read_while_cut_short(tmp_path: Path) -> None:
    """What `Session` says of one is what it says once it is recovered."""
    path = tmp_path / NAME
    cut_short(path, 5, 3)
    before = lr.Session(path)
    said = json.dumps([before.info, before.stats, before.tasks, before.features])
    rows = [e.rows().to_pylist() for e in before]
    recovered(path)
    after = lr.Session(path)
    assert json.dumps([after.info, after.stats, after.tasks, after.features]) == said
    assert [e.rows().to_pylist() for e in after] == rows


@pytest.mark.parametrize("torn", [False, True])
def test_a_session_without_rows_keeps_its_videos(tmp_path: Path, torn: bool) -> None:
    path = tmp_path / NAME
    recording = Recording(path, dataclasses.replace(arm_schema([camera("Front")]), has_rows=False))
    recording.keep(3)
    recording.close()
    video = "videos/observation.images.Front/chunk-000/file-{:03d}.mp4"
    before = tree(path)
    assert list(before) == [video.format(0)]
    if torn:
        (path / video.format(1)).with_suffix(".mp4.tmp").write_bytes(b"half")
    done = recovered(path)
    assert (done.verdict, len(done.set_aside)) == ("recovered" if torn else "complete", torn)
    assert {name: content for name, content in tree(path).items() if not name.startswith("lost+found")} == before
