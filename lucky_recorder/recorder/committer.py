"""The worker's half of an open session: what was seen is drawn and encoded, what has ended is committed.

Every method but the constructor and `Committer.told_failure` runs in the worker's thread, in the order of the
queue. So the takes come one after another, and nothing here needs a lock. What fails is noted in
`Counts.failure`; the caller finds it at the next tick.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from lucky_recorder.capture.source import Source
from lucky_recorder.episode.keys import TASK_INDEX
from lucky_recorder.episode.record import EpisodeRecord, FinishedScans, FinishedVideo, Outcome, Reason
from lucky_recorder.episode.sink import Measured, Prepared, Sink
from lucky_recorder.errors import CaptureError, LuckyRecorderError, MetadataError, StreamError, extended
from lucky_recorder.recorder.devices import Devices
from lucky_recorder.recorder.lane import release
from lucky_recorder.recorder.losses import Losses
from lucky_recorder.recorder.messages import Counts, Ended, Layout, Seen
from lucky_recorder.recorder.origin import Origin
from lucky_recorder.recorder.tasks import ListedTasks
from lucky_recorder.recorder.tracks import Tracks, unlink
from lucky_recorder.storage.space import Outlook, Taken, taken


class OpenFiles(NamedTuple):
    """The files of the take that is being drawn.

    Attributes:
        take: Its number.
        tracks: The files.
    """

    take: int
    tracks: Tracks


class Committer:
    """Draws, encodes and commits the takes of one session.

    Attributes:
        devices: What draws and scans.
        sinks: The formats, the session first if there is one.
        origin: Told of what is discarded; None where that is not noted.
        is_closed: Whether everything is written.

    Args:
        source: What the pictures and rows are of.
        counts: Where it says how it stands.
        tasks: Descriptions of the tasks that are registered, in index order.
    """

    def __init__(self, source: Source, counts: Counts, tasks: Sequence[str]) -> None:
        self.devices = Devices(source.settings, source.renderer, Layout(source.schema, source.clocks))
        self.sinks: tuple[Sink, ...] = ()
        self.origin: Origin | None = None
        self.is_closed = False
        self._discards_failed = source.settings.discard_and_retry_failed
        self._counts = counts
        self._tasks = ListedTasks(tasks, are_said=source.task is not None)
        self._files: OpenFiles | None = None
        self._last_drawn = -1, -1
        self._last_ended = -1
        self._failed: int | None = None
        self._losses = Losses()
        self._outlook = Outlook()
        self._has_warned = False
        # Whether the take at hand is an episode of any format by now.
        self._is_written = False
        self._is_seeded = True

    def guard(self, job: Callable[[], None], what: str) -> None:
        """Run a job that belongs to no take; if it fails, so does all that follows."""
        try:
            job()
        except Exception as error:  # as in a stream: a driver may raise anything
            self.fail(None, as_ours(error, what))

    # A take.

    def draw(self, seen: Seen) -> None:
        """Draw, scan and encode what was seen at a tick."""
        if seen.take <= self._last_ended:
            # Another thread has ended the take while this tick was on its way: it is not one of its ticks.
            release(seen.snapshots)
            return
        self._last_drawn = seen.take, seen.tick
        tracks = None if self._is_to_be_dropped(seen.take) else self._tracks_of(seen)
        if tracks is None:
            release(seen.snapshots)
            return
        tracks.write(seen.snapshots)
        if tracks.error is not None:
            self.fail(seen.take, tracks.error)

    def _tracks_of(self, seen: Seen) -> Tracks | None:
        """Return the files of a take, which its first pictures open; None if they cannot be opened."""
        if self._files is not None and self._files.take != seen.take:
            _abort(self._files)
            self._files = None
        if self._files is None and seen.take != self._failed:
            try:
                self._files = OpenFiles(seen.take, Tracks(self.devices, self._place_of(seen.take), seen.key))
            except BaseException as error:  # a sink of the user's own says where they are, and may raise anything
                self.fail(seen.take, as_ours(error, f"the videos of take {seen.take} could not be begun"))
        return None if self._files is None else self._files.tracks

    def _place_of(self, take: int) -> Callable[[str, str], Path]:
        sink = self.sinks[0]
        return lambda key, suffix: sink.stream_path(key, take, suffix)

    def _is_to_be_dropped(self, take: int) -> bool:
        """Tell whether something has failed in an earlier take: the session ends with that one."""
        return self._counts.failure is not None and take != self._failed

    def end(self, ended: Ended) -> None:
        """Commit a take, or discard it; a second end of the same take does nothing."""
        if ended.take <= self._last_ended:
            return
        self._last_ended = ended.take
        ended = self._whole(ended)
        files, self._files = self._files, None
        if not ended.ticks:
            _abort(files)
            return
        # A discarded take counts too: on the next run it might be kept.
        self._is_seeded &= ended.is_seeded
        if self._is_to_be_dropped(ended.take):
            _abort(files)
            self._counts.dropped += 1
            self._losses.drop(ended.buffer.data_ticks * len(ended.entities))
            return
        self._finish(ended, files)

    def _whole(self, ended: Ended) -> Ended:
        """Return a take with its whole ticks and the rows of those, as a copy that nothing can change any more.

        An interrupt may strike while a tick is settled, or another thread end the take meanwhile. Then the tick's row
        may be there before it is counted, or it is counted and its snapshots never got here, or they got here before
        the end did, and it was counted after that. Frames cannot be taken back, and without its frames a tick is only
        half there: so what was drawn decides.
        """
        drawn = self._last_drawn[1] if self._last_drawn[0] == ended.take else -1
        whole = ended.ticks if drawn >= ended.last_seen else min(ended.ticks, ended.last_seen)
        whole = max(whole, drawn + 1)
        return ended._replace(ticks=whole, buffer=ended.buffer.until(self._data_ticks(whole), whole))

    def _data_ticks(self, ticks: int) -> int:
        return -(-ticks // self.devices.layout.clocks.ticks_per_row)

    def _finish(self, ended: Ended, files: OpenFiles | None) -> None:
        videos: dict[str, FinishedVideo] = {}
        scans: dict[str, FinishedScans] = {}
        self._is_written = False
        try:
            if files is not None:
                videos, scans = self._finish_files(files, ended.ticks)
            self._count(ended, files, videos, scans)
            outcome = ended.outcome
            if ended.take == self._failed:
                outcome = Outcome(False, Reason.STREAM_FAILED)
            if self._is_kept(outcome):
                self._commit(self._record(ended, outcome, videos, scans))
            else:
                unlink(videos, scans)
                self._counts.discarded += 1
                if self.origin is not None:
                    self.origin.discard(ended.about.seed)
        except BaseException as error:  # whatever a library or a sink raises fails the take, not the thread
            _abort(files)
            unlink(videos, scans)
            if not self._is_written:
                self._lose(ended.buffer.data_ticks * len(ended.entities))
            self.fail(ended.take, as_ours(error, f"take {ended.take} could not be written"))

    def _lose(self, rows: int) -> None:
        self._counts.failed += 1
        self._losses.rows += rows

    def _is_kept(self, outcome: Outcome) -> bool:
        """Decide whether a take becomes an episode. Here alone: only now is it known whether its streams are whole."""
        return outcome.success or not self._discards_failed

    def _finish_files(self, files: OpenFiles, ticks: int) -> tuple[dict[str, FinishedVideo], dict[str, FinishedScans]]:
        videos, scans = files.tracks.finish()
        if files.tracks.error is not None:
            self.fail(files.take, files.tracks.error)
        return videos, scans

    def _count(
        self,
        ended: Ended,
        files: OpenFiles | None,
        videos: dict[str, FinishedVideo],
        scans: dict[str, FinishedScans],
    ) -> None:
        """Count every stream: frame i is the picture of one certain tick, so there are as many as it was due at."""
        layout = self.devices.layout
        # What is missing because a stream has failed was told of already.
        has_failed = files is not None and files.tracks.error is not None
        for stream in layout.schema.streams:
            video = videos.get(stream.key)
            frames, due = 0 if video is None else video.file.frames, layout.due(ended.ticks, stream.rate)
            if frames != due and not (video is None and has_failed):
                unlink({} if video is None else {stream.key: videos.pop(stream.key)}, {})
                self._miscounted(ended, f"stream {stream.key!r}: {frames} frames", due)
        for scan in layout.schema.scans:
            scanned = scans.get(scan.name)
            count, due = 0 if scanned is None else len(scanned.ranges), layout.due(ended.ticks, scan.rate)
            if count != due and not (scanned is None and has_failed):
                unlink({}, {} if scanned is None else {scan.name: scans.pop(scan.name)})
                self._miscounted(ended, f"lidar {scan.name!r}: {count} scans", due)

    def _miscounted(self, ended: Ended, what: str, due: int) -> None:
        self.fail(ended.take, StreamError(f"{what} for {ended.ticks} ticks, expected {due}"))

    def _record(
        self,
        ended: Ended,
        outcome: Outcome,
        videos: dict[str, FinishedVideo],
        scans: dict[str, FinishedScans],
    ) -> EpisodeRecord:
        buffer = ended.buffer
        finished = buffer.finish(ended.columns, self.devices.layout.schema, ended.entities)
        said = buffer.said_tasks()
        if said is not None:
            finished.columns[TASK_INDEX] = np.repeat(self._tasks.indices(said), len(ended.entities))
        due = self._data_ticks(ended.ticks)
        found = {len(values) for values in finished.columns.values()} | {finished.data_ticks * len(ended.entities)}
        if found != {due * len(ended.entities)}:
            rows = " or ".join(map(str, sorted(found)))
            raise CaptureError(f"{rows} rows for {ended.ticks} ticks, expected {due * len(ended.entities)}")
        return EpisodeRecord(
            take=ended.take,
            data_ticks=finished.data_ticks,
            rows=finished.data_ticks * len(ended.entities),
            columns=finished.columns,
            missing=finished.missing,
            outcome=outcome,
            tasks=self._tasks.described(finished.columns[TASK_INDEX]),
            videos=videos,
            scans=scans,
            reproducible=self._is_seeded and self.devices.draw_the_same_again(),
            began_ns=ended.began_ns,
            events=tuple(buffer.events),
            about=ended.about,
        )

    def _commit(self, record: EpisodeRecord) -> None:
        """Prepare the files of every format, then rename them, in the order of the sinks.

        All are prepared before the first is renamed, because preparing is what can fail (a full disk, a value that a
        format cannot hold) and renaming hardly can. One that cannot be prepared leaves none of them. Where renaming
        fails after all, the formats that were renamed before it have the episode: it is counted, and the error says so.
        """
        is_broken = record.outcome.reason is Reason.STREAM_FAILED
        sinks = [sink for sink in self.sinks if sink.keeps_broken or not is_broken]
        if not sinks:
            self._lose(record.rows)
            unlink(record.videos, record.scans)
            return
        prepared: list[Prepared] = []
        written: list[Sink] = []
        late: MetadataError | None = None
        try:
            for sink in sinks:
                prepared.append(sink.prepare(record))
            took = _taken(prepared, lambda one: one.files())
            for sink, one in zip(sinks, prepared, strict=True):
                try:
                    one.commit()
                except MetadataError as error:  # the episode is whole there: the other formats are to have it too
                    late = late or error
                written.append(sink)
        except BaseException as error:  # no temporary file must stay behind, whatever was raised
            for one in prepared:
                one.discard()
            if not written:
                raise
            self._count_kept(record)
            raise _half_written(error, written, sinks) from error
        self._count_kept(record)
        self._look_ahead(took, prepared)
        if late is not None:
            raise late

    def _count_kept(self, record: EpisodeRecord) -> None:
        self._is_written = True
        self._counts.kept += 1
        self._counts.rows += record.rows
        self._counts.bytes += sum(v.file.bytes for v in record.videos.values())

    def _look_ahead(self, took: Mapping[int, Taken], prepared: Sequence[Prepared]) -> None:
        """Have the user warned, once, while there is still time to make room on a disk."""
        self._outlook.add(took)
        if not self._has_warned:
            self._counts.notice = self._outlook.warning(_taken(prepared, lambda one: one.claims()))
            self._has_warned = bool(self._counts.notice)

    # The end.

    def fail(self, take: int | None, error: LuckyRecorderError) -> None:
        """Take note of what failed first, and in which take."""
        if self._counts.failure is None:
            self._counts.failure, self._failed = error, take

    def told_failure(self) -> LuckyRecorderError | None:
        """Return what failed first, with a count of what is not on the disk because of it; None if nothing did."""
        failure = self._counts.failure
        return None if failure is None else self._losses.told(failure)

    def close(self) -> None:
        """Complete every format and let go of the GL context; calling it again does nothing."""
        if self.is_closed:
            return
        _abort(self._files)
        self.close_sinks()
        self.devices.close()
        self.is_closed = True

    def close_sinks(self) -> None:
        """Close every sink; one that raises keeps no other from being closed."""
        for sink in self.sinks:
            try:
                sink.close()
            except BaseException as error:  # whatever a sink of the user's raises: the others are closed all the same
                told = as_ours(error, f"{sink.root} could not be completed")
                if self._counts.failure is not None:
                    self._losses.follow(told)
                self.fail(None, told)


def as_ours(error: BaseException, what: str) -> LuckyRecorderError:
    """Return an error of the recorder's own tree."""
    if isinstance(error, LuckyRecorderError):
        return error
    wrapped = StreamError(f"{what}: {type(error).__name__}: {error}")
    wrapped.__cause__ = error
    return wrapped


def _taken(prepared: Sequence[Prepared], files: Callable[[Measured], Iterable[Path]]) -> Mapping[int, Taken]:
    """Return what an episode takes of each file system, in all formats together: a file of several counts once."""
    measured = [one for one in prepared if isinstance(one, Measured)]
    try:
        return taken(path for one in measured for path in files(one))
    except Exception:  # whatever a sink of the user's raises: to foresee a full disk must cost no episode
        return {}


def _half_written(error: BaseException, written: Sequence[Sink], sinks: Sequence[Sink]) -> LuckyRecorderError:
    """Say of an episode which formats have it and which do not."""
    has, lacks = (
        " and ".join(str(sink.root) for sink in some) for some in (written, [s for s in sinks if s not in written])
    )
    return extended(
        as_ours(error, "an episode could not be written"), f"its episode is whole in {has} and not in {lacks}"
    )


def _abort(files: OpenFiles | None) -> None:
    if files is not None:
        files.tracks.abort()
