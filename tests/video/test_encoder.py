"""What goes in comes out: every picture, in order, in its colours, at its time."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

from lucky_recorder.errors import VideoError
from lucky_recorder.video.codecs import CODECS
from lucky_recorder.video.decode import FrameReader, decode_all
from lucky_recorder.video.encoder import VideoEncoder
from lucky_recorder.video.probe import probe

RATES = [Fraction(50), Fraction(200, 3), Fraction(30), Fraction(30000, 1001), Fraction(7, 3), Fraction(1000)]


def layouts(picture):
    """The same picture in other memory layouts."""
    height, width, _ = picture.shape
    padded = np.zeros((height, width + 7, 3), np.uint8)
    padded[:, :width] = picture
    sparse = np.zeros((2 * height, 3 * width, 3), np.uint8)
    sparse[::2, ::3] = picture
    return {
        "Fortran order": np.asfortranarray(picture),
        "rows backwards": np.ascontiguousarray(picture[::-1])[::-1],
        "columns backwards": np.ascontiguousarray(picture[:, ::-1])[:, ::-1],
        "channels backwards": np.ascontiguousarray(picture[..., ::-1])[..., ::-1],
        "all backwards": np.ascontiguousarray(picture[::-1, ::-1, ::-1])[::-1, ::-1, ::-1],
        "columns first": np.ascontiguousarray(picture.transpose(1, 0, 2)).transpose(1, 0, 2),
        "channels first": np.ascontiguousarray(picture.transpose(2, 0, 1)).transpose(1, 2, 0),
        "padded lines": padded[:, :width],
        "every third pixel": sparse[::2, ::3],
        "read-only": np.frombuffer(picture.tobytes(), np.uint8).reshape(picture.shape),
    }


def boxes(path):
    """The names of an mp4 file's top-level boxes."""
    content, names, at = path.read_bytes(), [], 0
    while at < len(content):
        size = int.from_bytes(content[at : at + 4], "big")
        names.append(content[at + 4 : at + 8].decode())
        at += size if size != 1 else int.from_bytes(content[at + 8 : at + 16], "big")
    return names


def noise(width=64, height=48, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)


def taken_by(codec, pictures):
    """Make of RGB pictures what the codec takes."""
    takes = CODECS[codec].takes
    return pictures if takes.channels == 3 else pictures[..., 0].astype(takes.dtype)


def flat(rgb, width=64, height=48):
    return np.broadcast_to(np.array(rgb, np.uint8), (height, width, 3))


def stored_planes(path):
    """Mean Y, U and V of the first frame, as stored."""
    with av.open(str(path)) as container:
        frame = next(container.decode(video=0))
        return [
            np.frombuffer(plane, np.uint8).reshape(plane.height, -1)[:, : plane.width].mean() for plane in frame.planes
        ]


@pytest.fixture
def encoder(tmp_path):
    encoder = VideoEncoder(tmp_path / "video.mp4.tmp", width=64, height=48, fps=Fraction(50))
    yield encoder
    encoder.abort()


