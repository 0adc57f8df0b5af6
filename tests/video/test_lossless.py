"""Depth codes and label ids: what goes in comes out, to the last bit, in any player's hands."""

from __future__ import annotations

import os
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

from lucky_recorder.errors import VideoError
from lucky_recorder.video.decode import FrameReader, decode_all
from lucky_recorder.video.encoder import VideoEncoder
from lucky_recorder.video.probe import probe

ALL_CODES = np.arange(65536, dtype=np.uint16).reshape(256, 256)
ALL_IDS = np.arange(256, dtype=np.uint8).reshape(16, 16)


def depth_noise(width, height, seed=0):
    return np.random.default_rng(seed).integers(0, 65536, (height, width), np.uint16)


def id_noise(width, height, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (height, width), np.uint8)


def objects(k, width=96, height=64):
    """Discs of single ids that move, each over its neighbour."""
    y, x = np.mgrid[:height, :width]
    ids = np.zeros((height, width), np.uint8)
    for i in range(1, 9):
        ids[(x - (i * 23 + 5 * k) % width) ** 2 + (y - (i * 17 + k) % height) ** 2 < 81] = i * 31 % 256
    return ids


def spoil(path, frame, at):
    """Flip bits in one byte of a frame, given as a share of its length."""
    with av.open(str(path)) as container:
        payload = bytes([packet for packet in container.demux(video=0) if packet.size][frame])
    content = bytearray(path.read_bytes())
    assert content.count(payload) == 1
    content[content.index(payload) + min(int(at * len(payload)), len(payload) - 1)] ^= 0x55
    path.write_bytes(content)


class TestDepth:
    def test_every_code_survives(self, record):
        pictures = [np.roll(ALL_CODES, 1000 * k) for k in range(5)] + [depth_noise(256, 256, k) for k in range(3)]
        path = record(pictures, "depth.mkv.tmp", codec="ffv1")
        decoded = decode_all(path)
        assert decoded.dtype == np.uint16
        np.testing.assert_array_equal(decoded, pictures)

    @pytest.mark.parametrize(("width", "height"), [(2, 2), (3, 5), (17, 33), (100, 64), (642, 48)])
    def test_at_any_size(self, record, width, height):
        pictures = [depth_noise(width, height, k) for k in range(4)]
        np.testing.assert_array_equal(decode_all(record(pictures, codec="ffv1")), pictures)

    @pytest.mark.parametrize("extreme", [0, 1, 255, 256, 65535])
    def test_a_flat_picture_too(self, record, extreme):
        pictures = [np.full((48, 64), extreme, np.uint16)] * 2
        np.testing.assert_array_equal(decode_all(record(pictures, codec="ffv1")), pictures)

    def test_bottom_up_and_other_layouts(self, record):
        picture = depth_noise(100, 48)
        views = [picture, np.asfortranarray(picture), np.ascontiguousarray(picture[:, ::-1])[:, ::-1]]
        np.testing.assert_array_equal(decode_all(record(views, codec="ffv1")), [picture] * 3)
        turned = record([view[::-1] for view in views], "turned", codec="ffv1", bottom_up=True)
        np.testing.assert_array_equal(decode_all(turned), [picture] * 3)

    def test_the_caller_may_reuse_its_array(self, tmp_path):
        encoder = VideoEncoder(tmp_path / "depth.mkv", width=32, height=24, fps=Fraction(50), codec="ffv1")
        picture = np.empty((24, 32), np.uint16)
        for k in range(5):
            picture[:] = depth_noise(32, 24, k)
            encoder.write(picture)
            picture[:] = 0
        expected = [depth_noise(32, 24, k) for k in range(5)]
        np.testing.assert_array_equal(decode_all(encoder.close().path), expected)

    def test_says_what_it_holds(self, record):
        info = probe(record([depth_noise(64, 48, k) for k in range(7)], codec="ffv1", fps=Fraction(200, 3)))
        assert (info.codec, info.pix_fmt, info.width, info.height) == ("ffv1", "gray16le", 64, 48)
        assert (info.frames, info.keyframes, info.has_b_frames) == (7, tuple(range(7)), 0)
        assert (info.fps, info.holds_labels) == (Fraction(200, 3), False)

    @pytest.mark.parametrize("fps", [Fraction(30), Fraction(200, 3), Fraction(30000, 1001), Fraction(1000)], ids=str)
    def test_frames_are_found_by_index_though_times_are_whole_milliseconds(self, record, fps):
        pictures = [depth_noise(32, 24, k) for k in range(61)]
        path = record(pictures, codec="ffv1", fps=fps)
        assert (probe(path).fps, probe(path).frames) == (fps, 61)
        assert probe(path).timing_error <= 0.0005
        with FrameReader(path) as reader:
            for k in np.random.default_rng(5).permutation(61):
                np.testing.assert_array_equal(reader[k], pictures[k])

    def test_same_pictures_same_bytes(self, record):
        pictures = [depth_noise(64, 48, k) for k in range(9)]
        content = record(pictures, "one", codec="ffv1").read_bytes()
        assert record(pictures, "two", codec="ffv1").read_bytes() == content
        assert b"Lavc" not in content

    @pytest.mark.parametrize("at", [0.0, 0.1, 0.5, 0.9, 1.0])
    def test_a_damaged_frame_is_never_a_picture(self, record, at):
        pictures = [depth_noise(64, 48, k) for k in range(9)]
        path = record(pictures, codec="ffv1")
        spoil(path, 4, at)
        with FrameReader(path) as reader:
            for k in (3, 5, 8, 0):
                np.testing.assert_array_equal(reader[k], pictures[k])
            with pytest.raises(VideoError, match="frame 4 is broken"):
                reader[4]
            np.testing.assert_array_equal(reader[5], pictures[5])


