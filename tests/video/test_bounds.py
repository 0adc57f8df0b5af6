"""Videos that would take gigabytes, or that keep a reader waiting: refused by their headers."""

from __future__ import annotations

import os
import struct
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
from av.bitstream import BitStreamFilterContext

from lucky_recorder.episode import limits
from lucky_recorder.errors import VideoError
from lucky_recorder.video import probe as probing
from lucky_recorder.video.decode import FrameReader, decode_all, probe
from lucky_recorder.video.encoder import VideoEncoder


def film(path: Path, width: int = 64, height: int = 48, frames: int = 5, codec: str = "h264") -> Path:
    encoder = VideoEncoder(path, width=width, height=height, fps=Fraction(20), codec=codec)
    for k in range(frames):
        picture = (
            np.full((height, width), k, np.uint16) if codec == "ffv1" else np.full((height, width, 3), k, np.uint8)
        )
        encoder.write(picture)
    encoder.close()
    return path


def test_a_header_that_says_it_is_huge(tmp_path: Path) -> None:
    path = film(tmp_path / "x.mkv", 640, 480, codec="ffv1")
    content = path.read_bytes()
    for element, pixels in ((b"\xb0", 640), (b"\xba", 480)):  # PixelWidth and PixelHeight
        said = element + b"\x82" + struct.pack(">H", pixels)
        assert content.count(said) == 1
        content = content.replace(said, element + b"\x82" + struct.pack(">H", 60_000))
    path.write_bytes(content)
    with pytest.raises(VideoError, match=r"x\.mkv"):
        decode_all(path)


@pytest.mark.parametrize(("name", "codec"), [("x.mp4", "h264"), ("x.mkv", "ffv1"), ("x.mp4", "hevc")])
def test_pictures_larger_than_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, codec: str) -> None:
    path = film(tmp_path / name, 640, 480, codec=codec)
    monkeypatch.setattr(limits, "MOST_PIXELS", 1000)
    with pytest.raises(VideoError, match=f"{name}: pictures of 640x480; at most 1000 pixels are read"):
        probe(path)


def test_nothing_is_written_that_is_not_read_back(tmp_path: Path) -> None:
    with pytest.raises(VideoError, match="8192x2050: at most 16777216 pixels"):
        VideoEncoder(tmp_path / "x.mp4", width=8192, height=2050, fps=Fraction(20))
    assert not (tmp_path / "x.mp4").exists()


@pytest.mark.parametrize(("name", "codec"), [("x.mp4", "h264"), ("x.mkv", "ffv1")])
def test_more_frames_than_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, codec: str) -> None:
    path = film(tmp_path / name, frames=6, codec=codec)
    monkeypatch.setattr(limits, "MOST_FRAMES", 6)
    assert probe(path).frames == 6
    monkeypatch.setattr(limits, "MOST_FRAMES", 4)
    with pytest.raises(VideoError, match=f"{name}: .*4"):
        probe(path)


def grown(tmp_path: Path) -> Path:
    """A video whose sixth picture says that it is ten times as wide."""
    small, large = film(tmp_path / "small.mp4"), film(tmp_path / "large.mp4", 640, 480)
    with av.open(str(small)) as one, av.open(str(large)) as other, av.open(str(tmp_path / "x.mp4"), "w") as both:
        stream = both.add_stream_from_template(one.streams.video[0])
        bare = BitStreamFilterContext("h264_mp4toannexb", other.streams.video[0])
        packets = [(bytes(p), p.is_keyframe) for p in one.demux(one.streams.video[0]) if p.size]
        for whole in other.demux(other.streams.video[0]):
            for p in bare.filter(whole) if whole.size else ():
                units = [u for u in bytes(p).replace(b"\0\0\0\1", b"\0\0\1").split(b"\0\0\1") if u]
                packets.append((b"".join(len(u).to_bytes(4, "big") + u for u in units), p.is_keyframe))
        for k, (content, is_key) in enumerate(packets):
            packet = av.Packet(content)
            packet.stream, packet.pts, packet.dts, packet.is_keyframe = stream, k, k, is_key
            packet.time_base = Fraction(1, 20)
            both.mux(packet)
    return tmp_path / "x.mp4"


@pytest.mark.parametrize("most", [limits.MOST_PIXELS, 10_000])
def test_a_picture_that_grows_on_the_way_is_broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    path = grown(tmp_path)
    monkeypatch.setitem(probing._BOUNDED, "max_pixels", str(most))
    with FrameReader(path, pixel_format="rgb24") as frames:
        assert [f.shape for f in (frames[k] for k in range(5))] == [(48, 64, 3)] * 5
        with pytest.raises(VideoError, match=r"frame 5"):
            frames[5]


def test_nobody_waits_for_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x.mp4")
    for read in (probe, FrameReader):
        with pytest.raises(VideoError, match=r"x\.mp4: is no file"):
            read(tmp_path / "x.mp4")
