"""What several processes can collect, and what has come of it."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from lucky_recorder.edit import shards
from lucky_recorder.errors import SettingsError
from lucky_recorder.rollouts.pieces import Attempt
from lucky_recorder.session.reader import Session
from lucky_recorder.settings.recorder import RecorderSettings


class Found(NamedTuple):
    """An attempt, and the shard that its episode is in."""

    attempt: Attempt
    shard: Path

    @property
    def kept(self) -> shards.Kept:
        """Its episode, of one that is kept."""
        return shards.Kept(self.shard, self.attempt.episode or 0, self.attempt.number)


def refuse(settings: RecorderSettings, has_sinks: bool) -> None:
    """Refuse what several processes cannot record into one session; nothing is touched.

    Raises:
        SettingsError: Says what, and the remedy.
    """
    shards.refuse(settings, has_sinks, "collect with workers=1")
    if settings.episode_trigger is not None:
        remedy = "which attempts are recorded goes by their number in one process; leave it out, or use workers=1"
        raise SettingsError.of("episode_trigger", settings.episode_trigger, remedy)


def bytes_of_video(path: Path) -> int:
    """Return the size of a session's videos."""
    session = Session(path)
    return sum(file.stat().st_size for key in session.video_keys() for file in session.video_files(key))
