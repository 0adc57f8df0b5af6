"""An open recording: the worker, the streams and the sinks behind an observer.

The first half of this file runs in the caller's thread and only queues work; the worker runs what is queued, in order.
"""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lucky_recorder.episode.record import EpisodeRecord, FinishedScans, FinishedVideo, Outcome, Reason
from lucky_recorder.episode.schema import Schema
from lucky_recorder.episode.sink import Prepared, Sink
from lucky_recorder.errors import LuckyRecorderError, StreamError
from lucky_recorder.recorder.buffer import EpisodeBuffer
from lucky_recorder.recorder.lane import Lane, release
from lucky_recorder.recorder.tracks import Studio, Tracks, colors, develop, unlink
from lucky_recorder.recorder.worker import Worker, fork_error
from lucky_recorder.settings.recorder import RecorderSettings
from lucky_recorder.video.codecs import CODECS

if TYPE_CHECKING:
    import mujoco
    import numpy as np
    from numpy.typing import NDArray

    from lucky_recorder.capture.mujoco.lidar import Caster
    from lucky_recorder.capture.snapshot import Snapshot
    from lucky_recorder.capture.source import Source

_MOST_SCENES = 16
_MOST_FRAMES = 4


class Attempt:
    """One attempt at an episode, from its beginning to its commit or discard.

    Attributes:
        number: Counts the attempts of a recording, from 0.
        is_seeded: Whether every reset in it was given a seed.
        key: What its noise is keyed by: the seed of the reset that began it, or else its number.
        tracks: Its open video files; made in the worker by the first picture.
        last_drawn: The last tick whose pictures the worker was given, or -1.
        is_ended: Whether the worker is done with it.
        began_ns: When it began, nanoseconds since 1970.
    """

    def __init__(self, number: int, seed: int | None) -> None:
        self.number = number
        self.is_seeded = seed is not None
        self.key = f"attempt {number}" if seed is None else f"seed {seed}"
        self.tracks: Tracks | None = None
        self.last_drawn = -1
        self.is_ended = False
        self.began_ns = time.time_ns()


class Counts:
    """What became of the episodes so far; written by the worker, read by anyone.

    Attributes:
        kept: Episodes committed.
        discarded: Attempts discarded.
        rows: Rows committed.
        bytes: Bytes of video committed.
    """

    def __init__(self) -> None:
        self.kept = 0
        self.discarded = 0
        self.rows = 0
        self.bytes = 0


_living: weakref.WeakSet[Recording] = weakref.WeakSet()


