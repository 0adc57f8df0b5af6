"""The encoder: one video of one episode, a picture at a time, safe up to its last keyframe."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any, cast

import av
from av.container import OutputContainer
from av.video.stream import VideoStream
from numpy.typing import NDArray

from lucky_recorder.episode import limits
from lucky_recorder.episode.keys import H264
from lucky_recorder.episode.record import VideoFile
from lucky_recorder.errors import VideoError
from lucky_recorder.files import make_file
from lucky_recorder.storage.space import told_space
from lucky_recorder.storage.write import sync_file
from lucky_recorder.video import priority
from lucky_recorder.video.codecs import Codec, known
from lucky_recorder.video.frames import Frame
from lucky_recorder.video.probe import probe, video_errors

CONTAINERS: Mapping[str, Mapping[str, str]] = {
    # Fragments while open, so that a crash loses at most the last GOP; an ordinary file once closed.
    "mp4": {"movflags": "hybrid_fragmented+frag_keyframe", "flush_packets": "1", "fflags": "bitexact"},
    # Small clusters to the same end. bitexact: no dates and no versions, so the same pictures give the same bytes.
    "matroska": {"cluster_time_limit": "200", "flush_packets": "1", "fflags": "bitexact"},
}


class VideoEncoder:
    """One video of one episode: colours, depth codes or label ids, as its codec takes and stores them.

    Colours become 8-bit 4:2:0, BT.601 limited range and tagged so; depth codes and label ids stay exact.
    Frame ``k`` is shown at exactly ``k / fps`` in .mp4, at the nearest millisecond in .mkv. A frame that cannot
    be written breaks the video for good, so a file that closes holds every picture it was given, in order.

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
        codec: str = H264,
        preset: str = "ultrafast",
        crf: int | None = None,
    ) -> None:
        """Open the file and the encoder.

        Args:
            path: The file to write.
            width: Picture width in pixels, even unless the codec is ``ffv1``.
            height: Picture height in pixels, as the width.
            fps: Frames per second, exact.
            codec: A key of `lucky_recorder.video.codecs.CODECS`.
            preset: Speed against size, by x264's names; a lossless codec has none to choose.
            crf: Constant quality in the encoder's own measure; lower is better and larger. None is the codec's own.

        Raises:
            VideoError: If a value cannot be encoded or the file cannot be made.
        """
        chosen = known(codec)
        _check_size(chosen, width, height)
        _check_rate(chosen, fps)
        options = chosen.settings(preset, crf)
        self.path = path
        self.frames = 0
        self._time_base = 1 / Fraction(fps)
        self._frame = Frame(chosen, width, height)
        self._fault: VideoError | None = None
        doing = f"cannot open {chosen.encoder} with {_described(chosen, options)}{width}x{height} at {fps} fps: "
        self._container: OutputContainer | None = _create(path, chosen, doing)
        try:
            with video_errors(path, doing):
                self._stream = add_stream(self._container, chosen, width, height, fps, options)
        except BaseException:  # also an interrupt: half a file must not stay behind
            self.abort()
            raise

    def write(self, pixels: NDArray[Any], *, bottom_up: bool = False) -> None:
        """Add one picture.

        Args:
            pixels: ``(height, width, 3)`` uint8 of colours, ``(height, width)`` uint16 of depth codes or uint8 of
                label ids, as the codec takes it, in any memory layout. It is copied.
            bottom_up: Whether row 0 is the lowest line, as OpenGL has it.

        Raises:
            VideoError: If the picture is not of that shape and dtype, or cannot be written; the video takes
                no more after that.
        """
        container = self._whole()
        try:
            with told_space(self.path), video_errors(self.path, f"frame {self.frames}: "):
                self._frame.paint(pixels, bottom_up)
                container.mux(self._stream.encode(self._frame.at(self.frames, self._time_base)))
        except VideoError as error:
            self._fault = error
            raise
        self.frames += 1

    def close(self) -> VideoFile:
        """Finish the file, fsync it, and count its frames again from the disk.

        Raises:
            VideoError: If there is no frame, one was lost, or the file is not whole; the file is gone then.
        """
        # The frames are counted from the disk, after the fsync. A frame that the encoder or the muxer has lost is found
        # here, before anyone relies on "row i is frame i".
        try:
            container = self._whole()
            if not self.frames:
                raise VideoError(f"{self.path}: no frame was written; abort() a video without pictures")
            with told_space(self.path), video_errors(self.path):
                container.mux(self._stream.encode(None))
                container.close()
                sync_file(self.path)
            finished = self._verified()
        except BaseException:  # also an interrupt: half a file must not stay behind
            self.abort()
            raise
        self._container = None
        return finished

    def abort(self) -> None:
        """Give up: close quietly and remove the file. Does nothing to a video that is closed."""
        container, self._container = self._container, None
        if container is None:
            return
        # The video is given up already: whatever the library still says of it would only hide the first error.
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


