"""The videos and scans of a session's episodes, given to another session: linked, or cut, and never encoded again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

from lucky_recorder.edit.source import Source
from lucky_recorder.edit.window import Window
from lucky_recorder.episode import keys, limits
from lucky_recorder.episode.record import FinishedScans, FinishedVideo, VideoFile
from lucky_recorder.episode.schema import ScanStream, Schema, Stream
from lucky_recorder.episode.statistics import PixelHistogram
from lucky_recorder.errors import FormatError, VideoError
from lucky_recorder.koyu.bundle import link_video
from lucky_recorder.session import layout
from lucky_recorder.session.episode import Episode
from lucky_recorder.session.rebuilt import Pixels, count_frames
from lucky_recorder.session.sink import SessionSink
from lucky_recorder.storage.write import make_folder, storage_errors
from lucky_recorder.video.cut import cut
from lucky_recorder.video.decode import FrameReader
from lucky_recorder.video.probe import probe
from lucky_recorder.video.remux import combine

Pixelled = Mapping[str, PixelHistogram]


class Part(NamedTuple):
    """A part of an episode that is known to be there.

    Attributes:
        source: The session that it is of.
        episode: The episode's number there.
        window: Which of its ticks are taken.
    """

    source: Source
    episode: int
    window: Window


def whole_files(parts: Iterable[Part], sources: Iterable[Source], per_file: int) -> dict[Source, set[int]]:
    """Return, of each source, the episodes whose data files come whole into one data file of a new session.

    Args:
        parts: The new session's episodes, in order.
        sources: The sessions that they are of.
        per_file: How many episodes one of its data files holds.
    """
    places: dict[tuple[int, layout.Place], list[tuple[int, int, bool]]] = {}
    for number, part in enumerate(parts):
        here = (part.episode, number // per_file, part.window.is_whole)
        places.setdefault((id(part.source), part.source.place(part.episode)), []).append(here)
    found: dict[Source, set[int]] = {source: set() for source in sources}
    by_id = {id(source): source for source in found}
    for (source, place), taken in places.items():
        episodes = {episode for episode, _, is_whole in taken if is_whole}
        is_one = len({file for _, file, _ in taken}) == 1
        if is_one and episodes == by_id[source].episodes_at(place):
            found[by_id[source]] |= episodes
    return found


def file_of(source: Source, episode: Episode, stream: Stream) -> Path | None:
    """Return the path of a stream's file of an episode; None if it has none.

    Raises:
        FormatError: If it is not where it is said to be.
    """
    if stream.is_described:
        return episode.video_path(stream.key) if episode.has_video(stream.key) else None
    place = layout.Chunking(source.folder.files_per_chunk).video(episode.index)
    name = layout.video_file(stream.key, place, stream.suffix)
    return source.folder.files.file(name) if source.folder.files.has(name) else None


def scans_of(source: Source, episode: Episode, scan: ScanStream, suffix: str) -> str | None:
    """Return the name of a lidar's file of an episode; None if it has none."""
    name = layout.scan_file(scan.name, episode.index, source.folder.files_per_chunk, suffix)
    return name if source.folder.files.has(name) else None


