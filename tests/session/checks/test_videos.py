from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from lucky_recorder.session.check import Fault, check_session
from lucky_recorder.session.checks.videos import frames_due
from tests.session.breaking import VIDEO, film


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"frames": 5}, "5 frames, expected 6 for 6 ticks"),
        ({"frames": 7}, "7 frames, expected 6 for 6 ticks"),
        ({"frames": 6, "width": 32}, "width is 32, info.json says 64"),
        ({"frames": 6, "height": 64}, "height is 64, info.json says 48"),
        ({"frames": 6, "fps": 25}, "frame rate is 25, info.json says 50"),
    ],
)
@pytest.mark.parametrize("decode", [True, False])
def test_every_wrong_video_is_a_fault(copy: Path, options: dict, message: str, decode: bool) -> None:
    film(copy / VIDEO, **options)
    assert Fault(VIDEO, 5, message) in check_session(copy, decode)


def test_a_missing_video(copy: Path) -> None:
    (copy / VIDEO).unlink()
    assert check_session(copy) == [Fault(VIDEO, 5, "is missing")]


@pytest.mark.parametrize("content", [b"", b"no video", bytes(10_000)])
def test_a_broken_video(copy: Path, content: bytes) -> None:
    (copy / VIDEO).write_bytes(content)
    (fault,) = check_session(copy)
    assert (fault.file, fault.episode) == (VIDEO, 5)
    assert str(copy) not in fault.message


def test_a_video_of_an_unknown_codec(copy: Path) -> None:
    (copy / VIDEO).write_bytes((copy / VIDEO).read_bytes().replace(b"avc1", b"zzzz"))
    assert {(f.file, f.episode) for f in check_session(copy)} == {(VIDEO, 5)}


@pytest.mark.parametrize("box", [b"\0\0\0\1free" + bytes(8), b"\0\0\0\7free", b"\0\0\0\x09free", b"\0\0\0"])
def test_boxes_that_are_none(copy: Path, box: bytes) -> None:
    (copy / VIDEO).write_bytes((copy / VIDEO).read_bytes() + box)
    assert Fault(VIDEO, 5, "was cut off: its last part is not whole") in check_session(copy)


@pytest.mark.parametrize("box", [b"\0\0\0\x08free", b"\0\0\0\1free" + bytes(7) + b"\x10", b"\0\0\0\0free"])
def test_boxes_that_are_whole(copy: Path, box: bytes) -> None:
    (copy / VIDEO).write_bytes((copy / VIDEO).read_bytes() + box)
    assert check_session(copy) == []


def test_a_video_that_reorders_its_frames(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from lucky_recorder.session.checks import videos

    original = videos.probe
    monkeypatch.setattr(
        videos, "probe", lambda path: original(path)._replace(has_b_frames=2, keyframes=(2,), timing_error=0.01)
    )
    said = {f.message for f in check_session(copy, decode=False) if f.file == VIDEO}
    assert said == {
        "has B-frames: frames are not stored in the order they are shown",
        "its first 2 frames cannot be decoded: there is no keyframe before them",
        "frames are up to 0.010000 s away from their times",
    }


@pytest.mark.parametrize(
    ("ticks", "hz", "rate", "due"),
    [
        (10, 50, 50, (10, 10)),
        (10, 50, 25, (5, 5)),
        (11, 50, 25, (6, 6)),
        (1, 50, 5, (1, 1)),
        (10, 50, 100, (19, 20)),
        (4, 50, Fraction(100, 3), (3, 3)),
        (3, Fraction(200, 3), Fraction(200, 3), (3, 3)),
    ],
)
def test_frames_due(ticks: int, hz: Fraction | int, rate: Fraction | int, due: tuple[int, int]) -> None:
    assert frames_due(ticks, Fraction(hz), Fraction(rate)) == due
