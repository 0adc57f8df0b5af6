"""The open videos of an episode: one that fails takes no other with it, and leaves no file."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lucky_recorder as lr
from lucky_recorder.capture.schedule import Clocks
from lucky_recorder.capture.snapshot import SceneSnapshot
from lucky_recorder.episode.schema import Schema, Stream
from lucky_recorder.errors import StreamError, VideoError
from lucky_recorder.recorder.devices import Devices
from lucky_recorder.recorder.messages import Layout
from lucky_recorder.recorder.tracks import Tracks
from lucky_recorder.testing import paint_count, read_count
from lucky_recorder.video.decode import decode_all
from lucky_recorder.video.encoder import VideoEncoder


class Seen(SceneSnapshot):
    """A picture as the lane hands it over; its pool is the list of who was released."""

    def release(self) -> None:
        self.pool.append(self.camera)  # type: ignore[union-attr]


class Renderer:
    """Draws what the picture holds, upside down as a GL does, unless it is told to fail."""

    def __init__(self, fails: Callable[[Seen], bool] = lambda picture: False) -> None:
        self._fails = fails

    def color(self, picture: Seen) -> tuple[np.ndarray, bool]:
        if self._fails(picture):
            raise RuntimeError("the driver is gone")
        return picture.pixels[::-1], True


STREAMS = tuple(Stream(f"observation.images.{n}", n, "color", 64, 48, Fraction(50)) for n in ("a", "b"))


@pytest.fixture
def released() -> list[int]:
    return []


@pytest.fixture
def film(tmp_path: Path, released: list[int]) -> Callable[..., Tracks]:
    """Return a function that films so many ticks with both cameras."""

    def make(ticks: int, renderer: Renderer | None = None, streams: Any = STREAMS) -> Tracks:
        schema = Schema("robot_id", "one", ("one",), Fraction(50), (), streams)
        cameras = tuple(lr.Camera(s.camera, width=s.width, height=s.height) for s in streams)
        layout = Layout(schema, Clocks(Fraction(50), Fraction(50), Fraction(50)))
        devices = Devices(lr.RecorderSettings(cameras=cameras), renderer or Renderer(), layout)  # type: ignore[arg-type]
        tracks = Tracks(devices, lambda key, suffix: tmp_path / key / f"attempt{suffix}.tmp", "seed 0")
        for t in range(ticks):
            tracks.write([Seen(s, pixels=paint_count(10 * t + s), pool=released) for s in range(len(streams))])
        return tracks

    return make


def test_every_stream_is_whole(film: Any) -> None:
    tracks = film(12)
    videos, _ = tracks.finish()
    assert tracks.error is None
    for number, stream in enumerate(STREAMS):
        file = videos[stream.key].file
        frames = decode_all(file.path)
        assert [read_count(f) for f in frames] == [10 * t + number for t in range(12)]
        assert (file.frames, file.bytes) == (12, file.path.stat().st_size)


def test_a_stream_without_a_frame_leaves_no_file(film: Any, tmp_path: Path) -> None:
    assert film(0).finish() == ({}, {})
    assert list(tmp_path.iterdir()) == []


def test_a_picture_that_cannot_be_drawn_fails_its_stream_alone(film: Any, released: list[int], tmp_path: Path) -> None:
    tracks = film(10, Renderer(lambda p: p.camera == 0 and read_count(p.pixels) == 50))
    assert isinstance(tracks.error, StreamError)
    assert str(tracks.error) == "stream 'observation.images.a' failed: RuntimeError: the driver is gone"
    assert isinstance(tracks.error.__cause__, RuntimeError)
    videos, _ = tracks.finish()
    assert list(videos) == [STREAMS[1].key]
    assert [read_count(f) for f in decode_all(videos[STREAMS[1].key].file.path)] == [10 * t + 1 for t in range(10)]
    assert not list(tmp_path.glob("*.a/*"))
    assert sorted(released) == [0] * 10 + [1] * 10


@pytest.mark.parametrize("verb", ["write", "close"])
def test_an_encoder_that_raises_fails_its_stream_alone(
    film: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    working = getattr(VideoEncoder, verb)

    def raising(encoder: VideoEncoder, *args: Any, **named: Any) -> Any:
        if "images.b" in str(encoder.path) and encoder.frames == 5:
            raise VideoError("no more")
        return working(encoder, *args, **named)

    monkeypatch.setattr(VideoEncoder, verb, raising)
    tracks = film(5 if verb == "close" else 8)
    videos, _ = tracks.finish()
    assert str(tracks.error) == "stream 'observation.images.b' failed: no more"
    assert {key: one.file.frames for key, one in videos.items()} == {STREAMS[0].key: 5 if verb == "close" else 8}
    assert not list(tmp_path.glob("*.b/*"))


def test_a_folder_that_cannot_be_made_fails_the_stream(film: Any, tmp_path: Path) -> None:
    (tmp_path / STREAMS[0].key).write_text("in the way")
    tracks = film(2)
    assert STREAMS[0].key in str(tracks.error)
    assert list(tracks.finish()[0]) == [STREAMS[1].key]


@pytest.mark.parametrize("fails", [False, True])
def test_giving_up_removes_every_file(film: Any, tmp_path: Path, fails: bool) -> None:
    tracks = film(5, Renderer(lambda p: fails and p.camera == 1))
    tracks.abort()
    tracks.abort()
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == []
    assert tracks.finish() == ({}, {})


def test_pixels_are_counted_for_the_statistics(film: Any) -> None:
    videos, _ = film(21).finish()
    pixels = videos[STREAMS[1].key].pixels
    painted = np.stack([paint_count(10 * t + 1) for t in (0, 10, 20)]) / 255
    assert pixels.frames == 3
    assert np.allclose(np.ravel(pixels.to_json()["mean"]), painted.mean(axis=(0, 1, 2)), rtol=1e-12)
