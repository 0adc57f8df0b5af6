"""Tracks: the files of one episode's streams while it is open, in the worker's thread.

What snapshots hold is drawn, scanned and encoded here.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lucky_recorder.capture.depth import sensor_codes
from lucky_recorder.capture.snapshot import ScanSnapshot, SceneSnapshot, Snapshot
from lucky_recorder.episode.keys import DEPTH_SUFFIX, IMAGES, LIDAR_PREFIX
from lucky_recorder.episode.record import FinishedScans, FinishedVideo, VideoFile
from lucky_recorder.episode.schema import Stream
from lucky_recorder.episode.statistics import PixelHistogram
from lucky_recorder.errors import LuckyRecorderError, StreamError, told
from lucky_recorder.lazy import lazy
from lucky_recorder.recorder.devices import Devices
from lucky_recorder.recorder.scans import ScanTrack
from lucky_recorder.settings import sensors
from lucky_recorder.storage.write import make_folder

if TYPE_CHECKING:
    import numpy as np

    from lucky_recorder.video import encoder, remux
else:
    encoder, remux = lazy("lucky_recorder.video.encoder"), lazy("lucky_recorder.video.remux")

PathOf = Callable[[str, str], Path]


class Track:
    """One stream's file of one episode."""

    def __init__(self, stream: Stream, path: Path, preset: str) -> None:
        self.stream = stream
        self.error: StreamError | None = None
        self.frames = 0
        self.path = path
        self._preset = preset
        self._pixels = PixelHistogram(stream.channels)
        self._encoder: encoder.VideoEncoder | None = None

    def write(self, pixels: Any, bottom_up: bool) -> None:
        """Encode a frame; the first opens the file."""
        # Not earlier: a stream without a frame leaves no file.
        if self._encoder is None:
            self._encoder = self._open()
        if self.stream.kind == "color":
            self._pixels.add(self.frames, pixels)
        self._encoder.write(pixels, bottom_up=bottom_up)
        self.frames += 1

    def _open(self) -> encoder.VideoEncoder:
        make_folder(self.path.parent)
        stream = self.stream
        return encoder.VideoEncoder(
            self.path,
            width=stream.width,
            height=stream.height,
            fps=stream.rate,
            codec=stream.encoder,
            preset=self._preset,
        )

    def finish(self) -> FinishedVideo | None:
        """Close the file; None if it has no frame or has failed."""
        if self._encoder is None or self.error is not None:
            self.abort()
            return None
        file = self._encoder.close()
        self._encoder = None
        return FinishedVideo(file, self._pixels)

    def abort(self) -> None:
        """Close and remove the file."""
        opened, self._encoder = self._encoder, None
        if opened is not None:
            opened.abort()