class TestPictures:
    @pytest.mark.parametrize(("width", "height"), [(100, 64), (64, 100), (642, 48)])
    def test_every_picture_comes_back_in_order(self, numbered, record, width, height):
        pictures = [numbered.paint(k, width, height) for k in range(137)]
        decoded = decode_all(record(pictures))
        assert decoded.shape == (137, height, width, 3)
        assert [numbered.read(picture) for picture in decoded] == list(range(137))

    @pytest.mark.parametrize("layout", layouts(noise()))
    @pytest.mark.parametrize("width", [64, 100, 642])
    def test_any_memory_layout_gives_the_same_bytes(self, numbered, record, layout, width):
        pictures = [numbered.paint(k, width) for k in range(3)]
        plain = record(pictures, "plain").read_bytes()
        assert record([layouts(picture)[layout] for picture in pictures], "other").read_bytes() == plain

    def test_bottom_up_is_turned_over(self, numbered, record):
        pictures = [numbered.paint(k, 100) for k in range(3)]
        plain = record(pictures, "plain").read_bytes()
        assert record([picture[::-1].copy() for picture in pictures], "other", bottom_up=True).read_bytes() == plain
        assert record([picture[::-1].copy() for picture in pictures], "other").read_bytes() != plain

    def test_the_caller_may_reuse_its_array(self, numbered, encoder):
        picture = np.empty((48, 64, 3), np.uint8)
        for k in range(12):
            picture[:] = numbered.paint(k)
            encoder.write(picture)
            picture[:] = 0
        assert [numbered.read(p) for p in decode_all(encoder.close().path)] == list(range(12))

    def test_moving_pictures_keep_their_quality(self, record):
        ramp = np.add.outer(np.arange(96), np.arange(128))
        pictures = [np.stack([ramp + k, 255 - ramp, (ramp + 3 * k) // 2], -1).astype(np.uint8) % 224 for k in range(20)]
        error = decode_all(record(pictures)).astype(float) - pictures
        assert 10 * np.log10(255**2 / np.square(error).mean()) > 30


class TestColours:
    @pytest.mark.parametrize(
        ("rgb", "yuv"),
        [
            ((255, 0, 0), (81.5, 90.2, 240.0)),
            ((0, 255, 0), (144.6, 53.8, 34.2)),
            ((0, 0, 255), (41.0, 240.0, 109.8)),
            ((255, 255, 255), (235.0, 128.0, 128.0)),
            ((0, 0, 0), (16.0, 128.0, 128.0)),
            ((128, 128, 128), (125.9, 128.0, 128.0)),
        ],
    )
    def test_are_bt601_limited(self, record, rgb, yuv):
        path = record([flat(rgb)] * 2)
        np.testing.assert_allclose(stored_planes(path), yuv, atol=1)
        np.testing.assert_allclose(decode_all(path).mean((0, 1, 2)), rgb, atol=3)

    def test_a_red_scene_decodes_red_anywhere(self, record):
        with av.open(str(record([flat((255, 0, 0))]))) as container:
            red, green, blue = next(container.decode(video=0)).to_ndarray(format="rgb24").reshape(-1, 3).T
        assert red.min() > 248
        assert green.max() < 6
        assert blue.max() < 6

    def test_are_tagged(self, record):
        info = probe(record([flat((1, 2, 3))]))
        assert (info.color_range, info.colorspace, info.color_primaries, info.color_trc) == (1, 6, 6, 6)
        assert (info.codec, info.pix_fmt) == (CODECS["h264"].name, CODECS["h264"].pix_fmt) == ("h264", "yuv420p")

    def test_chroma_is_the_mean_of_its_block(self, record):
        stripes = np.zeros((48, 64, 3), np.uint8)
        stripes[:, ::2] = (255, 0, 0)
        stripes[:, 1::2] = (0, 0, 255)
        _, u, v = stored_planes(record([stripes]))
        assert (u, v) == (pytest.approx((90.2 + 240) / 2, abs=2), pytest.approx((240 + 109.8) / 2, abs=2))


class TestTimes:
    @pytest.mark.parametrize("fps", RATES, ids=str)
    @pytest.mark.parametrize("frames", [1, 23])
    def test_frame_k_is_at_exactly_k_over_fps(self, numbered, record, fps, frames):
        path = record([numbered.paint(k) for k in range(frames)], fps=fps)
        with av.open(str(path)) as container:
            stream = container.streams.video[0]
            times = [frame.pts * Fraction(stream.time_base) for frame in container.decode(stream)]
            rate = Fraction(stream.average_rate.numerator, stream.average_rate.denominator)
        assert times == [k / fps for k in range(frames)]
        assert rate == fps
        assert probe(path).timing_error == 0


class TestFile:
    def test_says_what_it_holds(self, record, numbered):
        path = record([numbered.paint(k) for k in range(25)])
        info = probe(path)
        assert (info.width, info.height, info.frames, info.bytes) == (64, 48, 25, path.stat().st_size)
        assert (info.keyframes, info.has_b_frames) == ((0, 10, 20), 0)

    def test_is_an_ordinary_mp4_once_closed(self, record, numbered):
        names = boxes(record([numbered.paint(k) for k in range(25)]))
        assert names[0] == "ftyp"
        assert names.count("moov") == 1
        assert "moof" not in names

    def test_same_pictures_same_bytes(self, record, numbered):
        pictures = [numbered.paint(k, 100) for k in range(30)]
        content = record(pictures, "one", fps=Fraction(200, 3)).read_bytes()
        assert record(pictures, "two", fps=Fraction(200, 3)).read_bytes() == content
        assert b"Lav" not in content

    def test_the_encoder_got_its_settings(self, record):
        content = record([noise()] * 2, preset="superfast", crf=31).read_bytes()
        for setting in (b"crf=31.0", b"keyint=10", b"bframes=0", b"threads=1", b"mbtree=0", b"cabac=1"):
            assert setting in content
        assert b"crf=20.0" in record([noise()] * 2).read_bytes()

    @pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="counts threads in /proc")
    def test_neither_encoding_nor_decoding_starts_a_thread(self, tmp_path):
        before = set(os.listdir("/proc/self/task"))
        encoder = VideoEncoder(tmp_path / "video.mp4.tmp", width=640, height=480, fps=Fraction(50))
        for k in range(3):
            encoder.write(noise(640, 480, k))
        assert set(os.listdir("/proc/self/task")) <= before
        with FrameReader(encoder.close().path) as reader:
            assert reader[2].shape == (480, 640, 3)
            assert set(os.listdir("/proc/self/task")) <= before

    def test_is_synced_to_the_disk_when_closed(self, encoder, monkeypatch):
        synced = []
        monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor)))
        encoder.write(noise())
        finished = encoder.close()
        assert [(s.st_ino, s.st_size) for s in synced] == [(finished.path.stat().st_ino, finished.bytes)]

    @pytest.mark.parametrize("codec", ["h264", "hevc", "av1", "ffv1", "mask"])
    def test_a_killed_process_leaves_whole_gops(self, tmp_path, numbered, codec):
        path = tmp_path / "video.mp4.tmp"
        script = (
            "import sys, numpy as np\n"
            "from fractions import Fraction\n"
            "from pathlib import Path\n"
            "from lucky_recorder.video.encoder import VideoEncoder\n"
            "encoder = VideoEncoder(Path(sys.argv[1]), width=64, height=48, fps=Fraction(50), codec=sys.argv[3])\n"
            "for picture in np.load(sys.argv[2]):\n"
            "    encoder.write(picture)\n"
            "print('written', flush=True)\n"
            "sys.stdin.read()\n"
        )
        pictures = taken_by(codec, np.array([numbered.paint(k) for k in range(36)]))
        np.save(tmp_path / "pictures.npy", pictures)
        command = [sys.executable, "-c", script, str(path), str(tmp_path / "pictures.npy"), codec]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
            said = process.stdout.readline()
            process.kill()
            _, complaint = process.communicate()
        assert (said, process.returncode, complaint) == ("written\n", -signal.SIGKILL, "")
        with FrameReader(path) as reader:
            assert len(reader) >= 30
            for k in (29, 3, 0, 17, 10):
                assert np.abs(reader[k] - pictures[k].astype(float)).mean() < (0.01 if CODECS[codec].lossless else 15)


