"""The worker's half of an open session: what has ended, in any lane, is committed.

Every method but the constructor and `Committer.told_failure` runs in the worker's thread, in the order of the
queue. So the takes come one after another, and nothing here needs a lock. What fails is noted in
`Counts.failure`; the caller finds it at the next tick. A lane's own part is in `lucky_recorder.recorder.writer`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from lucky_recorder.episode.record import EpisodeRecord, Outcome, Reason
from lucky_recorder.episode.sink import Measured, Prepared, Sink
from lucky_recorder.errors import LuckyRecorderError, MetadataError, StreamError, extended, shown, told
from lucky_recorder.recorder.losses import Losses
from lucky_recorder.recorder.messages import Counts
from lucky_recorder.recorder.origin import Origin
from lucky_recorder.recorder.tasks import ListedTasks
from lucky_recorder.recorder.tracks import unlink
from lucky_recorder.settings.recorder import RecorderSettings
from lucky_recorder.storage.space import Outlook, Taken, taken

logger = logging.getLogger("lucky_recorder")


class Closable(Protocol):
    """A lane, as far as the end of its session goes."""

    def abort(self) -> None:
        """Close and remove the files of the take that is being drawn."""

    def close(self) -> None:
        """Let go of what draws."""


class Committer:
    """Commits the takes of all lanes of one session.

    Attributes:
        writers: The lanes, as the worker has them.
        sinks: The formats, the session first if there is one.
        origin: Told of what is discarded; None where that is not noted.
        tasks: The tasks that are listed.
        is_written: Whether the take at hand is an episode of any format by now.
        is_seeded: Whether every reset was seeded, in the takes up to the one at hand.
        is_closed: Whether everything is written.

    Args:
        settings: What is recorded.
        counts: Where it says how it stands.
        tasks: Descriptions of the tasks that are registered, in index order.
        are_said: Whether tasks are found on the way too.
    """

    def __init__(self, settings: RecorderSettings, counts: Counts, tasks: Sequence[str], are_said: bool) -> None:
        self.writers: list[Closable] = []
        self.sinks: tuple[Sink, ...] = ()
        self.origin: Origin | None = None
        self.tasks = ListedTasks(tasks, are_said)
        self.is_closed = False
        self._discards_failed = settings.discard_and_retry_failed
        self._counts = counts
        self._failed: int | None = None
        self._losses = Losses()
        self._outlook = Outlook()
        self._has_warned = False
        self._warned: set[str] = set()
        self.is_written = False
        self.is_seeded = True

    def guard(self, job: Callable[[], None], what: str) -> None:
        """Run a job that belongs to no take; if it fails, so does all that follows."""
        try:
            job()
        except BaseException as error:  # as in a stream: a driver may raise anything
            self.fail(None, as_ours(error, what))

    # A take.

    def has_stopped_before(self, take: int) -> bool:
        """Tell whether something has failed in another take: the session ends with that one."""
        return self._counts.failure is not None and take != self._failed

    def has_failed(self, take: int) -> bool:
        """Tell whether a take is the one in which something has failed."""
        return take == self._failed

    def note_seed(self, is_seeded: bool) -> None:
        """Take note of whether a take's resets were seeded."""
        # A discarded take counts too: on the next run it might be kept.
        self.is_seeded &= is_seeded

    def drop(self, rows: int) -> None:
        """Count a take that is not written, because of what has failed in another."""
        self._counts.dropped += 1
        self._losses.drop(rows)

    def keeps(self, outcome: Outcome) -> bool:
        """Decide whether a take becomes an episode. Only now, when it is known whether its streams are whole."""
        return outcome.success or not self._discards_failed

    def discard(self, seed: str | None) -> None:
        """Count a take that is discarded, and note its seed."""
        self._counts.discarded += 1
        if self.origin is not None:
            self.origin.discard(seed)

    def fail_take(self, take: int, rows: int, error: BaseException) -> None:
        """Take note of what has failed where a take was to be committed."""
        if not self.is_written:
            self._lose(rows)
        self._fail_after(take, as_ours(error, f"take {take} could not be written"))

    def _lose(self, rows: int) -> None:
        self._counts.failed += 1
        self._losses.rows += rows

    def commit(self, record: EpisodeRecord) -> None:
        """Prepare the files of every format, then rename them, in the order of the sinks.

        All are prepared before the first is renamed, because preparing is what can fail (a full disk, a value that a
        format cannot hold) and renaming hardly can. One that cannot be prepared leaves none of them. Where renaming
        fails after all, the formats that were renamed before it have the episode: it is counted, and the error says so.
        What is raised first is raised here, and what is raised after it is told with it.
        """
        is_broken = record.outcome.reason is Reason.STREAM_FAILED
        sinks = [sink for sink in self.sinks if sink.keeps_broken or not is_broken]
        if not sinks:
            unlink(record.videos, record.scans)
            self._lose(record.rows)
            return
        prepared: list[Prepared] = []
        written: list[Sink] = []
        raised: list[BaseException] = []
        try:
            for sink in sinks:
                prepared.append(_prepared(sink, record))
            took = _taken(prepared, lambda one: one.files())
            for sink, one in zip(sinks, prepared, strict=True):
                try:
                    one.commit()
                except MetadataError as error:  # the episode is whole there: the other formats are to have it too
                    raised.append(error)
                written.append(sink)
        except BaseException as error:  # no temporary file must stay behind, whatever was raised
            raised += [error, *_discard(sinks, prepared, len(written))]
            first = self._first(raised)
            if not written:
                raise
            self._count_kept(record)
            raise _half_written(first, written, sinks) from first
        self._count_kept(record)
        self._look_ahead(took, prepared)
        if raised:
            raise self._first(raised)

    def _first(self, raised: Sequence[BaseException]) -> BaseException:
        """Return what was raised first; what came after it is told with it."""
        for error in raised[1:]:
            self._losses.follow(as_ours(error, "an episode could not be written"))
        return raised[0]

    def _count_kept(self, record: EpisodeRecord) -> None:
        self.is_written = True
        self._counts.kept += 1
        self._counts.rows += record.rows
        self._counts.bytes += sum(v.file.bytes for v in record.videos.values())

    def _look_ahead(self, took: Mapping[int, Taken], prepared: Sequence[Prepared]) -> None:
        """Have the user warned, once, while there is still time to make room on a disk."""
        self._outlook.add(took)
        if not self._has_warned:
            self._counts.notice = self._outlook.warning(_taken(prepared, lambda one: one.claims()))
            self._has_warned = bool(self._counts.notice)

    def warn(self, text: str) -> None:
        """Log a warning, the first time only."""
        if text not in self._warned:
            self._warned.add(text)
            logger.warning("%s", text)

    # The end.

    def fail(self, take: int | None, error: LuckyRecorderError) -> None:
        """Take note of what failed first, and in which take."""
        if self._counts.failure is None:
            self._counts.failure, self._failed = error, take

    def _fail_after(self, take: int | None, error: LuckyRecorderError) -> None:
        """As `fail`; what comes after the first is told with it."""
        if self._counts.failure is not None:
            self._losses.follow(error)
        self.fail(take, error)

    def raise_failure(self) -> None:
        """Raise what has failed, if something has."""
        if self._counts.failure is not None:
            raise self._counts.failure

    def told_failure(self) -> LuckyRecorderError | None:
        """Return what failed first, with a count of what is not on the disk because of it; None if nothing did."""
        failure = self._counts.failure
        return None if failure is None else self._losses.told(failure)

    def close(self) -> None:
        """Complete every format and let go of the GL context; calling it again does nothing."""
        if self.is_closed:
            return
        self.complete()
        for writer in self.writers:
            self.guard(writer.close, "what draws could not be closed")
        # They know it, and the user's settings: see `OpenSession.let_go`.
        self.writers.clear()

    def complete(self) -> None:
        """Complete every format; calling it again does nothing. What draws is left: that is its own thread's."""
        if self.is_closed:
            return
        for writer in self.writers:
            self.guard(writer.abort, "the files of an open take could not be removed")
        self.close_sinks()
        self.is_closed = True

    def close_sinks(self) -> None:
        """Close every sink; one that raises keeps no other from being closed."""
        for sink in self.sinks:
            try:
                sink.close()
            except BaseException as error:  # whatever a sink of the user's raises: the others are closed all the same
                self._fail_after(None, as_ours(error, f"{_named(sink)} could not be completed"))