def add_stream(
    container: OutputContainer, codec: Codec, width: int, height: int, fps: Fraction, options: dict[str, str]
) -> VideoStream:
    """Add a stream to a file and open its encoder; the header goes out with the first frame.

    A muxer that has only a header crashes when it is closed.
    """
    sizes: dict[str, Any] = {"width": width, "height": height, "pix_fmt": codec.pix_fmt}
    stream = cast(VideoStream, container.add_stream(codec.encoder, rate=fps, options=options, **sizes))
    context = stream.codec_context
    context.time_base = 1 / fps
    # One thread: the same pictures give the same bytes on any machine, and the simulation keeps the other cores.
    context.thread_count = 1
    if codec.tag:
        context.codec_tag = codec.tag
    if codec.colors is not None:
        context.color_range = codec.colors.range
        context.colorspace = context.color_primaries = context.color_trc = codec.colors.standard
    # Only the process's environment keeps these libraries from printing. A variable that the user has set stays.
    for variable, value in codec.environment.items():
        os.environ.setdefault(variable, value)
    # Now, and not with the first frame: what the encoder refuses shows before anything is recorded.
    with priority.kept():
        context.open()
    return stream


def _described(codec: Codec, options: Mapping[str, str]) -> str:
    """Name what was chosen of the options."""
    if codec.lossless:
        return ""
    return f"preset={options['preset']!r}, {codec.quality}={options[codec.quality]}, "


def _check_size(codec: Codec, width: int, height: int) -> None:
    for name, pixels in (("width", width), ("height", height)):
        if codec.subsampled and (pixels <= 0 or pixels % 2):
            raise VideoError(f"{name}={pixels}: 4:2:0 video needs a positive even number of pixels")
        # Four slices do not fit into less: the encoder would not open, with an error that names no size.
        if pixels < 2:
            raise VideoError(f"{name}={pixels}: {codec.key} needs 2 pixels or more")
    if width * height > limits.MOST_PIXELS:
        raise VideoError(f"{width}x{height}: at most {limits.MOST_PIXELS} pixels, which is what readers take")


def _check_rate(codec: Codec, fps: Fraction) -> None:
    if fps <= 0:
        raise VideoError(f"fps={fps}: must be above 0")
    if codec.fastest is not None and fps > codec.fastest:
        raise VideoError(f"fps={fps}: {codec.key} in {codec.suffix} goes up to {codec.fastest}; lower the frame rate")


def _create(path: Path, codec: Codec, doing: str) -> OutputContainer:
    with video_errors(path):
        # The library opens the file only when it writes the header, with the first frame. Made here, a missing folder
        # shows at once.
        make_file(path)
    with video_errors(path, doing):
        options = dict(CONTAINERS[codec.container])
        # A whole path: of a:b.mp4 alone, the library would take a for a protocol.
        return av.open(os.path.abspath(path), "w", format=codec.container, container_options=options)
