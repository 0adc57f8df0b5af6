"""The table of codecs, and what every codec of colour keeps to."""

from __future__ import annotations

import re
import subprocess
import sys
from fractions import Fraction

import av
import numpy as np
import pytest

from lucky_recorder.episode.keys import VIDEO_FORMATS
from lucky_recorder.errors import VideoError
from lucky_recorder.settings.choices import PRESETS
from lucky_recorder.video.codecs import CODECS, known
from lucky_recorder.video.decode import FrameReader, decode_all
from lucky_recorder.video.probe import probe

FORMATS = ("hevc", "av1")  # h264 has a file of its own


def moving(frames, width=128, height=96):
    ramp = np.add.outer(np.arange(height), np.arange(width))
    return [np.stack([ramp + k, 255 - ramp, (ramp + 3 * k) // 2], -1).astype(np.uint8) % 224 for k in range(frames)]


class TestTable:
    def test_needs_no_codec_library(self):
        script = "import sys, lucky_recorder.video.codecs; sys.exit('av' in sys.modules)"
        assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0

    def test_every_format_has_a_codec_of_its_name_for_colours(self):
        assert all(CODECS[key].name == key and CODECS[key].takes.channels == 3 for key in VIDEO_FORMATS)

    def test_says_what_the_format_says(self):
        stored = {key: (codec.name, codec.pix_fmt, codec.suffix) for key, codec in CODECS.items()}
        assert stored == {
            "h264": ("h264", "yuv420p", ".mp4"),
            "hevc": ("hevc", "yuv420p", ".mp4"),
            "av1": ("av1", "yuv420p", ".mp4"),
            "h264_nvenc": ("h264", "yuv420p", ".mp4"),
            "hevc_nvenc": ("hevc", "yuv420p", ".mp4"),
            "ffv1": ("ffv1", "gray16le", ".mkv"),
            "mask": ("h264", "yuvj420p", ".mp4"),
        }

    @pytest.mark.parametrize("key", [key for key, codec in CODECS.items() if not codec.lossless])
    def test_presets_and_quality_are_the_encoders_own(self, key):
        codec = CODECS[key]
        presets = [codec.settings(preset, None)["preset"] for preset in PRESETS]
        assert list(PRESETS) in (presets, list(codec.presets))
        assert codec.settings("medium", None)[codec.quality] == str(codec.crf)
        assert codec.settings("medium", 41)[codec.quality] == "41"

    @pytest.mark.parametrize("key", ["ffv1", "mask"])
    def test_a_lossless_codec_has_neither(self, key):
        assert CODECS[key].settings("medium", None) == CODECS[key].options
        with pytest.raises(VideoError, match=f"crf=20: {key} is lossless; leave crf out"):
            CODECS[key].settings("medium", 20)

    def test_an_unknown_codec_is_named(self):
        with pytest.raises(VideoError, match="codec='vp9': unknown; known: av1, ffv1, h264, "):
            known("vp9")


@pytest.mark.parametrize("codec", FORMATS)
class TestColour:
    @pytest.mark.parametrize(("width", "height"), [(64, 48), (100, 64), (642, 48)])
    def test_every_picture_is_found_by_its_index(self, numbered, record, codec, width, height):
        path = record([numbered.paint(k, width, height) for k in range(47)], codec=codec)
        order = np.random.default_rng(3).permutation(47)
        with FrameReader(path) as reader:
            assert [numbered.read(reader[k]) for k in order] == list(order)
            assert [numbered.read(picture) for picture in reader] == list(range(47))

    def test_says_what_it_holds(self, numbered, record, codec):
        info = probe(record([numbered.paint(k) for k in range(25)], codec=codec))
        assert (info.codec, info.pix_fmt, info.width, info.height, info.frames) == (codec, "yuv420p", 64, 48, 25)
        assert (info.color_range, info.colorspace, info.color_primaries, info.color_trc) == (1, 6, 6, 6)
        assert (info.keyframes, info.has_b_frames, info.holds_labels) == ((0, 10, 20), 0, False)

    def test_is_stored_in_the_order_of_showing(self, record, codec):
        with av.open(str(record(moving(25), codec=codec))) as container:
            stream = container.streams.video[0]
            assert stream.codec_context.codec_tag == {"hevc": "hvc1", "av1": "av01"}[codec]
            packets = [packet for packet in container.demux(stream) if packet.size]
        assert all(packet.pts == packet.dts for packet in packets)
        assert len(packets) == 25

    @pytest.mark.parametrize("fps", [Fraction(200, 3), Fraction(30000, 1001), Fraction(7, 3), Fraction(240)], ids=str)
    def test_frame_k_is_at_exactly_k_over_fps(self, record, codec, fps):
        path = record(moving(13), codec=codec, fps=fps)
        with av.open(str(path)) as container:
            stream = container.streams.video[0]
            times = [frame.pts * Fraction(stream.time_base) for frame in container.decode(stream)]
        assert times == [k / fps for k in range(13)]
        assert (probe(path).fps, probe(path).timing_error) == (fps, 0)

    def test_same_pictures_same_bytes(self, record, codec):
        assert CODECS[codec].reproducible
        content = record(moving(23, 320, 240), "one", codec=codec).read_bytes()
        for name in ("two", "three"):
            assert record(moving(23, 320, 240), name, codec=codec).read_bytes() == content
        assert not re.search(rb"Lav|x265|SVT", content)

    def test_colours_are_those_that_went_in(self, record, codec):
        for rgb in ((255, 0, 0), (0, 255, 0), (0, 0, 255), (128, 128, 128), (255, 255, 255)):
            picture = np.broadcast_to(np.array(rgb, np.uint8), (48, 64, 3))
            decoded = decode_all(record([picture] * 2, codec=codec))
            np.testing.assert_allclose(decoded.mean((0, 1, 2)), rgb, atol=4)

    def test_moving_pictures_keep_their_quality(self, record, codec):
        error = decode_all(record(moving(20), codec=codec)).astype(float) - moving(20)
        assert 10 * np.log10(255**2 / np.square(error).mean()) > 30

    def test_the_encoder_got_its_settings(self, record, codec):
        noise = list(np.random.default_rng(0).integers(0, 256, (12, 48, 64, 3), np.uint8))
        plain = record(noise, "plain", codec=codec)
        assert record(noise, "coarse", codec=codec, crf=50).stat().st_size < 0.7 * plain.stat().st_size
        slower = record(noise, "slower", codec=codec, preset="veryfast")
        assert slower.read_bytes() != plain.read_bytes()
        assert probe(slower).keyframes == (0, 10)

    def test_nothing_is_printed(self, record, codec, capfd):
        record(moving(3), codec=codec)
        assert capfd.readouterr() == ("", "")
