"""What a format is to the recorder: a sink that takes finished episodes."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from lucky_recorder.episode.record import EpisodeRecord


class Prepared(Protocol):
    """An episode whose files are all written under temporary names."""

    def commit(self) -> None:
        """Give every file its final name; from here on the episode exists."""

    def discard(self) -> None:
        """Remove every temporary file."""


class Sink(Protocol):
    """One format being written. Called by the worker thread only, in the order episodes ended.

    Attributes:
        root: The folder it is written to.
        keeps_broken: Whether an episode is written whose stream has failed.
    """

    root: Path
    keeps_broken: bool

    def stream_path(self, key: str, attempt: int, suffix: str) -> Path:
        """Return where an attempt's video is to be written; the name ends in ``.tmp``."""

    def prepare(self, record: EpisodeRecord) -> Prepared:
        """Write an episode's files under temporary names."""

    def close(self) -> None:
        """Write what is still to be written. Nothing follows."""
