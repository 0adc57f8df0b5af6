"""The folder of the shards, ``<session>.shards``, and the session that is made of them."""

from __future__ import annotations

import contextlib
import shlex
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from lucky_recorder.episode import keys
from lucky_recorder.errors import LuckyRecorderError, SettingsError
from lucky_recorder.lazy import lazy
from lucky_recorder.rollouts.pieces import Attempt
from lucky_recorder.rollouts.tried import episodes
from lucky_recorder.session import layout
from lucky_recorder.session.reader import Session
from lucky_recorder.session.resumed import takes
from lucky_recorder.settings.recorder import RecorderSettings

if TYPE_CHECKING:
    from lucky_recorder.edit import assemble as assembling
else:
    # What reads videos is imported where shards are merged.
    assembling = lazy("lucky_recorder.edit.assemble")


class Found(NamedTuple):
    """An attempt, and the shard that its episode is in."""

    attempt: Attempt
    shard: Path


def refuse(settings: RecorderSettings, has_sinks: bool) -> None:
    """Refuse what several processes cannot record into one session; nothing is touched.

    Raises:
        SettingsError: Says what, and the remedy.
    """
    alone = "is recorded by one process; collect with workers=1"
    if "koyu" in settings.written_formats:
        remedy = f"{alone}, or leave koyu out, and convert the session afterwards: `lucky-recorder convert`"
        raise SettingsError.of("formats", settings.written_formats, remedy)
    if has_sinks or settings.formats == ():
        raise SettingsError(f"sinks: a format of your own {alone}")
    if not settings.record_data:
        raise SettingsError.of("record_data", False, f"a session without rows {alone}, or record rows too")
    if settings.episode_trigger is not None:
        remedy = "which attempts are recorded goes by their number in one process; leave it out, or use workers=1"
        raise SettingsError.of("episode_trigger", settings.episode_trigger, remedy)


class Shards:
    """The shards of one session.

    Attributes:
        session: Where the session will be; nobody else takes its name.
        folder: Where the shards are.

    Args:
        settings: What is recorded.

    Raises:
        StorageError: If the folder cannot be made.
    """

    def __init__(self, settings: RecorderSettings) -> None:
        self._settings = settings
        self.folder = layout.claim_folder(settings.output_dir, suffix=layout.SHARDS)
        self._before = 0 if settings.resume is None else episodes(settings.resume)
        self.session = self.folder.with_name(self.folder.name.removesuffix(layout.SHARDS))

    def merge(self, found: Sequence[Found], discarded: Sequence[str], on_episode: Callable[[int, int], None]) -> Path:
        """Make the session of attempts that were kept, in their order, and remove the shards.

        It is what one process would have recorded that had made the attempts one after another. A session that is gone
        on with gets them as its next episodes.

        Args:
            found: The attempts.
            discarded: The seeds of those that were discarded, in order.
            on_episode: Called after each episode.

        Raises:
            LuckyRecorderError: If it cannot be made; the shards stay.
        """
        opened = {one.shard: Session(one.shard) for one in found}
        picks = [assembling.Pick(opened[one.shard], one.attempt.episode or 0) for one in found]
        settings, resumed = self._settings, self._settings.resume
        before = 0 if resumed is None else takes(resumed)
        recorded = assembling.AsOne(settings.tasks, [before + one.attempt.number + 1 for one in found], discarded)
        every = settings.metadata_every
        if resumed is None:
            per_chunk, per_file = settings.files_per_chunk, settings.episodes_per_file
            assembling.assemble(
                picks,
                self.session,
                files_per_chunk=per_chunk,
                episodes_per_file=per_file,
                recorded=recorded,
                on_episode=on_episode,
                metadata_every=every,
            )
        else:
            assembling.extend(resumed, picks, recorded, on_episode, every)
        self.remove()
        return resumed or self.session

    def remove(self) -> None:
        """Remove the shards, and the folder of all sessions if there is nothing else in it."""
        shutil.rmtree(self.folder, ignore_errors=True)
        with contextlib.suppress(OSError):
            self.folder.parent.rmdir()

    def command(self) -> str:
        """Return the command that makes a session of what is there; empty if nothing is, or some of it was added."""
        sessions = sorted(self.folder.glob(f"*/{keys.SESSIONS}/*"))
        finished = [str(path) for path in sessions if _has_episodes(path)]
        resumed = self._settings.resume
        if resumed is not None and finished:
            if episodes(resumed) != self._before:
                return ""
            finished.insert(0, str(resumed))
        if not finished:
            self.remove()
        return shlex.join(["lucky-recorder", "merge", *finished, "-o", str(self.session)]) if finished else ""


def _has_episodes(path: Path) -> bool:
    try:
        return len(Session(path)) > 0
    except LuckyRecorderError:
        return False


def bytes_of_video(path: Path) -> int:
    """Return the size of a session's videos."""
    session = Session(path)
    return sum(file.stat().st_size for key in session.video_keys() for file in session.video_files(key))
