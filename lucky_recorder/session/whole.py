"""Which files an episode is made of, and whether they are whole."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from lucky_recorder.episode import keys, limits
from lucky_recorder.errors import FormatError
from lucky_recorder.lazy import lazy
from lucky_recorder.session import layout
from lucky_recorder.session.carried import Row
from lucky_recorder.session.episode import Episode
from lucky_recorder.session.folder import SessionFolder
from lucky_recorder.storage.untrusted import format_errors

if TYPE_CHECKING:
    from lucky_recorder.video import probe
else:
    # Rows alone need no av.
    probe = lazy("lucky_recorder.video.probe")

_VIDEO = re.compile(rf"{keys.VIDEOS}(?P<key>[^/]+)/chunk-(?P<chunk>\d{{3}})/file-(?P<file>\d{{3}})\.(?:mp4|mkv|json)")
_STATES = re.compile(rf"{keys.STATES}chunk-(?P<chunk>\d{{3}})/file-(?P<file>\d{{3}})\.parquet")
_SCANS = re.compile(rf"{keys.DATA}chunk-\d{{3}}/{keys.LIDAR_PREFIX}[^/]+-(?P<episode>\d{{3,9}})\.(?:parquet|json|mp4)")


def verify(folder: SessionFolder, episode: Episode) -> None:
    """Read an episode's rows and count the frames of its videos.

    Raises:
        FormatError: If its rows or a file are not as its row of ``meta/episodes`` says.
        VideoError: If a video cannot be read.
    """
    first = folder.count(episode.meta, "dataset_from_index")
    with format_errors(folder.path / folder.data_file(episode.meta)):
        # Every column is read once: a page that is torn shows by its checksum.
        count = 0
        for rows in episode.batches():
            rows.validate(full=True)
            indices = rows[keys.INDEX].to_numpy() if keys.INDEX in rows.column_names else None
            if indices is None or not np.array_equal(indices, first + np.arange(count, count + len(indices))):
                raise FormatError(f"episode {episode.index}: its rows do not run from {first} on")
            count += rows.num_rows
    if episode.has_states:
        for _ in episode.states().parts():
            pass
        episode.model()
    verify_videos(folder, episode)


def verify_videos(folder: SessionFolder, episode: Episode) -> None:
    """Count the frames of an episode's videos; nothing is decoded.

    Raises:
        FormatError: If one is missing, or has not as many as its row of ``meta/episodes`` says.
        VideoError: If one cannot be read.
    """
    for name, stream in folder.cameras.items():
        if episode.has_video(name):
            path = episode.video_path(name)
            expected = episode.meta.get(keys.video_column(stream.key, "to_timestamp"))
            frames = probe.probe(path).frames
            # Beyond the bound it is no time, and has no number of frames.
            end = expected if isinstance(expected, float) and 0 <= expected <= limits.MOST_FRAMES else None
            if end is None or frames != round(end * stream.rate):
                raise FormatError(f"{path}: {frames} frames; its episode says that they end at {expected} s")


def names(folder: SessionFolder, episodes: Iterable[Row], there: Sequence[str]) -> set[str]:
    """Return the names of all files that are some episodes' own, of those that are there."""
    rows = {row[keys.EPISODE_INDEX]: row for row in episodes}
    described = {stream.key for stream in folder.cameras.values()}
    data = {layout.DATA_PATH.format(chunk_index=r["chunk_index"], file_index=r["file_index"]) for r in rows.values()}
    found = {name for name in there if name in data}
    for name in there:
        row = rows.get(number) if (number := episode_of(name, folder.files_per_chunk, None)) is not None else None
        video = _VIDEO.fullmatch(name)
        # A stream that failed in an episode has no file of it.
        if row is not None and (
            video is None
            or video["key"] not in described
            or row.get(keys.video_column(video["key"], "file_index")) is not None
        ):
            found.add(name)
    return found


def episode_of(name: str, files_per_chunk: int, data: int | None) -> int | None:
    """Return the episode that a file is of, by its name; of a data file, ``data``."""
    if video := _VIDEO.fullmatch(name) or _STATES.fullmatch(name):
        return int(video["chunk"]) * files_per_chunk + int(video["file"])
    if scans := _SCANS.fullmatch(name):
        return int(scans["episode"])
    if spool := layout.SPOOL.fullmatch(name):
        return int(spool["episode"])
    return data
