"""What ``stats.json`` says, made anew: columns from the rows, colours from what the data files carry."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lucky_recorder.episode import keys
from lucky_recorder.episode.statistics import ColumnStatistics, PixelHistogram
from lucky_recorder.errors import FormatError
from lucky_recorder.session import carried as footers
from lucky_recorder.session.carried import DataFile
from lucky_recorder.session.episode import Episode
from lucky_recorder.session.features import measured_of
from lucky_recorder.session.folder import SessionFolder
from lucky_recorder.session.metadata import Finished, Totals
from lucky_recorder.storage.untrusted import format_errors

if TYPE_CHECKING:
    from lucky_recorder.video.decode import FrameReader


def totals(folder: SessionFolder, episodes: Sequence[Episode]) -> Totals:
    """Add up all that ``stats.json`` and ``info.json`` count, as the recording does: episode by episode.

    The rows of one episode are in memory at a time. Of files that do not carry what was counted of their colours,
    because an earlier version wrote them, the pictures are decoded and counted.

    Raises:
        FormatError: If a file cannot be read, or holds other columns than the session has.
        VideoError: If a video that has to be counted cannot be read.
    """
    added = Totals()
    columns = measured_of(folder.features)
    pixels = Pixels(folder, {episode.index for episode in episodes})
    for episode in episodes:
        measured = _measured(folder, episode, columns)
        counted, reproducible = pixels.of(episode)
        with format_errors(folder.path / folder.data_file(episode.meta)):
            # Others' files may have a value of another size in each, or another number of colours.
            added.add(Finished(episode.meta, measured, counted, reproducible))
    return added


def _measured(folder: SessionFolder, episode: Episode, columns: Sequence[str]) -> dict[str, ColumnStatistics]:
    path = folder.path / folder.data_file(episode.meta)
    try:
        table = episode.rows(columns)
    except KeyError as error:
        raise FormatError(f"{path}: {error.args[0]}") from error
    with format_errors(path):
        return {name: ColumnStatistics.of(values_of(table, name)) for name in columns}


def values_of(table: pa.Table, name: str) -> NDArray[Any]:
    """Return a column's values, those that are there, shape ``(rows, values)``."""
    column = table[name].drop_null().combine_chunks()
    flat = column
    while pa.types.is_list(flat.type):
        flat = flat.flatten()
    values: NDArray[Any] = flat.to_numpy(zero_copy_only=False)
    return values.reshape(len(column), -1) if len(column) else np.zeros((0, 1))


class Pixels:
    """What was counted of colour streams, by episode: a data file carries the counts of all its episodes together.

    Args:
        folder: The session.
        wanted: The episodes that count. A file that holds others too is not believed: their pictures are counted.
        read: Reads what a data file carries, if not `carried.read`.
    """

    def __init__(self, folder: SessionFolder, wanted: Set[int], read: Callable[[str], DataFile] | None = None) -> None:
        self._folder = folder
        self._read = read or (lambda name: footers.read(folder.files, name))
        self._wanted = wanted
        self._counted: set[int] = set()
        self._uncounted: set[int] = set()
        self._irreproducible: set[int] = set()

    def of(self, episode: Episode) -> tuple[Mapping[str, PixelHistogram], bool]:
        """Return what an episode adds, and whether it is reproducible; its file's others add nothing then."""
        added: Mapping[str, PixelHistogram] = {}
        if episode.index not in self._counted | self._uncounted:
            added = self._open(episode)
        if episode.index in self._uncounted:
            colors = [c.key for c in self._folder.cameras.values() if c.codec != keys.DEPTH_CODEC]
            added = {key: count_pixels([episode], key) for key in colors if episode.has_video(key)}
        return added, episode.index not in self._irreproducible

    def _open(self, episode: Episode) -> Mapping[str, PixelHistogram]:
        one = self._folder.read_data(episode.meta, self._read)
        indices = {row[keys.EPISODE_INDEX] for row in one.episodes}
        if one.carried is None or not one.carried.reproducible:
            self._irreproducible |= indices
        if one.carried is None or indices & self._counted or not indices <= self._wanted:
            # Also where spools became a data file since the first of them was counted: its sum holds them again. Or it
            # holds episodes that were finished since the caller looked.
            self._uncounted |= indices - self._counted
            return {}
        self._counted |= indices
        return one.carried.pixels


def count_pixels(episodes: Iterable[Episode], camera: str) -> PixelHistogram:
    """Count the pictures of a colour stream as they are stored, by camera name or full key."""
    pixels = PixelHistogram()
    for episode in episodes:
        with episode.frames(camera) as frames:
            count_frames(frames, pixels)
    return pixels


def count_frames(frames: FrameReader, pixels: PixelHistogram) -> None:
    """Count those pictures of a video that count."""
    for k in range(0, len(frames), PixelHistogram.every):
        pixels.add(k, frames[k])
