"""The encoder: one colour video of one episode, a picture at a time, safe up to its last keyframe."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, cast

import av
import numpy as np
from av.container import OutputContainer
from av.video.reformatter import ColorRange, Colorspace, Interpolation, VideoReformatter
from av.video.stream import VideoStream
from numpy.typing import NDArray

from lucky_recorder.errors import VideoError
from lucky_recorder.files import sync_file
from lucky_recorder.video.probe import ONE_THREAD, naming, probe


@dataclass(frozen=True)
class Codec:
    """How colour pictures are compressed.

    Attributes:
        name: The codec's name as ``video.codec`` in ``info.json`` has it.
        encoder: The library's encoder.
        pix_fmt: The pixel format stored.
        options: Encoder options besides preset and CRF.
    """

    name: str
    encoder: str
    pix_fmt: str = "yuv420p"
    options: Mapping[str, str] = field(default_factory=dict)


CODECS: Mapping[str, Codec] = MappingProxyType(
    {
        codec.name: codec
        for codec in (
            # A short closed GOP without B-frames: any frame is at most nine steps from a keyframe.
            Codec("h264", "libx264", options={"tune": "zerolatency", "g": "10", "bf": "0"}),
        )
    }
)

_CONTAINER = {
    # Fragments while open, so that a crash loses at most the last GOP; an ordinary file once closed.
    "movflags": "hybrid_fragmented+frag_keyframe",
    "flush_packets": "1",
    # No dates and no library versions: the same pictures give the same bytes.
    "fflags": "bitexact",
}
# Chroma is the mean of its 2x2 block, nearer to the picture than the default filter, and read at full width
# (0x4000, a flag that older versions of av do not name), which has a vectorised path: half the cost.
_BLOCK_MEAN = int(Interpolation.AREA) | 0x4000
_LIMITED = 1
_BT601 = 6


class VideoFile(NamedTuple):
    """A finished file: where it is, its frames and its size in bytes."""

    path: Path
    frames: int
    bytes: int


class VideoEncoder:
    """One colour video of one episode: 8-bit 4:2:0 in mp4, BT.601 limited range and tagged so.

    Frame ``k`` is shown at exactly ``k / fps``. A frame that cannot be written breaks the video for good, so
    a file that closes holds every picture it was given, in order.

    Attributes:
        path: The file being written. It is created at once, whatever its name ends in.
        frames: How many frames have been written.
    """

    def __init__(
        self,
        path: Path,
        *,
        width: int,
        height: int,
        fps: Fraction,
        codec: str = "h264",
        preset: str = "ultrafast",
        crf: int = 20,
    ) -> None:
        """Open the file and the encoder.

        Args:
            path: The file to write.
            width: Picture width in pixels, even.
            height: Picture height in pixels, even.
            fps: Frames per second, exact.
            codec: A key of `CODECS`.
            preset: The encoder's preset: speed against size.
            crf: Constant quality; lower is better and larger.

        Raises:
            VideoError: If a value cannot be encoded or the file cannot be made.
        """
        chosen = _known(codec)
        _check_even(width, height)
        self.path = path
        self.frames = 0
        self._time_base = 1 / _positive(fps)
        self._picture = _Picture(width, height, chosen.pix_fmt)
        self._fault: VideoError | None = None
        doing = f"cannot open {chosen.encoder} with {preset=}, {crf=}, {width}x{height} at {fps} fps: "
        self._container: OutputContainer | None = _create(path, doing)
        try:
            with naming(path, doing):
                options = {"preset": preset, "crf": str(crf), **chosen.options}
                self._stream = _add_stream(self._container, chosen, width, height, fps, options)
                # The header goes out with the first frame: a muxer that has only a header crashes when closed.
                self._stream.codec_context.open()
        except BaseException:
            self.abort()
            raise

    def write(self, rgb: NDArray[np.uint8], *, bottom_up: bool = False) -> None:
        """Add one picture.

        Args:
            rgb: ``(height, width, 3)`` uint8, in any memory layout. It is copied.
            bottom_up: Whether row 0 is the lowest line, as OpenGL has it.

        Raises:
            VideoError: If the picture is not of that shape and dtype, or cannot be written; the video takes
                no more after that.
        """
        container = self._whole()
        try:
            with naming(self.path, f"frame {self.frames}: "):
                self._picture.paint(rgb, bottom_up)
                container.mux(self._stream.encode(self._picture.at(self.frames, self._time_base)))
        except VideoError as error:
            self._fault = error
            raise
        self.frames += 1

    def close(self) -> VideoFile:
        """Finish the file, fsync it, and count its frames again from the disk.

        Raises:
            VideoError: If there is no frame, one was lost, or the file is not whole; the file is gone then.
        """
        try:
            container = self._whole()
            if not self.frames:
                raise VideoError(f"{self.path}: no frame was written; abort() a video without pictures")
            with naming(self.path):
                container.mux(self._stream.encode(None))
                container.close()
                sync_file(self.path)
            finished = self._verified()
        except BaseException:
            self.abort()
            raise
        self._container = None
        return finished

    def abort(self) -> None:
        """Give up: close quietly and remove the file. Does nothing to a video that is closed."""
        container, self._container = self._container, None
        if container is None:
            return
        with contextlib.suppress(Exception):
            container.close()
        with contextlib.suppress(OSError):
            self.path.unlink()

    def _whole(self) -> OutputContainer:
        if self._container is None:
            raise VideoError(f"{self.path}: the video is closed at {self.frames} frames; open another one")
        if self._fault is not None:
            raise VideoError(f"{self.path}: broken at frame {self.frames}; abort() it") from self._fault
        return self._container

    def _verified(self) -> VideoFile:
        info = probe(self.path)
        if info.frames != self.frames:
            raise VideoError(f"{self.path}: {self.frames} frames were written, the file holds {info.frames}")
        return VideoFile(self.path, info.frames, info.bytes)


class _Picture:
    """The RGB picture that every frame goes through, and its conversion; both reused, both in one thread."""

    def __init__(self, width: int, height: int, pix_fmt: str) -> None:
        self._frame = av.VideoFrame(width, height, "rgb24")
        plane = self._frame.planes[0]
        # The library pads lines to its own alignment; this view leaves the padding out.
        self._rgb: NDArray[np.uint8] = np.ndarray(
            (height, width, 3), np.uint8, buffer=memoryview(plane), strides=(plane.line_size, 3, 1)
        )
        self._pix_fmt = pix_fmt
        self._reformatter = VideoReformatter()

    def paint(self, rgb: NDArray[np.uint8], bottom_up: bool) -> None:
        """Copy a picture in, turned right side up, in one pass."""
        self._check(rgb)
        np.copyto(self._rgb, rgb[::-1] if bottom_up else rgb)

    def at(self, index: int, time_base: Fraction) -> av.VideoFrame:
        """Convert the picture, as frame ``index``."""
        frame = self._reformatter.reformat(
            self._frame,
            format=self._pix_fmt,
            dst_colorspace=Colorspace.ITU601,
            dst_color_range=ColorRange.MPEG,
            interpolation=_BLOCK_MEAN,
            **ONE_THREAD,
        )
        frame.pts = index
        frame.time_base = time_base
        return frame

    def _check(self, rgb: object) -> None:
        got = f"{rgb.dtype} of shape {rgb.shape}" if isinstance(rgb, np.ndarray) else type(rgb).__name__
        wanted = f"uint8 of shape {self._rgb.shape}"
        if got != wanted:
            raise ValueError(f"got {got}, expected {wanted}")


def _known(codec: str) -> Codec:
    if codec not in CODECS:
        raise VideoError(f"codec={codec!r}: unknown; known: {', '.join(sorted(CODECS))}")
    return CODECS[codec]


def _check_even(width: int, height: int) -> None:
    for name, pixels in (("width", width), ("height", height)):
        if pixels <= 0 or pixels % 2:
            raise VideoError(f"{name}={pixels}: 4:2:0 video needs a positive even number of pixels")


def _positive(fps: Fraction) -> Fraction:
    if fps <= 0:
        raise VideoError(f"fps={fps}: must be above 0")
    return Fraction(fps)


def _create(path: Path, doing: str) -> OutputContainer:
    with naming(path):
        path.open("wb").close()
    with naming(path, doing):
        # A whole path, so that no part of a name is read as a protocol.
        return av.open(os.path.abspath(path), "w", format="mp4", container_options=_CONTAINER)


def _add_stream(
    container: OutputContainer, codec: Codec, width: int, height: int, fps: Fraction, options: dict[str, str]
) -> VideoStream:
    sizes: dict[str, Any] = {"width": width, "height": height, "pix_fmt": codec.pix_fmt}
    stream = cast(VideoStream, container.add_stream(codec.encoder, rate=fps, options=options, **sizes))
    context = stream.codec_context
    context.time_base = 1 / fps
    context.thread_count = 1
    context.color_range = _LIMITED
    context.colorspace = context.color_primaries = context.color_trc = _BT601
    return stream
