from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from lucky_recorder.session.check import Fault, check_session
from tests.session.breaking import FRONT, VIDEO


@pytest.mark.parametrize(
    ("name", "episode", "message"),
    [
        ("data/chunk-000/file-001.parquet.4.tmp", 4, "the spool of an episode"),
        ("data/chunk-000/file-001.parquet.tmp", None, "incomplete, left behind by an interrupted recording"),
        ("data/chunk-007/file-000.parquet", None, "cannot be read"),
        ("data/notes.txt", None, "no episode names this file"),
        ("meta/stats.json.tmp", None, "incomplete"),
        ("meta/other.json", None, "no episode names this file"),
        ("meta/episodes/notes.txt", None, "no episode names this file"),
        (f"videos/{FRONT}/attempt-000007.mp4.tmp", None, "incomplete"),
        (f"videos/{FRONT}/chunk-003/file-001.mp4", None, "no episode names this file"),
        ("videos/observation.images.Back/chunk-000/file-000.mp4", None, "no episode names this file"),
    ],
)
def test_every_stray_is_a_fault(copy: Path, name: str, episode: int | None, message: str) -> None:
    (copy / name).parent.mkdir(parents=True, exist_ok=True)
    (copy / name).touch()
    (fault,) = check_session(copy)
    assert (fault.file, fault.episode, fault.message[: len(message)]) == (name, episode, message)


def test_what_lies_beside_the_three_folders_is_the_user_s(copy: Path) -> None:
    (copy / "notes.txt").touch()
    (copy / "plots").mkdir()
    (copy / "plots/reward.png").touch()
    assert check_session(copy) == []


def test_links_to_elsewhere(copy: Path, tmp_path: Path) -> None:
    shutil.move(copy / VIDEO, tmp_path / "elsewhere.mp4")
    (copy / VIDEO).symlink_to(tmp_path / "elsewhere.mp4")
    assert check_session(copy) == [Fault(VIDEO, 5, "lies outside the session folder")]


@pytest.mark.parametrize(
    "name",
    [
        "videos/observation.masks.Front/chunk-000/file-002.mp4",
        "videos/observation.masks.Front/chunk-002/file-000.json",
        "videos/observation.masks.Front/chunk-001/file-001.mp4",
        "videos/observation.masks.Front/chunk-000/file-000.mkv",
        "videos/observation.images.Front_rgbd/chunk-001/file-001.mkv",
        "videos/observation.images.Front_rgbd/chunk-000/file-000.json",
        "videos/observation.images.Fast_rgbd/chunk-000/file-000.mkv",
        "data/chunk-001/lidar-top-003.json",
        "data/chunk-000/lidar-top-000.csv",
        "data/lidar-top-000.parquet",
    ],
)
def test_every_stray_of_a_stream_that_metadata_does_not_list(full_copy: Path, name: str) -> None:
    (full_copy / name).parent.mkdir(parents=True, exist_ok=True)
    (full_copy / name).touch()
    assert check_session(full_copy, decode=False) == [Fault(name, None, "no episode names this file")]