class Tracks:
    """All open files of one episode. A stream that fails stays failed; the others go on.

    Attributes:
        error: What failed first, or None.
    """

    def __init__(self, devices: Devices, place: PathOf, episode_key: str) -> None:
        self.error: StreamError | None = None
        self._devices = devices
        self._key = episode_key
        self._place = place
        schema, preset = devices.layout.schema, devices.settings.video_preset
        # Streams without an encoder are made of the files of others, in `finish`.
        tracks = [Track(s, place(s.key, s.suffix), preset) for s in schema.streams if s.encoder]
        self._tracks = [[t for t in tracks if t.stream.camera == c.name] for c in devices.cameras]
        self._scans = [ScanTrack(s, place(LIDAR_PREFIX + s.name, ".mp4"), preset) for s in schema.scans]

    def write(self, snapshots: Sequence[Snapshot]) -> None:
        """Draw, scan and encode what is due at one tick."""
        for snapshot in snapshots:
            try:
                if isinstance(snapshot, SceneSnapshot):
                    self._film(snapshot)
                else:
                    self._scan(snapshot)
            finally:
                # Whatever happens: the simulation waits for its scenes to come back.
                snapshot.release()

    def _film(self, snapshot: SceneSnapshot) -> None:
        for track in self._tracks[snapshot.camera]:
            if track.error is None:
                try:
                    track.write(*self._draw(track, snapshot))
                except Exception as error:  # whatever a driver or a codec raises fails the stream, not the thread
                    self._fail(track, track.stream.key, error)

    def _draw(self, track: Track, snapshot: SceneSnapshot) -> tuple[Any, bool]:
        """Return the pixels of one of a camera's streams, and whether the bottom row is first."""
        renderer = self._devices.renderer
        if renderer is None:
            # Then there are only pictures that the environment has drawn itself.
            assert snapshot.pixels is not None
            return snapshot.pixels, False
        if track.stream.kind == "color":
            return renderer.color(snapshot)
        if track.stream.kind == "mask":
            return renderer.labels(snapshot)
        return self._sense(track, snapshot), False

    def _sense(self, track: Track, snapshot: SceneSnapshot) -> Any:
        """Return the codes that a camera's depth sensor gives of a picture."""
        assert self._devices.renderer is not None
        metres, frustum = self._devices.renderer.depth(snapshot)
        view = sensors.View(metres, frustum.focal, self._noise(track.stream.key, track.frames))
        return sensor_codes(self._devices.cameras[snapshot.camera], view)

    def _noise(self, stream: str, frame: int) -> np.random.Generator:
        """Return the randomness of one frame or scan: in another run with the same seeds it is the same."""
        return sensors.noise(self._devices.settings.seed, self._key, stream, frame)

    def _scan(self, snapshot: ScanSnapshot) -> None:
        track = self._scans[snapshot.lidar]
        if track.error is not None:
            return
        key = LIDAR_PREFIX + track.stream.name
        try:
            track.add(self._devices.casters[snapshot.lidar].cast(snapshot.state, self._noise(key, track.count)))
        except Exception as error:  # as above
            self._fail(track, key, error)

    def finish(self) -> tuple[dict[str, FinishedVideo], dict[str, FinishedScans]]:
        """Close every file and return the streams that are whole: videos by key, scans by the lidar's name."""
        videos: dict[str, FinishedVideo] = {}
        for track in (t for tracks in self._tracks for t in tracks):
            self._finish_into(videos, track.stream.key, track)
        for stream in self._devices.layout.schema.streams:
            if stream.kind == "rgbd":
                self._combine(stream, videos)
        scans: dict[str, FinishedScans] = {}
        for scan in self._scans:
            self._finish_into(scans, scan.stream.name, scan)
        return videos, scans

    def _finish_into(self, finished: dict[str, Any], key: str, track: Track | ScanTrack) -> None:
        try:
            one = track.finish()
        except Exception as error:  # as above
            self._fail(track, key, error)
            return
        if one is not None:
            finished[key] = one

    def _combine(self, stream: Stream, videos: dict[str, FinishedVideo]) -> None:
        """Copy a camera's colour and depth tracks into one file; it is there only if both are."""
        color = videos.get(IMAGES + stream.camera)
        depth = videos.get(IMAGES + stream.camera + DEPTH_SUFFIX)
        if color is None or depth is None:
            return
        target = self._place(stream.key, stream.suffix)
        try:
            make_folder(target.parent)
            remux.combine(color.file.path, depth.file.path, target)
            file = VideoFile(target, color.file.frames, target.stat().st_size)
            # Without statistics: `meta/` does not speak of combined files.
            videos[stream.key] = FinishedVideo(file, PixelHistogram())
        except Exception as error:  # as above
            target.unlink(missing_ok=True)
            # This file has no track of its own; one is made to carry the error.
            self._fail(Track(stream, target, ""), stream.key, error)

    def _fail(self, track: Track | ScanTrack, key: str, error: Exception) -> None:
        what = error if isinstance(error, LuckyRecorderError) else told(error)
        track.error = StreamError(f"stream {key!r} failed: {what}")
        track.error.__cause__ = error
        self.error = self.error or track.error
        track.abort()

    def abort(self) -> None:
        """Close and remove every file."""
        for track in (t for tracks in self._tracks for t in tracks):
            track.abort()
        for scan in self._scans:
            scan.abort()


def unlink(videos: Mapping[str, FinishedVideo], scans: Mapping[str, FinishedScans]) -> None:
    """Remove the files of streams that will not be committed."""
    paths = [video.file.path for video in videos.values()]
    paths += [scan.proxy.path for scan in scans.values() if scan.proxy is not None]
    for path in paths:
        # As where a video is given up: it would hide what is told already, and keep the others from being removed.
        with contextlib.suppress(OSError):
            path.unlink()
