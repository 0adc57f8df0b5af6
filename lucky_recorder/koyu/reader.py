"""Reading a koyu dataset for training: any row at random, by feature keys (spec: The vocabulary, The invariant)."""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lucky_recorder.errors import FormatError, SettingsError, VideoError
from lucky_recorder.koyu import layout
from lucky_recorder.koyu.index import Entry, Feature, Index, read_index, refuse_other_versions
from lucky_recorder.koyu.pool import RowCache, Rows, VideoPool
from lucky_recorder.settings import validators as v
from lucky_recorder.storage.untrusted import Folder

if TYPE_CHECKING:
    from lucky_recorder.video.decode import FrameReader

_MEGABYTE = 1 << 20
_LONGEST_WINDOW = 100_000

Row = dict[str, Any]


class Dataset:
    """A koyu dataset: ``len(d)`` rows, and ``d[i]`` gives one by feature keys.

    The index comes from ``manifest.json`` alone; a bundle is touched when a row of it is first asked for. Row ``i`` of
    an episode is frame ``i`` of each of its videos, which are decoded by frame index, never by time.

    It needs no torch, and a torch ``DataLoader`` takes it as it is, with workers of any start method: threads share it,
    a forked child opens files of its own, and it can be pickled. The folder may come from anyone: what does not keep to
    the format raises `FormatError`, and nothing is ever written.

    A row holds, besides its features (``observation.state`` and other columns, float32; each camera, uint8 of shape
    ``(height, width, 3)``; ``action``, float32):

    - ``task`` and ``task_description``, texts
    - ``episode_id``, a text, ``episode_index``, its place in the manifest, ``step`` within the episode, and
      ``timestamp`` in nanoseconds where the bundle has one
    - with ``horizon``: ``action`` of shape ``(horizon, n)``, this step's and those that follow, and ``action_is_pad``,
      bool, shape ``(horizon,)``: True past the episode's end, where the last action is repeated
    - with ``history``: every ``observation.`` key with ``history`` steps up to this one, and ``observation_is_pad``:
      True before the episode's beginning, where the first is repeated
    - the overlays that were asked for

    Attributes:
        path: The dataset's folder.
        manifest: The content of ``manifest.json``.
        features: What a row's features are, by key.
        episodes: What the manifest says of each episode.

    Example:
        ```python
        dataset = lr.koyu.Dataset("pick-cube", horizon=16)
        row = dataset[0]
        row["observation.images.front"], row["observation.state"], row["action"]
        ```
    """

    def __init__(
        self,
        path: str | Path,
        horizon: int | None = None,
        history: int | None = None,
        overlays: Sequence[str] = (),
        *,
        keys: Sequence[str] | None = None,
        open_videos: int = 32,
        row_cache_mb: int = 256,
    ) -> None:
        """Read the index.

        Args:
            path: The dataset's folder.
            horizon: Length of action chunks; None for a single action without a leading axis.
            history: Length of observation histories; None for a single observation.
            overlays: Names of overlays to join.
            keys: The feature keys to give; None for all of the manifest's. Cameras left out are not decoded.
            open_videos: The most videos kept open, in each process.
            row_cache_mb: The most memory for rows, in each process, in megabytes.

        Raises:
            FormatError: If the folder is no dataset.
            SettingsError: If an argument makes no sense, or a key or overlay is not there.
        """
        self.path = Path(path)
        self._horizon = _window(horizon, "horizon")
        self._history = _window(history, "history")
        self._limits = (
            v.whole(open_videos, 1, 4096, field="open_videos"),
            v.whole(row_cache_mb, 0, field="row_cache_mb"),
        )
        self._folder = Folder(self.path, "dataset")
        self._index: Index = read_index(self._folder)
        self.features = _chosen(self._index, keys)
        self._overlays = self._named_overlays(overlays)
        self._elsewhere: dict[str, str] = {}
        self._open_caches()

    def _bundle_of(self, entry: Entry) -> str:
        """Return a bundle's folder within the dataset: its id, or any other name (spec: the name is cosmetic)."""
        plain = f"{layout.EPISODES}/{entry.id}"
        if entry.id in self._elsewhere or self._folder.has(plain):
            return self._elsewhere.get(entry.id, plain)
        place = self.path / layout.EPISODES
        for path in sorted(place.iterdir()) if place.is_dir() else ():
            sidecar = f"{layout.EPISODES}/{path.name}/{layout.SIDECAR}"
            if path.name[0] != "." and self._folder.has(sidecar):
                with contextlib.suppress(FormatError):  # another bundle's
                    found = layout.bundle_name(str(self._folder.json(sidecar).get("capture_id")))
                    self._elsewhere[found] = f"{layout.EPISODES}/{path.name}"
        return self._elsewhere.setdefault(entry.id, plain)

    def _open_caches(self) -> None:
        open_videos, megabytes = self._limits
        self._videos = VideoPool(open_videos)
        self._rows = RowCache(megabytes * _MEGABYTE)

    def _named_overlays(self, names: Sequence[str]) -> tuple[Any, ...]:
        if not names:
            return ()
        from lucky_recorder.koyu.overlays import open_overlays

        overlays: tuple[Any, ...] = tuple(open_overlays(self.path, names))
        return overlays

    @property
    def manifest(self) -> dict[str, Any]:
        """The content of ``manifest.json``."""
        return self._index.manifest

    @property
    def episodes(self) -> tuple[Entry, ...]:
        """What the manifest says of each episode."""
        return self._index.episodes

    @property
    def cameras(self) -> tuple[str, ...]:
        """The feature keys of the cameras that rows give."""
        return tuple(f.key for f in self.features.values() if f.is_camera)

    def __len__(self) -> int:
        """Return how many rows there are."""
        return int(self._index.starts[-1])

    def __getitem__(self, index: int) -> Row:
        """Return a row, counted from the end if ``index`` is negative.

        Raises:
            IndexError: If there is no such row.
            FormatError: If its bundle is broken, or of a version that is not understood.
        """
        number = operator.index(index)
        if not -len(self) <= number < len(self):
            raise IndexError(f"row {index} of {len(self)} in {self.path}")
        episode, step = self._index.place(number % len(self))
        return self._row(episode, step)

    def __iter__(self) -> Iterator[Row]:
        """Go through all rows in order."""
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        return f"Dataset({str(self.path)!r}, rows={len(self)}, episodes={len(self.episodes)})"

    # Episodes as a whole.

    def rows_of(self, episode: int) -> range:
        """Return the indices of an episode's rows, by its place in the manifest."""
        start, end = self._index.starts[self._number(episode) :][:2]
        return range(int(start), int(end))

    def columns(self, episode: int) -> dict[str, NDArray[Any]]:
        """Return an episode's columns, float32 of shape ``(rows, *shape)``, and ``timestamp``, int64.

        Raises:
            FormatError: If its bundle is broken, or of a version that is not understood.
        """
        return {key: array.copy() for key, array in self._columns(self.episodes[self._number(episode)]).items()}

    def frames(self, episode: int, camera: str) -> FrameReader:
        """Open an episode's video by its feature key: frames by index. It is the caller's own, to be closed.

        Raises:
            KeyError: If there is no such camera.
            FormatError: If the video is missing or broken.
        """
        entry = self.episodes[self._number(episode)]
        feature = self.features.get(camera)
        if feature is None or not feature.is_camera:
            raise KeyError(f"no camera {camera!r}; the dataset has {', '.join(self.cameras) or 'none'}")
        self._columns(entry)
        from lucky_recorder.video.decode import FrameReader

        try:
            reader = FrameReader(
                self._folder.file(f"{self._bundle_of(entry)}/{layout.video_name(camera)}"), pixel_format="rgb24"
            )
        except VideoError as error:
            raise FormatError(str(error)) from error
        self._check_video(reader, entry, feature)
        return reader

    def sidecar(self, episode: int) -> dict[str, Any]:
        """Return the content of an episode's ``episode.json``.

        Raises:
            FormatError: If it is missing, broken, or of a version that is not understood.
        """
        return self._sidecar(self.episodes[self._number(episode)])

    def close(self) -> None:
        """Close the videos that are open; asking for a row opens them again."""
        self._videos.close()

    def __enter__(self) -> Dataset:
        """Return the dataset; leaving the block closes its videos."""
        return self

    def __exit__(self, *raised: object) -> None:
        """Close the videos that are open."""
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        """Give the index along, but no open file: a copy has the same rows, whatever was recorded meanwhile."""
        return {name: value for name, value in vars(self).items() if name not in ("_videos", "_rows")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._open_caches()

    # One row.

    def _row(self, episode: int, step: int) -> Row:
        entry = self.episodes[episode]
        columns = self._columns(entry)
        row: Row = {key: self._value(key, columns, entry.length, step) for key in columns if key != "timestamp"}
        past = self._past(step)
        for camera in self.cameras:
            pictures = self._pictures(entry, self.features[camera], past)
            row[camera] = pictures[0] if self._history is None else np.stack(pictures)
        if self._horizon is not None and layout.ACTION in columns:
            row["action_is_pad"] = np.arange(step, step + self._horizon) >= entry.length
        if self._history is not None:
            row["observation_is_pad"] = np.arange(step - self._history + 1, step + 1) < 0
        row |= {"task": entry.task, "task_description": entry.task_description}
        row |= {"episode_id": entry.id, "episode_index": episode, "step": step}
        if "timestamp" in columns:
            row["timestamp"] = int(columns["timestamp"][step])
        for overlay in self._overlays:
            row |= overlay.at(entry.id, step)
        return row

    def _past(self, step: int) -> list[int]:
        """Return the steps of a history, the first repeated where the episode had not begun."""
        return [max(k, 0) for k in range(step - (self._history or 1) + 1, step + 1)]

    def _value(self, key: str, columns: Rows, length: int, step: int) -> NDArray[Any]:
        if key == layout.ACTION and self._horizon is not None:
            return columns[key][np.minimum(np.arange(step, step + self._horizon), length - 1)]
        if key.startswith("observation.") and self._history is not None:
            return columns[key][self._past(step)]
        value: NDArray[Any] = columns[key][step].copy()
        return value

    def _pictures(self, entry: Entry, feature: Feature, frames: Sequence[int]) -> list[NDArray[np.uint8]]:
        relative = f"{self._bundle_of(entry)}/{layout.video_name(feature.key)}"
        path = self._folder.path / relative
        try:
            reader = self._videos.take(path, lambda: self._folder.file(relative))
            self._check_video(reader, entry, feature)
            return self._videos.read(reader, frames)
        except VideoError as error:
            raise FormatError(str(error)) from error

    @staticmethod
    def _check_video(reader: FrameReader, entry: Entry, feature: Feature) -> None:
        info = reader.info
        said = {"frames": (info.frames, entry.length), "size": ((info.height, info.width), feature.shape[:2])}
        for what, (found, expected) in said.items():
            if found != expected:
                reader.close()
                raise FormatError(f"{reader.path}: {what} {found}, the manifest says {expected}")

    def _columns(self, entry: Entry) -> Rows:
        return self._rows.get(entry.id, lambda: self._load(entry))

    def _load(self, entry: Entry) -> Rows:
        """Touch a bundle for the first time: it must be of a version that is understood."""
        from lucky_recorder.koyu.columns import read_columns

        length = self._sidecar(entry).get("length")
        if length != entry.length:
            where = self.path / self._bundle_of(entry) / layout.SIDECAR
            raise FormatError(f"{where}: length={length!r}, the manifest says {entry.length}")
        columns = (f for f in self.features.values() if not f.is_camera)
        return read_columns(self._folder, self._bundle_of(entry), entry.length, columns)

    def _sidecar(self, entry: Entry) -> dict[str, Any]:
        relative = f"{self._bundle_of(entry)}/{layout.SIDECAR}"
        content = self._folder.json(relative)
        refuse_other_versions(content, str(self.path / relative))
        return content

    def _number(self, episode: int) -> int:
        number = operator.index(episode)
        if not 0 <= number < len(self.episodes):
            raise IndexError(f"episode {episode} of {len(self.episodes)} in {self.path}")
        return number


def _chosen(index: Index, keys: Sequence[str] | None) -> dict[str, Feature]:
    if keys is None:
        return index.features
    for key in keys:
        if key not in index.features:
            raise SettingsError.of("keys", key, f"no such feature; the dataset has {', '.join(index.features)}")
    return {key: index.features[key] for key in keys}


def _window(rows: int | None, field: str) -> int | None:
    return None if rows is None else v.whole(rows, 1, _LONGEST_WINDOW, field=field)
