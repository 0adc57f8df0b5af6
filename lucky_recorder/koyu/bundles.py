"""The bundles of a dataset that is read: their sidecars, rows and pictures, each touched when it is first asked for."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lucky_recorder.errors import FormatError, VideoError
from lucky_recorder.koyu import layout
from lucky_recorder.koyu.index import Entry, Feature
from lucky_recorder.koyu.rows import read_columns
from lucky_recorder.lazy import lazy
from lucky_recorder.storage.untrusted import Folder
from lucky_recorder.video.pool import RowCache, Rows, VideoPool

if TYPE_CHECKING:
    from lucky_recorder.video import decode
    from lucky_recorder.video.decode import FrameReader
else:
    # Only pictures need av: whoever reads rows alone does not wait for it.
    decode = lazy("lucky_recorder.video.decode")

_MEGABYTE = 1 << 20


class Bundles:
    """The bundles of a dataset. Threads may share it, and it can be pickled: a copy opens files of its own.

    Attributes:
        folder: The dataset's folder.
        features: The features that are read, by key.
        videos: Open videos.
        cache: The rows of the episodes used last.

    Args:
        folder: The dataset's folder.
        features: The features to read, by key.
        open_videos: The most videos kept open, in each process.
        row_cache_mb: The most memory for rows, in each process, in megabytes.
    """

    def __init__(self, folder: Folder, features: Mapping[str, Feature], open_videos: int, row_cache_mb: int) -> None:
        self.folder = folder
        self.features = features
        self.videos = VideoPool(open_videos)
        self.cache = RowCache(row_cache_mb * _MEGABYTE)
        self._limits = open_videos, row_cache_mb
        self._elsewhere: dict[str, str] = {}

    def __reduce__(self) -> tuple[type[Bundles], tuple[Any, ...]]:
        """Pickle what it is made of, and no open file."""
        return Bundles, (self.folder, self.features, *self._limits)

    def sidecar(self, entry: Entry) -> dict[str, Any]:
        """Return the content of an episode's ``episode.json``.

        Raises:
            FormatError: If it is missing, broken, or of a version that is not understood.
        """
        relative = f"{self._place_of(entry)}/{layout.SIDECAR}"
        content = self.folder.json(relative)
        layout.refuse_other_versions(content, str(self.folder.path / relative))
        return content

    def columns(self, entry: Entry) -> Rows:
        """Return an episode's columns, which are shared with whoever asks; errors as for `sidecar`."""
        return self.cache.get(entry.id, lambda: self._load(entry))

    def _load(self, entry: Entry) -> Rows:
        """Touch a bundle for the first time: it must be of a version that is understood."""
        length = self.sidecar(entry).get("length")
        if length != entry.length:
            where = self.folder.path / self._place_of(entry) / layout.SIDECAR
            raise FormatError(f"{where}: length={length!r}, the manifest says {entry.length}")
        columns = (f for f in self.features.values() if not f.is_camera)
        return read_columns(self.folder, self._place_of(entry), entry.length, columns)

    def frames(self, entry: Entry, feature: Feature) -> FrameReader:
        """Open an episode's video; it is the caller's own, to be closed.

        Raises:
            FormatError: If the video is missing or broken, or not as long and large as the manifest says.
        """
        # The rows first: this checks the bundle's version and length before its video is opened.
        self.columns(entry)
        try:
            reader = decode.FrameReader(self.folder.file(self._video(entry, feature)), pixel_format="rgb24")
        except VideoError as error:
            raise FormatError(str(error)) from error
        _check_video(reader, entry, feature)
        return reader

    def pictures(self, entry: Entry, feature: Feature, frames: Sequence[int]) -> list[NDArray[np.uint8]]:
        """Decode frames of an episode by index, each uint8, shape ``(height, width, 3)``; errors as for `frames`."""
        relative = self._video(entry, feature)
        try:
            reader = self.videos.borrow(self.folder.path / relative, lambda: self.folder.file(relative))
            _check_video(reader, entry, feature)
            return self.videos.read(reader, frames)
        except VideoError as error:
            raise FormatError(str(error)) from error

    def _video(self, entry: Entry, feature: Feature) -> str:
        return f"{self._place_of(entry)}/{layout.video_name(feature.key)}"

    def _place_of(self, entry: Entry) -> str:
        """Return a bundle's folder within the dataset: its id, or any other name (spec: the name is cosmetic)."""
        plain = f"{layout.EPISODES}/{entry.id}"
        if entry.id in self._elsewhere or self.folder.has(plain):
            return self._elsewhere.get(entry.id, plain)
        place: Path = self.folder.path / layout.EPISODES
        for path in sorted(place.iterdir()) if place.is_dir() else ():
            sidecar = f"{layout.EPISODES}/{path.name}/{layout.SIDECAR}"
            if path.name[0] != "." and self.folder.has(sidecar):
                with contextlib.suppress(FormatError):  # another bundle's
                    found = layout.bundle_name(str(self.folder.json(sidecar).get("capture_id")))
                    self._elsewhere[found] = f"{layout.EPISODES}/{path.name}"
        # Not found: remembered too, so that the folder is searched once. Reading it then says what is missing.
        return self._elsewhere.setdefault(entry.id, plain)


def _check_video(reader: FrameReader, entry: Entry, feature: Feature) -> None:
    info = reader.info
    said = {"frames": (info.frames, entry.length), "size": ((info.height, info.width), feature.shape[:2])}
    for what, (found, expected) in said.items():
        if found != expected:
            reader.close()
            raise FormatError(f"{reader.path}: {what} {found}, the manifest says {expected}")
