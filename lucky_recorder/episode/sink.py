"""What a format is to the recorder: a sink that takes finished episodes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from lucky_recorder.episode.record import EpisodeRecord
from lucky_recorder.episode.schema import Schema


class Prepared(Protocol):
    """An episode whose files are all written under temporary names."""

    def commit(self) -> None:
        """Give every file its final name; from here on the episode exists."""

    def discard(self) -> None:
        """Remove every temporary file."""


@runtime_checkable
class Measured(Protocol):
    """A prepared episode that also says which files it is made of, so that a full disk can be foreseen.

    A sink need not have it: then what its episodes take is left out of the account.
    """

    def files(self) -> Iterable[Path]:
        """Return the files of the episode as they lie on the disk before `Prepared.commit`."""

    def claims(self) -> Iterable[Path]:
        """Return files whose content will be written once more, besides what later episodes take."""


class Sink(Protocol):
    """One format being written.

    It is made and opened in the caller's thread. It is opened once the rates are known: at the first reset, or after
    the first step where only that shows how long a step lasts. Making and opening are apart because a recording has a
    folder from the first reset on. All that follows `open` comes from the worker thread, in the order in which episodes
    ended; only where the set-up fails is `close` called by the caller's thread.

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
            tasks: The task descriptions that are known beforehand, in index order; may be empty. The tasks of an
                episode are told with it: `EpisodeRecord.tasks`.

        Raises:
            SettingsError: If this format cannot hold them; nothing is touched then.
        """

    def stream_path(self, key: str, take: int, suffix: str) -> Path:
        """Return where the video of a take is to be written; the name ends in ``.tmp``."""

    def prepare(self, record: EpisodeRecord) -> Prepared:
        """Write an episode's files under temporary names. What can fail, such as a full disk, must fail here."""

    def close(self) -> None:
        """Write what is still to be written. Nothing follows. A sink that was never opened leaves nothing behind."""
