"""Pictures that say which frame they are, and videos of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from lucky_recorder.video.encoder import VideoEncoder

BITS = 8


class Numbered:
    """Paints a number as eight black or white blocks, above a colour that moves with it."""

    def paint(self, number: int, width: int = 64, height: int = 48) -> np.ndarray:
        picture = np.zeros((height, width, 3), np.uint8)
        block = width // BITS
        for bit in range(BITS):
            if number >> bit & 1:
                picture[: height // 2, bit * block : (bit + 1) * block] = 255
        picture[height // 2 :] = (number * 7 % 256, 255 - number % 256, 0)
        picture[height // 2 :, :, 2] = (np.arange(width) * 3 + number * 5) % 256
        return picture

    def read(self, picture: np.ndarray) -> int:
        height, width, _ = picture.shape
        block = width // BITS
        blocks = picture[2 : height // 2 - 2, : block * BITS].reshape(-1, BITS, block, 3)
        return sum(1 << bit for bit in range(BITS) if blocks[:, bit].mean() > 127)


@pytest.fixture
def numbered() -> Numbered:
    return Numbered()


@pytest.fixture
def record(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes pictures to a video in ``tmp_path``."""

    def write(pictures: Iterable[np.ndarray], name: str = "video.mp4.tmp", **settings: Any) -> Path:
        pictures = list(pictures)
        height, width = pictures[0].shape[:2]
        settings = {"fps": Fraction(50), **settings}
        bottom_up = settings.pop("bottom_up", False)
        encoder = VideoEncoder(tmp_path / name, width=width, height=height, **settings)
        for picture in pictures:
            encoder.write(picture, bottom_up=bottom_up)
        finished = encoder.close()
        assert finished.frames == len(pictures)
        return finished.path

    return write


@pytest.fixture
def record_grey(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes 16-bit grey pictures losslessly; time goes on every ``step`` of them."""

    def write(pictures: list[np.ndarray], rate: int = 50, step: int = 1) -> Path:
        with av.open(str(tmp_path / "grey.mkv"), "w") as container:
            stream = container.add_stream("ffv1", rate=rate)
            stream.height, stream.width = pictures[0].shape
            stream.pix_fmt = "gray16le"
            stream.codec_context.time_base = Fraction(1, rate)
            for k, picture in enumerate(pictures):
                frame = av.VideoFrame.from_ndarray(picture, format="gray16le")
                frame.pts = k // step
                container.mux(stream.encode(frame))
            container.mux(stream.encode(None))
        return tmp_path / "grey.mkv"

    return write