def as_ours(error: BaseException, what: str) -> LuckyRecorderError:
    """Return an error of the recorder's own tree."""
    if isinstance(error, LuckyRecorderError):
        return error
    wrapped = StreamError(f"{what}: {told(error)}")
    wrapped.__cause__ = error
    return wrapped


def _named(sink: Sink) -> str:
    """Return where a sink writes, for a message; its type where a sink of the user's does not say it."""
    try:
        return str(sink.root)
    except Exception:  # asked where something has failed: its failing here must not hide that
        return f"a sink of type {type(sink).__name__}"


def _prepared(sink: Sink, record: EpisodeRecord) -> Prepared:
    """Have a sink prepare an episode; refuse what could be neither committed nor discarded, while nothing is."""
    one = sink.prepare(record)
    if not all(callable(getattr(one, verb, None)) for verb in ("commit", "discard")):
        what = f"its prepare() returned {shown(one)}; return what has commit() and discard()"
        raise StreamError(f"{_named(sink)}: {what}")
    return one


def _discard(sinks: Sequence[Sink], prepared: Sequence[Prepared], written: int) -> Iterator[BaseException]:
    """Discard what was prepared and is not written; what one raises keeps no other from being discarded."""
    for sink, one in list(zip(sinks, prepared, strict=False))[written:]:
        try:
            one.discard()
        except BaseException as error:  # whatever a sink of the user's raises
            yield as_ours(error, f"{_named(sink)}: temporary files may be left")


def _taken(prepared: Sequence[Prepared], files: Callable[[Measured], Iterable[Path]]) -> Mapping[int, Taken]:
    """Return what an episode takes of each file system, in all formats together: a file of several counts once."""
    try:
        measured = [one for one in prepared if isinstance(one, Measured)]
        return taken(path for one in measured for path in files(one))
    except BaseException:  # whatever a sink of the user's raises: to foresee a full disk must cost no episode
        return {}


def _half_written(error: BaseException, written: Sequence[Sink], sinks: Sequence[Sink]) -> LuckyRecorderError:
    """Say of an episode which formats have it and which do not."""
    has, lacks = (" and ".join(map(_named, some)) for some in (written, [s for s in sinks if s not in written]))
    return extended(
        as_ours(error, "an episode could not be written"), f"its episode is whole in {has} and not in {lacks}"
    )
