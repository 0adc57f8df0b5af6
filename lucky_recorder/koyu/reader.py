"""Reading a koyu dataset for training: any row at random, by feature keys (spec: The vocabulary, The invariant)."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lucky_recorder.episode import keys
from lucky_recorder.errors import SettingsError
from lucky_recorder.koyu.bundles import Bundles
from lucky_recorder.koyu.index import Entry, Feature, Index, read_index
from lucky_recorder.koyu.kinds import OPTIONAL
from lucky_recorder.koyu.overlays import open_overlays
from lucky_recorder.settings import validators as v
from lucky_recorder.storage.untrusted import Folder
from lucky_recorder.video.pool import Rows

if TYPE_CHECKING:
    from lucky_recorder.video.decode import FrameReader

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

    It has more methods than most: it is a sequence, a context manager, and what a data loader asks of both.

    Attributes:
        path: The dataset's folder.
        manifest: The content of ``manifest.json``.
        features: What a row's features are, by key: those that all bundles have.
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
        limits = (
            v.whole(open_videos, 1, 4096, field="open_videos"),
            v.whole(row_cache_mb, 0, field="row_cache_mb"),
        )
        folder = Folder(self.path, "dataset")
        self._index: Index = read_index(folder)
        self.features = _chosen(self._index, keys)
        self._overlays = open_overlays(self.path, overlays)
        self._bundles = Bundles(folder, self.features, *limits)

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
        return {key: array.copy() for key, array in self._bundles.columns(self.episodes[self._number(episode)]).items()}

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
        return self._bundles.frames(entry, feature)

    def sidecar(self, episode: int) -> dict[str, Any]:
        """Return the content of an episode's ``episode.json``.

        Raises:
            FormatError: If it is missing, broken, or of a version that is not understood.
        """
        return self._bundles.sidecar(self.episodes[self._number(episode)])

    def close(self) -> None:
        """Close the videos that are open; asking for a row opens them again."""
        self._bundles.videos.close()

    def __enter__(self) -> Dataset:
        """Return the dataset; leaving the block closes its videos."""
        return self

    def __exit__(self, *raised: object) -> None:
        """Close the videos that are open."""
        self.close()

    # One row.

    def _row(self, episode: int, step: int) -> Row:
        entry = self.episodes[episode]
        columns = self._bundles.columns(entry)
        row: Row = {key: self._value(key, columns, entry.length, step) for key in columns if key != keys.TIMESTAMP}
        past = self._past(step)
        for camera in self.cameras:
            pictures = self._bundles.pictures(entry, self.features[camera], past)
            row[camera] = pictures[0] if self._history is None else np.stack(pictures)
        if self._horizon is not None and keys.ACTION in columns:
            row["action_is_pad"] = np.arange(step, step + self._horizon) >= entry.length
        if self._history is not None:
            row["observation_is_pad"] = np.arange(step - self._history + 1, step + 1) < 0
        row |= {"task": entry.task, "task_description": entry.task_description}
        row |= {"episode_id": entry.id, "episode_index": episode, "step": step}
        if keys.TIMESTAMP in columns:
            row[keys.TIMESTAMP] = int(columns[keys.TIMESTAMP][step])
        for overlay in self._overlays:
            row |= overlay.at(entry.id, step)
        return row

    def _past(self, step: int) -> list[int]:
        """Return the steps of a history, the first repeated where the episode had not begun."""
        return [max(k, 0) for k in range(step - (self._history or 1) + 1, step + 1)]

    def _value(self, key: str, columns: Rows, length: int, step: int) -> NDArray[Any]:
        if key == keys.ACTION and self._horizon is not None:
            return columns[key][np.minimum(np.arange(step, step + self._horizon), length - 1)]
        if key.startswith(keys.OBSERVATION) and self._history is not None:
            return columns[key][self._past(step)]
        # The columns are the cache's, shared with other rows. Above, indexing with a list has copied already.
        value: NDArray[Any] = columns[key][step].copy()
        return value

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
            optional = index.manifest.get(OPTIONAL)
            is_optional = isinstance(optional, dict) and key in optional
            why = "only some of its bundles have this feature; all" if is_optional else "no such feature; all"
            raise SettingsError.of("keys", key, f"{why} have {', '.join(index.features)}")
    return {key: index.features[key] for key in keys}


def _window(rows: int | None, field: str) -> int | None:
    return None if rows is None else v.whole(rows, 1, _LONGEST_WINDOW, field=field)
