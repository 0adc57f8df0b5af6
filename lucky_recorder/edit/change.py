"""What may become of the rows of episodes on their way into a new session."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from lucky_recorder.episode.record import EpisodeRecord
from lucky_recorder.episode.schema import Schema
from lucky_recorder.session.episode import Episode


class Change(Protocol):
    """Makes other rows of an episode, out of those that it has."""

    def schema(self, schema: Schema) -> Schema:
        """Return what rows are then."""

    def record(self, record: EpisodeRecord, episode: Episode, folder: Path) -> EpisodeRecord:
        """Return an episode with its other rows; what the memory does not hold may wait in a folder."""
