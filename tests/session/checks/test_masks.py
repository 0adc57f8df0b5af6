from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lucky_recorder.session.check import Fault, check_session
from lucky_recorder.video.encoder import VideoEncoder
from tests.session.breaking import film
from tests.session.building import Recording, arm_schema, camera, mask

MASK = "videos/observation.masks.Front/chunk-000/file-001.mp4"  # episode 1, five frames
LABELS = MASK.replace(".mp4", ".json")


def paint(path: Path, frames: int = 5, value: int = 1, width: int = 64, height: int = 48, fps: int = 50) -> None:
    path.unlink(missing_ok=True)
    encoder = VideoEncoder(path, width=width, height=height, fps=Fraction(fps), codec="mask")
    for _ in range(frames):
        encoder.write(np.full((height, width), value, np.uint8))
    encoder.close()


def test_a_session_of_every_stream_has_no_faults(full: Recording) -> None:
    assert check_session(full.root) == []
    assert check_session(full.root, decode=False) == []


@pytest.mark.parametrize(
    ("painted", "messages"),
    [
        ({"value": 7}, ["shows id 7, which its JSON file does not name"]),
        ({"frames": 4}, ["4 frames, expected 5 for 5 ticks", "4 frames, its camera has 5"]),
        ({"width": 32}, ["width is 32, its camera's is 64"]),
        ({"height": 64}, ["height is 64, its camera's is 48"]),
        ({"fps": 25}, ["frame rate is 25, its camera's is 50"]),
    ],
)
def test_wrong_masks(full_copy: Path, painted: dict[str, int], messages: list[str]) -> None:
    paint(full_copy / MASK, **painted)
    assert check_session(full_copy) == [Fault(MASK, 1, message) for message in messages]


def test_a_mask_that_is_a_plain_video(full_copy: Path) -> None:
    film(full_copy / MASK, 5)
    (fault,) = check_session(full_copy)
    assert (fault.file, fault.episode) == (MASK, 1)
    assert "expected lossless h264 of full range" in fault.message


def test_a_mask_that_is_no_video(full_copy: Path) -> None:
    (full_copy / MASK).write_bytes(b"no video")
    (fault,) = check_session(full_copy)
    assert (fault.file, fault.episode) == (MASK, 1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda labels: labels.pop("0"), "says nothing of id 0"),
        (lambda labels: labels.update({"256": "far"}), "'256' is no id from 0 to 255"),
        (lambda labels: labels.update({"01": "far"}), "'01' is no id"),
        (lambda labels: labels.update({"٣": "far"}), "is no id"),
        (lambda labels: labels.update({"1": 3}), "does not name every id"),
        (lambda labels: labels.update({"2": "cube"}), "a name stands for two ids"),
        (lambda labels: labels.update({"2": "table"}), "says otherwise than the camera's first episode"),
    ],
)
def test_wrong_labels(full_copy: Path, change: Callable[[Any], Any], message: str) -> None:
    labels = json.loads((full_copy / LABELS).read_text())
    change(labels)
    (full_copy / LABELS).write_text(json.dumps(labels))
    faults = check_session(full_copy, decode=False)
    assert {(f.file, f.episode) for f in faults} == {(LABELS, 1)}
    assert any(message in f.message for f in faults)


def test_an_id_that_lost_its_name(full_copy: Path) -> None:
    for file in full_copy.glob("videos/observation.masks.Front/*/*.json"):
        file.write_text('{"0": "background", "1": "cube"}')
    faults = check_session(full_copy)
    assert [f.episode for f in faults] == [0, 1, 2]
    assert {f.message for f in faults} == {"shows id 2, which its JSON file does not name"}


@pytest.mark.parametrize(
    ("gone", "faults"),
    [
        ([MASK], [Fault(MASK, 1, "is missing, and file-001.json is there")]),
        ([LABELS], [Fault(LABELS, 1, "is missing, and file-001.mp4 is there")]),
        ([MASK, LABELS], [Fault(f, 1, "is missing, and yet success is true") for f in (MASK, LABELS)]),
    ],
)
def test_missing_twins(full_copy: Path, gone: list[str], faults: list[Fault]) -> None:
    for name in gone:
        (full_copy / name).unlink()
    assert check_session(full_copy) == faults


def test_a_failed_episode_may_lack_its_mask(tmp_path: Path) -> None:
    recording = Recording(tmp_path, arm_schema([camera("Front"), mask("Front")]))
    recording.keep(3)
    recording.keep(3, success=False, failed_stream="observation.masks.Front")
    assert check_session(recording.close()) == []


def test_a_mask_whose_camera_has_no_pictures(tmp_path: Path) -> None:
    recording = Recording(tmp_path, arm_schema([mask("Front", 25)]))
    recording.keep(5)
    assert check_session(recording.close()) == []
    file = "videos/observation.masks.Front/chunk-000/file-000.mp4"
    paint(tmp_path / file, frames=4, fps=25)
    assert check_session(tmp_path) == [Fault(file, 0, "4 frames, expected 3 for 5 ticks")]
