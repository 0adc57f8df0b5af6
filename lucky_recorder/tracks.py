"""The video files of one episode while it is open: pictures are drawn and encoded here, in the worker thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lucky_recorder.episode import FinishedVideo
from lucky_recorder.errors import LuckyRecorderError, StreamError
from lucky_recorder.schema import Stream
from lucky_recorder.statistics import PixelHistogram

if TYPE_CHECKING:
    from lucky_recorder.capture.render import Painter
    from lucky_recorder.capture.snapshot import Picture
    from lucky_recorder.video.encoder import VideoEncoder


class Track:
    """One stream's file of one episode."""

    def __init__(self, stream: Stream, path: Path, preset: str) -> None:
        self.stream = stream
        self.error: StreamError | None = None
        self._path = path
        self._preset = preset
        self._frames = 0
        self._pixels = PixelHistogram(stream.channels)
        self._encoder: VideoEncoder | None = None

    def write(self, pixels: Any, bottom_up: bool) -> None:
        """Encode a frame; the first opens the file."""
        if self._encoder is None:
            self._encoder = self._open()
        self._pixels.add(self._frames, pixels)
        self._encoder.write(pixels, bottom_up=bottom_up)
        self._frames += 1

    def _open(self) -> VideoEncoder:
        from lucky_recorder.files import make_folder
        from lucky_recorder.video.encoder import VideoEncoder

        make_folder(self._path.parent)
        stream = self.stream
        return VideoEncoder(
            self._path,
            width=stream.width,
            height=stream.height,
            fps=stream.rate,
            codec=stream.codec,
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
    """All open files of one episode. A stream that fails stays failed; the others go on."""

    def __init__(
        self, streams: Sequence[Stream], place: Callable[[Stream], Path], preset: str, painter: Painter
    ) -> None:
        self._tracks = [Track(s, place(s), preset) for s in streams]
        self._painter = painter

    @property
    def error(self) -> StreamError | None:
        """What failed first, or None."""
        return next((t.error for t in self._tracks if t.error is not None), None)

    def write(self, pictures: Sequence[Picture]) -> None:
        """Draw and encode the pictures of one tick."""
        for picture in pictures:
            track = self._tracks[picture.stream]
            if track.error is not None:
                picture.release()
                continue
            try:
                track.write(*self._painter.draw(picture))
            except Exception as error:  # whatever a driver or a codec raises fails the stream, not the thread
                self._fail(track, error)

    def finish(self) -> dict[str, FinishedVideo]:
        """Close every file and return those that are whole, by stream key."""
        finished = {}
        for track in self._tracks:
            try:
                one = track.finish()
            except Exception as error:  # as above
                self._fail(track, error)
                continue
            if one is not None:
                finished[track.stream.key] = one
        return finished

    def _fail(self, track: Track, error: Exception) -> None:
        what = error if isinstance(error, LuckyRecorderError) else f"{type(error).__name__}: {error}"
        track.error = StreamError(f"stream {track.stream.key!r} failed: {what}")
        track.error.__cause__ = error
        track.abort()

    def abort(self) -> None:
        """Close and remove every file."""
        for track in self._tracks:
            track.abort()
