"""Colour and depth in one file: the same packets, each frame at its index."""

from __future__ import annotations

import errno
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

from lucky_recorder.errors import VideoError
from lucky_recorder.video import remux
from lucky_recorder.video.decode import FrameReader, decode_all
from lucky_recorder.video.probe import probe, tracks
from lucky_recorder.video.remux import COLOR_TRACK, DEPTH_TRACK, combine, first_difference

FPS = Fraction(200, 3)
AV = int(av.__version__.split(".")[0])


def depth(k, width=64, height=48):
    return np.random.default_rng(k).integers(0, 65536, (height, width), np.uint16)


def payloads(path, track=0):
    with av.open(str(path)) as container:
        return [bytes(packet) for packet in container.demux(container.streams.video[track]) if packet.size]


@pytest.fixture
def sources(numbered, record):
    """Return a function that writes a colour and a depth video."""

    def write(frames=37, depths=None, codec="h264", fps=FPS, depth_fps=None, depth_size=(64, 48), suffix=""):
        color = record([numbered.paint(k) for k in range(frames)], f"color{suffix}.mp4", codec=codec, fps=fps)
        codes = [depth(k, *depth_size) for k in range(depths or frames)]
        return color, record(codes, f"depth{suffix}.mkv", codec="ffv1", fps=depth_fps or fps)

    return write


@pytest.mark.parametrize("codec", ["h264", "hevc", "av1"])
def test_every_packet_is_the_one_of_its_source(sources, tmp_path, codec, numbered):
    color, codes = sources(codec=codec)
    combine(color, codes, tmp_path / "rgbd.mkv.tmp")
    assert payloads(tmp_path / "rgbd.mkv.tmp", COLOR_TRACK) == payloads(color)
    assert payloads(tmp_path / "rgbd.mkv.tmp", DEPTH_TRACK) == payloads(codes)
    assert first_difference(tmp_path / "rgbd.mkv.tmp", COLOR_TRACK, color) is None
    assert first_difference(tmp_path / "rgbd.mkv.tmp", DEPTH_TRACK, codes) is None


@pytest.mark.parametrize("codec", ["h264", "hevc", "av1"])
def test_both_tracks_decode_by_index(sources, tmp_path, codec, numbered):
    color, codes = sources(codec=codec)
    combine(color, codes, tmp_path / "rgbd.mkv")
    order = np.random.default_rng(2).permutation(37)
    with FrameReader(tmp_path / "rgbd.mkv") as colors, FrameReader(tmp_path / "rgbd.mkv", track=DEPTH_TRACK) as depths:
        for k in order:
            assert numbered.read(colors[k]) == k
            np.testing.assert_array_equal(depths[k], depth(k))
    np.testing.assert_array_equal(decode_all(tmp_path / "rgbd.mkv"), decode_all(color))


@pytest.mark.parametrize("fps", [FPS, Fraction(30), Fraction(30000, 1001), Fraction(7, 3)], ids=str)
def test_says_what_it_holds(sources, tmp_path, fps):
    color, codes = sources(13, fps=fps)
    combine(color, codes, tmp_path / "rgbd.mkv")
    size = (tmp_path / "rgbd.mkv").stat().st_size
    for copy, source in zip(tracks(tmp_path / "rgbd.mkv"), (color, codes), strict=True):
        assert copy == probe(source)._replace(bytes=size, fps=copy.fps, timing_error=copy.timing_error)
        if AV >= 18:
            assert (copy.fps, copy.timing_error <= 0.0005) == (fps, True)


def test_frame_k_is_at_k_over_fps_to_the_millisecond(sources, tmp_path):
    color, codes = sources(31, fps=Fraction(30))
    combine(color, codes, tmp_path / "rgbd.mkv")
    for track in (COLOR_TRACK, DEPTH_TRACK):
        with av.open(str(tmp_path / "rgbd.mkv")) as container:
            times = [frame.pts for frame in container.decode(container.streams.video[track])]
        assert times == [round(Fraction(1000 * k, 30)) for k in range(31)]


def test_the_separate_files_stay_as_they_are(sources, tmp_path):
    color, codes = sources(5)
    before = color.read_bytes(), codes.read_bytes()
    combine(color, codes, tmp_path / "rgbd.mkv")
    assert (color.read_bytes(), codes.read_bytes()) == before