class TestMasks:
    @pytest.mark.parametrize(("width", "height"), [(16, 16), (100, 64), (642, 48)])
    def test_every_id_survives(self, record, width, height):
        pictures = [np.resize(ALL_IDS + np.uint8(k), (height, width)) for k in range(11)]
        pictures += [id_noise(width, height, k) for k in range(3)]
        decoded = decode_all(record(pictures, codec="mask"))
        assert decoded.dtype == np.uint8
        np.testing.assert_array_equal(decoded, pictures)

    def test_objects_that_move_survive(self, record):
        pictures = [objects(k) for k in range(60)]
        order = np.random.default_rng(6).permutation(60)
        with FrameReader(record(pictures, codec="mask")) as reader:
            for k in order:
                np.testing.assert_array_equal(reader[k], pictures[k])

    def test_bottom_up(self, record):
        pictures = [id_noise(100, 48, k) for k in range(3)]
        turned = record([picture[::-1].copy() for picture in pictures], codec="mask", bottom_up=True)
        np.testing.assert_array_equal(decode_all(turned), pictures)

    @pytest.mark.parametrize("pixel_format", ["gray", "rgb24", "bgr24"])
    def test_any_plain_decode_gives_the_ids(self, record, pixel_format):
        pictures = [np.resize(ALL_IDS, (48, 100)), id_noise(100, 48), objects(0, 100, 48)]
        with av.open(str(record(pictures, codec="mask"))) as container:
            plain = np.array([frame.to_ndarray(format=pixel_format) for frame in container.decode(video=0)])
        expected = np.array(pictures)
        np.testing.assert_array_equal(plain, expected if plain.ndim == 3 else np.repeat(expected[..., None], 3, -1))

    def test_chroma_is_constant(self, record):
        with av.open(str(record([objects(k) for k in range(12)], codec="mask"))) as container:
            planes = [plane for frame in container.decode(video=0) for plane in frame.planes[1:]]
            lines = [np.frombuffer(plane, np.uint8).reshape(32, -1)[:, :48] for plane in planes]
        assert len(lines) == 24
        assert (np.array(lines) == 128).all()

    def test_says_what_it_holds(self, record):
        info = probe(record([objects(k) for k in range(13)], codec="mask", fps=Fraction(200, 3)))
        assert (info.codec, info.pix_fmt, info.profile) == ("h264", "yuvj420p", "High 4:4:4 Predictive")
        assert (info.color_range, info.colorspace, info.color_primaries, info.color_trc) == (2, 6, 6, 6)
        assert (info.fps, info.frames, info.timing_error) == (Fraction(200, 3), 13, 0)
        assert (info.keyframes, info.has_b_frames, info.holds_labels) == ((0, 10), 0, True)

    def test_same_pictures_same_bytes(self, record):
        content = record([objects(k) for k in range(13)], "one", codec="mask").read_bytes()
        assert record([objects(k) for k in range(13)], "two", codec="mask").read_bytes() == content

    def test_colours_of_full_range_are_no_ids(self, tmp_path):
        with av.open(str(tmp_path / "foreign.mp4"), "w") as container:
            stream = container.add_stream("libx264", rate=50, options={"crf": "20"})
            stream.width, stream.height, stream.pix_fmt = 64, 48, "yuvj420p"
            frame = av.VideoFrame.from_ndarray(np.full((48, 64, 3), (255, 0, 0), np.uint8), format="rgb24")
            container.mux(stream.encode(frame))
            container.mux(stream.encode(None))
        with FrameReader(tmp_path / "foreign.mp4") as reader:
            assert (reader.info.color_range, reader.info.holds_labels) == (2, False)
            assert reader[0].shape == (48, 64, 3)


