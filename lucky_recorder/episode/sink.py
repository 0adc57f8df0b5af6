"""What a format is to the recorder: a sink that takes finished episodes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from lucky_recorder.episode.record import EpisodeRecord
from lucky_recorder.episode.schema import Schema


class Prepared(Protocol):
    """An episode whose files are all written under temporary names."""

    def commit(self) -> None:
        """Give every file its final name; from here on the episode exists."""

    def discard(self) -> None:
        """Remove every temporary file."""


class Sink(Protocol):
    """One format being written.

    It is made before the first reset, and opened once the first step has told the rates. So a recording has a folder
    at once, and what cannot be written is refused as early as it is known. All that follows `open` comes from the
    worker thread alone, in the order in which episodes ended.

    Attributes:
        root: The folder it is written to.
        keeps_broken: Whether an episode is written whose stream has failed.
    """

    root: Path
    keeps_broken: bool

    def open(self, schema: Schema, tasks: Sequence[str]) -> None:
        """Learn what rows and frames are; once per recording, before the first episode.

        Args:
            schema: The columns, the streams and their rates.
            tasks: Task descriptions, in index order; may be empty.

        Raises:
            SettingsError: If this format cannot hold them; nothing is touched then.
        """

    def stream_path(self, key: str, take: int, suffix: str) -> Path:
        """Return where the video of a take is to be written; the name ends in ``.tmp``."""

    def prepare(self, record: EpisodeRecord) -> Prepared:
        """Write an episode's files under temporary names."""

    def close(self) -> None:
        """Write what is still to be written. Nothing follows. A sink that was never opened leaves nothing behind."""
