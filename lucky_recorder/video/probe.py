"""Probing: what a video file holds, told from its packets alone. Nothing is decoded here."""

from __future__ import annotations

import contextlib
import itertools
import operator
import os
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import av
from av.container import InputContainer
from av.video.stream import VideoStream

from lucky_recorder.episode import limits
from lucky_recorder.errors import LuckyRecorderError, VideoError
from lucky_recorder.files import open_file
from lucky_recorder.video.codecs import CODECS, LOSSLESS_PROFILE

# Files may come from anywhere: no playlist, no script, no address is followed, whatever the file's name says.
_SAFE = {"protocol_whitelist": "file", "format_whitelist": "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm"}
# What a decoder refuses by itself, also where a picture in the middle says that it is larger than the first.
_BOUNDED = {"max_pixels": str(limits.MOST_PIXELS)}
# What is checked beside: the checksums that files and codecs carry, and that there is nothing to be forgiven.
_STRICT = {"err_detect": "crccheck+bitstream+buffer+explode"}

# How a reformatter is told to keep to its caller's thread; before av 17 it did nothing else.
ONE_THREAD: dict[str, Any] = {"threads": 1} if int(av.__version__.split(".")[0]) >= 17 else {}


class VideoInfo(NamedTuple):
    """What one video file holds: all that a check compares, read in one go.

    Attributes:
        codec: The codec's name as ``info.json`` has it: ``h264``, ``ffv1``…
        pix_fmt: The stored pixel format: ``yuv420p``, ``gray16le``, or ``yuvj420p`` if it is full range.
        width: Picture width in pixels.
        height: Picture height in pixels.
        fps: The frame rate, exact.
        frames: How many frames there are.
        bytes: The file's size.
        color_range: 1 is limited (16..235), 2 is full, 0 is untagged.
        colorspace: The YUV matrix; 6 is BT.601, 2 is untagged.
        color_primaries: 6 is BT.601, 2 is untagged.
        color_trc: The transfer curve; 6 is BT.601, 2 is untagged.
        has_b_frames: 0 if frames are stored in the order they are shown.
        keyframes: Indices of the frames that decode on their own.
        timing_error: The largest distance, in seconds, of a frame ``k`` from ``k / fps``.
        profile: The codec's profile, empty if it has none.
    """

    codec: str
    pix_fmt: str
    width: int
    height: int
    fps: Fraction
    frames: int
    bytes: int
    color_range: int
    colorspace: int
    color_primaries: int
    color_trc: int
    has_b_frames: int
    keyframes: tuple[int, ...]
    timing_error: float
    profile: str = ""

    @property
    def holds_labels(self) -> bool:
        """Whether the pixels are label ids: lossless H.264 of full range with 4:2:0 chroma."""
        mask = CODECS["mask"]
        return (self.codec, self.profile, self.pix_fmt) == (mask.name, LOSSLESS_PROFILE, mask.pix_fmt)


class FrameIndex(NamedTuple):
    """Where the frames are: ``pts[k]`` is the integer time of frame ``k``, in the order of showing."""

    pts: Sequence[int]
    keyframes: Sequence[int]

    def keyframe_before(self, index: int) -> int:
        """Return the last keyframe at or before frame ``index``."""
        return self.keyframes[max(bisect_right(self.keyframes, index) - 1, 0)]

    def number_of(self, pts: int | None) -> int:
        """Return the frame shown at a time, -1 if there is none."""
        index = -1 if pts is None else bisect_left(self.pts, pts)
        return index if 0 <= index < len(self.pts) and self.pts[index] == pts else -1


class Contents(NamedTuple):
    """What was found in a file, for those who open it again: where the frames are, and what `probe` says of it."""

    frames: FrameIndex
    info: VideoInfo


def probe(path: Path, track: int = 0) -> VideoInfo:
    """Count and describe the frames of one of a file's video tracks without decoding any.

    Raises:
        VideoError: If there is no such file or track, it is no video that can be read, or it holds no frame.
    """
    container, stream = open_video(path, track)
    with container:
        return describe(path, stream, index_frames(path, container, stream))


def tracks(path: Path) -> tuple[VideoInfo, ...]:
    """Probe every video track of a file, in their order.

    Raises:
        VideoError: If one of them cannot be read, or there is none.
    """
    container, _ = open_video(path)
    with container:
        count = len(container.streams.video)
    return tuple(probe(path, track) for track in range(count))


def open_video(path: Path, track: int = 0, *, is_strict: bool = False) -> tuple[InputContainer, VideoStream]:
    """Open one of a file's video tracks for reading, one thread.

    Args:
        path: The file.
        track: Which of its video tracks.
        is_strict: Whether checksums are compared, and what could be passed over is an error.

    Raises:
        VideoError: If there is no such file, or no such video in it that can be read.
    """
    more = _STRICT if is_strict else {}
    with video_errors(path):
        # Here, since a named pipe would make the library wait.
        os.close(open_file(path))
        # A whole path: of a:b.mp4 alone, the library would take a for a protocol.
        container = av.open(os.path.abspath(path), "r", options=_BOUNDED, container_options=_SAFE | more)
    try:
        stream = _video_track(path, container, track)
        _refuse_large(path, stream)
        stream.codec_context.options = _BOUNDED | more
    except BaseException:  # also an interrupt: the file must not stay open
        container.close()
        raise
    stream.thread_count = 1
    return container, stream


