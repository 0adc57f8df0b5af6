"""Where an episode can begin anew without encoding its videos again: at ticks at which every one has a keyframe."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

from lucky_recorder.edit.source import Source
from lucky_recorder.edit.streams import file_of, scans_of
from lucky_recorder.errors import VideoError
from lucky_recorder.session.reader import Session
from lucky_recorder.video.probe import VideoInfo, probe

__all__ = ["Starts"]


class Starts:
    """Where the episodes of a session can begin.

    Args:
        session: The session.
    """

    def __init__(self, session: Session) -> None:
        self._source = Source(session.path)

    def of(self, index: int) -> list[int]:
        """Return the ticks at which an episode can begin, 0 first.

        Raises:
            VideoError: If a video of it cannot be read, or has B-frames, so that it can be cut nowhere.
        """
        source, schema = self._source, self._source.schema
        episode = source.episode(index)
        found = set(range(episode.data_ticks))
        for stream in schema.streams:
            path = file_of(source, episode, stream)
            if path is not None:
                found &= _at(_probed(path), stream.rate / schema.hz)
        for scan in schema.scans:
            every = scan.rate / schema.hz
            if scans_of(source, episode, scan, ".parquet") is not None:
                found &= {tick for tick in found if (tick * every).denominator == 1}
            proxy = scans_of(source, episode, scan, ".mp4")
            if proxy is not None:
                found &= _at(_probed(source.path / proxy), every)
        return sorted(found)


def _at(video: VideoInfo, frames_per_tick: Fraction) -> set[int]:
    """Return the ticks at which a video has a keyframe."""
    ticks = (index / frames_per_tick for index in video.keyframes)
    return {int(tick) for tick in ticks if tick.denominator == 1}


def _probed(path: Path) -> VideoInfo:
    video = probe(path)
    if video.has_b_frames:
        raise VideoError(f"{path}: has B-frames: it cannot be cut without encoding it again")
    return video
