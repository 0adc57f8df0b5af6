"""What the rules look at: a session's files, and what its videos' headers say."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from lucky_recorder.episode import keys
from lucky_recorder.errors import FormatError, VideoError
from lucky_recorder.session.checks.declared import DeclaredStream, rate
from lucky_recorder.session.checks.evidence import Evidence, Listed, video_file
from lucky_recorder.session.layout import Place
from lucky_recorder.storage.untrusted import reason
from lucky_recorder.video.probe import VideoInfo, probe


class ProbedVideo(NamedTuple):
    """What one video of an episode turns out to be; no header where it cannot be read, and the fault."""

    episode: Listed
    stream: DeclaredStream
    file: str
    header: VideoInfo | None
    fault: str


class ProbedSession:
    """A session's files, and what its videos' headers say, each read once."""

    def __init__(self, path: Path) -> None:
        self.evidence = Evidence(path, decode=False)
        self.info: dict[str, Any] = self.evidence.info or {}
        self.declared = self.evidence.declared
        self.fps = rate(self.info.get("fps"))
        self.streams = [s for s in self.declared.streams.values() if is_taken(s)]
        self.videos = [self._probed(e, s) for e in self.evidence.episodes for s in self.streams]

    def _probed(self, episode: Listed, stream: DeclaredStream) -> ProbedVideo:
        numbers = [episode.values.get(keys.video_column(stream.key, f"{part}_index")) for part in ("chunk", "file")]
        if not all(type(n) is int for n in numbers):
            why = f"episode {episode.number} has no video of {stream.key}"
            return ProbedVideo(episode, stream, episode.source, None, why)
        file = video_file(stream.key, Place(*numbers), ".mp4")  # type: ignore[arg-type]
        try:
            return ProbedVideo(episode, stream, file, probe(self.evidence.folder.file(file)), "")
        except (FormatError, VideoError) as error:
            return ProbedVideo(episode, stream, file, None, reason(error, self.evidence.folder.path / file))


def is_taken(stream: DeclaredStream) -> bool:
    """Tell whether LeRobot can take a stream for pictures at all."""
    return stream.is_quantised if stream.is_depth else stream.codec in keys.VIDEO_FORMATS
