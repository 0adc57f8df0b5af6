"""A new session out of episodes of others: merged, selected, split and trimmed sessions are all lists of picks.

The new session is written beside its place, in ``<name>.partial``, checked, and only then given its name. So there is
either a whole session or none, and what a crash leaves behind is seen to be unfinished.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from lucky_recorder.edit.change import Change
from lucky_recorder.edit.drawn import Drawn
from lucky_recorder.edit.fit import made_of, refuse_unlike
from lucky_recorder.edit.partial import made_whole, refuse_faults, refuse_target
from lucky_recorder.edit.pick import OnEpisode, Pick
from lucky_recorder.edit.source import Source
from lucky_recorder.edit.states import given_states
from lucky_recorder.edit.streams import Part, Streams, whole_files
from lucky_recorder.episode import keys
from lucky_recorder.errors import FormatError, LuckyRecorderError, SettingsError
from lucky_recorder.session import layout
from lucky_recorder.session.check import check_session
from lucky_recorder.session.log import Added, Combined
from lucky_recorder.session.metadata import MadeOf
from lucky_recorder.session.provenance import RECORDINGS, as_one, combined, is_said, read, with_left_out
from lucky_recorder.session.sink import SessionSink
from lucky_recorder.storage.untrusted import Folder

__all__ = ["AsOne", "Assembly", "OnEpisode", "Pick", "assemble", "plan"]

_LARGEST = 1000


class AsOne(NamedTuple):
    """How a session would have been recorded as one whose episodes several processes have recorded.

    Attributes:
        tasks: The tasks that are registered, in index order. Others are listed where an episode is of them.
        takes: Of each episode, how many takes there were until it had ended, those that were discarded counted too.
        discarded: The seeds of those that were, in order.
        tried: Of each episode, how many of these came before it.
        there: Of the episodes that the session has got already, by their place: their ``episode_index`` there.
    """

    tasks: Sequence[str]
    takes: Sequence[int]
    discarded: Sequence[str | None]
    tried: Sequence[int]
    there: Mapping[int, int] = MappingProxyType({})


@dataclass(frozen=True)
class Assembly:
    """A session that can be made; nothing is touched yet.

    Attributes:
        target: Where it will be.
        parts: Its episodes, in order.
        chunking: How its files are grouped.
        taken_over: What it takes over of its sources; None where it is added to a session.
        rename: Task descriptions that become others.
        recorded: How it would have been recorded as one; None where it is made of what others have recorded.
        drawn: Streams that were drawn of its only source; None where there are none.
        change: Makes other rows of those that there are; None where they stay as they were.
    """

    target: Path
    parts: Sequence[Part]
    chunking: layout.Chunking
    taken_over: MadeOf | None
    rename: Mapping[str, str]
    recorded: AsOne | None = None
    drawn: Drawn | None = None
    change: Change | None = None

    @property
    def episodes(self) -> int:
        """How many episodes it will have."""
        return len(self.parts)

    @property
    def rows(self) -> int:
        """How many rows it will have."""
        return sum((p.window.stop - p.window.first) * len(p.source.folder.robots) for p in self.parts)

    def write(self, on_episode: OnEpisode | None = None, metadata_every: int = 25) -> Path:
        """Make the session, and check it.

        Args:
            on_episode: Called after each episode.
            metadata_every: Episodes between two writes of ``meta/``.

        Returns:
            Its folder.

        Raises:
            FormatError: If a source cannot be read, or the result has faults: those of its sources.
            StorageError: If the file system refuses, or there is something of its name by now.
            VideoError: If a video cannot be read. Whatever is raised, nothing is left of the new session.
        """
        log = self.log()
        with made_whole(self.target) as partial:
            self.fill(SessionSink(partial, self.chunking, metadata_every, log=log), on_episode)
            refuse_faults([f"{f.file}: {f.message}" for f in check_session(partial, decode=False)], self.target)
        return self.target

    def fill(self, sink: SessionSink, on_episode: OnEpisode | None = None) -> None:
        """Write the episodes into a sink, but for those that it has got already, and close it."""
        first = self.parts[0]
        try:
            tasks = first.source.known_tasks(first.episode) if self.recorded is None else self.recorded.tasks
            schema = first.source.schema if self.drawn is None else self.drawn.joined(first.source.schema)
            schema = schema if self.change is None else self.change.schema(schema)
            sink.open(schema, self._named(tasks), self.taken_over, is_compared=self.taken_over is None)
            self._write_episodes(sink, on_episode or (lambda done, total: None))
        except BaseException:  # what is written of it goes anyway
            with contextlib.suppress(LuckyRecorderError):
                sink.close()
            raise
        sink.close()

    def _write_episodes(self, sink: SessionSink, on_episode: OnEpisode) -> None:
        own = self.parts[0].source.schema
        schema = own if self.drawn is None else self.drawn.kept(own)
        left = [part for number, part in enumerate(self.parts) if not self._has(number)]
        wanted = whole_files(left, self._sources(), self.chunking.episodes_per_file)
        streams = {id(source): Streams(source, schema, whole, sink) for source, whole in wanted.items()}
        takes = 0
        for number, part in enumerate(self.parts):
            if number == len(self.parts) - 1 and self.recorded is None:
                # Those of which no episode is are not lost; the last one lists them.
                sink.know([task for source in self._sources() for task in self._named(source.folder.tasks)])
            if self._has(number):
                continue
            takes = takes + part.source.takes(part.episode) if self.recorded is None else self.recorded.takes[number]
            self._write(part, number, takes, streams[id(part.source)], sink)
            on_episode(number + 1, len(self.parts))

    def _write(self, part: Part, number: int, takes: int, streams: Streams, sink: SessionSink) -> None:
        episode = part.source.episode(part.episode)
        record = part.source.read(episode, part.window, self.parts[0].source.schema, sink.root)
        if self.change is not None:
            record = self.change.record(record, episode, sink.root)
        videos, is_reproducible = streams.videos(episode, part.window, number)
        scans = streams.scans(episode, part.window, number)
        states = given_states(episode, part.window, sink.root, number)
        if self.drawn is not None:
            more = self.drawn.given(part.episode, number, sink)
            videos, scans = {**videos, **more.videos}, {**scans, **more.scans}
            is_reproducible = is_reproducible and more.is_reproducible
        tasks = dict(zip(record.tasks, self._renamed(record.tasks.values()), strict=True))
        record = replace(record, take=takes - 1, tasks=tasks, reproducible=is_reproducible)
        sink.prepare(replace(record, videos=videos, scans=scans, states=states)).commit()

    def _has(self, number: int) -> bool:
        return self.recorded is not None and number in self.recorded.there

    def _renamed(self, tasks: Iterable[str]) -> list[str]:
        return [self.rename.get(task, task) for task in tasks]

    def _named(self, tasks: Iterable[str]) -> list[str]:
        return list(dict.fromkeys(self._renamed(tasks)))

    def log(self) -> Combined:
        """Say where the episodes come from: what their sessions say of it."""
        sources = self._sources()
        kept: dict[int, dict[int, int]] = {id(source): {} for source in sources}
        for number, part in enumerate(self.parts):
            kept[id(part.source)][part.episode] = number
        told = combined((source.recordings, kept[id(source)]) for source in sources)
        seeds = [(seed, n in kept[id(source)]) for source in sources for n, seed in source.seeds.items()]
        left_out = [seed for seed, is_kept in seeds if not is_kept]
        told = with_left_out(told, left_out, {seed for seed, is_kept in seeds if is_kept})
        paths = [source.path for source in sources]
        if self.recorded is None:
            return Combined(told, paths)
        told = as_one(told, len(self.parts), self.recorded.discarded)
        if self.taken_over is not None:
            return Combined(told, paths)
        tried = [count for number, count in enumerate(self.recorded.tried) if not self._has(number)]
        return Added(told, paths, tried, self.recorded.there.values())

    def _sources(self) -> list[Source]:
        return list({id(part.source): part.source for part in self.parts}.values())


def assemble(
    picks: Iterable[Pick],
    target: Path,
    *,
    files_per_chunk: int | None = None,
    episodes_per_file: int | None = None,
    rename: Mapping[str, str] | None = None,
    recorded: AsOne | None = None,
    on_episode: OnEpisode | None = None,
    metadata_every: int = 25,
) -> Path:
    """Write a new session of episodes of others, and check it.

    Rows, videos and scans are as they were; videos are linked. What is numbered is numbered anew: rows, episodes,
    files, tasks. Statistics are those of the new session.

    Args:
        picks: The episodes, in order.
        target: The new session's folder; there must be nothing of that name.
        files_per_chunk: Files in each chunk folder; by default as in the first session.
        episodes_per_file: Episodes in each data file; by default as in the first session.
        rename: Task descriptions that become others; one that there is already unites with it.
        recorded: How it would have been recorded as one, where several processes have recorded it.
        on_episode: Called after each episode: how many are done, and how many there are.
        metadata_every: Episodes between two writes of ``meta/``.

    Returns:
        The new session's folder.

    Raises:
        SettingsError: If there is nothing to write, the target is there already or lies within a source, or the
            episodes need more chunks than there are; nothing is touched.
        FormatError: If a session cannot be taken from, two do not fit, or what was made has faults.
        StorageError: If a session is being written, or the file system refuses.
        VideoError: If a video cannot be read. Whatever is raised, nothing is left of the new session.
    """
    planned = plan(
        picks,
        target,
        files_per_chunk=files_per_chunk,
        episodes_per_file=episodes_per_file,
        rename=rename,
        recorded=recorded,
    )
    return planned.write(on_episode, metadata_every)


def plan(
    picks: Iterable[Pick],
    target: Path,
    *,
    files_per_chunk: int | None = None,
    episodes_per_file: int | None = None,
    rename: Mapping[str, str] | None = None,
    recorded: AsOne | None = None,
) -> Assembly:
    """Say what `assemble` would write, and refuse what it would refuse beforehand; nothing is touched.

    Arguments and errors are those of `assemble`.
    """
    sources: dict[str, Source] = {}
    parts = _parts(picks, sources)
    refuse_target(target, (source.path for source in sources.values()))
    first = parts[0].source
    chunking = layout.Chunking(
        _grouping("files_per_chunk", files_per_chunk, first.folder.files_per_chunk),
        _grouping("episodes_per_file", episodes_per_file, first.episodes_per_file),
    )
    _refuse_many(len(parts), chunking)
    return Assembly(target, parts, chunking, made_of([*sources.values()]), dict(rename or {}), recorded)


def extend(
    session: Path,
    picks: Iterable[Pick],
    recorded: AsOne,
    on_episode: OnEpisode | None = None,
    metadata_every: int = 25,
) -> Path:
    """Add episodes of others to a session, as a recording does that goes on with it; returns its folder.

    Args:
        session: The session.
        picks: The episodes, in order, also those that the session has got already.
        recorded: How they would have been recorded as one.
        on_episode: Called after each episode.
        metadata_every: Episodes between two writes of ``meta/``.

    Raises:
        SettingsError: If the session holds other rows or streams; it is as it was then.
        FormatError: If one of them cannot be read.
        StorageError: If the session is being written, or the file system refuses: what was added until then is whole.
        VideoError: If a video cannot be read.
    """
    own = Source(session)
    chunking = layout.Chunking(own.folder.files_per_chunk, own.episodes_per_file)
    parts = _parts(picks, {})
    # What a session says of itself, and not what its columns look like: names, units and cameras are in it too.
    try:
        refuse_unlike([own, parts[0].source])
    except FormatError as error:
        remedy = "it goes on with the settings it was recorded with only; change these, or leave resume out"
        raise SettingsError.of("resume", str(session), f"{remedy}. {error}") from error
    added = Assembly(session, parts, chunking, None, {}, recorded)
    added.fill(SessionSink(session, chunking, metadata_every, resumes=True, log=added.log()), on_episode)
    return session


def note_discarded(
    session: Path, shards: Sequence[Path], discarded: Sequence[str | None], metadata_every: int = 25
) -> None:
    """Have a session say that attempts were made for it of which nothing is kept, as a recording of no episode does.

    Args:
        session: The session.
        shards: The folders of those who have made them. Where none says where it comes from, nothing is noted.
        discarded: The seeds of the attempts, in order.
        metadata_every: Episodes between two writes of ``meta/``.

    Raises:
        FormatError: If it cannot be read.
        StorageError: If it is being written, or the file system refuses.
    """
    recordings = [entry for shard in shards for entry in read(Folder(shard))]
    if not any(map(is_said, recordings)):
        return
    own, said = Source(session), as_one({RECORDINGS: recordings}, 0, discarded)
    chunking = layout.Chunking(own.folder.files_per_chunk, own.episodes_per_file)
    sink = SessionSink(session, chunking, metadata_every, resumes=True, log=Added(said, shards, ()))
    try:
        sink.open(own.schema, (), is_compared=True)
    finally:
        sink.close()


def _parts(picks: Iterable[Pick], sources: dict[str, Source]) -> list[Part]:
    """Find what is picked, of sessions that fit; nothing is touched."""
    parts = [_part(pick, sources) for pick in picks]
    if not parts:
        raise SettingsError("no episode is left to write; nothing was written")
    _refuse_twice(parts)
    for source in sources.values():
        source.refuse_inexact()
    refuse_unlike([*sources.values()])
    return parts


def _part(pick: Pick, sources: dict[str, Source]) -> Part:
    path = pick.session.path
    real = os.path.realpath(path)
    source = sources.get(real)
    if source is None:
        source = sources[real] = Source(path)
    if pick.episode not in source.numbers:
        raise SettingsError.of(
            "episode", pick.episode, f"{path} has {len(source.numbers)} episodes, and none of this number"
        )
    window = source.window(pick.episode, pick.first, pick.stop)
    if not 0 <= window.first < window.stop <= window.ticks:
        ticks = f"{window.first}:{window.stop}"
        raise SettingsError.of(
            "ticks", ticks, f"{path}: episode {pick.episode} has {window.ticks}; nothing is left of it"
        )
    return Part(source, pick.episode, window)


def _refuse_twice(parts: Sequence[Part]) -> None:
    seen: set[tuple[int, int]] = set()
    for part in parts:
        key = (id(part.source), part.episode)
        if key in seen:
            raise SettingsError.of("episode", part.episode, f"{part.source.path}: is picked twice")
        seen.add(key)


def _grouping(field: str, asked: int | None, otherwise: int) -> int:
    if asked is None:
        return otherwise
    if type(asked) is not int or not 0 < asked <= _LARGEST:
        raise SettingsError.of(field, asked, f"give a whole number from 1 to {_LARGEST}")
    return asked


def _refuse_many(episodes: int, chunking: layout.Chunking) -> None:
    if chunking.video(episodes - 1).chunk_index > keys.LARGEST_CHUNK:
        enough = -(-episodes // (keys.LARGEST_CHUNK + 1))
        most = f"chunk numbers end at {keys.LARGEST_CHUNK}, so {episodes} episodes need {enough} or more"
        remedy = most if enough <= _LARGEST else f"{most}, and there are at most {_LARGEST}: make several sessions"
        raise SettingsError.of("files_per_chunk", chunking.files_per_chunk, remedy)
