"""An encoder counts as there only once it has encoded a frame."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lucky_recorder.errors import VideoError
from lucky_recorder.video import available as room
from lucky_recorder.video import codecs
from lucky_recorder.video.available import available, resolve
from lucky_recorder.video.codecs import CODECS


@pytest.fixture(autouse=True)
def _forgotten():
    """Forget what was found out before, and what a test made of it."""
    room._encodes.cache_clear()
    yield
    room._encodes.cache_clear()


@pytest.fixture
def trials(monkeypatch):
    """Pretend that NVENC works, at 128 pixels and more; return what was tried."""
    tried = []

    def packets(codec, width, height):
        tried.append((codec.key, width, height))
        if width < 128:
            raise OSError("No capable devices found")
        return 1

    monkeypatch.setattr(room, "_packets_of_one_frame", packets)
    return tried


@pytest.mark.parametrize("key", [key for key in CODECS if "nvenc" not in key])
def test_what_runs_on_a_cpu_is_there(key):
    assert available(key) == CODECS[key].encoder


@pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="there is a graphics card")
@pytest.mark.parametrize("video_format", ["h264", "hevc"])
def test_nvenc_is_compiled_in_and_yet_not_there(video_format, capfd):
    assert available(f"{video_format}_nvenc") is None
    assert resolve(video_format, hardware=True) is CODECS[video_format]
    assert capfd.readouterr() == ("", "")


def test_where_it_works_it_is_chosen(trials):
    assert available("hevc_nvenc") == "hevc_nvenc"
    assert resolve("h264", hardware=True, width=640, height=480) is CODECS["h264_nvenc"]
    assert resolve("av1", hardware=True) is CODECS["av1"]


def test_only_at_a_size_that_it_takes(trials, monkeypatch):
    assert available("h264_nvenc", width=640) is not None
    assert available("h264_nvenc", width=64) is None


def test_only_if_it_is_asked_for(trials):
    assert resolve("hevc") is CODECS["hevc"]
    assert trials == [("hevc", 256, 256)]


def test_each_size_is_tried_once(trials):
    for _ in range(3):
        resolve("hevc", hardware=True, width=640, height=480)
        available("hevc_nvenc", width=320, height=240)
    assert trials == [("hevc_nvenc", 640, 480), ("hevc_nvenc", 320, 240)]


def test_an_encoder_that_opens_and_gives_nothing_is_not_there(monkeypatch):
    class Mute:
        def encode(self, frame):
            return []

    monkeypatch.setattr(room, "add_stream", lambda *_: Mute())
    assert available("h264") is None


def test_an_encoder_that_is_not_compiled_in_is_not_there(monkeypatch):
    lacking = {**CODECS, "hevc": replace(CODECS["hevc"], encoder="libx266")}
    monkeypatch.setattr(codecs, "CODECS", lacking)
    monkeypatch.setattr(room, "CODECS", lacking)
    assert available("hevc") is None
    with pytest.raises(VideoError, match=r"video_format='hevc': libx266 of av .* does not encode 256x256 pictures"):
        resolve("hevc", hardware=True)


def test_an_unknown_name_is_refused():
    with pytest.raises(VideoError, match="codec='vp9': unknown"):
        available("vp9")
    with pytest.raises(VideoError, match="video_format='ffv1': unknown; known: h264, hevc, av1"):
        resolve("ffv1")
