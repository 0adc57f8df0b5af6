"""The session sink: finished episodes become the files of a v3.0 session folder."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from lucky_recorder.episode import keys
from lucky_recorder.episode.record import EpisodeRecord
from lucky_recorder.episode.schema import Schema
from lucky_recorder.episode.statistics import PixelHistogram
from lucky_recorder.errors import LuckyRecorderError, StorageError, extended
from lucky_recorder.session import about, carried, layout, listing, resumed, rows
from lucky_recorder.session.carried import Carried
from lucky_recorder.session.log import Log, Unsaid
from lucky_recorder.session.metadata import Finished, MadeOf, MetadataWriter, as_json
from lucky_recorder.session.streams import stage_streams
from lucky_recorder.storage import arrow, reserve
from lucky_recorder.storage.home import Home
from lucky_recorder.storage.lock import hold, take_over
from lucky_recorder.storage.names import part
from lucky_recorder.storage.reserve import Reserve
from lucky_recorder.storage.untrusted import Folder
from lucky_recorder.storage.write import Staged, metadata_errors, stage, storage_errors, taken_away

# What is said of a file that cannot be taken away again: of a video, and of an episode's rows.
_LEFT = "no episode names it", "readers show its episode, which is not counted"


class SessionSink:
    """Writes one session folder.

    An episode gets its index in `prepare`. It exists once its data file has its final name; that rename is the last.
    With several episodes per file that is its spool, a whole Parquet file of this one episode (``….<episode>.tmp``).

    Attributes:
        root: The session's folder.
        keeps_broken: A stream that failed is left out of its episode.
        home: Tells whether the folder is still there.

    Args:
        root: The session's folder, which the caller has claimed (`layout.claim_folder`).
        chunking: How episodes are grouped into files, and files into folders.
        metadata_every: Episodes between two writes of ``meta/``.
        resumes: Whether it is a session that is there already: the episodes are added to it.
        log: Says where the session comes from; None where nothing does.

    Raises:
        StorageError: If another process writes the session that is there.
    """

    keeps_broken = True

    def __init__(
        self,
        root: Path,
        chunking: layout.Chunking,
        metadata_every: int = 25,
        *,
        resumes: bool = False,
        log: Log | None = None,
    ) -> None:
        arrow.warm_up()
        self.root = root
        self._chunking = chunking
        self._every = metadata_every
        # Episodes and rows that are committed: their numbers are used up.
        self._episodes = 0
        self._rows = 0
        # Takes by now, those that were discarded included. Lanes may end them in another order than they began.
        self._takes = 0
        self._spools: list[Spooled] = []
        self._served: list[Path] = []
        # What the last write of meta/ takes, held until then.
        self._reserve = Reserve(root / reserve.NAME)
        # Held while the session is written, so that a reader can tell it from one that was cut short.
        self._lock = take_over(root) if resumes else hold(root)
        self.home = Home(root, self._lock)
        self._resumes = resumes
        self._log = Unsaid() if log is None and resumes else log
        # Known once `open` is called.
        self._is_open = self._renumbers = False
        self._schema: Schema
        self._metadata: MetadataWriter

    @classmethod
    def in_new_folder(
        cls, output_dir: Path, chunking: layout.Chunking, metadata_every: int = 25, log: Log | None = None
    ) -> SessionSink:
        """Claim a folder, and make the sink that writes it.

        Raises:
            StorageError: If the folder cannot be made.
        """
        # All that takes long comes before the folder: until its lock is held, nobody can tell that it is written.
        arrow.warm_up()
        return cls(layout.claim_folder(output_dir), chunking, metadata_every, log=log)

    def open(
        self, schema: Schema, tasks: Sequence[str], made_of: MadeOf | None = None, *, is_compared: bool = False
    ) -> None:
        """Learn what rows and frames are; a new session holds whatever a schema says.

        Args:
            schema: The columns and streams.
            tasks: The task descriptions that are known beforehand.
            made_of: What it takes over from sessions whose episodes it is made of. Their tasks have the indices that
                they have there, and get those of this one.
            is_compared: Whether it is known that the session that is gone on with is like what is to come.

        Raises:
            SettingsError: If the session that is to be gone on with holds other ones; it is as it was then.
            FormatError: If it cannot be read.
            StorageError: If it was cut short, and the file system refuses what completes it.
        """
        before = None
        if self._resumes:
            compared = None if is_compared else schema
            resumed.refuse(self.root, compared, self._chunking, is_ours=True)
            before = resumed.complete(self.root, compared)
            self._episodes, self._rows = before.totals.episodes, before.totals.rows
        self._schema = schema
        # Without rows there is no meta/.
        log = self._log = self._log if schema.has_rows else None
        if log is not None:
            log.begin(self.root, self._episodes)
        self._metadata = MetadataWriter(self.root, schema, self._chunking, tasks, self._every, before, made_of, log)
        self._renumbers = self._resumes or made_of is not None
        self._is_open = True
        self._hold_reserve()

    def _hold_reserve(self) -> None:
        if self._schema.has_rows:
            self._reserve.hold(self._metadata.largest(self._every + self._chunking.episodes_per_file))

    def stream_path(self, key: str, take: int, suffix: str) -> Path:
        """Return where a take's video is written: beside its final place, so that a rename will do."""
        self.home.check()
        folder = keys.DATA if part(key).startswith(keys.LIDAR_PREFIX) else f"{keys.VIDEOS}{key}"
        return self.root / folder / f"{key}-take-{take:06d}{suffix}.tmp"

    def prepare(self, record: EpisodeRecord) -> PreparedEpisode:
        """Write an episode's rows under a temporary name; its videos are there already.

        Raises:
            StorageError: If the disk refuses, if the session is not where it was, or if chunk numbers would pass 999.
        """
        self.home.check()
        if self._renumbers:
            record = resumed.numbered(record, self._metadata.tasks)
        # The next index: an episode is committed or discarded before another one is prepared.
        episode = self._episodes
        if self._chunking.video(episode).chunk_index > keys.LARGEST_CHUNK:
            raise StorageError(f"{self.root}: episode {episode} would need chunk 1000; raise files_per_chunk")
        row = self._metadata.listable(listing.row_of(self._schema, self._chunking, record, episode, self._rows))
        new_tasks = record.new_tasks(len(self._metadata.tasks))
        columns = {f.name: rows.measure(record, f.name) for f in self._schema.columns if f.has_stats}
        finished = Finished(row, columns, self._pixels(record), record.reproducible)
        staged = stage_streams(self.root, self._schema, record, episode, self._chunking)
        try:
            if self._log is not None:
                self._log.announce()
            data = self._stage_rows(record, row, new_tasks) if self._schema.has_rows else None
        except BaseException:  # no temporary file must stay behind, whatever was raised
            for one in staged:
                one.discard()
            raise
        return PreparedEpisode(self, finished, new_tasks, staged, data)

    def _stage_rows(self, record: EpisodeRecord, row: Mapping[str, Any], new_tasks: Sequence[str]) -> Staged:
        episode = row[keys.EPISODE_INDEX]
        tables = rows.tables(self._schema, record, episode, row["dataset_from_index"])
        path = layout.data_path(self.root, self._chunking.data(episode))
        if self._chunking.episodes_per_file > 1:
            path = path.with_name(layout.spool_file(path.name, episode))
        known = [*self._metadata.tasks, *new_tasks]
        pixels, beside = self._pixels(record), carried.unlisted(self._schema)
        self._takes = max(self._takes, record.take + 1)
        said = Carried(self._metadata.info, known, record.reproducible, pixels, self._takes, beside)
        # A session of another recorder carries nothing of ours.
        plain = said.plain() if "recorder_version" in said.info else None
        return stage(
            path,
            lambda p: rows.write(p, tables, [about.carried(as_json(row))], plain),
            lambda p: rows.verify(p, record.rows),
            rows.largest(self._schema, record),
        )

    def _pixels(self, record: EpisodeRecord) -> dict[str, PixelHistogram]:
        counted = {key: one.pixels for key, one in record.videos.items() if one.pixels.frames}
        return {key: pixels for key, pixels in counted.items() if self._schema.stream(key).kind == "color"}

    def know(self, tasks: Sequence[str]) -> None:
        """Add task descriptions that no episode needs to be of; they are listed with the next episode."""
        self._metadata.tasks += [task for task in tasks if task not in self._metadata.tasks]

    def committed(self, episode: Finished, new_tasks: Sequence[str], data: Path | None) -> None:
        """Count an episode whose files all have their names, and write what falls due with it."""
        # Only here is the index used up: an episode whose commit has failed leaves no gap in the numbers.
        self._episodes += 1
        self._rows += episode.row["length"]
        if data is None:  # no rows are recorded, and then there is no meta/
            return
        self._metadata.tasks += new_tasks
        with metadata_errors():
            self.home.check()
            if self._chunking.episodes_per_file == 1:
                self._metadata.add(episode)
            else:
                self._spools.append(Spooled(data, episode))
                if self._chunking.ends_file(episode.row[keys.EPISODE_INDEX]):
                    self._assemble()
            if self._metadata.is_due(self._episodes):
                self._metadata.write()
                self._hold_reserve()

    @property
    def spools(self) -> list[Path]:
        """Files whose rows will be written once more, into their data file."""
        return [one.path for one in self._spools]

    def _assemble(self) -> None:
        """Make the data file of the spooled episodes, and only then list them and remove the spools."""
        # A Parquet file cannot be appended to. So each episode waits as a whole file of its own (its spool), and a
        # crash before the data file is complete loses none. Nor does an error here: the spools are kept, also in mind,
        # until their data file has its name, and the next call tries again.
        if not self._spools:
            return
        files = Folder(self.root)
        path = layout.data_path(self.root, self._chunking.data(self._spools[0].episode.row[keys.EPISODE_INDEX]))
        parts = self._parts(files, path.relative_to(self.root).as_posix())
        # This process has written them: each row group has fitted the memory before.
        carried.stage_assembled(
            files, path.relative_to(self.root).as_posix(), parts, lambda part: rows.read(self.root / part)
        ).commit()
        spools, self._spools = self._spools, []
        for one in spools:
            self._metadata.add(one.episode)
        self._served += [one.path for one in spools]
        self._remove_served()

    def _remove_served(self) -> None:
        """Remove the spools whose episodes are in their data file; what the disk refuses is tried again at the end."""
        while self._served:
            with storage_errors(self._served[-1]):
                self._served[-1].unlink(missing_ok=True)
            self._served.pop()

    def _parts(self, files: Folder, name: str) -> list[str]:
        """Return of which files a data file is made: the spools, after what it holds already."""
        spools = [(one.episode.row[keys.EPISODE_INDEX], one.path.relative_to(self.root)) for one in self._spools]
        parts = {index: path.as_posix() for index, path in spools}
        if self._chunking.begins_file(min(parts)):
            return list(parts.values())
        # A session that was gone on with within a file. Where an error came after the rename, some are in it by now.
        held = {row[keys.EPISODE_INDEX] for row in carried.read(files, name).episodes}
        return [name, *(part for index, part in parts.items() if index not in held)]

    def close(self) -> None:
        """Assemble the last data file and write ``meta/`` once more. Never opened, the empty folder goes again."""
        try:
            self._close()
        finally:
            self.home.leave()
            if self._lock is not None:
                self._lock.release()

    def _close(self) -> None:
        if not self._is_open:
            if self._resumes:
                return
            # Also the folder of all sessions, if this was to be the first: rmdir takes empty ones only.
            with contextlib.suppress(OSError):
                self.root.rmdir()
                self.root.parent.rmdir()
            return
        self.home.check()
        try:
            if self._schema.has_rows:
                self._complete()
        finally:
            self._reserve.release()
        self._remove_strays()

    def _complete(self) -> None:
        """Assemble the last data file and list every episode.

        Raises:
            LuckyRecorderError: What the file system refuses; it says how many finished episodes are not listed, or not
                counted, and the remedy.
        """
        try:
            try:
                self._assemble()
            finally:
                # Also where the last data file cannot be assembled: what is before it is to be listed.
                self._reserve.release()
                self._metadata.write()
                self._remove_served()
        except LuckyRecorderError as error:
            unlisted, uncounted = (self._episodes - n for n in (self._metadata.listed, self._metadata.counted))
            if not uncounted:
                raise
            count, lists = (unlisted, "list") if unlisted else (uncounted, "count")
            them = "1 finished episode is" if count == 1 else f"{count} finished episodes are"
            behind = "not listed in meta/ yet" if unlisted else "listed, and not counted in meta/ yet"
            remedy = f"lucky_recorder.Session reads all, and `lucky-recorder recover {self.root}` {lists}s them"
            raise extended(error, f"{them} whole on the disk and {behind}: {remedy}") from error

    def _remove_strays(self) -> None:
        """Leave no folder of a stream that has no file: folders appear only for the streams a session has recorded."""
        for folder in (self.root / keys.VIDEOS).glob("*"):
            # What somebody else has put there stays, be it empty.
            is_own = layout.is_own_folder(folder.relative_to(self.root).as_posix())
            if is_own and all(found.is_dir() for found in folder.rglob("*")):
                shutil.rmtree(folder, ignore_errors=True)
        with contextlib.suppress(OSError):
            (self.root / keys.VIDEOS).rmdir()


