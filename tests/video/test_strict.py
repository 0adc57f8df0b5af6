"""Decoding that forgives nothing: what it finds, and that it disturbs nobody."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from lucky_recorder.errors import VideoError
from lucky_recorder.storage.spread import Progress
from lucky_recorder.storage.untrusted import Folder
from lucky_recorder.video import strict
from lucky_recorder.video.available import available
from lucky_recorder.video.codecs import CODECS
from lucky_recorder.video.decode import decode_all
from lucky_recorder.video.remux import combine

FRAMES = 30


def noise(codec: str, seed: int = 0) -> list[np.ndarray]:
    draw, takes = np.random.default_rng(seed), CODECS[codec].takes
    dtype = np.dtype(takes.dtype)
    return [draw.integers(0, 1 + np.iinfo(dtype).max, takes.shape(64, 48), dtype) for _ in range(FRAMES)]


def faults(path: Path) -> list[str]:
    with strict.heard():
        return strict.faults(path)


def flip(path: Path, at: int, bit: int = 3) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 1 << bit
    path.write_bytes(content)


def packets(path: Path, track: int = 0) -> list[bytes]:
    with av.open(str(path)) as container:
        return [bytes(p) for p in container.demux(container.streams.video[track]) if p.size]


@pytest.mark.parametrize("codec", sorted(CODECS))
def test_what_we_write_has_no_faults(record: Callable[..., Path], codec: str) -> None:
    if not available(codec):
        pytest.skip("cannot be encoded here")
    path = record(noise(codec), f"video{CODECS[codec].suffix}", codec=codec)
    assert faults(path) == []


@pytest.mark.parametrize("bit", range(8))
def test_every_flipped_bit_of_a_depth_frame_is_found(record: Callable[..., Path], bit: int) -> None:
    """FFV1 carries checksums; the decoder itself only says so, and gives the frame all the same."""
    path = record(noise("ffv1"), "video.mkv", codec="ffv1")
    whole = path.read_bytes()
    for number, packet in enumerate(packets(path)):
        flip(path, whole.index(packet) + len(packet) * number // FRAMES, bit)
        assert faults(path), f"packet {number}"
        path.write_bytes(whole)


def test_the_second_track_of_a_combined_file_is_decoded_too(record: Callable[..., Path], tmp_path: Path) -> None:
    color, depth = record(noise("h264"), "c.mp4"), record(noise("ffv1", 1), "d.mkv", codec="ffv1")
    both = tmp_path / "both.mkv"
    combine(color, depth, both)
    assert faults(both) == []
    packet = packets(both, 1)[7]
    flip(both, both.read_bytes().index(packet) + len(packet) // 2)
    assert len(decode_all(both)) == FRAMES
    assert any("CRC" in fault for fault in faults(both))


def test_of_colour_it_finds_what_readers_find_and_what_only_the_decoder_says(record: Callable[..., Path]) -> None:
    path = record([np.full((48, 64, 3), (k * 8, 90, 40), np.uint8) for k in range(FRAMES)], "video.mp4")
    whole, places = path.read_bytes(), np.random.default_rng(2)
    readers, strictly = set(), set()
    for number in range(150):
        flip(path, int(places.integers(len(whole))), int(places.integers(8)))
        try:
            decode_all(path)
        except VideoError:
            readers.add(number)
        if faults(path):
            strictly.add(number)
        path.write_bytes(whole)
    assert readers
    assert readers < strictly


def test_a_video_that_was_cut_off(record: Callable[..., Path]) -> None:
    path = record(noise("ffv1"), "video.mkv", codec="ffv1")
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 2 // 3])
    assert faults(path)


def test_what_is_no_video(tmp_path: Path) -> None:
    (tmp_path / "video.mp4").write_bytes(b"\0" * 5000)
    found = faults(tmp_path / "video.mp4")
    assert found[0].startswith("cannot be decoded: ")
    assert not any(str(tmp_path) in fault for fault in found)


def test_a_thoroughly_broken_video_is_told_in_a_few_lines(record: Callable[..., Path]) -> None:
    path = record(noise("ffv1"), "video.mkv", codec="ffv1")
    content = path.read_bytes()
    for packet in packets(path):
        flip(path, content.index(packet) + len(packet) // 2)
    assert 1 <= len(faults(path)) <= 7


def test_large_pictures_take_turns(
    record: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    names = []
    for number in range(4):
        names.append(f"{number}.mp4")
        record(noise("h264", number), names[-1])
    monkeypatch.setattr(strict, "_SMALL_PIXELS", 1000)
    running, most, count = threading.Lock(), [0], [0]
    original = strict._frame_faults

    def counted(*arguments: Any) -> Any:
        with running:
            count[0] += 1
            most[0] = max(most[0], count[0])
        yield from original(*arguments)
        with running:
            count[0] -= 1

    monkeypatch.setattr(strict, "_frame_faults", counted)
    assert list(strict.look(Folder(tmp_path), names, Progress())) == []
    assert most == [1]


def test_a_folders_videos_are_looked_at_and_links_are_not_followed(record: Callable[..., Path], tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    path = record(noise("h264"), "in/good.mp4")
    (tmp_path / "in/torn.mp4").write_bytes(path.read_bytes()[:1000])
    (tmp_path / "out.mp4").write_bytes(b"secret")
    (tmp_path / "in/link.mp4").symlink_to(tmp_path / "out.mp4")
    told: list[tuple[int, int]] = []
    names = ["good.mp4", "link.mp4", "torn.mp4"]
    found = list(strict.look(Folder(tmp_path / "in"), names, Progress(lambda *at: told.append(at))))
    assert found[0] == ("link.mp4", "lies outside the session folder")
    assert {name for name, _ in found} == {"link.mp4", "torn.mp4"}
    assert told[0] == (path.stat().st_size, 0)


def test_what_the_decoders_say_is_as_quiet_afterwards_as_before(
    record: Callable[..., Path], caplog: pytest.LogCaptureFixture
) -> None:
    path = record(noise("ffv1"), "video.mkv", codec="ffv1")
    packet = packets(path)[3]
    flip(path, path.read_bytes().index(packet) + len(packet) // 2)
    before = av.logging.get_level(), av.logging.get_skip_repeated()
    with caplog.at_level(logging.DEBUG, "libav"), strict.heard():
        assert strict.faults(path)
        # Another thread's decoder: nobody had asked for its words.
        other = threading.Thread(target=lambda: list(av.open(str(path)).decode(video=0)))
        other.start()
        other.join()
    assert caplog.records == []
    assert (av.logging.get_level(), av.logging.get_skip_repeated()) == before


def test_the_same_words_are_heard_again() -> None:
    """Of two files with the same fault, one after the other, both are to be told."""
    with strict.heard(), av.logging.Capture(local=True) as said:
        for _ in range(2):
            av.logging.log(av.logging.ERROR, "ffv1", "the same words")
    assert len(said) == 2
