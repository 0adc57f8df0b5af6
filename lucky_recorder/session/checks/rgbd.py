"""Checks of the combined files: packet for packet what their colour and depth files hold (spec: Video streams)."""

from __future__ import annotations

from collections.abc import Iterator

from lucky_recorder.errors import FormatError, VideoError
from lucky_recorder.session.checks import unlisted
from lucky_recorder.session.checks.evidence import Evidence, Fault, video_file
from lucky_recorder.storage.untrusted import reason
from lucky_recorder.video.probe import tracks
from lucky_recorder.video.remux import COLOR_TRACK, DEPTH_TRACK, first_difference


def check_rgbd(evidence: Evidence) -> Iterator[Fault]:
    """Check the combined file of every episode that has colour and depth of such a camera."""
    for episode in evidence.episodes if evidence.declared.files_per_chunk else ():
        place = unlisted.video_place(evidence, episode)
        for file, color, depth in unlisted.combined(evidence, episode):
            if file not in evidence.files:
                if episode.values.get("success") is True:
                    yield Fault(file, episode.number, "is missing, and yet success is true")
                continue
            sources = video_file(color.key, place, color.suffix), video_file(depth.key, place, depth.suffix)
            for message in combined_faults(file, *sources, evidence):
                yield Fault(file, episode.number, message)


def combined_faults(file: str, color: str, depth: str, evidence: Evidence) -> Iterator[str]:
    """Check that a file has two tracks, and that each is the copy of its source."""
    path = evidence.folder.path / file
    try:
        found = tracks(evidence.folder.file(file))
        if len(found) != 2:
            yield f"holds {len(found)} tracks of video, expected colour and depth"
            return
        for track, source in ((COLOR_TRACK, color), (DEPTH_TRACK, depth)):
            yield from _copy_faults(file, track, source, evidence)
    except FormatError as error:
        yield reason(error, path)
    except VideoError as error:
        yield f"cannot be read: {reason(error, path)}"


def _copy_faults(file: str, track: int, source: str, evidence: Evidence) -> Iterator[str]:
    # A source that is missing or broken is a fault of its own.
    try:
        original = evidence.folder.file(source)
        tracks(original)
    except (FormatError, VideoError):
        return
    packet = first_difference(evidence.folder.path / file, track, original)
    if packet is not None:
        yield f"track {track} is no copy of {source}: packet {packet} differs"
