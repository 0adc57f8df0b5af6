"""Sums of sessions and datasets: when they may be taken, and that nothing leaves wrong ones behind."""

from __future__ import annotations

import logging
import os
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

import lucky_recorder as lr
from lucky_recorder.edit.convert import session_to_koyu
from lucky_recorder.errors import FormatError, StateError
from lucky_recorder.koyu.check import check_koyu
from lucky_recorder.koyu.manifest import Description, rebuild
from lucky_recorder.koyu.overlays import write_overlay
from lucky_recorder.koyu.writer import DatasetWriter
from lucky_recorder.lerobot.rules import check_lerobot
from lucky_recorder.session.check import Fault, check_session
from lucky_recorder.storage import checksums
from lucky_recorder.storage.lock import Lock
from tests.edit.test_recover import NAME, cut_short
from tests.koyu.bundles import capture_id, features, write_bundle, write_dataset
from tests.session.building import Recording, arm_schema, camera, small_session

SESSION_SUMS, DATASET_SUMS = "meta/checksums.json", "checksums.json"


@pytest.fixture
def session(tmp_path: Path) -> Path:
    return small_session(tmp_path / "DataSessions" / NAME).root


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    return write_dataset(tmp_path / "by-hand", (4, 3))


def size_of(folder: Path, *without: str) -> tuple[int, int]:
    files = [p for p in folder.rglob("*") if p.is_file() and p.name not in without]
    return len(files), sum(p.stat().st_size for p in files)


def test_a_session_s_sums_cover_every_file_and_disturb_no_reader(session: Path) -> None:
    size, verdict, episodes = size_of(session), check_lerobot(session), lr.Session(session).episodes
    assert lr.checksum(session) == [(session, *size)]
    assert size_of(session, "checksums.json") == size
    assert check_session(session) == []
    assert check_lerobot(session) == verdict
    assert lr.Session(session).episodes == episodes
    assert lr.Session(session).state == "complete"


def test_a_copy_is_proven_and_one_that_is_not_whole_is_told(session: Path, tmp_path: Path) -> None:
    lr.checksum(session)
    copy = Path(shutil.copytree(session, tmp_path / "elsewhere"))
    assert check_session(copy) == []
    (copy / "data/chunk-000/file-000.parquet").unlink()
    found = {f.message for f in check_session(copy) if f.file == "data/chunk-000/file-000.parquet"}
    assert f"is missing, and {SESSION_SUMS} lists it; bring it back from a copy" in found


def test_a_folder_of_sessions_and_datasets(session: Path, tmp_path: Path) -> None:
    second = Path(shutil.copytree(session, f"{str(session)[:-1]}6"))
    write_dataset(tmp_path / "cubes", (4,))
    assert [one.path for one in lr.checksum(tmp_path)] == [session, second, tmp_path / "cubes"]
    assert (tmp_path / "cubes" / DATASET_SUMS).exists()


def test_what_is_neither_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(FormatError, match=str(path)):
            lr.checksum(path)
    (tmp_path / NAME).mkdir()
    os.utime(tmp_path / NAME, (0, 0))
    with pytest.raises(FormatError, match="cut short before an episode was finished; record into it with resume"):
        lr.checksum(tmp_path / NAME)
    assert list((tmp_path / NAME).iterdir()) == []


def test_a_session_in_progress_is_refused(tmp_path: Path) -> None:
    recording = Recording(tmp_path / NAME, arm_schema([camera("Front")]))
    recording.keep(3)
    with pytest.raises(StateError, match="is being recorded; write its sums when it is closed"):
        lr.checksum(tmp_path / NAME)
    assert not (tmp_path / NAME / SESSION_SUMS).exists()
    recording.close()
    lr.checksum(tmp_path / NAME)
    assert check_session(tmp_path / NAME) == []


