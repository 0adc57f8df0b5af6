"""Frames: each picture is copied once, right side up, into one frame of the library, which is used for all of them."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import av
import numpy as np
from av.video.reformatter import ColorRange, Colorspace, Interpolation, VideoReformatter
from numpy.typing import NDArray

from lucky_recorder.video.codecs import RGB, Codec
from lucky_recorder.video.probe import ONE_THREAD

# Chroma is the mean of its 2x2 block, which is nearer to the picture than what the default filter gives. 0x4000 reads
# chroma at full width, which is vectorised: half the cost. Older versions of av have no name for that flag.
_BLOCK_MEAN = int(Interpolation.AREA) | 0x4000
_NO_CHROMA = 128


class Frame:
    """The one frame that every picture of a video goes through.

    It is used again for each, since allocating one costs more than copying into it; so it belongs to one thread.
    """

    def __init__(self, codec: Codec, width: int, height: int) -> None:
        """Allocate it.

        Colours are painted as RGB and converted when they are taken out. Depth codes and label ids are painted into the
        first plane of the frame that is stored, so nothing can change them on their way.
        """
        converts = codec.takes is RGB
        self._frame = av.VideoFrame(width, height, RGB.pixel_format if converts else codec.pix_fmt)
        self._pixels = _pixels(self._frame, codec, width, height)
        self._stored: Callable[[av.VideoFrame], av.VideoFrame] = _Conversion(codec.pix_fmt) if converts else _as_it_is

    def paint(self, pixels: NDArray[Any], bottom_up: bool) -> None:
        """Copy a picture in, turned right side up, in one pass.

        Raises:
            ValueError: If it has another shape or dtype.
        """
        self._check(pixels)
        np.copyto(self._pixels, pixels[::-1] if bottom_up else pixels)

    def at(self, index: int, time_base: Fraction) -> av.VideoFrame:
        """Return what was painted as frame ``index`` of the video, in the pixel format that is stored."""
        # Colours are converted into a frame of their own. Depth codes and label ids go out as this very one: FFV1 and
        # x264 need it no more when `encode` returns, so the next picture may be painted over it.
        frame = self._stored(self._frame)
        frame.pts = index
        frame.time_base = time_base
        return frame

    def _check(self, pixels: object) -> None:
        got = f"{pixels.dtype} of shape {pixels.shape}" if isinstance(pixels, np.ndarray) else type(pixels).__name__
        wanted = f"{self._pixels.dtype} of shape {self._pixels.shape}"
        if got != wanted:
            raise ValueError(f"got {got}, expected {wanted}")


class _Conversion:
    """RGB to YUV, BT.601 limited range."""

    def __init__(self, pix_fmt: str) -> None:
        self._pix_fmt = pix_fmt
        self._reformatter = VideoReformatter()

    def __call__(self, frame: av.VideoFrame) -> av.VideoFrame:
        return self._reformatter.reformat(
            frame,
            format=self._pix_fmt,
            dst_colorspace=Colorspace.ITU601,
            dst_color_range=ColorRange.MPEG,
            interpolation=_BLOCK_MEAN,
            **ONE_THREAD,
        )


def _as_it_is(frame: av.VideoFrame) -> av.VideoFrame:
    return frame


def _pixels(frame: av.VideoFrame, codec: Codec, width: int, height: int) -> NDArray[Any]:
    """Look at a frame's first plane as an array, and empty the others of colour."""
    luma, *chroma = frame.planes
    # Once for the whole video: nothing is painted into these planes afterwards.
    for plane in chroma:
        np.frombuffer(memoryview(plane), np.uint8)[:] = _NO_CHROMA
    dtype, shape = np.dtype(codec.takes.dtype), codec.takes.shape(width, height)
    pixel = (codec.takes.channels * dtype.itemsize, dtype.itemsize)[: len(shape) - 1]
    # The library makes lines longer than the picture, to align them; this view leaves the rest out.
    return np.ndarray(shape, dtype, buffer=memoryview(luma), strides=(luma.line_size, *pixel))
