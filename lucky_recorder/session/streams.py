"""The files of an episode beside its rows: videos, labels, scans and states, under temporary names."""

from __future__ import annotations

from pathlib import Path

from lucky_recorder.episode.record import EpisodeRecord
from lucky_recorder.episode.schema import Schema, Stream
from lucky_recorder.session import layout, lidar
from lucky_recorder.session.states import stage_states
from lucky_recorder.storage.write import Staged, stage_json


def stage_streams(
    root: Path, schema: Schema, record: EpisodeRecord, episode: int, chunking: layout.Chunking
) -> list[Staged]:
    """Write what is not written yet of an episode's streams; its videos are there already.

    Args:
        root: The session's folder.
        schema: What the streams are.
        record: The episode.
        episode: Its number.
        chunking: How files are grouped.

    Returns:
        The files, in the order in which they are to be renamed.

    Raises:
        StorageError: If the file system refuses. Whatever is raised, no temporary file stays, nor a video.
    """
    staged = [Staged(video_path(root, schema, chunking, k, episode), v.file.path) for k, v in record.videos.items()]
    try:
        for key in record.videos:
            staged += _stage_labels(video_path(root, schema, chunking, key, episode), schema.stream(key))
        for stream in schema.scans:
            if stream.name in record.scans:
                scans = record.scans[stream.name]
                staged += lidar.stage_scans(root, stream, scans, episode, schema.hz, chunking)
        if schema.has_states and record.states is not None:
            staged += stage_states(root, record.states, chunking.video(episode))
    except BaseException:  # no temporary file must stay behind, whatever was raised
        for one in staged:
            one.discard()
        raise
    return staged


def _stage_labels(video: Path, stream: Stream) -> list[Staged]:
    """Write the file beside a mask video that maps its ids to names."""
    return [stage_json(video.with_suffix(".json"), stream.info["labels"])] if "labels" in stream.info else []


def video_path(root: Path, schema: Schema, chunking: layout.Chunking, key: str, episode: int) -> Path:
    """Return where the video of a stream has its place."""
    return layout.video_path(root, key, chunking.video(episode), schema.stream(key).suffix)