def test_where_there_are_no_locks_a_warning_says_what_that_means(
    session: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(Lock, "try_once", lambda lock: None)
    lr.checksum(session)
    assert "no locks here" in caplog.text
    assert check_session(session) == []


def test_a_video_only_session_stays_one(tmp_path: Path) -> None:
    session = small_session(tmp_path / NAME).root
    shutil.rmtree(session / "meta")
    shutil.rmtree(session / "data")
    lr.checksum(session)
    assert lr.Session(session).is_video_only
    assert lr.Session(session).state == "complete"
    assert check_session(session) == []
    video = next(session.rglob("*.mp4"))
    video.write_bytes(video.read_bytes()[:-1] + b"?")
    assert {f.file for f in check_session(session)} == {video.relative_to(session).as_posix()}
    # A list that was being written when the machine died makes no other session of it, nor does a folder for one.
    os.rename(session / SESSION_SUMS, session / f"{SESSION_SUMS}.tmp")
    assert (lr.Session(session).is_video_only, lr.Session(session).state) == (True, "complete")
    (session / f"{SESSION_SUMS}.tmp").unlink()
    assert lr.Session(session).is_video_only


@pytest.mark.parametrize("has_rows", [True, False])
@pytest.mark.parametrize("has_sums", [True, False])
def test_sums_that_were_not_finished_are_no_interrupted_recording(
    tmp_path: Path, has_rows: bool, has_sums: bool
) -> None:
    session = small_session(tmp_path / NAME).root
    if not has_rows:
        shutil.rmtree(session / "meta")
        shutil.rmtree(session / "data")
        (session / "meta").mkdir()
    if has_sums:
        lr.checksum(session)
    before = {p: p.read_bytes() for p in session.rglob("*") if p.is_file()}
    torn = session / f"{SESSION_SUMS}.tmp"
    torn.write_text('{"version": 1, "fi')
    assert lr.Session(session).state == "complete"
    (fault,) = check_session(session) if has_rows else (Fault(f"{SESSION_SUMS}.tmp", None, "`checksum`"),)
    assert (fault.file, "`lucky-recorder checksum`" in fault.message) == (f"{SESSION_SUMS}.tmp", has_rows)
    (planned,) = lr.recover(session, dry_run=True)
    assert ("would be removed" in planned.why, torn.exists()) == (True, True)
    (done,) = lr.recover(session)
    assert (done.verdict, done.set_aside, "was removed" in done.why) == ("complete", (), True)
    assert {p: p.read_bytes() for p in session.rglob("*") if p.is_file()} == before
    assert check_session(session) == []
    assert lr.recover(session)[0].why == ""


def test_a_session_that_is_recovered_has_no_sums_of_before(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / NAME
    cut_short(path, 3)
    lr.checksum(path)
    (done,) = lr.recover(path, dry_run=True)
    assert (done.verdict, (path / SESSION_SUMS).exists()) == ("recovered", True)
    with caplog.at_level(logging.WARNING, "lucky_recorder"):
        (done,) = lr.recover(path)
    assert (done.verdict, done.set_aside) == ("recovered", ())
    assert not (path / SESSION_SUMS).exists()
    assert f"{path / SESSION_SUMS}: removed" in caplog.text
    assert check_session(path) == []


def test_where_there_is_nothing_to_recover_sums_stay(session: Path) -> None:
    lr.checksum(session)
    before = (session / SESSION_SUMS).read_bytes()
    (done,) = lr.recover(session)
    assert (done.verdict, done.set_aside) == ("complete", ())
    assert (session / SESSION_SUMS).read_bytes() == before


def test_views_and_conversions_have_no_sums_of_their_sources(tmp_path: Path) -> None:
    recording = Recording(tmp_path / NAME, arm_schema([camera("Front")]))
    recording.keep(4)
    recording.close()
    lr.checksum(tmp_path / NAME)
    lr.lerobot_view(tmp_path / NAME, tmp_path / "view")
    made = session_to_koyu(tmp_path / NAME, lr.KoyuSettings(name="bundles", path=tmp_path / "bundles"))
    assert [p for p in (tmp_path / "view").rglob("checksums.json")] == []
    assert [p for p in made.path.rglob("checksums.json")] == []
    assert check_session(tmp_path / NAME) == []


# Datasets.


def test_a_dataset_s_sums_stand_beside_its_manifest_and_no_bundle_is_touched(dataset: Path) -> None:
    before = {p: p.read_bytes() for p in dataset.rglob("*") if p.is_file()}
    assert lr.checksum(dataset) == [(dataset, len(before), sum(map(len, before.values())))]
    # Whoever changes something holds the dataset's lock, a file that stays behind and is not summed.
    assert {p for p in dataset.rglob("*") if p.is_file()} == {*before, dataset / DATASET_SUMS, dataset / ".lock"}
    assert {p: p.read_bytes() for p in before} == before
    assert check_koyu(dataset) == []
    assert len(lr.koyu.Dataset(dataset)) == 7


def test_each_kind_of_file_of_a_dataset(dataset: Path) -> None:
    bundle = f"episodes/ep_{capture_id(1)}"
    lr.checksum(dataset)
    parts = ("data.parquet", "episode.json", "observation.images.front.mp4")
    for name in ("manifest.json", *(f"{bundle}/{part}" for part in parts)):
        whole = (dataset / name).read_bytes()
        for at in (0, len(whole) // 2, len(whole) - 1):
            (dataset / name).write_bytes(whole[:at] + bytes([whole[at] ^ 16]) + whole[at + 1 :])
            told = [f.file for f in check_koyu(dataset, decode=False) if "sha256 differs" in f.message]
            assert told == [name]
        (dataset / name).write_bytes(whole)
    (dataset / bundle / "notes.txt").touch()
    (dataset / bundle / "data.parquet").unlink()
    found = {f.file: f.message for f in check_koyu(dataset) if DATASET_SUMS in f.message}
    assert sorted(found) == [f"{bundle}/data.parquet", f"{bundle}/notes.txt"]


def test_a_dataset_that_is_written_has_no_sums_of_before(tmp_path: Path, dataset: Path) -> None:
    first = f"ep_{capture_id(0)}"
    changes = {
        "index": lambda: rebuild(dataset),
        "overlay": lambda: write_overlay(dataset, "progress", "dense", {first: [0.0, 1.0, 2.0, 3.0]}),
        "recover": lambda: [(dataset / "manifest.json").unlink(), lr.recover(dataset)],
    }
    for name, change in changes.items():
        lr.checksum(dataset)
        change()
        assert not (dataset / DATASET_SUMS).exists(), name
    assert check_koyu(dataset) == []


def test_recording_into_a_dataset_drops_its_sums(tmp_path: Path) -> None:
    recording = Recording(tmp_path / NAME, arm_schema([camera("Front")]))
    recording.keep(4)
    recording.close()
    other = Recording(tmp_path / f"{NAME[:-1]}6", arm_schema([camera("Front")]))
    other.keep(5)
    other.close()
    settings = lr.KoyuSettings(name="bundles", path=tmp_path / "bundles")
    session_to_koyu(recording.root, settings)
    lr.checksum(tmp_path / "bundles")
    session_to_koyu(other.root, settings)
    assert not (tmp_path / "bundles" / DATASET_SUMS).exists()
    assert check_koyu(tmp_path / "bundles") == []


def test_a_dataset_that_is_recorded_into_is_refused(dataset: Path) -> None:
    workshop = dataset / "episodes/.tmp-1-abc"
    workshop.mkdir()
    lock = Lock(workshop)
    assert lock.try_once()
    with pytest.raises(StateError, match="is being recorded into"):
        lr.checksum(dataset)
    lock.release()
    assert not (dataset / DATASET_SUMS).exists()


def record_into(dataset: Path) -> DatasetWriter:
    return DatasetWriter(dataset, Description("by-hand", "teleop", 50.0, features()))


@pytest.mark.parametrize("ends", [True, False])
def test_a_writer_that_comes_while_sums_are_taken_leaves_none_that_are_wrong(dataset: Path, ends: bool) -> None:
    writers = []

    def come(done: int, of: int) -> None:
        if not writers:
            writers.append(record_into(dataset))
            if ends:
                write_bundle(dataset, 7, 3)
                writers[0].close()

    with pytest.raises(StateError, match="was changed while" if ends else "is being recorded into"):
        lr.checksum(dataset, tell=come)
    assert not (dataset / DATASET_SUMS).exists()
    writers[0].close()


def test_a_writer_that_comes_when_sums_are_written_waits_and_drops_them(
    dataset: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = checksums.write_json
    writers: list[DatasetWriter] = []
    thread = threading.Thread(target=lambda: writers.append(record_into(dataset)))

    def write_late(*given: Any) -> None:
        if not thread.ident:
            thread.start()
            # Where nothing holds it, it has come and gone before the list is written.
            thread.join(0.2)
        write(*given)

    monkeypatch.setattr(checksums, "write_json", write_late)
    lr.checksum(dataset)
    thread.join()
    assert not (dataset / DATASET_SUMS).exists()
    writers[0].close()


def test_a_deep_check_of_a_dataset_reads_what_no_bundle_names(dataset: Path) -> None:
    assert check_koyu(dataset, deep=True) == []
    bundle = f"episodes/ep_{capture_id(1)}"
    (dataset / bundle / "spare.json").write_text("[1, 2")
    (dataset / bundle / "spare.parquet").write_bytes(b"PAR1")
    video = (dataset / bundle / "observation.images.front.mp4").read_bytes()
    (dataset / "spare.mp4").write_bytes(video[: len(video) * 2 // 3])
    assert check_koyu(dataset) == []
    assert {f.file for f in check_koyu(dataset, deep=True)} == {
        f"{bundle}/spare.json",
        f"{bundle}/spare.parquet",
        "spare.mp4",
    }


def test_a_link_in_place_of_a_session_is_not_followed(session: Path, tmp_path: Path) -> None:
    (tmp_path / "out/DataSessions").mkdir(parents=True)
    (tmp_path / "out/DataSessions" / NAME).symlink_to(session)
    with pytest.raises(FormatError, match="is a link"):
        lr.checksum(tmp_path / "out")
    assert not (session / SESSION_SUMS).exists()
    assert lr.checksum(session)[0].path == session
