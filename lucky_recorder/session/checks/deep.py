"""Looking at every file there is, whether an episode names it or not: each page, each frame of each track, each sum."""

from __future__ import annotations

from collections.abc import Iterator

from lucky_recorder.session.checks.evidence import SUMS, Evidence, Fault
from lucky_recorder.storage.checksums import Sums
from lucky_recorder.video import strict

_FOLDERS = ("data", "meta", "videos")


def expect(evidence: Evidence, is_deep: bool) -> None:
    """Say how many bytes the long parts of a check will go through: rows, decoding, once or twice, and the sums."""
    videos = sum(map(evidence.folder.size, _videos(evidence)))
    rows = sum(map(evidence.folder.size, evidence.data_files))
    sums = Sums(evidence.folder, SUMS)
    evidence.progress.expect(rows + videos * (evidence.decode + is_deep) + sums.expected_bytes())


def check_checksums(evidence: Evidence) -> Iterator[Fault]:
    """Compare every file with ``meta/checksums.json``, where there is one."""
    sums = Sums(evidence.folder, SUMS)
    if sums.is_there():
        for file, message in sums.differences(evidence.progress):
            yield Fault(file, None, message)


def check_everything(evidence: Evidence) -> Iterator[Fault]:
    """Read every table and every JSON file to its end, and decode every video without forgiving anything."""
    for file in _files(evidence):
        # What cannot be read is told by `check_unreadable`.
        evidence.read(file, evidence.folder.read_through)
    for file, message in strict.look(evidence.folder, _videos(evidence), evidence.progress):
        yield Fault(file, None, message)


def _files(evidence: Evidence) -> list[str]:
    return [file for folder in _FOLDERS for file in evidence.under(folder)]


def _videos(evidence: Evidence) -> list[str]:
    return [file for file in _files(evidence) if file.endswith((".mp4", ".mkv"))]
