"""What a file says of itself, and how a file that is none is refused."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from types import SimpleNamespace

import av
import numpy as np
import pytest

from lucky_recorder.errors import LuckyRecorderError, VideoError
from lucky_recorder.video.encoder import VideoEncoder
from lucky_recorder.video.probe import FrameIndex, VideoInfo, _timing_error, describe, open_video, probe


def remux(source, target, keep):
    """Copy the packets that ``keep`` accepts."""
    with av.open(str(source)) as old, av.open(str(target), "w") as new:
        stream = new.add_stream_from_template(old.streams.video[0])
        for packet in old.demux(video=0):
            if packet.size and keep(packet):
                packet.stream = stream
                new.mux(packet)
    return target


def write_sound(path):
    with av.open(str(path), "w") as container:
        stream = container.add_stream("aac", rate=48000)
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 2048), np.float32), format="fltp", layout="mono")
        frame.sample_rate = 48000
        container.mux(stream.encode(frame))
        container.mux(stream.encode(None))


def test_tells_all_there_is(record, numbered):
    path = record([numbered.paint(k, 100) for k in range(13)], fps=Fraction(200, 3))
    assert probe(path) == VideoInfo(
        codec="h264",
        pix_fmt="yuv420p",
        width=100,
        height=48,
        fps=Fraction(200, 3),
        frames=13,
        bytes=path.stat().st_size,
        color_range=1,
        colorspace=6,
        color_primaries=6,
        color_trc=6,
        has_b_frames=0,
        keyframes=(0, 10),
        timing_error=0.0,
        profile="Constrained Baseline",
    )


def test_measures_how_far_whole_milliseconds_are_off(record_grey):
    info = probe(record_grey([np.zeros((16, 16), np.uint16)] * 13, rate=30))
    assert (info.fps, info.frames) == (30, 13)
    assert info.timing_error == pytest.approx(1 / 3000)


def test_counts_what_is_there_and_not_what_the_header_says(record, numbered, tmp_path):
    source = record([numbered.paint(k) for k in range(30)])
    info = probe(remux(source, tmp_path / "short.mkv", lambda packet: packet.pts < 15 * packet.duration))
    assert (info.frames, info.keyframes) == (15, (0, 10))


def test_a_header_without_a_rate_is_refused(record_grey):
    path = record_grey([np.zeros((16, 16), np.uint16)])
    container, stream = open_video(path)
    with container:
        rateless = SimpleNamespace(average_rate=None, guessed_rate=None, codec_context=stream.codec_context)
        with pytest.raises(VideoError, match=r"grey\.mkv: header with no fps and pixel format gray16le"):
            describe(path, rateless, FrameIndex((0,), (0,)))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "Invalid data"),
        (b"no video at all\n" * 100, "Invalid data"),
        (b"#EXTM3U\n#EXTINF:1,\nvideo.mp4.tmp\n#EXT-X-ENDLIST\n", "Invalid"),
        (b"ffconcat version 1.0\nfile video.mp4.tmp\n", "Invalid"),
    ],
)
def test_what_is_no_video_is_refused(record, numbered, tmp_path, content, message):
    record([numbered.paint(0)])
    path = tmp_path / "other.mp4"
    path.write_bytes(content)
    with pytest.raises(VideoError, match=rf"other\.mp4: {message}"):
        probe(path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(VideoError, match=r"missing\.mp4: No such file") as caught:
        probe(tmp_path / "missing.mp4")
    assert isinstance(caught.value, LuckyRecorderError)
    assert isinstance(caught.value, OSError)


def test_a_name_is_never_a_protocol(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(VideoError, match="No such file"):
        probe(type(tmp_path)("concat:a.mp4|b.mp4"))


def test_a_file_cut_short_is_refused(record, numbered, tmp_path):
    content = record([numbered.paint(k) for k in range(30)]).read_bytes()
    cut = tmp_path / "cut.mp4"
    cut.write_bytes(content[: len(content) // 2])
    with pytest.raises(VideoError, match=r"cut\.mp4"):
        probe(cut)


def test_a_codec_that_nothing_decodes_is_refused(record, numbered, tmp_path):
    content = record([numbered.paint(k) for k in range(3)]).read_bytes()
    (tmp_path / "odd.mp4").write_bytes(content.replace(b"avc1", b"zzzz"))
    with pytest.raises(VideoError, match=r"odd\.mp4: its codec is none that av [0-9.]+ can decode"):
        probe(tmp_path / "odd.mp4")


def test_sound_alone_is_no_video(tmp_path):
    write_sound(tmp_path / "sound.mp4")
    with pytest.raises(VideoError, match=r"sound\.mp4: holds no video stream"):
        probe(tmp_path / "sound.mp4")


def test_a_video_without_frames_is_refused(record, numbered, tmp_path):
    empty = remux(record([numbered.paint(0)]), tmp_path / "empty.mkv", lambda packet: False)
    with pytest.raises(VideoError, match=r"empty\.mkv: "):
        probe(empty)


def test_a_recording_before_its_first_gop_is_no_video(numbered, tmp_path):
    encoder = VideoEncoder(tmp_path / "video.mp4.tmp", width=64, height=48, fps=Fraction(50))
    try:
        for k in range(10):
            encoder.write(numbered.paint(k))
            with pytest.raises(VideoError, match=r"video\.mp4\.tmp: Invalid data"):
                probe(encoder.path)
        encoder.write(numbered.paint(10))
        assert probe(encoder.path).frames == 10
    finally:
        encoder.abort()


def test_a_video_without_keyframes_is_refused(record, numbered, tmp_path):
    source = record([numbered.paint(k) for k in range(9)])
    headless = remux(source, tmp_path / "headless.mkv", lambda packet: not packet.is_keyframe)
    with pytest.raises(VideoError, match=r"headless\.mkv: holds no keyframe, so none of its 8 frames"):
        probe(headless)


@pytest.mark.parametrize("pts", [range(5, 900, 7), (0, 3, 10, 11), range(0, 512 * 40, 512), (0,)])
def test_the_largest_distance_of_a_frame_from_its_time(pts: Sequence[int]) -> None:
    for base, fps in (
        (Fraction(1, 1000), Fraction(30)),
        (Fraction(1, 12800), Fraction(25)),
        (Fraction(3, 7), Fraction(50, 3)),
    ):
        assert _timing_error(pts, base, fps) == float(max(abs(t * base - k / fps) for k, t in enumerate(pts)))