class TestEnding:
    def test_without_a_frame_there_is_no_file(self, encoder):
        with pytest.raises(VideoError, match=r"video\.mp4\.tmp: no frame was written"):
            encoder.close()
        assert not encoder.path.exists()

    def test_abort_leaves_nothing(self, encoder):
        encoder.write(noise())
        assert encoder.path.exists()
        encoder.abort()
        encoder.abort()
        assert list(encoder.path.parent.iterdir()) == []

    def test_a_closed_video_stays_as_it_is(self, encoder):
        encoder.write(noise())
        content = encoder.close().path.read_bytes()
        with pytest.raises(VideoError, match="closed at 1 frames"):
            encoder.write(noise())
        with pytest.raises(VideoError, match="closed at 1 frames"):
            encoder.close()
        encoder.abort()
        assert encoder.path.read_bytes() == content

    def test_a_lost_frame_is_noticed(self, encoder):
        class Losing:
            def __init__(self, stream):
                self.stream = stream

            def encode(self, frame):
                packets = self.stream.encode(frame)
                return [] if frame is not None and frame.pts == 3 else packets

        encoder._stream = Losing(encoder._stream)
        for k in range(8):
            encoder.write(noise(seed=k))
        with pytest.raises(VideoError, match="8 frames were written, the file holds 7"):
            encoder.close()
        assert not encoder.path.exists()

    def test_a_file_that_vanished_is_noticed(self, encoder):
        encoder.write(noise())
        encoder.path.unlink()
        with pytest.raises(VideoError, match=r"video\.mp4\.tmp: No such file"):
            encoder.close()

    @pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
    @pytest.mark.parametrize("codec", ["h264", "hevc", "av1", "ffv1", "mask"])
    def test_a_full_disk_is_an_error_that_names_the_path(self, tmp_path, monkeypatch, codec):
        path = tmp_path / "video.mp4.tmp"
        monkeypatch.setattr("lucky_recorder.video.encoder.make_file", lambda path: path.symlink_to("/dev/full"))
        with pytest.raises(VideoError, match=r"video\.mp4\.tmp: .*No space left") as caught:
            fill(VideoEncoder(path, width=64, height=48, fps=Fraction(50), codec=codec), codec)
        assert caught.value.errno == errno.ENOSPC
        assert not path.is_symlink()


