from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from lucky_recorder.session.check import check_session, inspect_session
from tests.session.breaking import rewrite, with_value
from tests.session.building import Recording

MASK = "videos/observation.masks.Front/chunk-000/file-001"
RGBD = "videos/observation.images.Front_rgbd/chunk-000/file-001.mkv"
SCANS = "data/chunk-000/lidar-top-001"


@pytest.fixture
def alone(full_copy: Path) -> Path:
    """A session of every stream that was recorded without rows."""
    shutil.rmtree(full_copy / "meta")
    for file in full_copy.glob("data/*/file-*"):
        file.unlink()
    return full_copy


def test_every_stream_is_looked_at(alone: Path, full: Recording) -> None:
    report = inspect_session(alone)
    assert (report.faults, report.is_video_only) == ([], True)
    # Of the combined files, the colour frames are looked at too.
    assert report.frames == inspect_session(full.root).frames + 4 + 5 + 6


@pytest.mark.parametrize("file", [f"{MASK}.mp4", f"{MASK}.json", f"{SCANS}.parquet", f"{SCANS}.json", f"{SCANS}.mp4"])
def test_missing_twins(alone: Path, file: str) -> None:
    (alone / file).unlink()
    assert len(check_session(alone)) == 1


def test_faults_are_found(alone: Path) -> None:
    (alone / f"{MASK}.json").write_text(json.dumps({"0": "background", "1": "cube"}))
    shutil.copy(alone / RGBD.replace("001", "000"), alone / RGBD)
    rewrite(alone / f"{SCANS}.parquet", with_value("scan_index", 1, 9))
    (alone / "data/chunk-000/notes.txt").touch()
    (alone / "videos/observation.images.Front/chunk-000/file-001.json").touch()
    (alone / "data/chunk-000/lidar-top-002.parquet.tmp").touch()
    found = {(f.file, f.message.split(":")[0].split(",")[0]) for f in check_session(alone)}
    assert found == {
        (f"{MASK}.json", "says otherwise than the camera's first episode"),
        (f"{MASK}.mp4", "shows id 2"),
        (RGBD, "track 0 is no copy of videos/observation.images.Front/chunk-000/file-001.mp4"),
        (RGBD, "track 1 is no copy of videos/observation.images.Front_depth/chunk-000/file-001.mkv"),
        (f"{SCANS}.parquet", "scan 1"),
        ("data/chunk-000/notes.txt", "is in no stream's place"),
        ("videos/observation.images.Front/chunk-000/file-001.json", "is in no stream's place"),
        ("data/chunk-000/lidar-top-002.parquet.tmp", "incomplete"),
    }
