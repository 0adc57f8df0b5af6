"""Some frames of a video as a file of their own, packet by packet and without encoding again."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import av

from lucky_recorder.episode.record import VideoFile
from lucky_recorder.errors import VideoError
from lucky_recorder.files import make_file
from lucky_recorder.storage.space import told_space
from lucky_recorder.storage.write import sync_file
from lucky_recorder.video.encoder import CONTAINERS
from lucky_recorder.video.probe import VideoInfo, open_video, probe, video_errors

_FORMATS = {".mp4": "mp4", ".mkv": "matroska"}


def cut(source: Path, target: Path, first: int, count: int, suffix: str) -> VideoFile:
    """Copy some frames of a video into a file of their own, fsync it, and count them from the disk.

    Frame ``k`` of it is at ``k / fps``. Where it ends makes no difference; it must begin at a keyframe.

    Args:
        source: The video.
        target: The file to write, whatever its name ends in.
        first: The index of the first frame.
        count: How many.
        suffix: ``.mp4`` or ``.mkv``, the kind of file that it is.

    Raises:
        VideoError: If the video cannot be read, has not these frames or B-frames, or its frame ``first`` is not one
            that decodes on its own; there is no ``target`` then.
    """
    info = probe(source)
    _refuse(source, info, first, count)
    try:
        with told_space(target, info.bytes):
            _copy(source, target, info, range(first, first + count), suffix)
            with video_errors(target):
                sync_file(target)
        found = probe(target)
        if found.frames != count:
            raise VideoError(f"{target}: {count} frames were written, the file holds {found.frames}")
    except BaseException:  # also an interrupt: half a file must not stay behind
        with contextlib.suppress(OSError):
            target.unlink()
        raise
    return VideoFile(target, count, found.bytes)


def _refuse(source: Path, info: VideoInfo, first: int, count: int) -> None:
    if info.has_b_frames:
        raise VideoError(f"{source}: has B-frames: it cannot be cut without encoding it again")
    if first not in info.keyframes:
        near = min(info.keyframes, key=lambda k: abs(k - first))
        raise VideoError(f"{source}: frame {first} is no keyframe, so it cannot begin there; the nearest is {near}")
    if not 0 < count <= info.frames - first:
        raise VideoError(f"{source}: {count} frames from {first} on: it has {info.frames}")


def _copy(source: Path, target: Path, info: VideoInfo, wanted: range, suffix: str) -> None:
    container, stream = open_video(source)
    kind = _FORMATS[suffix]
    with container, video_errors(target, "cannot cut: "):
        make_file(target)
        options = dict(CONTAINERS[kind])
        with av.open(os.path.abspath(target), "w", format=kind, container_options=options) as written:
            copy = written.add_stream_from_template(stream, opaque=True)
            copy.codec_context.framerate = info.fps
            packets = (packet for packet in container.demux(stream) if packet.size)
            for index, packet in enumerate(packets):
                if index in wanted:
                    packet.stream = copy
                    packet.time_base = 1 / info.fps
                    # Both the same: without B-frames, frames are stored in the order they are shown.
                    packet.pts = packet.dts = index - wanted.start
                    packet.duration = 1
                    written.mux(packet)
