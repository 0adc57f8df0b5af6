"""The worker's half of a lane: what was seen is drawn and encoded, and takes are cut to their whole ticks.

Every method but the constructor runs in the worker's thread, in the order of the queue. So the takes of a lane come one
after another; those of other lanes come in between.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lucky_recorder.capture.source import Source
from lucky_recorder.episode.keys import NOISE, TASK_INDEX
from lucky_recorder.episode.record import EpisodeRecord, FinishedScans, FinishedStates, FinishedVideo, Outcome, Reason
from lucky_recorder.errors import CaptureError, StreamError
from lucky_recorder.recorder.committer import Committer, as_ours
from lucky_recorder.recorder.devices import Devices
from lucky_recorder.recorder.lane import release
from lucky_recorder.recorder.messages import Ended, Layout, Seen
from lucky_recorder.recorder.tracks import Tracks, unlink


class OpenFiles(NamedTuple):
    """The files of the take that is being drawn.

    Attributes:
        take: Its number.
        tracks: The files.
    """

    take: int
    tracks: Tracks


class LaneWriter:
    """Draws and encodes the takes of one lane, and hands them to the committer.

    Attributes:
        devices: What draws and scans.

    Args:
        committer: What the lanes of the session share.
        source: What the pictures and rows are of.
    """

    def __init__(self, committer: Committer, source: Source) -> None:
        self.devices = Devices(source.settings, source.renderer, Layout(source.schema, source.clocks))
        self._committer = committer
        self._files: OpenFiles | None = None
        self._last_drawn = -1, -1
        self._last_ended = -1

    def draw(self, seen: Seen) -> None:
        """Draw, scan and encode what was seen at a tick."""
        if seen.take <= self._last_ended:
            # Another thread has ended the take while this tick was on its way: it is not one of its ticks.
            release(seen.snapshots)
            return
        self._last_drawn = seen.take, seen.tick
        tracks = None if self._committer.has_stopped_before(seen.take) else self._tracks_of(seen)
        if tracks is None:
            release(seen.snapshots)
            return
        tracks.write(seen.snapshots)
        if tracks.error is not None:
            self._committer.fail(seen.take, tracks.error)

    def _tracks_of(self, seen: Seen) -> Tracks | None:
        """Return the files of a take, which its first pictures open; None if they cannot be opened."""
        if self._files is not None and self._files.take != seen.take:
            _abort(self._files)
            self._files = None
        if self._files is None and not self._committer.has_failed(seen.take):
            try:
                self._files = OpenFiles(seen.take, Tracks(self.devices, self._place_of(seen.take), seen.key))
            except BaseException as error:  # a sink of the user's own says where they are, and may raise anything
                self._committer.fail(seen.take, as_ours(error, f"the videos of take {seen.take} could not be begun"))
        return None if self._files is None else self._files.tracks

    def _place_of(self, take: int) -> Callable[[str, str], Path]:
        sink = self._committer.sinks[0]
        return lambda key, suffix: sink.stream_path(key, take, suffix)

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
        self._committer.note_seed(ended.is_seeded)
        if self._committer.has_stopped_before(ended.take):
            _abort(files)
            self._committer.drop(ended.buffer.data_ticks * len(ended.entities))
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
        committer = self._committer
        videos: dict[str, FinishedVideo] = {}
        scans: dict[str, FinishedScans] = {}
        committer.is_written = False
        try:
            if files is not None:
                videos, scans = self._finish_files(files, ended.ticks)
            self._count(ended.take, ended.ticks, files, videos, scans)
            has_failed = committer.has_failed(ended.take)
            outcome = Outcome(False, Reason.STREAM_FAILED) if has_failed else ended.outcome
            if committer.keeps(outcome):
                committer.commit(self._record(ended, outcome, videos, scans))
            else:
                unlink(videos, scans)
                committer.discard(ended.about.seed)
        except BaseException as error:  # whatever a library or a sink raises fails the take, not the thread
            committer.fail_take(ended.take, ended.buffer.data_ticks * len(ended.entities), error)
            _abort(files)
            unlink(videos, scans)

    def filmed(self, take: int, ticks: int) -> tuple[dict[str, FinishedVideo], dict[str, FinishedScans]]:
        """Close the files of a take of which nothing but pictures and scans is made, and return them.

        Args:
            take: Its number.
            ticks: How many ticks it had.

        Raises:
            LuckyRecorderError: What has failed in it; nothing is left of its files then.
        """
        self._last_ended = take
        files, self._files = self._files, None
        videos: dict[str, FinishedVideo] = {}
        scans: dict[str, FinishedScans] = {}
        try:
            if files is not None:
                videos, scans = self._finish_files(files, ticks)
            self._count(take, ticks, files, videos, scans)
            self._committer.raise_failure()
        except BaseException:  # whatever was raised, nobody takes them
            _abort(files)
            unlink(videos, scans)
            raise
        return videos, scans

    def _finish_files(self, files: OpenFiles, ticks: int) -> tuple[dict[str, FinishedVideo], dict[str, FinishedScans]]:
        videos, scans = files.tracks.finish()
        if files.tracks.error is not None:
            self._committer.fail(files.take, files.tracks.error)
        for scan in scans.values():
            _seal(scan.positions, scan.orientations, scan.ranges, scan.geoms)
        return videos, scans

    def _count(
        self,
        take: int,
        ticks: int,
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
            frames, due = 0 if video is None else video.file.frames, layout.due(ticks, stream.rate)
            if frames != due and not (video is None and has_failed):
                unlink({} if video is None else {stream.key: videos.pop(stream.key)}, {})
                self._miscounted(take, ticks, f"stream {stream.key!r}: {frames} frames", due)
        for scan in layout.schema.scans:
            scanned = scans.get(scan.name)
            count, due = 0 if scanned is None else len(scanned.ranges), layout.due(ticks, scan.rate)
            if count != due and not (scanned is None and has_failed):
                unlink({}, {} if scanned is None else {scan.name: scans.pop(scan.name)})
                self._miscounted(take, ticks, f"lidar {scan.name!r}: {count} scans", due)

    def _miscounted(self, take: int, ticks: int, what: str, due: int) -> None:
        self._committer.fail(take, StreamError(f"{what} for {ticks} ticks, expected {due}"))

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
            finished.columns[TASK_INDEX] = np.repeat(self._committer.tasks.indices(said), len(ended.entities))
        # As those of a long episode, which are in a file: what one sink changed would be another's rows.
        _seal(*finished.columns.values(), *finished.missing.values())
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
            tasks=self._committer.tasks.described(finished.columns[TASK_INDEX]),
            videos=videos,
            scans=scans,
            states=self._states_of(ended),
            reproducible=self._committer.is_seeded and self.devices.draw_the_same_again(),
            began_ns=ended.began_ns,
            events=tuple(buffer.events),
            about=ended.about._replace(lane=ended.lane),
        )

    def _states_of(self, ended: Ended) -> FinishedStates | None:
        if ended.trail is None:
            return None
        states = ended.trail.finish(ended.ticks, self.devices.layout.clocks)
        if states is None:
            self._committer.warn("the states of an episode are not kept: its model was replaced by one of other states")
            return None
        _seal(states.states, states.commands)
        # Whoever draws them gives its sensors the same noise.
        states = states._replace(about={**states.about, NOISE: ended.mark.key})
        for lack in states.about["not_brought_back"]:
            self._committer.warn(f"states are kept, and cannot bring an episode back to the bit: {lack}")
        return states

    # The end.

    def abort(self) -> None:
        """Close and remove the files of the take that is being drawn."""
        files, self._files = self._files, None
        _abort(files)

    def close(self) -> None:
        """Let go of what draws."""
        self.devices.close()


def _abort(files: OpenFiles | None) -> None:
    if files is not None:
        files.tracks.abort()


def _seal(*arrays: NDArray[Any]) -> None:
    for array in arrays:
        array.flags.writeable = False
