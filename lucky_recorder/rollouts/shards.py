"""The folder of the shards of many workers, and the session and the dataset that are made of them."""

from __future__ import annotations

import contextlib
import logging
import os
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from lucky_recorder.edit import shards
from lucky_recorder.episode import keys
from lucky_recorder.errors import LuckyRecorderError, SettingsError
from lucky_recorder.koyu.metadata import read_sidecar
from lucky_recorder.lazy import lazy
from lucky_recorder.rollouts.pieces import Attempt
from lucky_recorder.session import layout
from lucky_recorder.session.reader import Session
from lucky_recorder.session.resumed import takes
from lucky_recorder.settings.recorder import RecorderSettings

if TYPE_CHECKING:
    from lucky_recorder.edit import assemble as assembling
    from lucky_recorder.edit import recover as recovering
    from lucky_recorder.koyu import sink
    from lucky_recorder.rollouts import bundles
else:
    # What reads videos is imported where shards are merged.
    assembling, recovering = lazy("lucky_recorder.edit.assemble"), lazy("lucky_recorder.edit.recover")
    bundles, sink = lazy("lucky_recorder.rollouts.bundles"), lazy("lucky_recorder.koyu.sink")


logger = logging.getLogger("lucky_recorder")


class Found(NamedTuple):
    """An attempt, and the shard that its episode is in."""

    attempt: Attempt
    shard: Path

    @property
    def kept(self) -> shards.Kept:
        """Its episode, of one that is kept."""
        return shards.Kept(self.shard, self.attempt.episode or 0, self.attempt.number)


class Made(NamedTuple):
    """What was made of shards.

    Attributes:
        path: The session, or the dataset where only that is written.
        koyu_path: The dataset; None where none is written.
        bytes: The size of the videos of the episodes that were added.
    """

    path: Path
    koyu_path: Path | None
    bytes: int


def refuse(settings: RecorderSettings, has_sinks: bool) -> None:
    """Refuse what several processes cannot record into one session or dataset; nothing is touched.

    Raises:
        SettingsError: Says what, and the remedy.
        FormatError: If the dataset that is there is broken.
    """
    shards.refuse(settings, has_sinks, "collect with workers=1")
    if settings.episode_trigger is not None:
        remedy = "which attempts are recorded goes by their number in one process; leave it out, or use workers=1"
        raise SettingsError.of("episode_trigger", settings.episode_trigger, remedy)
    dataset = dataset_of(settings)
    if dataset is not None and settings.koyu is not None:
        sink.refuse_dataset(dataset, settings.koyu)


def dataset_of(settings: RecorderSettings) -> Path | None:
    """Return the folder of the dataset that is written; None where none is."""
    if settings.koyu is None or "koyu" not in settings.written_formats:
        return None
    return settings.koyu.folder(settings.output_dir)


