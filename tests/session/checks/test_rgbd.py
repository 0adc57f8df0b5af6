from __future__ import annotations

import shutil
from pathlib import Path

import av

from lucky_recorder.session.check import Fault, check_session
from tests.session.building import Recording, arm_schema, camera, depth, rgbd

FRONT = "videos/observation.images.Front"
RGBD = f"{FRONT}_rgbd/chunk-000/file-001.mkv"  # episode 1
COLOR, DEPTH = f"{FRONT}/chunk-000/file-001.mp4", f"{FRONT}_depth/chunk-000/file-001.mkv"


def test_a_combined_file_of_another_episode(full_copy: Path) -> None:
    shutil.copy(full_copy / RGBD.replace("001", "000"), full_copy / RGBD)
    color, depth = check_session(full_copy)
    assert (color.file, color.episode) == (depth.file, depth.episode) == (RGBD, 1)
    assert color.message.startswith(f"track 0 is no copy of {COLOR}: packet ")
    assert depth.message.startswith(f"track 1 is no copy of {DEPTH}: packet ")


def test_a_combined_file_with_one_byte_changed(full_copy: Path) -> None:
    with av.open(str(full_copy / DEPTH)) as video:
        payloads = [bytes(packet) for packet in video.demux() if packet.size]
    content = (full_copy / RGBD).read_bytes()
    changed = payloads[3][:-1] + bytes([payloads[3][-1] ^ 1])
    assert content.count(payloads[3]) == 1
    (full_copy / RGBD).write_bytes(content.replace(payloads[3], changed))
    assert check_session(full_copy) == [Fault(RGBD, 1, f"track 1 is no copy of {DEPTH}: packet 3 differs")]


def test_a_combined_file_with_one_track(full_copy: Path) -> None:
    shutil.copy(full_copy / DEPTH, full_copy / RGBD)
    assert check_session(full_copy) == [Fault(RGBD, 1, "holds 1 tracks of video, expected colour and depth")]


def test_a_combined_file_that_is_no_video(full_copy: Path) -> None:
    (full_copy / RGBD).write_bytes(b"no video")
    (fault,) = check_session(full_copy)
    assert (fault.file, fault.episode) == (RGBD, 1)
    assert fault.message.startswith("cannot be read: ")
    assert str(full_copy) not in fault.message


def test_a_missing_combined_file(full_copy: Path) -> None:
    (full_copy / RGBD).unlink()
    assert check_session(full_copy) == [Fault(RGBD, 1, "is missing, and yet success is true")]


def test_a_failed_episode_has_no_combined_file(tmp_path: Path) -> None:
    streams = [camera("Front"), depth("Front"), rgbd("Front")]
    recording = Recording(tmp_path, arm_schema(streams))
    recording.keep(3)
    recording.keep(3, success=False, failed_stream="observation.images.Front_depth")
    assert check_session(recording.close()) == []
    stray = tmp_path / RGBD
    shutil.copy(tmp_path / RGBD.replace("001", "000"), stray)
    assert check_session(tmp_path) == [Fault(RGBD, None, "no episode names this file")]


def test_a_broken_source_is_a_fault_of_its_own(full_copy: Path) -> None:
    (full_copy / DEPTH).write_bytes(b"no video")
    (fault,) = check_session(full_copy)
    assert (fault.file, fault.episode) == (DEPTH, 1)
