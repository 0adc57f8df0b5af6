"""Colour and depth of a camera in one file, packet by packet and without encoding again (spec: Video streams, RGBD)."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import av
from av.container import InputContainer
from av.packet import Packet
from av.video.stream import VideoStream

from lucky_recorder.errors import VideoError
from lucky_recorder.files import make_file
from lucky_recorder.storage.space import told_space
from lucky_recorder.storage.write import sync_file
from lucky_recorder.video.probe import VideoInfo, open_video, probe, tracks, video_errors

COLOR_TRACK = 0
DEPTH_TRACK = 1

# Matroska stores the length of a frame in nanoseconds, and readers guess the rate from that.
_TOLERANCE = {"fps": Fraction(1, 10000)}


def combine(color: Path, depth: Path, target: Path) -> None:
    """Copy a colour and a depth video into one Matroska file, fsync it, and count both tracks from the disk.

    Frame ``k`` of either track is at ``k / fps``, to the nearest millisecond. The same files give the same bytes.
    With av before version 18 the header states no frame rate, and whoever asks for it gets a guess.

    Args:
        color: The colour video; it becomes track 0.
        depth: The depth video; it becomes track 1.
        target: The file to write, whatever its name ends in; one that is there is overwritten.

    Raises:
        VideoError: If a file cannot be read or written, or the two differ in frames, rate or size; there is no
            ``target`` then.
    """
    one, other = probe(color), probe(depth)
    _check_alike(color, one, depth, other)
    try:
        with told_space(target, one.bytes + other.bytes):
            _copy((color, depth), target, one.fps)
            with video_errors(target):
                sync_file(target)
        _check_counts(target, one.frames)
    except BaseException:  # also an interrupt: half a file must not stay behind
        with contextlib.suppress(OSError):
            target.unlink()
        raise


def first_difference(path: Path, track: int, source: Path) -> int | None:
    """Compare a track's packets with those of the file it was copied from.

    Returns:
        The index of the first packet that differs or that only one of them has; None if they are equal.

    Raises:
        VideoError: If one of them cannot be read.
    """
    pairs = itertools.zip_longest(_payloads(path, track), _payloads(source, 0))
    return next((k for k, (copy, original) in enumerate(pairs) if copy != original), None)


def _copy(sources: tuple[Path, Path], target: Path, fps: Fraction) -> None:
    with contextlib.ExitStack() as opened, video_errors(target, "cannot combine: "):
        originals = [opened.enter_context(_opened(source)) for source in sources]
        options = {"fflags": "bitexact"}
        make_file(target)
        with av.open(os.path.abspath(target), "w", format="matroska", container_options=options) as container:
            # Opaque: copied from the decoder's context, since some codecs that can be read have no encoder of the name.
            copies = [container.add_stream_from_template(stream, opaque=True) for _, stream in originals]
            for copy in copies:
                copy.codec_context.framerate = fps
            for k, packets in enumerate(zip(*(_packets(*original) for original in originals), strict=True)):
                for packet, copy in zip(packets, copies, strict=True):
                    _place(packet, copy, k, fps)
                    container.mux(packet)


def _place(packet: Packet[VideoStream], copy: VideoStream, index: int, fps: Fraction) -> None:
    packet.stream = copy
    packet.time_base = 1 / fps
    # Both the same: files with B-frames were refused, so frames are stored in the order they are shown.
    packet.pts = packet.dts = index
    packet.duration = 1


@contextlib.contextmanager
def _opened(path: Path, track: int = 0) -> Iterator[tuple[InputContainer, VideoStream]]:
    container, stream = open_video(path, track)
    with container:
        yield container, stream


def _packets(container: InputContainer, stream: VideoStream) -> Iterator[Packet[VideoStream]]:
    return (packet for packet in container.demux(stream) if packet.size)


def _payloads(path: Path, track: int) -> Iterator[bytes]:
    with _opened(path, track) as original, video_errors(path):
        yield from map(bytes, _packets(*original))


def _check_alike(color: Path, one: VideoInfo, depth: Path, other: VideoInfo) -> None:
    for what in ("frames", "fps", "width", "height"):
        mine, theirs = getattr(one, what), getattr(other, what)
        if abs(theirs - mine) > mine * _TOLERANCE.get(what, 0):
            raise VideoError(f"{depth}: {what}={theirs}, but {mine} in {color}")
    for path, info in ((color, one), (depth, other)):
        if info.has_b_frames:
            raise VideoError(f"{path}: frames are not stored in the order they are shown; record it without B-frames")


def _check_counts(target: Path, frames: int) -> None:
    counts = [info.frames for info in tracks(target)]
    if counts != [frames, frames]:
        raise VideoError(f"{target}: two tracks of {frames} frames were written, the file holds {counts}")
