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
from lucky_recorder.session import layout
from lucky_recorder.session.reader import Session
from lucky_recorder.session.recovery import is_blank
from lucky_recorder.session.resumed import takes
from lucky_recorder.settings.recorder import RecorderSettings

if TYPE_CHECKING:
    from lucky_recorder.edit import assemble as assembling
else:
    # What reads videos is imported where shards are merged.
    assembling = lazy("lucky_recorder.edit.assemble")

OnEpisode = Callable[[int, int], None]

# A shard is never seen by anyone but the merge: few folders, and each episode in a file of its own.
MOST_FILES = 1000


class Kept(NamedTuple):
    """An episode of a shard.

    Attributes:
        shard: The shard.
        episode: Its ``episode_index`` there.
        attempt: The number of its attempt, over all shards.
    """

    shard: Path
    episode: int
    attempt: int


def refuse(settings: RecorderSettings, has_sinks: bool, remedy: str) -> None:
    """Refuse what several processes cannot record into one session; nothing is touched.

    Args:
        settings: What is recorded.
        has_sinks: Whether formats of the user's own take the episodes.
        remedy: How it is recorded by one process.

    Raises:
        SettingsError: Says what, and the remedy.
    """
    alone = f"is recorded by one process; {remedy}"
    if has_sinks or settings.formats == ():
        raise SettingsError(f"sinks: a format of your own {alone}")
    if not settings.record_data:
        raise SettingsError.of("record_data", False, f"a session without rows {alone}, or record rows too")


def refuse_bundles(settings: RecorderSettings, remedy: str) -> None:
    """Refuse koyu bundles where only a session is made of shards; arguments and errors as for `refuse`."""
    if "koyu" in settings.written_formats:
        told = f"is recorded by one process; {remedy}, or leave koyu out, and convert the session afterwards"
        raise SettingsError.of("formats", settings.written_formats, f"{told}: `lucky-recorder convert`")


def episodes(session: Path) -> int:
    """Count the episodes of a session; of one without any there are none."""
    return 0 if is_blank(session) else len(Session(session))


class Shards:
    """The shards of one session.

    Attributes:
        settings: What is recorded.
        session: Where the session will be; nobody else takes its name.
        folder: Where the shards are.
        before: How many episodes a session had, before it is gone on with.

    Args:
        settings: What is recorded.
        folder: Where they are, if another process has made the folder.
        before: How many episodes a session that is gone on with had then; None: as many as it has now.

    Raises:
        StorageError: If the folder cannot be made.
    """

    def __init__(self, settings: RecorderSettings, folder: Path | None = None, before: int | None = None) -> None:
        self.settings = settings
        self.folder = folder or layout.claim_folder(settings.output_dir, suffix=layout.SHARDS)
        self.before = before if before is not None else 0 if settings.resume is None else episodes(settings.resume)
        self.session = self.folder.with_name(self.folder.name.removesuffix(layout.SHARDS))

    @property
    def sessions(self) -> list[Path]:
        """The shards that are there, by the names of their folders; some may hold no episode."""
        return sorted(self.folder.glob(f"*/{keys.SESSIONS}/*"))

    @property
    def is_begun(self) -> bool:
        """Whether the session that is gone on with has other episodes by now: some of the shards' may be among them."""
        return self.settings.resume is not None and episodes(self.settings.resume) != self.before

    @property
    def finished(self) -> list[Path]:
        """The shards that hold an episode."""
        return [path for path in self.sessions if has_episodes(path)]

    def merge(self, kept: Sequence[Kept], discarded: Sequence[str | None], on_episode: OnEpisode) -> Path:
        """Make the session, as `make_session` does, and remove the shards; returns the session."""
        self.make_session(kept, discarded, on_episode)
        self.remove()
        return self.settings.resume or self.session

    def make_session(self, kept: Sequence[Kept], discarded: Sequence[str | None], on_episode: OnEpisode) -> None:
        """Make the session of episodes that were kept, in their order.

        It is what one process would have recorded that had made the attempts one after another. A session that is gone
        on with gets them as its next episodes.

        Args:
            kept: The episodes.
            discarded: The seeds of the attempts that were discarded, in order.
            on_episode: Called after each episode.

        Raises:
            LuckyRecorderError: If it cannot be made; the shards stay.
        """
        opened = {one.shard: Session(one.shard) for one in kept}
        picks = [assembling.Pick(opened[one.shard], one.episode) for one in kept]
        settings, resumed = self.settings, self.settings.resume
        before = 0 if resumed is None else takes(resumed)
        recorded = assembling.AsOne(settings.tasks, [before + one.attempt + 1 for one in kept], discarded)
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

    def remove(self) -> None:
        """Remove the shards, and the folder of all sessions if there is nothing else in it."""
        shutil.rmtree(self.folder, ignore_errors=True)
        with contextlib.suppress(OSError):
            self.folder.parent.rmdir()

    def command(self) -> str:
        """Return the command that makes a session of what is there; empty if nothing is, or some of it was added."""
        finished, resumed = [str(path) for path in self.finished], self.settings.resume
        if resumed is not None and finished:
            if self.is_begun:
                return ""
            finished.insert(0, str(resumed))
        if not finished:
            self.remove()
        return shlex.join(["lucky-recorder", "merge", *finished, "-o", str(self.session)]) if finished else ""


def has_episodes(path: Path) -> bool:
    """Tell whether a folder is a session that has an episode."""
    try:
        return len(Session(path)) > 0
    except LuckyRecorderError:
        return False
