"""The folder of the shards, ``<session>.shards``, and the session that is made of them."""

from __future__ import annotations

import bisect
import contextlib
import logging
import shlex
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from lucky_recorder.edit import added as adding
from lucky_recorder.episode import keys
from lucky_recorder.errors import LuckyRecorderError, SettingsError
from lucky_recorder.lazy import lazy
from lucky_recorder.session import carried, layout
from lucky_recorder.session.reader import Session
from lucky_recorder.session.recovery import is_blank
from lucky_recorder.session.resumed import takes
from lucky_recorder.settings.recorder import RecorderSettings
from lucky_recorder.storage.untrusted import Folder
from lucky_recorder.storage.write import write_json

if TYPE_CHECKING:
    from lucky_recorder.edit import assemble as assembling
else:
    # What reads videos is imported where shards are merged.
    assembling = lazy("lucky_recorder.edit.assemble")

logger = logging.getLogger("lucky_recorder")

OnEpisode = Callable[[int, int], None]

# Beside the shards: which session they are to be added to, and what it had then.
GOES_ON = "goes-on-with.json"

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


class Discarded(NamedTuple):
    """An attempt that was discarded.

    Attributes:
        attempt: Its number, over all shards.
        seed: The seed of its reset; None where it had none.
    """

    attempt: int
    seed: str | None


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
        takes: How many takes it had then.

    Args:
        settings: What is recorded.
        folder: Where they are, if another process has made the folder.
        begun: How many episodes, and how many takes, a session that is gone on with had then; None: as many as it has
            now.

    Raises:
        StorageError: If the folder cannot be made.
    """

    def __init__(
        self, settings: RecorderSettings, folder: Path | None = None, begun: tuple[int, int] | None = None
    ) -> None:
        self.settings = settings
        self.folder = folder or layout.claim_folder(settings.output_dir, suffix=layout.SHARDS)
        self.before, self.takes = begun or _begun(settings.resume)
        self.session = self.folder.with_name(self.folder.name.removesuffix(layout.SHARDS))
        if begun is None and settings.resume is not None:
            self._note(settings.resume)

    def _note(self, resume: Path) -> None:
        """Say which session they are to be added to: should nobody come to that, whoever is next is told."""
        # As an address: a path that is no UTF-8 is no text.
        said = {"session": resume.resolve().as_uri(), "episodes": self.before, "takes": self.takes}
        try:
            write_json(self.folder / GOES_ON, said)
        except BaseException:  # also an interrupt: nobody uses the folder then
            self.remove()
            raise

    @property
    def sessions(self) -> list[Path]:
        """The shards that are there, by the names of their folders; some may hold no episode."""
        return sorted(self.folder.glob(f"*/{keys.SESSIONS}/*"))

    def added(self, wanted: Sequence[tuple[Path, int]]) -> dict[int, int]:
        """Find episodes of the shards that the session that is gone on with has got already.

        Whoever adds them may be killed meanwhile.

        Args:
            wanted: The shards, and their ``episode_index`` there, in the order in which they are added.

        Returns:
            Of those that it has, by their place in ``wanted``: their ``episode_index`` in the session.

        Raises:
            FormatError: If one cannot be read.
        """
        resume = self.settings.resume
        if resume is None or episodes(resume) <= self.before:
            return {}
        return adding.added(resume, self.before, wanted)

    @property
    def finished(self) -> list[Path]:
        """The shards that hold an episode, and those that cannot be read: nobody knows what is in them."""
        return [path for path in self.sessions if _may_hold(path)]

    def merge(self, kept: Sequence[Kept], discarded: Sequence[Discarded], on_episode: OnEpisode) -> Path:
        """Make the session, as `make_session` does, and remove the shards; returns the session.

        A session that is gone on with may have got some of them already: it gets the others.
        """
        self.make_session(kept, discarded, on_episode, self.added([(one.shard, one.episode) for one in kept]))
        self.remove()
        return self.settings.resume or self.session

    def make_session(
        self,
        kept: Sequence[Kept],
        discarded: Sequence[Discarded],
        on_episode: OnEpisode,
        there: Mapping[int, int] = MappingProxyType({}),
    ) -> None:
        """Make the session of episodes that were kept, in their order.

        It is what one process would have recorded that had made the attempts one after another. A session that is gone
        on with gets them as its next episodes.

        Args:
            kept: The episodes.
            discarded: The attempts that were discarded, in order.
            on_episode: Called after each episode.
            there: Those that the session that is gone on with has got already; see `added`.

        Raises:
            LuckyRecorderError: If it cannot be made; the shards stay.
        """
        opened = {one.shard: Session(one.shard) for one in kept}
        picks = [assembling.Pick(opened[one.shard], one.episode) for one in kept]
        settings, resumed = self.settings, self.settings.resume
        # Where some are there, those count in what it has now.
        before = 0 if resumed is None else self.takes if there else takes(resumed)
        numbers = [one.attempt for one in discarded]
        recorded = assembling.AsOne(
            settings.tasks,
            [before + one.attempt + 1 for one in kept],
            [one.seed for one in discarded],
            [bisect.bisect(numbers, one.attempt) for one in kept],
            there,
        )
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

    def note_discarded(self, discarded: Sequence[Discarded]) -> None:
        """Have a session that is gone on with say which seeds were tried in vain, and remove the shards.

        Args:
            discarded: The attempts, none of which has left anything.
        """
        resumed, there = self.settings.resume, self.sessions
        # Where it has no episode, nobody goes on after the seeds that it tells of.
        if discarded and there and resumed is not None and self.before:
            try:
                seeds = [one.seed for one in discarded]
                assembling.note_discarded(resumed, there, seeds, self.settings.metadata_every)
            except LuckyRecorderError as error:
                logger.warning("%s: the seeds that were tried are not noted: %s", resumed, error)
        self.remove()

    def remove(self) -> None:
        """Remove the shards, and the folder of all sessions if there is nothing else in it."""
        shutil.rmtree(self.folder, ignore_errors=True)
        with contextlib.suppress(OSError):
            self.folder.parent.rmdir()

    def beside(self) -> str:
        """Say which shards the command leaves out, as the beginning of a sentence; empty where it has all."""
        lost = [str(path) for path in self.finished if not can_be_read(path)]
        return f"{' and '.join(lost)} cannot be read and {'is' if len(lost) == 1 else 'are'} left out; " if lost else ""

    def command(self) -> str:
        """Return the command that makes a session of what is there; empty if nothing is, or if it cannot be told.

        Where a session that is gone on with has got some of it already, that is left out of its shard first. A shard
        that cannot be read would be refused, and is left out: `beside` names it.
        """
        finished = self.finished
        if not finished:
            self.remove()
            return ""
        resume = self.settings.resume
        finished = [path for path in finished if can_be_read(path)]
        if not finished:
            return ""
        try:
            counts = {path: episodes(path) for path in finished}
            wanted = [(path, episode) for path in finished for episode in range(counts[path])]
            there = [wanted[number] for number in self.added(wanted)]
        except LuckyRecorderError:  # it is told what is wrong anyway
            return ""
        if resume is not None and len(there) == len(wanted):
            return _written([["recover", str(resume)]])
        parts, commands = [] if resume is None else [resume], []
        for path in finished:
            had = [str(episode) for shard, episode in there if shard == path]
            rest = self.folder / f"{path.parent.parent.name}_rest"
            if had and len(had) == counts[path]:
                continue
            if had:
                commands.append(["delete", str(path), "--episodes", ",".join(had), "-o", str(rest)])
            parts.append(rest if had else path)
        return _written([*commands, ["merge", *map(str, parts), "-o", str(self.session)]])


def _written(commands: Sequence[Sequence[str]]) -> str:
    return " && ".join(shlex.join(["lucky-recorder", *command]) for command in commands)


def _begun(resume: Path | None) -> tuple[int, int]:
    return (0, 0) if resume is None else (episodes(resume), takes(resume))


def has_episodes(path: Path) -> bool:
    """Tell whether a shard has an episode.

    Raises:
        FormatError: If it cannot be read: it may have some.
    """
    return episodes(path) > 0


def can_be_read(path: Path) -> bool:
    """Tell whether a shard can be merged, as far as its lists and the ends of its data files say."""
    try:
        files = Folder(path)
        for name in carried.names(files):
            carried.read(files, name)
        return has_episodes(path)
    except LuckyRecorderError:
        return False


def _may_hold(path: Path) -> bool:
    try:
        return has_episodes(path)
    except LuckyRecorderError:
        return True
