"""The rows of a session as arrays, episode by episode, those of the latest episodes kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_recorder.episode import keys
from lucky_recorder.errors import FormatError, SettingsError
from lucky_recorder.session.arrays import array_of
from lucky_recorder.session.reader import Session
from lucky_recorder.settings import validators as v
from lucky_recorder.video.pool import RowCache, Rows

_MEGABYTE = 1 << 20
# What says which row it is.
_ALWAYS = ("index", keys.TIMESTAMP, keys.EPISODE_INDEX, keys.FRAME_INDEX, keys.TASK_INDEX)


class Tables:
    """Columns of a session's episodes. Threads may share it, and it can be pickled: a copy reads for itself.

    Attributes:
        names: The columns, in the order of the session.
        texts: Those that hold texts.

    Args:
        session: The session.
        columns: Names of the columns; None for all of them.
        cache_mb: The most memory for rows, in megabytes.
    """

    def __init__(self, session: Session, columns: Sequence[str] | None, cache_mb: int) -> None:
        features = {name: f for name, f in session.features.items() if f.get("dtype") != "video"}
        asked = features if columns is None else v.texts(columns, field="columns")
        if unknown := [name for name in asked if name not in features]:
            raise SettingsError.of("columns", unknown[0], f"the session has {', '.join(features)}")
        self.names = tuple(name for name in features if name in asked or name in _ALWAYS)
        self.texts = frozenset(name for name in self.names if features[name].get("dtype") == keys.TEXT)
        self._session = session
        self._features: Mapping[str, Any] = features
        self._cache_mb = cache_mb
        self._cache = RowCache(cache_mb * _MEGABYTE)

    def __reduce__(self) -> tuple[type[Tables], tuple[Any, ...]]:
        """Pickle what it is made of, and no row."""
        return Tables, (self._session, self.names, self._cache_mb)

    def of(self, episode: int) -> Rows:
        """Return an episode's columns, shape ``(rows, *shape)`` each, shared with whoever asks.

        Raises:
            FormatError: If they cannot be read.
        """
        return self._cache.get(episode, lambda: self._load(episode))

    def _load(self, episode: int) -> Rows:
        one = self._session.episode(episode)
        place = f"{self._session.path}: episode {episode}"
        try:
            table = one.rows_by_tick(self.names)
        except KeyError as error:
            raise FormatError(f"{place}: {error.args[0]}") from error
        return {name: self._column(table, name, place) for name in self.names}

    def _column(self, table: Any, name: str, place: str) -> NDArray[Any]:
        if name in self.texts:
            return np.array(["" if text is None else text for text in table[name].to_pylist()], object)
        feature = self._features[name]
        values, gaps = array_of(table, name, str(feature.get("dtype")), _shape(table, name, feature), place)
        if values.dtype.kind == "f" and name != keys.TIMESTAMP:
            with np.errstate(over="ignore"):
                values = values.astype(np.float32)
        if gaps.any():
            if values.dtype.kind != "f":
                why = f"{int(gaps.sum())} rows have no value, and whole numbers have none that says so"
                raise FormatError(f"{place}: {name}: {why}; leave it out: columns=[...]")
            values[gaps] = np.nan
        return values

    def task(self, columns: Rows, row: int) -> str:
        """Return the description of a row's task.

        Raises:
            FormatError: If there is none.
        """
        number, tasks = int(columns[keys.TASK_INDEX][row]), self._session.tasks
        if not 0 <= number < len(tasks):
            raise FormatError(f"{self._session.path}: task_index {number}: there are {len(tasks)} tasks")
        return tasks[number]


def _shape(table: Any, name: str, feature: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the shape of a value: a plain one is declared as a list of one."""
    shape = feature.get("shape")
    is_plain = table.column_names.count(name) == 1 and not hasattr(table.schema.field(name).type, "value_type")
    if is_plain or not isinstance(shape, list) or not all(type(n) is int and 0 <= n < 1 << 20 for n in shape):
        return ()
    return tuple(shape)
