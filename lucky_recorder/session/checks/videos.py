"""Checks of the videos: whole, of the size and rate declared, a frame for each tick due (spec: Video streams)."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from lucky_recorder.errors import FormatError, VideoError
from lucky_recorder.session.checks.declared import DeclaredStream, is_whole
from lucky_recorder.session.checks.evidence import Evidence, Fault, Listed, video_file
from lucky_recorder.session.layout import Place
from lucky_recorder.storage.untrusted import reason
from lucky_recorder.video.decode import FrameReader, VideoInfo, probe

See = Callable[[NDArray[Any]], object]

# Repeated on purpose: a check that used the writer's constants would not find a wrong one.
_DECODED_AS = ("yuv420p", "gray16le", "gray")
# LeRobot finds frames by time, within this much; Matroska keeps whole milliseconds.
_TIMING_S = {".mp4": 1e-4, ".mkv": 1e-3}
# Matroska keeps a rate as the whole nanoseconds of a frame.
_RATE_ERROR = {".mkv": Fraction(1, 10000)}


def check_videos(evidence: Evidence) -> Iterator[Fault]:
    """Check every video that ``meta/episodes`` names."""
    for episode in evidence.episodes:
        for stream in evidence.declared.streams.values():
            place = [episode.values.get(f"videos/{stream.key}/{part}_index") for part in ("chunk", "file")]
            if all(is_whole(number, 0, 999) for number in place):
                file = video_file(stream.key, Place(*place), stream.suffix)  # type: ignore[arg-type]
                for message in _video_faults(file, episode, stream, evidence):
                    yield Fault(file, episode.number, message)


def _video_faults(file: str, episode: Listed, stream: DeclaredStream, evidence: Evidence) -> Iterator[str]:
    video = decoded(file, evidence, stream.pix_fmt)
    if isinstance(video, str):
        yield video
        return
    yield from _header_faults(video, stream)
    declared = evidence.declared
    yield from frame_faults(video, stream.container, declared.is_ours)
    yield from box_faults(evidence.folder.path / file) if not stream.is_renamed else ()
    # Others stamp a rate into a file, and may capture at another (spec: info.json).
    if declared.is_ours and declared.hz and declared.robots:
        yield from count_faults("frames", video.frames, episode.length // declared.robots, declared.hz, stream.rate)
    ends = episode.values.get(f"videos/{stream.key}/to_timestamp")
    if not _is_time(ends, float(video.frames / stream.rate), declared.is_ours):
        yield f"to_timestamp is {ends}, its {video.frames} frames end at {float(video.frames / stream.rate)}"


def _is_time(found: object, expected: float, is_exact: bool) -> bool:
    """Tell whether a time is the one expected; of another writer's arithmetic, to the last digits."""
    if is_exact or not isinstance(found, float):
        return found == expected
    return math.isclose(found, expected, rel_tol=1e-9)


def decoded(file: str, evidence: Evidence, stored_as: object = None, see: See | None = None) -> VideoInfo | str:
    """Read a video, and decode every frame where that is asked for; or say why it cannot be read.

    Args:
        file: The video.
        evidence: The session.
        stored_as: Its pixel format, if it is known: nothing need be converted then.
        see: Called with each frame that is decoded.
    """
    path = evidence.folder.path / file
    try:
        evidence.folder.file(file)
        video = _decode(path, stored_as, see) if evidence.decode else probe(path)
    except FormatError as error:
        return reason(error, path)
    except VideoError as error:
        return f"cannot be read: {reason(error, path)}"
    evidence.frames += video.frames
    if evidence.decode:
        evidence.progress.advance(evidence.folder.size(file))
    return video


def _decode(path: Path, stored_as: object, see: See | None) -> VideoInfo:
    """Decode every frame; a frame that is broken or missing is an error."""
    with FrameReader(path, pixel_format=str(stored_as) if stored_as in _DECODED_AS else "rgb24") as frames:
        for frame in frames:
            if see is not None:
                see(frame)
        return frames.info


def _header_faults(video: VideoInfo, stream: DeclaredStream) -> Iterator[str]:
    said = {
        "width": (video.width, stream.width),
        "height": (video.height, stream.height),
        "codec": (video.codec, stream.codec),
        "pixel format": (video.pix_fmt, stream.pix_fmt),
    }
    for what, (found, expected) in said.items():
        if found != expected:
            yield f"{what} is {found}, info.json says {expected}"
    if not is_rate(video.fps, stream.rate, stream.container):
        yield f"frame rate is {video.fps}, info.json says {stream.rate}"


def is_rate(found: Fraction, expected: Fraction, suffix: str) -> bool:
    """Tell whether a file says a rate, as exactly as its kind of file can."""
    return abs(found - expected) <= expected * _RATE_ERROR.get(suffix, 0)


def frame_faults(video: VideoInfo, suffix: str, is_ours: bool) -> Iterator[str]:
    """Check what makes frames findable by index and by time; the format's page does not rule out B-frames."""
    if is_ours and video.has_b_frames:
        yield "has B-frames: frames are not stored in the order they are shown"
    if video.keyframes[0] != 0:
        yield f"its first {video.keyframes[0]} frames cannot be decoded: there is no keyframe before them"
    if video.timing_error > _TIMING_S.get(suffix, 0.0):
        yield f"frames are up to {video.timing_error:.6f} s away from their times"


def box_faults(path: Path) -> Iterator[str]:
    """Check that the boxes an mp4 file is made of fill it to the byte: a file that was cut off may still play."""
    size = path.stat().st_size if path.suffix == ".mp4" else 0
    end = 0
    with path.open("rb") as file:
        while end < size:
            file.seek(end)
            end += _box_bytes(file.read(16), size - end)
    if end > size:
        yield "was cut off: its last part is not whole"


def _box_bytes(header: bytes, rest: int) -> int:
    """Return a box's size; more than the ``rest`` of the file if it says nothing a box can be."""
    short, _, long = struct.unpack(">I4sQ", header.ljust(16, b"\0"))
    size = {0: rest, 1: long}.get(short, short)
    return int(size) if size >= 8 else rest + 1


def count_faults(what: str, count: int, ticks: int, hz: Fraction, rate: Fraction) -> Iterator[str]:
    """Check how many frames or scans an episode of ``ticks`` data ticks has."""
    low, high = frames_due(ticks, hz, rate)
    if not low <= count <= high:
        yield f"{count} {what}, expected {low if low == high else f'{low} to {high}'} for {ticks} ticks"


def frames_due(ticks: int, hz: Fraction, rate: Fraction) -> tuple[int, int]:
    """Return the fewest and the most frames of a stream in an episode of ``ticks`` data ticks.

    The two are the same wherever the stream's rate divides the data rate. A faster camera also takes pictures between
    two rows. How many follow the last row depends on the step in which the episode ended.
    """
    return math.floor((ticks - 1) * rate / hz) + 1, math.ceil(ticks * rate / hz)