class Shards(shards.Shards):
    """The shards of one collection: each has a session, a dataset, or both.

    Args:
        settings: What is recorded.

    Raises:
        StorageError: If the folder cannot be made.
    """

    def __init__(self, settings: RecorderSettings) -> None:
        # Now, and not when they are used: an interrupt in the midst of an import would leave half of it.
        _ = assembling.assemble, recovering.recover, bundles.ready, sink.KoyuSink
        self._has_session = "session" in settings.written_formats
        self._dataset = dataset_of(settings)
        # Where what is made of them will be: their files are linked.
        place = settings.output_dir if self._has_session or self._dataset is None else self._dataset.parent
        super().__init__(settings, layout.claim_folder(place, suffix=layout.SHARDS))
        self._is_session_made = self._is_added = False

    def make(self, found: Sequence[Found], discarded: Sequence[shards.Discarded], on_episode: shards.OnEpisode) -> Made:
        """Make what was asked for of the attempts that were kept, in their order, and remove the shards.

        It is what one process would have recorded that had made the attempts one after another. A session that is gone
        on with gets them as its next episodes, and a dataset that is there as its next bundles.

        Args:
            found: The attempts.
            discarded: Those that were discarded, in order.
            on_episode: Called after each episode.

        Raises:
            LuckyRecorderError: If it cannot be made; the shards stay.
        """
        before = 0 if self.settings.resume is None else takes(self.settings.resume)
        numbers = [before + one.attempt.number for one in found]
        with self._bundles_ready(found, numbers, on_episode) as add:
            size = self._bytes(found)
            if self._has_session:
                self.make_session([one.kept for one in found], discarded, on_episode)
                self._is_session_made = True
            add()
        self.remove()
        path = self.settings.resume or self.session
        return Made(path if self._has_session or self._dataset is None else self._dataset, self._dataset, size)

    def note_discarded(self, discarded: Sequence[shards.Discarded]) -> None:
        """As there; a dataset does not say which seeds were tried."""
        super().note_discarded(discarded if self._has_session else ())

    @contextlib.contextmanager
    def _bundles_ready(
        self, found: Sequence[Found], numbers: Sequence[int], on_episode: shards.OnEpisode
    ) -> Iterator[Callable[[], None]]:
        """Make bundles ready before the session, so that what may fail does so before there is one of the two."""
        koyu = self.settings.koyu
        if self._dataset is None or koyu is None:
            yield lambda: None
            return
        kept = [bundles.Kept(take, one.attempt.bundles) for take, one in zip(numbers, found, strict=True)]
        with bundles.ready(self._dataset, koyu, kept, self.settings.metadata_every, on_episode) as commit:

            def add() -> None:
                commit()
                self._is_added = True

            yield add

    def _bytes(self, found: Iterable[Found]) -> int:
        """Return the size of the videos of episodes."""
        if not self._has_session:
            videos = (file for one in found for folder in one.attempt.bundles for file in folder.glob("*.mp4"))
            return sum(file.stat().st_size for file in videos)
        # Each has one file of a stream, in the order of its shard's episodes.
        files: dict[Path, list[list[Path]]] = {}
        for one in found:
            if one.shard not in files:
                session = Session(one.shard)
                files[one.shard] = [session.video_files(key) for key in session.video_keys()]
        return sum(of[one.attempt.episode or 0].stat().st_size for one in found for of in files[one.shard])

    def commands(self) -> dict[str, str]:
        """Return the commands that make of what is there what was asked for, each by what it makes.

        There are none where nothing is left to be made, or some of it was added already.
        """
        for dataset in self._datasets():
            # What a worker that was killed has left says less than it holds.
            with contextlib.suppress(LuckyRecorderError):  # one that cannot be completed tells that when it is merged
                recovering.recover(dataset)
        finished = self.finished
        if not (finished or self._datasets()):
            self.remove()
        # Where it is there by now, the same episodes would come twice.
        is_made = self._is_session_made or self.session.exists()
        session = self.command() if finished and not is_made else ""
        commands = {"session": session, "dataset": self._dataset_command()}
        return {what: command for what, command in commands.items() if command}

    def unreadable(self) -> list[Path]:
        """Return the sessions and datasets that the commands leave out, since they cannot be read."""
        sessions = [path for path in self.finished if not shards.can_be_read(path)] if self._has_session else []
        return [*sessions, *(path for path in self._datasets() if not _can_be_read(path))]

    def _datasets(self) -> list[Path]:
        if self._dataset is None or self.settings.koyu is None:
            return []
        return [path for path in sorted(self.folder.glob(f"*/{self.settings.koyu.name}")) if _has_bundles(path)]

    def _dataset_command(self) -> str:
        finished = [path for path in self._datasets() if _can_be_read(path)]
        dataset = self._dataset
        if not finished or dataset is None or self._is_added:
            return ""
        if self._is_session_made:
            return self._conversion(dataset)
        if not os.path.lexists(dataset):
            return _command(finished, dataset)
        there = [dataset] if _has_bundles(dataset) else []
        return _command([*there, *finished], dataset.with_name(f"{dataset.name}-{self.session.name}"))

    def _conversion(self, dataset: Path) -> str:
        """Return the command that makes bundles of the session: the shards hold episodes that are not wanted, too."""
        session, koyu = self.settings.resume or self.session, self.settings.koyu
        assert koyu is not None
        # Of a session that was gone on with, the dataset may have the first episodes.
        if self.settings.resume is not None and _has_bundles(dataset):
            dataset = dataset.with_name(f"{dataset.name}-{self.session.name}")
        mode = ["--collection-mode", koyu.collection_mode]
        return shlex.join(["lucky-recorder", "convert", str(session), "--koyu", str(dataset), *mode])


def _command(parts: Iterable[Path], output: Path) -> str:
    return shlex.join(["lucky-recorder", "merge", *map(str, parts), "-o", str(output)])


def are_written(shard: Path, attempts: Iterable[Attempt]) -> bool:
    """Tell whether a shard has the episodes that attempts were to leave, in every format."""
    kept = [one for one in attempts if one.episode is not None]
    if not all(folder.is_dir() for one in kept for folder in one.bundles):
        return False
    is_session = shard.parent.name == keys.SESSIONS
    there = _count(shard) if kept and is_session else 0
    return all(one.episode < there for one in kept if one.episode is not None) or not is_session


def _count(session: Path) -> int:
    try:
        return len(Session(session))
    except LuckyRecorderError:  # of one without an episode
        return 0


def _can_be_read(dataset: Path) -> bool:
    """Tell whether a dataset can be merged, as far as its sidecars say."""
    try:
        for folder in dataset.glob("episodes/ep_*"):
            read_sidecar(dataset, folder.name)
    except LuckyRecorderError:
        return False
    return True


def _has_bundles(dataset: Path) -> bool:
    return any(dataset.glob("episodes/ep_*/episode.json"))
