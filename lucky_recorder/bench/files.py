"""What encoding, committing and reading take."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lucky_recorder.bench.figures import Figure, in_turns, ratio
from lucky_recorder.episode.keys import DEPTH_CODEC, H264
from lucky_recorder.lazy import lazy
from lucky_recorder.recorder.wrapper import RecordSession
from lucky_recorder.session.reader import Session

if TYPE_CHECKING:
    from lucky_recorder.bench import bare, slides
    from lucky_recorder.video import decode, encoder
else:
    decode, encoder = lazy("lucky_recorder.video.decode"), lazy("lucky_recorder.video.encoder")
    bare, slides = lazy("lucky_recorder.bench.bare"), lazy("lucky_recorder.bench.slides")

_FPS = Fraction(50)
_WIDTH, _HEIGHT = 640, 480
_FILMED, _STEPS = 50, 500
_OPENED = 200
_RANDOM = 60
# Read in order / decoded by the bare library.
_MOST_RATIO = 1.1


def moving(frames: int) -> list[NDArray[np.uint8]]:
    """Make pictures of blurred noise that scrolls, uint8, shape ``(height, width, 3)``."""
    coarse = np.random.default_rng(0).integers(0, 256, (_HEIGHT // 8, _WIDTH // 8, 3), np.uint8)
    picture = np.kron(coarse, np.ones((8, 8, 1), np.uint8))
    return [np.ascontiguousarray(np.roll(picture, 2 * k, axis=1)) for k in range(frames)]


def film(path: Path, pictures: list[NDArray[Any]], codec: str = H264) -> float:
    """Encode some pictures, and return the milliseconds of CPU a picture."""
    began = time.process_time()
    written = encoder.VideoEncoder(path, width=_WIDTH, height=_HEIGHT, fps=_FPS, codec=codec)
    for pixels in pictures:
        written.write(pixels)
    written.close()
    return 1e3 * (time.process_time() - began) / len(pictures)


def encode_figures(rounds: int, folder: Path) -> list[Figure]:
    """Measure what a picture takes to encode."""
    colours = moving(_FILMED)
    ramp = np.linspace(300, 4000, _WIDTH, dtype=np.uint16)
    depths = [np.ascontiguousarray(np.broadcast_to(np.roll(ramp, k), (_HEIGHT, _WIDTH))) for k in range(_FILMED)]
    found = []
    with tempfile.TemporaryDirectory(dir=folder) as place:
        for name, codec, pictures in (("colour, H.264", H264, colours), ("depth, FFV1", DEPTH_CODEC, depths)):
            costs = [film(Path(place) / f"film-{codec}", pictures, codec) for _ in range(rounds + 1)][1:]
            what = f"a frame encoded, {_WIDTH}x{_HEIGHT}, {name}"
            found.append(Figure(what, statistics.median(costs), "ms CPU", note="pictures that scroll"))
    return found


def commit_figures(rounds: int, folder: Path) -> list[Figure]:
    """Measure how long an episode takes until it is safe on the disk, and how long a session takes to open."""
    with tempfile.TemporaryDirectory(dir=folder) as place:
        env = RecordSession(slides.Slides(7, 7), output_dir=place)
        action = np.zeros(7)
        took = []
        for _ in range(2 * rounds):
            env.reset(seed=0)
            for _ in range(_STEPS):
                env.step(action)
            began = time.perf_counter()
            env.end_episode(success=True)
            env.observer.flush()
            took.append(1e3 * (time.perf_counter() - began))
        for _ in range(_OPENED - 2 * rounds):
            env.reset(seed=0)
            for _ in range(2):
                env.step(action)
            env.end_episode(success=True)
        env.close()
        (path,) = (Path(place) / "DataSessions").iterdir()
        opened = _fastest(lambda: len(Session(path)))
    return [
        Figure(f"an episode of {_STEPS} rows until it is safe on the disk", statistics.median(took), "ms"),
        Figure(f"a session of {_OPENED} episodes opened", 1e3 * opened, "ms"),
    ]


def _fastest(job: Callable[[], Any]) -> float:
    def timed() -> float:
        began = time.perf_counter()
        job()
        return time.perf_counter() - began

    return min(timed() for _ in range(5))


def read_figures(pairs: int, folder: Path) -> list[Figure]:
    """Measure what reading a video takes: in order, against the bare library, and at random."""
    with tempfile.TemporaryDirectory(dir=folder) as place:
        path = Path(place) / "film.mp4"
        film(path, moving(4 * _FILMED))

        def alone() -> float:
            began = time.process_time()
            bare.decode(path)
            return time.process_time() - began

        def ours() -> float:
            began = time.process_time()
            with decode.FrameReader(path) as frames:
                for _ in frames:
                    pass
            return time.process_time() - began

        costs = in_turns(alone, ours, pairs)
        with decode.FrameReader(path) as frames:
            random = np.random.default_rng(1).integers(len(frames), size=_RANDOM).tolist()
            began = time.perf_counter()
            for k in random:
                frames[k]
            each = 1e3 * (time.perf_counter() - began) / _RANDOM
    return [
        Figure("frames read in order / decoded by PyAV alone", ratio(costs), "", _MOST_RATIO),
        Figure(f"a frame read at random, {_WIDTH}x{_HEIGHT}", each, "ms"),
    ]