class Streams:
    """Gives the streams of one session's episodes to the sink of another.

    Args:
        source: The session.
        schema: What the streams are.
        wanted: Its episodes whose data files come whole into one data file of the other session: what these files carry
            of their colours is exact there.
        sink: The other session.
    """

    def __init__(self, source: Source, schema: Schema, wanted: Set[int], sink: SessionSink) -> None:
        self._source = source
        self._schema = schema
        self._sink = sink
        self._pixels = Pixels(source.folder, wanted, source.footer)
        # What was counted of a data file's episodes together, by file and stream, until one of them has the stream.
        self._pending: dict[tuple[int, int], dict[str, PixelHistogram]] = {}

    def videos(self, episode: Episode, window: Window, number: int) -> tuple[dict[str, FinishedVideo], bool]:
        """Return the videos of an episode under names of their own beside their final places.

        Args:
            episode: The episode.
            window: Which of its ticks are taken.
            number: Tells the names from those of other episodes.

        Returns:
            The videos by key, and whether the episode is reproducible.

        Raises:
            FormatError: If one is missing, or its labels are others than the session's.
            VideoError: If one cannot be read, or not be cut there.
            StorageError: If the file system refuses.
        """
        files: dict[str, VideoFile] = {}
        for stream in self._schema.streams:
            path = file_of(self._source, episode, stream)
            if path is not None:
                self._refuse_labels(path, stream)
                files[stream.key] = self._given(stream, path, episode, window, number, files)
        counted, is_reproducible = self._counted(episode, window, files)
        nothing = PixelHistogram()
        return {key: FinishedVideo(file, counted.get(key, nothing)) for key, file in files.items()}, is_reproducible

    def _given(
        self,
        stream: Stream,
        path: Path,
        episode: Episode,
        window: Window,
        number: int,
        files: Mapping[str, VideoFile],
    ) -> VideoFile:
        target = self._target(stream.key, number, stream.suffix)
        if window.is_whole:
            return _linked(path, target, _frames(episode, stream))
        if stream.kind != "rgbd":
            return self._cut(path, target, stream.rate, window, stream.suffix)
        color, depth = (
            files.get(keys.image_key(stream.camera).removesuffix(keys.RGBD_SUFFIX) + end)
            for end in ("", keys.DEPTH_SUFFIX)
        )
        if color is None or depth is None:
            raise FormatError(f"{path}: its colours or its depth have no file of their own, so it cannot be trimmed")
        combine(color.path, depth.path, target)
        return VideoFile(target, color.frames, target.stat().st_size)

    def _cut(self, path: Path, target: Path, rate: Fraction, window: Window, suffix: str) -> VideoFile:
        frames = window.frames(rate, self._source.folder.hz, probe(path).frames)
        if frames is None:
            raise VideoError(f"{path}: has no frame at tick {window.first}, so it cannot begin there")
        return cut(path, target, frames.start, len(frames), suffix)

    def _target(self, key: str, number: int, suffix: str) -> Path:
        target = self._sink.stream_path(key, number, suffix)
        make_folder(target.parent)
        return target

    def _refuse_labels(self, path: Path, stream: Stream) -> None:
        if "labels" in stream.info:
            name = path.with_suffix(".json").relative_to(self._source.path).as_posix()
            if self._source.folder.files.json(name) != stream.info["labels"]:
                raise FormatError(f"{self._source.path / name}: other labels than the session's")

    def _counted(self, episode: Episode, window: Window, files: Mapping[str, VideoFile]) -> tuple[Pixelled, bool]:
        colors = [s.key for s in self._schema.streams if s.kind == "color" and s.key in files]
        if not window.is_whole:
            return {key: _count(files[key].path) for key in colors if self._has_stats(key)}, False
        if not self._source.is_ours:
            counted = {key: _count(files[key].path) for key in colors if self._has_stats(key)}
            return counted, self._source.folder.info.get("bit_reproducible") is True
        added, is_reproducible = self._pixels.of(episode)
        place = (episode.meta["chunk_index"], episode.meta["file_index"])
        pending = self._pending.setdefault(place, {})
        pending |= added
        taken = {key: pending.pop(key) for key in colors if key in pending}
        if not pending:
            del self._pending[place]
        return taken, is_reproducible

    def _has_stats(self, key: str) -> bool:
        return self._source.is_ours or key in self._source.stats

    def scans(self, episode: Episode, window: Window, number: int) -> dict[str, FinishedScans]:
        """Return the scans of an episode; arguments and errors as for `videos`."""
        found = {}
        for scan in self._schema.scans:
            name = scans_of(self._source, episode, scan, ".parquet")
            if name is not None:
                found[scan.name] = self._scanned(scan, name, episode, window, number)
        return found

    def _scanned(self, scan: ScanStream, name: str, episode: Episode, window: Window, number: int) -> FinishedScans:
        source, path = self._source, self._source.path / name
        if source.folder.files.json(name.removesuffix(".parquet") + ".json") != scan.description:
            raise FormatError(f"{path}: the JSON file beside it describes another sensor than the session's")
        columns = source.scanned(scan, name, window, self._sink.root)
        if columns is None:
            raise FormatError(f"{path}: has no scan at tick {window.first}, so it cannot begin there")
        proxy = scans_of(source, episode, scan, ".mp4")
        filmed = None if proxy is None else self._proxy(scan, proxy, window, number)
        positions, orientations = columns["sensor_position"], columns["sensor_orientation"]
        return FinishedScans(positions, orientations, columns["range"], columns["geom_id"], filmed)

    def _proxy(self, scan: ScanStream, name: str, window: Window, number: int) -> VideoFile:
        path = self._source.folder.files.file(name)
        target = self._target(keys.lidar_key(scan.name), number, ".mp4")
        return _linked(path, target, 0) if window.is_whole else self._cut(path, target, scan.rate, window, ".mp4")


def _linked(path: Path, target: Path, frames: int) -> VideoFile:
    link_video(path, target)
    with storage_errors(path):
        return VideoFile(target, frames, path.stat().st_size)


def _frames(episode: Episode, stream: Stream) -> int:
    """Return how many frames ``meta/episodes`` says that a video has; 0 of one that it does not speak of."""
    if not stream.is_described:
        return 0
    end = episode.meta.get(keys.video_column(stream.key, "to_timestamp"))
    # They are counted when the new session is checked. Beyond the bound it is no time.
    if isinstance(end, float) and 0 <= end <= limits.MOST_FRAMES:
        return round(end * stream.rate)
    return probe(episode.video_path(stream.key)).frames


def _count(path: Path) -> PixelHistogram:
    pixels = PixelHistogram()
    with FrameReader(path, pixel_format="rgb24") as frames:
        count_frames(frames, pixels)
    return pixels