class Recording:
    """An open recording of one source.

    Attributes:
        failure: The first thing that failed in the worker; the session stops when the caller finds it.
        counts: What became of the episodes so far.
    """

    def __init__(self, settings: RecorderSettings, source: Source) -> None:
        self.failure: LuckyRecorderError | None = None
        self.counts = Counts()
        self._settings = settings
        self._source = source
        self._schema: Schema = source.schema
        self._sinks: tuple[Sink, ...] = ()
        self._attempts = 0
        self._failed: Attempt | None = None
        self._dropped_attempts = 0
        self._dropped_rows = 0
        self._is_closed = False
        self._is_seeded = True
        self._current: tuple[Attempt, Lane] | None = None
        self._drawing: set[Attempt] = set()
        self._is_forked = False
        self._is_given_up = False
        self._studio = Studio(
            source.schema, settings.recorded_cameras, source.renderer, [], settings.video_preset, settings.seed
        )
        self._worker = Worker(_queue_depth(source), settings.worker_timeout_s)
        _living.add(self)

    # In the caller's thread.

    def open(self, make_sinks: Callable[[Schema], Sequence[Sink]]) -> Path:
        """Start the worker, make the GL context, and only then make the sinks; returns the first sink's folder.

        Raises:
            GLError: If pictures are to be drawn and no GL context can be made; nothing is on the disk then.
        """
        self._worker.start()
        try:
            model = self._source.model_copy()
            if model is not None:
                self._worker.call(lambda: self._open_painter(model))
            self._sinks = tuple(make_sinks(self._schema))
        except BaseException:
            self._worker.stop()
            raise
        return self.place

    @property
    def place(self) -> Path:
        """The folder the first format is written to."""
        return self._sinks[0].root

    @property
    def is_closed(self) -> bool:
        """Whether everything is written, or is another process's to write, or cannot be written."""
        return self._is_closed or self._is_forked or self._is_given_up

    @property
    def is_in_worker(self) -> bool:
        """Whether this is the worker's own thread."""
        return self._worker.is_current

    def mark_forked(self) -> None:
        """Fail at the next call: this is a forked child, where the worker does not exist."""
        self._is_forked = True
        self.failure = fork_error()

    def begin(self, seed: int | None, task: int) -> Lane:
        """Begin an attempt at an episode; returns the lane that fills it."""
        self.end(Outcome(False, Reason.STOPPED))
        change = self._source.asset_change()
        if change is not None:
            painter = self._source.renderer
            assert painter is not None
            self._worker.put(
                lambda: self._guarded(lambda: painter.update(change), "the changed model could not be drawn")
            )
        self._renew_casters()
        attempt = Attempt(self._attempts, seed)
        lane = Lane(self._source, task, lambda tick, sights: self._show(attempt, tick, sights))
        self._attempts += 1
        self._current = attempt, lane
        return lane

    def mark_unseeded(self) -> None:
        """Take note that something in the open attempt was not seeded."""
        if self._current is not None:
            self._current[0].is_seeded = False

    def replace_model(self) -> None:
        """Draw and scan with the source's new model from here on."""
        model = self._source.model_copy()
        if model is not None:
            self._worker.put(
                lambda: self._guarded(lambda: self._open_painter(model), "the new model could not be drawn")
            )
        self._renew_casters()

    def _renew_casters(self) -> None:
        """Scan the model as it is now from here on."""
        if self._schema.scans:
            casters = self._source.casters()
            self._worker.put(lambda: self._replace_casters(casters))

    def _show(self, attempt: Attempt, tick: int, sights: list[Snapshot]) -> None:
        """Queue what was seen at a tick; waits while the queue is full."""
        self._worker.put(lambda: self._draw(attempt, tick, sights))

    def observe(self) -> dict[str, NDArray[np.uint8]]:
        """Have the pictures of the coming tick drawn now, and wait for them.

        Returns:
            Copies of the pixels that will be encoded, uint8, shape ``(height, width, 3)``, by feature key.

        Raises:
            StreamError: If one cannot be drawn.
        """
        assert self._current is not None
        lane = self._current[1]
        sights = lane.observe()
        if sights:
            try:
                lane.sights = sights = self._worker.call(lambda: develop(self._studio, sights))
            except Exception as error:  # as in a stream: a driver may raise anything
                raise _ours(error, "a picture could not be drawn") from error
        return colors(self._studio, sights)

    def end(self, outcome: Outcome) -> bool:
        """Queue the end of the open attempt and return.

        Returns:
            Whether the episode is to be kept; one without a row never is.
        """
        if self._current is None:
            return False
        attempt, lane = self._current
        lane.drop_half()
        columns, entities, last_shown = self._source.columns, self._source.entity_ids, lane.last_shown
        ticks, per_row = lane.ticks, self._source.clocks.ticks_per_row

        def job() -> None:
            whole = ticks
            if attempt.last_drawn < last_shown:
                # An interrupt struck while the last tick's sights were handed over: without them it is half a tick.
                whole = last_shown
                lane.buffer.trim(-(-whole // per_row))
            self._end(attempt, lane.buffer, whole, outcome, columns, entities)

        if lane.ticks:
            self._worker.put(job)
        # Not before it is queued: an attempt whose end is interrupted is still there to be ended.
        self._current = None
        return bool(lane.ticks) and (outcome.success or not self._settings.discard_and_retry_failed)

    def flush(self) -> None:
        """Wait until everything queued is done."""
        self._worker.flush()

    def close(self) -> None:
        """End the open attempt as failed, finish what is queued, write what the sinks still hold, end the worker.

        Calling it again does nothing. An interrupt is raised only after all this; a second one gives up.

        Raises:
            LuckyRecorderError: The first thing that failed, with a count of what was dropped after it.
        """
        if self._is_closed or self._is_given_up:
            return
        if self._is_forked and self.failure is not None:
            raise self.failure
        try:
            self._finish()
        except Exception:
            self._is_given_up = True
            raise
        if self._worker.error is not None:
            self._fail(None, _ours(self._worker.error, "the recorder's worker failed"))
        if self.failure is not None:
            raise self._with_count(self.failure)

    def _finish(self) -> None:
        try:
            _despite_interrupt(lambda: self.end(Outcome(False, Reason.STOPPED)))
        finally:
            try:
                _despite_interrupt(lambda: self._worker.call(self._close_sinks))
            finally:
                self._worker.stop()

    def _with_count(self, failure: LuckyRecorderError) -> LuckyRecorderError:
        if not self._dropped_attempts:
            return failure
        counted = type(failure)(
            f"{failure}; {self._dropped_attempts} episodes with {self._dropped_rows} rows "
            "that came after it were dropped"
        )
        counted.__cause__ = failure
        return counted

    # In the worker.

    def _open_painter(self, model: mujoco.MjModel) -> None:
        assert self._source.renderer is not None
        self._source.renderer.open(model)

    def _guarded(self, job: Callable[[], None], what: str) -> None:
        """Run a job that belongs to no episode; if it fails, so does all that follows."""
        try:
            job()
        except Exception as error:  # as in a stream: a driver may raise anything
            self._fail(None, _ours(error, what))

    def _draw(self, attempt: Attempt, tick: int, sights: list[Snapshot]) -> None:
        attempt.last_drawn = tick
        if self.failure is not None and attempt is not self._failed:
            release(sights)
            return
        if attempt.tracks is None:
            attempt.tracks = self._make_tracks(attempt)
            self._drawing.add(attempt)
        attempt.tracks.write(sights)
        if attempt.tracks.error is not None:
            self._fail(attempt, attempt.tracks.error)

    def _make_tracks(self, attempt: Attempt) -> Tracks:
        sink = self._sinks[0]
        return Tracks(self._studio, lambda key, suffix: sink.stream_path(key, attempt.number, suffix), attempt.key)

    def _replace_casters(self, casters: list[Caster]) -> None:
        self._studio.casters[:] = casters

    def _end(
        self,
        attempt: Attempt,
        buffer: EpisodeBuffer,
        ticks: int,
        outcome: Outcome,
        columns: Sequence[Any],
        entities: Sequence[int],
    ) -> None:
        if attempt.is_ended:
            return
        attempt.is_ended = True
        self._drawing.discard(attempt)
        if not buffer.ticks:
            self._abort(attempt)
            return
        # A discarded attempt counts too: on the next run it might be kept.
        self._is_seeded &= attempt.is_seeded
        if self.failure is not None and attempt is not self._failed:
            self._drop(attempt, buffer.ticks * len(entities))
            return
        videos: dict[str, FinishedVideo] = {}
        scans: dict[str, FinishedScans] = {}
        try:
            videos, scans = self._finish_tracks(attempt, ticks)
            if attempt is self._failed:
                outcome = Outcome(False, Reason.STREAM_FAILED)
            if not outcome.success and self._settings.discard_and_retry_failed:
                unlink(videos, scans)
                self.counts.discarded += 1
                return
            finished = buffer.finish(columns, self._schema, entities)
            self._commit(
                EpisodeRecord(
                    take=attempt.number,
                    data_ticks=finished.ticks,
                    rows=finished.ticks * len(entities),
                    columns=finished.columns,
                    missing=finished.missing,
                    outcome=outcome,
                    tasks=tuple(sorted({int(t) for t in finished.columns["task_index"]})),
                    videos=videos,
                    scans=scans,
                    reproducible=self._is_seeded and self._draws_the_same_again(),
                    began_ns=attempt.began_ns,
                    events=tuple(buffer.events),
                )
            )
        except Exception as error:  # whatever a library raises fails the episode, not the thread
            self._abort(attempt)
            unlink(videos, scans)
            self._fail(attempt, _ours(error, f"episode attempt {attempt.number} could not be written"))

    def _finish_tracks(self, attempt: Attempt, ticks: int) -> tuple[dict[str, FinishedVideo], dict[str, FinishedScans]]:
        if attempt.tracks is None:
            return {}, {}
        videos, scans = attempt.tracks.finish()
        if attempt.tracks.error is not None:
            self._fail(attempt, attempt.tracks.error)
        for stream in self._schema.streams:
            if stream.key in videos:
                self._check_count(attempt, videos, stream.key, videos[stream.key].file.frames, stream.rate, ticks)
        for scan in self._schema.scans:
            if scan.name in scans:
                self._check_count(attempt, scans, scan.name, len(scans[scan.name].ranges), scan.rate, ticks)
        return videos, scans

    def _check_count(
        self, attempt: Attempt, finished: dict[str, Any], key: str, count: int, rate: Fraction, ticks: int
    ) -> None:
        """Frame i is the picture of one certain tick: there must be exactly as many as ticks at which it was due."""
        expected = self._source.clocks.due(ticks, rate)
        if count == expected:
            return
        unlink(
            *(({key: finished[key]}, {}) if isinstance(finished[key], FinishedVideo) else ({}, {key: finished[key]}))
        )
        del finished[key]
        self._fail(attempt, StreamError(f"stream {key!r}: {count} frames for {ticks} ticks, expected {expected}"))

    def _draws_the_same_again(self) -> bool:
        """Whether a second run would draw and encode the same bytes: a CPU draws, and every encoder gives them."""
        cameras = self._settings.recorded_cameras
        if not cameras:
            return True
        painter = self._source.renderer
        through_render = any(c.source == "render" for c in cameras)
        encodes = all(CODECS[s.encoder].reproducible for s in self._schema.streams if s.encoder)
        return painter is not None and painter.is_software and not through_render and encodes

    def _commit(self, record: EpisodeRecord) -> None:
        """Prepare the files of every format, then rename them; one that fails leaves none of them."""
        is_broken = record.outcome.reason == Reason.STREAM_FAILED
        sinks = [sink for sink in self._sinks if sink.keeps_broken or not is_broken]
        if not sinks:
            unlink(record.videos, record.scans)
            return
        prepared: list[Prepared] = []
        try:
            for sink in sinks:
                prepared.append(sink.prepare(record))
            for one in prepared:
                one.commit()
        except BaseException:
            for one in prepared:
                one.discard()
            raise
        self.counts.kept += 1
        self.counts.rows += record.rows
        self.counts.bytes += sum(v.file.bytes for v in record.videos.values())

    def _fail(self, attempt: Attempt | None, error: LuckyRecorderError) -> None:
        if self.failure is None:
            self.failure, self._failed = error, attempt

    def _drop(self, attempt: Attempt, rows: int) -> None:
        self._abort(attempt)
        self._dropped_attempts += 1
        self._dropped_rows += rows

    def _abort(self, attempt: Attempt) -> None:
        if attempt.tracks is not None:
            attempt.tracks.abort()

    def _close_sinks(self) -> None:
        if self._is_closed:
            return
        for attempt in self._drawing:
            self._abort(attempt)
        for sink in self._sinks:
            try:
                sink.close()
            except Exception as error:  # the other formats and the GL context must be closed all the same
                self._fail(None, _ours(error, f"{sink.root} could not be completed"))
        if self._source.renderer is not None:
            self._source.renderer.close()
        self._is_closed = True


def _despite_interrupt(job: Callable[[], object]) -> None:
    """Run a job that may be run twice to its end, also if an interrupt strikes in the midst of it; then raise that."""
    try:
        job()
    except Exception:
        raise
    except BaseException:
        job()
        raise


def _ours(error: BaseException, what: str) -> LuckyRecorderError:
    """Return an error of the recorder's own tree."""
    if isinstance(error, LuckyRecorderError):
        return error
    wrapped = StreamError(f"{what}: {type(error).__name__}: {error}")
    wrapped.__cause__ = error
    return wrapped


def _queue_depth(source: Source) -> int:
    """Bound what is in flight: at most 16 scenes, or 4 frames of pixels per camera."""
    cameras = max(1, len(source.settings.recorded_cameras))
    return max(1, _MOST_SCENES // cameras) if source.needs_gl else _MOST_FRAMES


def _mark_forked() -> None:
    for recording in _living:
        recording.mark_forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_mark_forked)
