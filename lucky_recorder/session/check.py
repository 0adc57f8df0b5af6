"""Checking a session: everything the format says, against the files themselves. What is verified is in ``checks/``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from lucky_recorder.session.checks import (
    about,
    alone,
    deep,
    episodes,
    features,
    info,
    lidars,
    masks,
    pieces,
    provenance,
    rgbd,
    rows,
    states,
    stats,
    strays,
    tasks,
    videos,
    workers,
)
from lucky_recorder.session.checks.evidence import Evidence, Fault
from lucky_recorder.session.folder import refuse_other_folders
from lucky_recorder.session.rowless import is_video_only
from lucky_recorder.settings import validators as v
from lucky_recorder.storage.lock import is_held
from lucky_recorder.storage.spread import Progress, Tell

__all__ = ["Fault", "Report", "check_session", "inspect_session"]

_MOST_WORKERS = 1024
Check = Callable[[Evidence], Iterator[Fault]]

# What `pieces.EACH` names is looked at in pieces, and told in this order all the same.
CHECKS: tuple[Check, ...] = (
    strays.check_missing,
    info.check_fields,
    info.check_sums,
    features.check_features,
    tasks.check_tasks,
    episodes.check_meta_files,
    episodes.check_rows,
    episodes.check_footers,
    about.check_about,
    rows.check_data_files,
    stats.check_streams,
    videos.check_videos,
    rgbd.check_rgbd,
    masks.check_masks,
    lidars.check_lidars,
    states.check_models,
    states.check_states,
    provenance.check_provenance,
    strays.check_strays,
    deep.check_checksums,
)
VIDEO_ONLY_CHECKS: tuple[Check, ...] = (
    alone.check_videos_alone,
    alone.check_lidars_alone,
    deep.check_checksums,
)


class Report(NamedTuple):
    """What a check found and how much it looked at.

    Attributes:
        faults: Everything that is not as the format says; none in a good session.
        episodes: Episodes that ``meta/episodes`` lists.
        rows: Their rows.
        frames: Video frames decoded, or counted.
        is_video_only: Whether the session was recorded without rows.
        is_in_progress: Whether it was being recorded: what ``meta/`` does not list yet is a fault only later.
    """

    faults: list[Fault]
    episodes: int
    rows: int
    frames: int
    is_video_only: bool
    is_in_progress: bool = False


def check_session(path: str | Path, decode: bool = True, deep: bool = False, workers: int = 1) -> list[Fault]:
    """Check a session folder; it is only read, however broken it is.

    Where there is a ``meta/checksums.json``, every file is compared with it in any case.

    Args:
        path: The session's folder.
        decode: Decode every frame of every video; without it, frames are only counted.
        deep: Also read and decode every file that no episode names and every track, forgive nothing that a decoder
            would make up, and take what it says for faults.
        workers: Processes that look at episodes; the same is found by any number of them. They are spawned: in a
            script, call it below ``if __name__ == "__main__":``.

    Returns:
        The faults, each with its file and episode; an empty list for a good session.

    Raises:
        FormatError: If the folder is no session at all.
        WorkerDiedError: If one of the processes is ended from outside.
    """
    return inspect_session(path, decode, deep, workers=workers).faults


def inspect_session(
    path: str | Path, decode: bool = True, is_deep: bool = False, tell: Tell | None = None, workers: int = 1
) -> Report:
    """Check a session folder, and say how much there was to check; see `check_session`.

    Args:
        path: The session's folder.
        decode: As for `check_session`.
        is_deep: The ``deep`` of `check_session`.
        tell: Called with the bytes that are done of what takes long, and with all of them.
        workers: As for `check_session`.

    Raises:
        FormatError: If the folder is no session at all.
        WorkerDiedError: If one of the processes is ended from outside.
    """
    path, count = Path(path), v.whole(workers, 1, _MOST_WORKERS, field="workers")
    refuse_other_folders(path)
    video_only = is_video_only(path)
    evidence = Evidence(path, decode, Progress(tell))
    deep.expect(evidence, is_deep)
    checks = VIDEO_ONLY_CHECKS if video_only else CHECKS
    # The last one tells which files the others could not read.
    checks = (*checks, *([deep.check_everything] if is_deep else []), strays.check_unreadable)
    # Two checks may find the same fault: it is told once.
    faults = list(dict.fromkeys(_faults(evidence, checks, count)))
    rows = sum(episode.length for episode in evidence.episodes)
    return Report(faults, len(evidence.episodes), rows, evidence.frames, video_only, bool(is_held(path)))


def _faults(evidence: Evidence, checks: Sequence[Check], count: int) -> Iterator[Fault]:
    found: pieces.Found | None = None
    for check in checks:
        if check in pieces.EACH:
            found = found or pieces.Found(evidence, workers.looked_at(evidence, count))
            yield from found.of(check)
        else:
            yield from check(evidence)
        if check is rows.check_data_files and found is not None:
            yield from stats.check_columns(evidence, found.moments)
