"""Going on with a session: recorded in parts, it is the session of one recording."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import lucky_recorder as lr
from lucky_recorder.errors import MetadataError, StorageError
from lucky_recorder.session import likeness
from lucky_recorder.session.check import check_session
from lucky_recorder.session.layout import Chunking
from lucky_recorder.session.sink import SessionSink
from lucky_recorder.storage.write import Staged
from lucky_recorder.testing import check_session as check
from lucky_recorder.version import __version__
from tests.session.building import Recording, arm_schema, camera
from tests.session.resuming import FIELDS, contents, in_parts, keep, listed, read, schema

NAME = "session_2026-10-08_14-30-05"


@pytest.fixture(scope="module")
def wholes(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    """Seven episodes recorded at once, by the episodes of a data file; nobody changes them."""
    root = tmp_path_factory.mktemp("wholes")
    return {number: in_parts(root / f"{number}", 7, episodes_per_file=number) for number in (1, 3)}


@pytest.mark.parametrize("parts", [(3, 4), (1, 6), (2, 2, 3), (7, 0), (6, 1, 0)])
@pytest.mark.parametrize("per_file", [1, 3])
def test_a_session_in_parts_is_that_of_one_recording(
    wholes: dict[int, Path], tmp_path: Path, per_file: int, parts: tuple[int, ...]
) -> None:
    """Every file is the same to the last byte: rows, videos, scans, statistics, tasks, totals."""
    whole = wholes[per_file]
    resumed = in_parts(tmp_path / "resumed", *parts, episodes_per_file=per_file)
    assert contents(resumed) == contents(whole)
    assert listed(resumed) == listed(whole)
    assert [row["episode_index"] for row in listed(whole)] == list(range(7))
    assert check_session(resumed) == []
    assert (lr.Session(resumed).state, read(resumed)) == ("complete", read(whole))


@pytest.mark.parametrize("per_file", [1, 3])
@pytest.mark.parametrize("episodes", [1, 3, 4])
def test_one_that_was_cut_short_is_completed_first(
    wholes: dict[int, Path], tmp_path: Path, per_file: int, episodes: int
) -> None:
    whole = wholes[per_file]
    recording = Recording(tmp_path / NAME, schema(), **FIELDS | {"episodes_per_file": per_file, "metadata_every": 25})
    keep(recording, episodes)
    recording.sink._lock.release()
    # What was being written when it died.
    torn = recording.sink.stream_path("observation.images.Front", 9, ".mp4")
    torn.write_bytes(b"half a video")
    recording.resume()
    assert lr.Session(recording.root).unlisted == ()
    keep(recording, 7 - episodes)
    recording.close()
    shutil.rmtree(recording.root / "lost+found")
    assert contents(recording.root) == contents(whole)
    assert (listed(recording.root), check_session(recording.root)) == (listed(whole), [])


def test_one_that_had_finished_nothing_is_begun_anew(tmp_path: Path) -> None:
    whole = in_parts(tmp_path / "whole", 2)
    recording = Recording(tmp_path / NAME, schema(), **FIELDS)
    recording.record(3)
    recording.sink._lock.release()
    again = Recording(tmp_path / "other", schema(), **FIELDS)
    again.root = recording.root
    again.resume()
    keep(again, 2)
    again.close()
    shutil.rmtree(again.root / "lost+found")
    assert (contents(again.root), listed(again.root)) == (contents(whole), listed(whole))


def test_a_session_that_nothing_is_added_to_is_as_it_was(tmp_path: Path) -> None:
    path = in_parts(tmp_path / "session", 4, episodes_per_file=3)
    before = {p: p.stat().st_mtime_ns for p in path.rglob("*") if p.is_file()}
    sink = SessionSink(path, Chunking(3, 3), resumes=True)
    sink.open(schema(), ["Another task"])
    sink.close()
    never_opened = SessionSink(path, Chunking(3, 3), resumes=True)
    never_opened.close()
    assert {p: p.stat().st_mtime_ns for p in path.rglob("*") if p.is_file()} == before


def test_while_it_goes_on_readers_have_every_episode(tmp_path: Path) -> None:
    """Also within a data file that holds episodes of both recordings, and never one that is not there."""
    recording = Recording(tmp_path / "session", schema(), **FIELDS | {"episodes_per_file": 3, "metadata_every": 25})
    keep(recording, 4)
    recording.close()
    recording.resume()
    for number in range(5, 9):
        keep(recording, 1)
        session = lr.Session(recording.root)
        assert (len(session), session.state, len(read(recording.root))) == (number, "in progress", number)
        assert {row["episode_index"] for row in listed(recording.root)} in (set(range(4)), set(range(6)))
        assert session.stats["action"]["count"] == [sum(record.rows for record in recording.committed)]
    recording.close()
    assert check_session(recording.root) == []


def test_an_error_after_the_data_file_has_its_name_puts_no_episode_into_it_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = in_parts(tmp_path / "whole", 6, episodes_per_file=3)
    recording = Recording(tmp_path / "session", schema(), **FIELDS | {"episodes_per_file": 3})
    keep(recording, 4)
    recording.close()
    recording.resume()
    keep(recording, 1)
    last, commit = recording.record(5, success=True, tasks=(1,)), Staged.commit

    def named_only(staged: Staged) -> None:
        commit(staged)
        if staged.path.name == "file-001.parquet" and "data" in staged.path.parts:
            raise StorageError("the folder cannot be synced")

    prepared = recording.sink.prepare(last)
    monkeypatch.setattr(Staged, "commit", named_only)
    with pytest.raises(MetadataError, match="cannot be synced"):
        prepared.commit()
    monkeypatch.undo()
    recording.close()
    assert check_session(recording.root) == []
    assert (contents(recording.root), listed(recording.root)) == (contents(whole), listed(whole))


# Tasks.


def test_tasks_are_united_by_their_description(tmp_path: Path) -> None:
    path = tmp_path / "session"
    first = Recording(path, schema(), tasks=["Pick up the cube", "Put it down"])
    first.keep(4, tasks=(0, 1))
    first.close()
    second = Recording(tmp_path / "other", schema(), tasks=["Wait", "Put it down"])
    second.root = path
    second.resume()
    second.keep(4, tasks=(0, 1))
    second.tasks.append("Found on the way")
    second.keep(6, tasks=(0, 1, 2))
    second.keep(3, tasks=(2,))
    second.close()
    session = check(path)
    assert session.tasks == ["Pick up the cube", "Put it down", "Wait", "Found on the way"]
    assert session.info["total_tasks"] == 4
    assert [episode.rows()["task_index"].to_pylist() for episode in session] == [
        [0, 0, 1, 1],
        [2, 2, 1, 1],
        [2, 2, 1, 1, 3, 3],
        [3, 3, 3],
    ]
    assert [row["tasks"] for row in listed(path)[1:]] == [
        ["Put it down", "Wait"],
        ["Put it down", "Wait", "Found on the way"],
        ["Found on the way"],
    ]


# What info.json says.


def test_what_others_have_written_into_info_json_is_kept(tmp_path: Path) -> None:
    path = in_parts(tmp_path / "session", 2)
    info = json.loads((path / "meta/info.json").read_text())
    (path / "meta/info.json").write_text(json.dumps(info | {"license": "CC0", "recorder_version": "0.0.1"}))
    sink = SessionSink(path, Chunking(3), resumes=True)
    recording = Recording(tmp_path / "other", schema())
    recording.root, recording.sink = path, sink
    sink.open(schema(), ["Pick up the cube"])
    recording.keep(3)
    recording.close()
    written = check(path).info
    assert (written["license"], written["recorder_version"], written["total_episodes"]) == ("CC0", __version__, 3)


def test_a_camera_that_is_calibrated_otherwise_is_told_of(tmp_path: Path) -> None:
    def calibrated(x: float) -> Any:
        intrinsics = {"fx": 100.0}
        return arm_schema(
            [dataclasses.replace(camera("Front"), calibration={"intrinsics": intrinsics, "extrinsics": x})]
        )

    recording = Recording(tmp_path / "session", calibrated(0.0))
    recording.keep(3)
    recording.close()
    recording.resume()
    recording.close()
    recording.schema = calibrated(1.0)
    with pytest.warns(RuntimeWarning, match=r"observation\.images\.Front: the camera is calibrated otherwise"):
        recording.resume()
    recording.keep(3)
    recording.close()
    assert lr.Session(recording.root).info["features"]["observation.images.Front"]["info"]["extrinsics"] == 0.0


def test_checksums_of_what_is_about_to_change_are_removed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = in_parts(tmp_path / "session", 2)
    (path / "meta/checksums.json").write_text("{}")
    sink = SessionSink(path, Chunking(3), resumes=True)
    with pytest.raises(lr.SettingsError):
        sink.open(arm_schema(), [])
    assert (path / "meta/checksums.json").exists()
    sink.open(schema(), [])
    assert not (path / "meta/checksums.json").exists()
    assert "checksums.json: removed" in caplog.text
    sink.close()
    assert check_session(path) == []


def test_what_says_less_of_a_camera_or_explains_it_otherwise_is_not_calibrated_otherwise() -> None:
    def features(**calibration: Any) -> dict[str, Any]:
        return {"observation.images.Front": {"dtype": "video", "info": calibration}}

    extrinsics = {"mode": "fixed", "position_in_body": [0.0, 1.0], "convention": "metres"}
    said = features(intrinsics={"matrix": [[100.0]], "width": 4}, extrinsics=extrinsics)
    earlier = {**extrinsics, "position": [1.0, 2.0], "convention": "in metres"}
    for other in (
        features(),
        features(extrinsics=earlier),
        features(intrinsics={"matrix": [[100.00001]], "width": 4, "fovy_deg": 45.0}, extrinsics=None),
    ):
        assert likeness.moved(said, other) == likeness.moved(other, said) == []
    for other in (
        features(intrinsics={"matrix": [[101.0]]}),
        features(extrinsics={"position_in_body": [0.0, 1.1]}),
        features(extrinsics={"mode": "free"}),
    ):
        assert likeness.moved(said, other) == ["observation.images.Front"]
