"""The files of one episode's streams while it is open: pictures are drawn and encoded here, in the worker thread."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lucky_recorder.capture.snapshot import ScanSnapshot, SceneSnapshot, Snapshot
from lucky_recorder.episode.record import FinishedScans, FinishedVideo, VideoFile
from lucky_recorder.episode.schema import Schema, Stream
from lucky_recorder.episode.statistics import PixelHistogram
from lucky_recorder.errors import LuckyRecorderError, StreamError
from lucky_recorder.recorder.scans import ScanTrack
from lucky_recorder.settings import sensors
from lucky_recorder.settings.bindings import Camera
from lucky_recorder.storage.write import make_folder

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from lucky_recorder.capture.draw.renderer import Renderer
    from lucky_recorder.capture.mujoco.lidar import Caster
    from lucky_recorder.video.encoder import VideoEncoder

Place = Callable[[str, str], Path]


@dataclass(frozen=True)
class Studio:
    """What draws and scans for every episode of a recording.

    Attributes:
        schema: The recording's streams.
        cameras: The recorded cameras, as pictures count them.
        painter: Draws pictures; None without cameras.
        casters: Scan for the lidars, as pings count them.
        preset: The encoders' preset.
        seed: The recording's seed, for noise.
    """

    schema: Schema
    cameras: tuple[Camera, ...]
    painter: Renderer | None
    casters: list[Caster]
    preset: str
    seed: int


class Track:
    """One stream's file of one episode."""

    def __init__(self, stream: Stream, path: Path, preset: str) -> None:
        self.stream = stream
        self.error: StreamError | None = None
        self.frames = 0
        self.path = path
        self._preset = preset
        self._pixels = PixelHistogram(stream.channels)
        self._encoder: VideoEncoder | None = None

    def write(self, pixels: Any, bottom_up: bool) -> None:
        """Encode a frame; the first opens the file."""
        if self._encoder is None:
            self._encoder = self._open()
        if self.stream.kind == "color":
            self._pixels.add(self.frames, pixels)
        self._encoder.write(pixels, bottom_up=bottom_up)
        self.frames += 1

    def _open(self) -> VideoEncoder:
        from lucky_recorder.video.encoder import VideoEncoder

        make_folder(self.path.parent)
        stream = self.stream
        return VideoEncoder(
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
        encoder, self._encoder = self._encoder, None
        if encoder is not None:
            encoder.abort()


class Tracks:
    """All open files of one episode. A stream that fails stays failed; the others go on.

    Attributes:
        error: What failed first, or None.
    """

    def __init__(self, studio: Studio, place: Place, episode_key: str) -> None:
        self.error: StreamError | None = None
        self._studio = studio
        self._key = episode_key
        self._place = place
        filmed = [s for s in studio.schema.streams if s.encoder]
        tracks = [Track(s, place(s.key, s.suffix), studio.preset) for s in filmed]
        self._tracks = [[t for t in tracks if t.stream.camera == c.name] for c in studio.cameras]
        self._scans = [ScanTrack(s, place(f"lidar-{s.name}", ".mp4"), studio.preset) for s in studio.schema.scans]

    def write(self, sights: Sequence[Snapshot]) -> None:
        """Draw, scan and encode what is due at one tick."""
        for sight in sights:
            try:
                if isinstance(sight, SceneSnapshot):
                    self._film(sight)
                else:
                    self._scan(sight)
            finally:
                sight.release()

    def _film(self, picture: SceneSnapshot) -> None:
        for track in self._tracks[picture.camera]:
            if track.error is None:
                try:
                    track.write(*self._draw(track, picture))
                except Exception as error:  # whatever a driver or a codec raises fails the stream, not the thread
                    self._fail(track, track.stream.key, error)

    def _draw(self, track: Track, picture: SceneSnapshot) -> tuple[Any, bool]:
        """Return the pixels of one of a camera's streams, and whether the bottom row is first."""
        painter = self._studio.painter
        assert painter is not None
        if track.stream.kind == "color":
            return painter.color(picture)
        if track.stream.kind == "mask":
            return painter.labels(picture)
        return self._sense(track, picture, painter), False

    def _sense(self, track: Track, picture: SceneSnapshot, painter: Renderer) -> Any:
        from lucky_recorder.capture.draw.depth import sensor_codes

        depth, frustum = painter.depth(picture)
        noise = sensors.noise(self._studio.seed, self._key, track.stream.key, track.frames)
        return sensor_codes(self._studio.cameras[picture.camera], sensors.View(depth, frustum.focal, noise))

    def _scan(self, ping: ScanSnapshot) -> None:
        track = self._scans[ping.lidar]
        if track.error is not None:
            return
        try:
            noise = sensors.noise(self._studio.seed, self._key, f"lidar-{track.stream.name}", track.count)
            track.add(self._studio.casters[ping.lidar].cast(ping.state, noise))
        except Exception as error:  # as above
            self._fail(track, f"lidar-{track.stream.name}", error)

    def finish(self) -> tuple[dict[str, FinishedVideo], dict[str, FinishedScans]]:
        """Close every file and return the streams that are whole: videos by key, scans by the lidar's name."""
        videos: dict[str, FinishedVideo] = {}
        for track in (t for tracks in self._tracks for t in tracks):
            self._finish_into(videos, track.stream.key, track)
        for stream in self._studio.schema.streams:
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
        from lucky_recorder.video.remux import combine

        color = videos.get(f"observation.images.{stream.camera}")
        depth = videos.get(f"observation.images.{stream.camera}_depth")
        if color is None or depth is None:
            return
        target = self._place(stream.key, stream.suffix)
        try:
            make_folder(target.parent)
            combine(color.file.path, depth.file.path, target)
            file = VideoFile(target, color.file.frames, target.stat().st_size)
            videos[stream.key] = FinishedVideo(file, PixelHistogram())
        except Exception as error:  # as above
            target.unlink(missing_ok=True)
            self._fail(Track(stream, target, ""), stream.key, error)

    def _fail(self, track: Track | ScanTrack, key: str, error: Exception) -> None:
        what = error if isinstance(error, LuckyRecorderError) else f"{type(error).__name__}: {error}"
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


def develop(studio: Studio, sights: Sequence[Snapshot]) -> list[Snapshot]:
    """Draw the colours of pictures now; what is drawn stays with a picture, and is what will be encoded."""
    return [_developed(studio, sight) if isinstance(sight, SceneSnapshot) else sight for sight in sights]


def _developed(studio: Studio, picture: SceneSnapshot) -> SceneSnapshot:
    painter = studio.painter
    assert painter is not None
    if picture.pixels is not None or _color_key(studio, picture) is None:
        return picture
    pixels, bottom_up = painter.color(picture)
    return picture._replace(pixels=(pixels[::-1] if bottom_up else pixels).copy())


def colors(studio: Studio, sights: Sequence[Snapshot]) -> dict[str, NDArray[np.uint8]]:
    """Return copies of the pixels of developed pictures, by feature key."""
    drawn = {_color_key(studio, s): s.pixels for s in sights if isinstance(s, SceneSnapshot)}
    return {key: pixels.copy() for key, pixels in drawn.items() if key is not None and pixels is not None}


def _color_key(studio: Studio, picture: SceneSnapshot) -> str | None:
    """Return the feature key of a picture's colour stream; None if its camera has none."""
    name = studio.cameras[picture.camera].name
    return next((s.key for s in studio.schema.streams if s.camera == name and s.kind == "color"), None)


def unlink(videos: Mapping[str, FinishedVideo], scans: Mapping[str, FinishedScans]) -> None:
    """Remove the files of streams that will not be committed."""
    for video in videos.values():
        video.file.path.unlink(missing_ok=True)
    for scan in scans.values():
        if scan.proxy is not None:
            scan.proxy.path.unlink(missing_ok=True)