class Spooled(NamedTuple):
    """An episode that waits for its data file.

    Attributes:
        path: Its spool.
        episode: What it adds to ``meta/`` once its data file is there.
    """

    path: Path
    episode: Finished


class PreparedEpisode:
    """An episode of a session, written under temporary names."""

    def __init__(
        self,
        sink: SessionSink,
        episode: Finished,
        new_tasks: Sequence[str],
        videos: Sequence[Staged],
        data: Staged | None,
    ) -> None:
        self._sink = sink
        self._episode = episode
        self._new_tasks = new_tasks
        # In the order of their names: the rows come last.
        self._files = (*videos, *([data] if data else []))
        self._data = data.path if data else None

    def files(self) -> list[Path]:
        """Return the files as they lie on the disk before they have their names."""
        return [staged.temporary for staged in self._files]

    def claims(self) -> list[Path]:
        """Return the files whose rows are to be written once more."""
        return self._sink.spools

    def commit(self) -> None:
        """Rename the videos, then the rows: an episode whose rows are there has its videos."""
        # A data file proves that its episodes exist: its footer says all that meta/episodes will. A crash between two
        # renames therefore leaves videos that no episode names, which is harmless, and never rows without their videos.
        named: list[Path] = []
        self._sink.home.check()
        try:
            for staged in self._files:
                # First: where the folder cannot be synced, the file has its name already.
                named.append(staged.path)
                staged.commit()
        except BaseException as error:  # also an interrupt: a video that no episode names must not stay behind
            # The rows first: without its videos an episode must not be read.
            left = taken_away(reversed(named))
            if left is not None and isinstance(error, LuckyRecorderError):
                raise extended(error, f"{left} could not be removed again: {_LEFT[left == self._data]}") from error
            raise
        self._sink.committed(self._episode, self._new_tasks, self._data)

    def discard(self) -> None:
        """Remove every temporary file."""
        for staged in self._files:
            staged.discard()