def test_same_files_same_bytes(sources, tmp_path):
    color, codes = sources(13)
    for name in ("one.mkv", "two.mkv"):
        combine(color, codes, tmp_path / name)
    content = (tmp_path / "one.mkv").read_bytes()
    assert content == (tmp_path / "two.mkv").read_bytes()
    assert b"Lavc" not in content


@pytest.mark.parametrize(
    ("unlike", "message"),
    [
        ({"depths": 12}, r"depth\.mkv: frames=12, but 13 in .*color\.mp4"),
        ({"depth_fps": Fraction(60)}, r"depth\.mkv: fps=60, but 200/3 in .*color\.mp4"),
        ({"depth_size": (64, 46)}, r"depth\.mkv: height=46, but 48 in .*color\.mp4"),
    ],
)
def test_files_that_do_not_belong_together_are_refused(sources, tmp_path, unlike, message):
    color, codes = sources(13, **unlike)
    with pytest.raises(VideoError, match=message):
        combine(color, codes, tmp_path / "rgbd.mkv")
    assert not (tmp_path / "rgbd.mkv").exists()


def test_frames_out_of_order_are_refused(tmp_path, record, numbered):
    with av.open(str(tmp_path / "foreign.mp4"), "w") as container:
        stream = container.add_stream("libx264", rate=50, options={"bf": "3"})
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        for k in range(13):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(numbered.paint(k), format="rgb24")))
        container.mux(stream.encode(None))
    codes = record([depth(k) for k in range(13)], "depth.mkv", codec="ffv1")
    with pytest.raises(VideoError, match=r"foreign\.mp4: frames are not stored in the order they are shown"):
        combine(tmp_path / "foreign.mp4", codes, tmp_path / "rgbd.mkv")


def test_a_missing_source_is_named(sources, tmp_path):
    color, codes = sources(3)
    for pair in ((color, tmp_path / "none"), (tmp_path / "none", codes)):
        with pytest.raises(VideoError, match="none: No such file"):
            combine(*pair, tmp_path / "rgbd.mkv")


def test_a_lost_packet_is_noticed(sources, tmp_path, monkeypatch):
    color, codes = sources(13)
    packets = remux._packets
    monkeypatch.setattr(remux, "_packets", lambda *track: (p for k, p in enumerate(packets(*track)) if k != 11))
    with pytest.raises(VideoError, match=r"two tracks of 13 frames were written, the file holds \[12, 12\]"):
        combine(color, codes, tmp_path / "rgbd.mkv")
    assert not (tmp_path / "rgbd.mkv").exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("frames", [1, 13])
def test_a_full_disk_is_an_error_that_names_the_path(sources, tmp_path, monkeypatch, frames):
    color, codes = sources(frames)
    target = tmp_path / "rgbd.mkv.tmp"
    monkeypatch.setattr("lucky_recorder.video.remux.make_file", lambda path: path.symlink_to("/dev/full"))
    with pytest.raises(VideoError, match=r"rgbd\.mkv\.tmp: .*No space left") as caught:
        combine(color, codes, target)
    assert caught.value.errno == errno.ENOSPC
    assert not target.is_symlink()


class TestFirstDifference:
    def test_names_the_packet(self, sources, tmp_path, record, numbered):
        color, codes = sources(25)
        combine(color, codes, tmp_path / "rgbd.mkv")
        other = [numbered.paint(k if k != 20 else 3) for k in range(25)]
        assert first_difference(tmp_path / "rgbd.mkv", COLOR_TRACK, record(other, "other.mp4", fps=FPS)) == 20
        assert first_difference(tmp_path / "rgbd.mkv", DEPTH_TRACK, color) == 0

    def test_names_the_end_of_the_shorter_one(self, sources, tmp_path):
        color, codes = sources(25)
        combine(color, codes, tmp_path / "rgbd.mkv")
        shorter, shorter_codes = sources(20, suffix="2")
        assert first_difference(tmp_path / "rgbd.mkv", COLOR_TRACK, shorter) == 20
        assert first_difference(tmp_path / "rgbd.mkv", DEPTH_TRACK, shorter_codes) == 20


@pytest.mark.parametrize("track", [2, -1])
def test_a_track_that_is_not_there_is_named(sources, tmp_path, track):
    color, codes = sources(3)
    combine(color, codes, tmp_path / "rgbd.mkv")
    with pytest.raises(VideoError, match=rf"rgbd\.mkv: track={track}: it holds 2 of video, counted from 0"):
        FrameReader(tmp_path / "rgbd.mkv", track=track)