def fill(encoder, codec):
    try:
        for k in range(30):
            encoder.write(taken_by(codec, noise(seed=k)))
    finally:
        encoder.abort()


class TestRefusals:
    @pytest.mark.parametrize(
        ("picture", "got"),
        [
            (np.zeros((64, 48, 3), np.uint8), "uint8 of shape (64, 48, 3)"),
            (np.zeros((48, 64, 4), np.uint8), "uint8 of shape (48, 64, 4)"),
            (np.zeros((48, 64), np.uint8), "uint8 of shape (48, 64)"),
            (np.zeros((1, 48, 64, 3), np.uint8), "uint8 of shape (1, 48, 64, 3)"),
            (np.zeros((48, 64, 3)), "float64 of shape (48, 64, 3)"),
            (np.zeros((48, 64, 3), np.int8), "int8 of shape (48, 64, 3)"),
            (None, "NoneType"),
        ],
    )
    def test_another_picture_breaks_the_video(self, encoder, picture, got):
        encoder.write(noise())
        with pytest.raises(VideoError) as caught:
            encoder.write(picture)
        message = f"{encoder.path}: frame 1: got {got}, expected uint8 of shape (48, 64, 3)"
        assert str(caught.value) == message
        with pytest.raises(VideoError, match="broken at frame 1"):
            encoder.write(noise())
        with pytest.raises(VideoError, match="broken at frame 1") as closing:
            encoder.close()
        assert str(closing.value.__cause__) == message
        assert not encoder.path.exists()

    @pytest.mark.parametrize(
        ("wrong", "message"),
        [
            ({"codec": "h265"}, "codec='h265': unknown; known: av1, ffv1, h264, h264_nvenc, hevc, "),
            ({"width": 65}, "width=65: 4:2:0 video needs a positive even number"),
            ({"height": 0}, "height=0: 4:2:0 video needs a positive even number"),
            ({"fps": Fraction(0)}, "fps=0: must be above 0"),
            ({"fps": Fraction(2**40 + 1, 2**40)}, "at 1099511627777/1099511627776 fps"),
            (
                {"codec": "hevc", "preset": "fastest"},
                "cannot open libx265 with preset='fastest', crf=22, 64x48 at 50 fps",
            ),
            ({"codec": "av1", "preset": "fastest"}, "cannot open libsvtav1 with preset='fastest', crf=30, 64x48"),
            ({"codec": "av1", "fps": Fraction(241)}, "fps=241: av1 in .mp4 goes up to 240; lower the frame rate"),
            ({"codec": "ffv1", "fps": Fraction(1001)}, "fps=1001: ffv1 in .mkv goes up to 1000; lower the frame rate"),
            ({"codec": "ffv1", "height": 1}, "height=1: ffv1 needs 2 pixels or more"),
            ({"codec": "mask", "width": 65}, "width=65: 4:2:0 video needs a positive even number"),
            ({"codec": "mask", "crf": 0}, "crf=0: mask is lossless; leave crf out"),
            ({"preset": "fastest"}, "cannot open libx264 with preset='fastest', crf=20, 64x48 at 50 fps"),
        ],
    )
    def test_a_wrong_setting_is_named_and_leaves_nothing(self, tmp_path, wrong, message):
        settings = {"width": 64, "height": 48, "fps": Fraction(50), **wrong}
        with pytest.raises(VideoError) as caught:
            VideoEncoder(tmp_path / "video.mp4.tmp", **settings)
        assert message in str(caught.value)
        assert list(tmp_path.iterdir()) == []

    def test_a_missing_folder_is_named(self, tmp_path):
        with pytest.raises(VideoError, match=r"nowhere/video\.mp4: No such file or directory"):
            VideoEncoder(tmp_path / "nowhere" / "video.mp4", width=64, height=48, fps=Fraction(50))
