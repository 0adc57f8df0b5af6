"""A session for training: any row at random, with windows over time, as a torch ``DataLoader`` takes it."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lucky_recorder.episode import keys
from lucky_recorder.errors import FormatError, SettingsError, shown
from lucky_recorder.session.pictures import Film
from lucky_recorder.session.reader import Session
from lucky_recorder.session.tables import Tables
from lucky_recorder.session.tensors import is_wanted, tensors
from lucky_recorder.session.windows import Window
from lucky_recorder.settings import validators as v
from lucky_recorder.video.pool import Rows

Item = dict[str, Any]

_PAD = "_is_pad"
_TASK = "task"


class SessionDataset:
    """The rows of a session: ``len(d)`` of them, and ``d[i]`` gives one by the names of its columns and cameras.

    An item holds, as torch's tensors where torch is installed, else as NumPy's arrays:

    - each column under its name: numbers with decimals as float32 (``timestamp`` as float64), others as they are
      stored; a text stays a text
    - each camera under its key, ``observation.images.NAME``: float32 from 0 to 1, shape ``(3, height, width)``; with
      ``pictures="uint8"`` as bytes. A depth stream that is asked for: metres, float32, shape ``(1, height, width)``
    - ``task``, the description of the row's task

    With ``delta_seconds`` a key has the values at these seconds from the row, along a first axis, and ``KEY_is_pad``
    (bool) is True where they lie outside of the row's episode: there the first or the last value of the episode stands.
    Nothing ever comes from another episode, nor from another robot.

    The picture of a row is the one that was to be seen at its tick: frame ``i`` of row ``i`` where the camera runs at
    the data rate, else the latest. It is found by counting, never by comparing times.

    It needs no torch, and a ``DataLoader`` takes it as it is, with workers of any start method: threads share it, a
    forked child opens files of its own, and it can be pickled. The folder may come from anyone, as with `Session`.

    Attributes:
        session: The session.
        episodes: The numbers of the episodes whose rows it has.
        columns: The names of the columns of an item.
        cameras: The keys of the cameras of an item.

    Example:
        ```python
        dataset = lr.SessionDataset(path, delta_seconds={"observation.state": [-0.1, 0.0], "action": [0.0, 0.02, 0.04]})
        loader = torch.utils.data.DataLoader(dataset, batch_size=32, shuffle=True, num_workers=4)
        ```
    """

    def __init__(
        self,
        session: str | Path | Session,
        *,
        delta_seconds: Mapping[str, Sequence[float]] | None = None,
        columns: Sequence[str] | None = None,
        cameras: Sequence[str] | None = None,
        episodes: Sequence[int] | None = None,
        transforms: Callable[[Item], Item] | None = None,
        pictures: str = "float32",
        as_torch: bool | None = None,
        open_videos: int = 32,
        video_cache_mb: int = 512,
        row_cache_mb: int = 256,
    ) -> None:
        """Read the list of episodes; rows and videos are opened when they are first asked for.

        Args:
            session: The session, or the path of its folder.
            delta_seconds: By column or camera, the seconds from a row at which its values are given, as LeRobot's
                ``delta_timestamps``: multiples of the data's or the camera's period, within 0.1 ms.
            columns: Names of the columns; all of them by default. What says which row it is, is always given.
            cameras: Names or keys of the cameras; by default all that are in colour.
            episodes: Numbers of the episodes; all of them by default.
            transforms: Called with each item, last; returns the one to give.
            pictures: ``float32`` or ``uint8``.
            as_torch: Whether items are tensors; by default where torch is installed.
            open_videos: The most videos kept open, in each process.
            video_cache_mb: The most memory for their decoders, about, in each process, in megabytes.
            row_cache_mb: The most memory for rows, in each process, in megabytes.

        Raises:
            FormatError: If the folder is no session, or has no rows.
            SettingsError: If an argument makes no sense, or a column, camera or episode is not there.
        """
        self.session = session if isinstance(session, Session) else Session(session)
        self._is_torch = is_wanted(as_torch)
        self._transforms = transforms
        listed = self.session.episodes
        lengths = dict(zip(listed[keys.EPISODE_INDEX].to_pylist(), listed["length"].to_pylist(), strict=True))
        self.episodes = _episodes(episodes, lengths)
        self._lengths = [_length(lengths[number], number, self.session) for number in self.episodes]
        self._ends = np.cumsum(self._lengths, dtype=np.int64)
        mb = v.whole(row_cache_mb, 0, field="row_cache_mb")
        self._tables = Tables(self.session, columns, mb)
        limits = (
            v.whole(open_videos, 1, 4096, field="open_videos"),
            v.whole(video_cache_mb, 1, field="video_cache_mb"),
        )
        self._film = Film(self.session, cameras, v.one_of(pictures, ("float32", "uint8"), field="pictures"), *limits)
        self.columns, self.cameras = self._tables.names, self._film.keys
        self._windows = self._windows_of(delta_seconds or {})

    def _windows_of(self, asked: Mapping[str, Sequence[float]]) -> dict[str, Window]:
        """Return a window for each key that is asked for, and one of the row itself for each other camera."""
        hz, windows = self.session.hz, dict[str, Window]()
        for name, seconds in asked.items():
            key = name if name in self.columns else self._film.key_of(name)
            if key is None or key in self._tables.texts:
                known = ", ".join((*self.columns, *self.cameras))
                why = "texts have no window" if key else f"no such column or camera among {known}"
                raise SettingsError.of("delta_seconds", name, why)
            rate = self._film.rates.get(key, hz)
            windows[key] = Window(key, seconds, hz, rate)
        self._is_windowed = frozenset(windows)
        return {key: Window(key, [0], hz, rate) for key, rate in self._film.rates.items()} | windows

    def __len__(self) -> int:
        """Return how many rows there are."""
        return int(self._ends[-1]) if len(self._ends) else 0

    def __getitem__(self, index: int) -> Item:
        """Return a row, counted from the end if ``index`` is negative.

        Raises:
            IndexError: If there is no such row.
            FormatError: If it cannot be read: a file is missing or broken, or a video of the episode is not there.
        """
        row = operator.index(index)
        if not -len(self) <= row < len(self):
            raise IndexError(f"row {index} of {len(self)} in {self.session.path}")
        row %= len(self)
        place = int(np.searchsorted(self._ends, row, "right"))
        item = self._item(place, row - int(self._ends[place]) + self._lengths[place])
        if self._is_torch:
            item = tensors(item)
        return item if self._transforms is None else self._transforms(item)

    def __getitems__(self, indices: Sequence[int]) -> list[Item]:
        """Return some rows at once, in the order that is asked for; those of one video are read one after the other."""
        items: dict[int, Item] = {}
        for number in sorted(range(len(indices)), key=lambda number: operator.index(indices[number])):
            items[number] = self[indices[number]]
        return [items[number] for number in range(len(indices))]

    def __iter__(self) -> Iterator[Item]:
        """Go through the rows in order."""
        return (self[index] for index in range(len(self)))

    def rows_of(self, episode: int) -> range:
        """Return where the rows of an episode are, by its number in the session.

        Raises:
            IndexError: If the dataset does not have it.
        """
        if episode not in self.episodes:
            raise IndexError(f"episode {episode}: not among those of the dataset")
        place = self.episodes.index(episode)
        end = int(self._ends[place])
        return range(end - self._lengths[place], end)

    def close(self) -> None:
        """Close the videos that are open; asking for a row opens them again."""
        self._film.close()

    def _item(self, place: int, row: int) -> Item:
        number, robots = self.episodes[place], len(self.session.robots)
        columns, tick, robot = self._tables.of(number), *divmod(row, robots)
        ticks = self._lengths[place] // robots
        item: Item = {}
        for name in self.columns:
            window = self._windows.get(name)
            if window is None:
                item[name] = _value(columns, name, row)
            else:
                places = window.at(tick, ticks)
                item[name] = columns[name][places.indices * robots + robot]
                item[name + _PAD] = places.is_pad
        for key in self.cameras:
            window = self._windows[key]
            places = window.at(tick, ticks)
            pictures = self._film.pictures(number, key, places.indices.tolist(), window.most(ticks))
            item[key] = pictures if key in self._is_windowed else pictures[0]
            if key in self._is_windowed:
                item[key + _PAD] = places.is_pad
        item[_TASK] = self._tables.task(columns, row)
        return item


def _value(columns: Rows, name: str, row: int) -> Any:
    value = columns[name][row]
    # The columns are the cache's, shared with other rows.
    return value.copy() if isinstance(value, np.ndarray) else value


def _episodes(asked: Sequence[int] | None, lengths: Mapping[int, Any]) -> tuple[int, ...]:
    if asked is None:
        return tuple(sorted(lengths))
    numbers = tuple(v.index(number) for number in asked)
    for number in numbers:
        if number is None or number not in lengths:
            raise SettingsError.of("episodes", number, f"the session has {len(lengths)} episodes, and not this one")
    if len(set(numbers)) < len(numbers):
        raise SettingsError.of("episodes", list(numbers), "one is named twice")
    return tuple(number for number in numbers if number is not None)


def _length(length: object, number: int, session: Session) -> int:
    robots = len(session.robots)
    if type(length) is not int or length < 0 or length % robots:
        raise FormatError(f"{session.path}: episode {number}: length={shown(length)}, for {robots} robots")
    return length