def _refuse_large(path: Path, stream: VideoStream) -> None:
    """Refuse what would take gigabytes, by the header: nothing is decoded yet."""
    context = stream.codec_context
    if context.width * context.height > limits.MOST_PIXELS:
        size = f"{context.width}x{context.height}"
        raise VideoError(f"{path}: pictures of {size}; at most {limits.MOST_PIXELS} pixels are read")
    if stream.frames > limits.MOST_FRAMES:
        raise VideoError(f"{path}: {stream.frames} frames; at most {limits.MOST_FRAMES} are read")


def index_frames(path: Path, container: InputContainer, stream: VideoStream) -> FrameIndex:
    """Read all packets once and put their times in order.

    Raises:
        VideoError: If there is no packet, no keyframe to begin at, or two frames share one time.
    """
    with video_errors(path):
        # The last packet has no bytes; it only tells a decoder that there are no more.
        # One more than there may be tells a file that has too many, and its empty packets need not end.
        demuxed = list(itertools.islice(_packets(container, stream), limits.MOST_FRAMES + 2))
    if len(demuxed) > limits.MOST_FRAMES + 1:
        raise VideoError(f"{path}: more than {limits.MOST_FRAMES} frames; no more are read")
    packets = [(pts, is_key) for pts, is_key, size in demuxed if size]
    timed = sorted((pts, is_key) for pts, is_key in packets if pts is not None)
    pts = tuple(time for time, _ in timed)
    keyframes = tuple(k for k, (_, is_key) in enumerate(timed) if is_key)
    if len(set(pts)) < len(packets):
        raise VideoError(f"{path}: {len(packets)} frames have only {len(set(pts))} times between them")
    if not keyframes:
        raise VideoError(f"{path}: holds no keyframe, so none of its {len(pts)} frames can be decoded")
    return FrameIndex(_compact(pts), _compact(keyframes))


def _packets(container: InputContainer, stream: VideoStream) -> Iterator[tuple[int | None, bool, int]]:
    return ((p.pts, p.is_keyframe, p.size) for p in container.demux(stream))


def _compact(numbers: tuple[int, ...]) -> Sequence[int]:
    """Return evenly spaced numbers as a range, so that an index that is kept takes the same memory at any length."""
    if len(numbers) < 2 or numbers[1] <= numbers[0]:
        return numbers
    evenly = range(numbers[0], numbers[-1] + 1, numbers[1] - numbers[0])
    return evenly if len(evenly) == len(numbers) and all(map(operator.eq, evenly, numbers)) else numbers


def describe(path: Path, stream: VideoStream, index: FrameIndex) -> VideoInfo:
    """Put into words what a stream's header and its index say."""
    context = stream.codec_context
    fps = _fraction(stream.average_rate) or _fraction(stream.guessed_rate)
    if not fps or not context.pix_fmt or not stream.time_base:
        raise VideoError(f"{path}: header with {fps or 'no'} fps and pixel format {context.pix_fmt}")
    return VideoInfo(
        # The context's own name is its decoder's, which differs for AV1.
        codec=context.codec.canonical_name,
        pix_fmt=context.pix_fmt,
        width=context.width,
        height=context.height,
        fps=fps,
        frames=len(index.pts),
        bytes=path.stat().st_size,
        color_range=int(context.color_range),
        colorspace=int(context.colorspace),
        color_primaries=int(context.color_primaries),
        color_trc=int(context.color_trc),
        has_b_frames=int(context.has_b_frames),
        keyframes=tuple(index.keyframes),
        timing_error=_timing_error(index.pts, _fraction(stream.time_base), fps),
        profile=context.profile or "",
    )


@contextlib.contextmanager
def video_errors(path: Path, doing: str = "") -> Iterator[None]:
    """Turn what the codec library or the file system says into a `VideoError` that names the file."""
    try:
        yield
    # Our own errors are OSErrors or ValueErrors too, and name the file already: they are not wrapped a second time.
    except LuckyRecorderError:
        raise
    except (av.FFmpegError, OSError, ValueError, RuntimeError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        named = VideoError(f"{path}: {doing}{reason}")
        named.errno = getattr(error, "errno", None)
        raise named from error


def _video_track(path: Path, container: InputContainer, track: int) -> VideoStream:
    found = container.streams.video
    if not found:
        raise VideoError(f"{path}: holds no video stream")
    if not 0 <= track < len(found):
        raise VideoError(f"{path}: track={track}: it holds {len(found)} of video, counted from 0")
    # The library's types say that there always is one, but there is none where no decoder knows the codec.
    if getattr(found[track], "codec_context", None) is None:
        raise VideoError(f"{path}: its codec is none that av {av.__version__} can decode")
    return found[track]


def _fraction(rational: object) -> Fraction:
    """Make a Fraction of whichever rational type the installed av has; 0 of none."""
    denominator = getattr(rational, "denominator", 0)
    return Fraction(getattr(rational, "numerator", 0), denominator) if denominator else Fraction(0)


def _timing_error(pts: Sequence[int], time_base: Fraction, fps: Fraction) -> float:
    # Of evenly spaced frames none is farther away than the first or the last.
    looked_at = {0: pts[0], len(pts) - 1: pts[-1]}.items() if isinstance(pts, range) else enumerate(pts)
    # Whole numbers, by a factor that is the same for all: fractions one by one take longer than to read the file.
    ours, due = time_base.numerator * fps.numerator, time_base.denominator * fps.denominator
    apart = max(abs(time * ours - k * due) for k, time in looked_at)
    return float(Fraction(apart, time_base.denominator * fps.numerator))