@pytest.mark.parametrize(
    ("codec", "picture", "message"),
    [
        ("ffv1", np.zeros((48, 64), np.uint8), "got uint8 of shape (48, 64), expected uint16 of shape (48, 64)"),
        ("ffv1", np.zeros((48, 64), ">u2"), "got >u2 of shape (48, 64), expected uint16 of shape (48, 64)"),
        ("ffv1", np.zeros((64, 48), np.uint16), "got uint16 of shape (64, 48), expected uint16 of shape (48, 64)"),
        ("ffv1", np.zeros((48, 64, 1), np.uint16), "got uint16 of shape (48, 64, 1), expected uint16"),
        ("ffv1", np.zeros((48, 64), np.float32), "got float32 of shape (48, 64), expected uint16"),
        ("mask", np.zeros((48, 64), np.uint16), "got uint16 of shape (48, 64), expected uint8 of shape (48, 64)"),
        ("mask", np.zeros((48, 64), bool), "got bool of shape (48, 64), expected uint8"),
        ("mask", np.zeros((48, 64, 3), np.uint8), "got uint8 of shape (48, 64, 3), expected uint8 of shape (48, 64)"),
        ("hevc", np.zeros((48, 64), np.uint8), "got uint8 of shape (48, 64), expected uint8 of shape (48, 64, 3)"),
    ],
)
def test_another_picture_breaks_the_video(tmp_path, codec, picture, message):
    encoder = VideoEncoder(tmp_path / "video.tmp", width=64, height=48, fps=Fraction(50), codec=codec)
    with pytest.raises(VideoError) as caught:
        encoder.write(picture)
    assert message in str(caught.value)
    with pytest.raises(VideoError, match="broken at frame 0"):
        encoder.close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="counts threads in /proc")
@pytest.mark.parametrize(("codec", "pixels"), [("ffv1", depth_noise), ("mask", id_noise)])
def test_neither_encoding_nor_decoding_starts_a_thread(tmp_path, codec, pixels):
    before = set(os.listdir("/proc/self/task"))
    encoder = VideoEncoder(tmp_path / "video.tmp", width=320, height=240, fps=Fraction(50), codec=codec)
    for k in range(3):
        encoder.write(pixels(320, 240, k))
    assert set(os.listdir("/proc/self/task")) <= before
    with FrameReader(encoder.close().path) as reader:
        np.testing.assert_array_equal(reader[2], pixels(320, 240, 2))
        assert set(os.listdir("/proc/self/task")) <= before
