"""An episode's row of ``meta/episodes``, which its data file carries too (spec: Episode metadata)."""

from __future__ import annotations

from typing import Any

from lucky_recorder.episode import keys
from lucky_recorder.episode.record import EpisodeRecord
from lucky_recorder.episode.schema import Schema
from lucky_recorder.session import about
from lucky_recorder.session.layout import Chunking


def row_of(schema: Schema, chunking: Chunking, record: EpisodeRecord, episode: int, first: int) -> dict[str, Any]:
    """Return the row of an episode.

    Args:
        schema: What its rows and frames are.
        chunking: How files are grouped.
        record: The episode.
        episode: Its number in the session.
        first: The number of its first row in the session.
    """
    data = chunking.data(episode)
    row: dict[str, Any] = {
        keys.EPISODE_INDEX: episode,
        "chunk_index": data.chunk_index,
        "file_index": data.file_index,
        "data/chunk_index": data.chunk_index,
        "data/file_index": data.file_index,
        "length": record.rows,
        "success": record.outcome.success,
        "dataset_from_index": first,
        "dataset_to_index": first + record.rows,
        "tasks": [description for _, description in sorted(record.tasks.items())],
        **(about.row_of(record) if record.noted is None else about.noted(record.noted)),
    }
    for key, one in record.videos.items():
        stream = schema.stream(key)
        if not stream.is_described:
            continue
        times = {"from_timestamp": 0.0, "to_timestamp": float(one.file.frames / stream.rate)}
        said = chunking.video(episode)._asdict() | times
        row |= {keys.video_column(key, part): value for part, value in said.items()}
    if record.states is not None:
        row |= {f"{keys.STATES}{part}": number for part, number in chunking.video(episode)._asdict().items()}
    return row | dict(record.noted or {})
