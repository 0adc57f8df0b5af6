"""Reading an episode's states, and what they are of, from a folder that anyone may have made."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lucky_recorder.episode import keys
from lucky_recorder.errors import FormatError, shown
from lucky_recorder.session.states import SCHEMA
from lucky_recorder.storage.untrusted import Folder, format_errors, parsed

_SUM = re.compile(r"[0-9a-f]{64}")
_RATE = re.compile(r"[0-9]{1,12}(/[0-9]{1,12})?")
# Values of one state: no model of MuJoCo's is as large.
_MOST_VALUES = 1 << 24


def _is_whole(value: object) -> bool:
    return type(value) is int and 0 <= value < 1 << 62


def _are_sizes(value: object) -> bool:
    sizes = value if isinstance(value, dict) else {}
    named = (sizes.get("state", -1), sizes.get("nu", -1))
    return all(map(_is_whole, (*sizes.values(), *named))) and all(n <= _MOST_VALUES for n in named)


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _are_ticks(value: object) -> bool:
    return isinstance(value, list) and all(map(_is_whole, value))


def _are_names(value: object) -> bool:
    return isinstance(value, list) and all(one is None or isinstance(one, str) for one in value)


def _are_parts(value: object) -> bool:
    return isinstance(value, dict) and all(map(_is_whole, value.values()))


_ABOUT = {
    "mujoco": lambda value: isinstance(value, str),
    "sizes": _are_sizes,
    "parts": _are_parts,
    "timestep": lambda value: type(value) is float and 0 <= value < float("inf"),
    "plugins": _are_names,
    "model": lambda value: isinstance(value, str) and bool(_SUM.fullmatch(value)),
    "hz": lambda value: isinstance(value, str) and bool(_RATE.fullmatch(value)),
    "ticks_per_step": _is_whole,
    "physics_steps": lambda value: value is None or _is_whole(value),
    "ended": lambda value: isinstance(value, bool),
    "resets": _are_ticks,
    "tried": _are_ticks,
    "not_brought_back": _are_texts,
}


class Part(NamedTuple):
    """Some ticks of an episode.

    Attributes:
        first: The first tick.
        states: The state before each of them, float64, shape ``(ticks, n)``; NaN where it is not known.
        commands: The commands of each, float64, shape ``(ticks, nu)``; NaN where there are none, or not known.
    """

    first: int
    states: NDArray[np.float64]
    commands: NDArray[np.float64]


class States:
    """The full states of one episode's simulation, tick by tick, and the commands.

    Attributes:
        about: What the file says of itself: sizes, the model's sum, MuJoCo's version, what cannot be brought back.

    Example:
        ```python
        kept = session.episode(0).states()
        kept.states[0], kept.commands[0]   # the first state, and the commands of the tick that follows from it
        ```
    """

    def __init__(self, files: Folder, name: str) -> None:
        """Read what a file says of itself; its values are read when they are asked for.

        Raises:
            FormatError: If it is no file of states.
        """
        self._files, self._name = files, name
        path = self._path = files.path / name
        with files.parquet(name) as file, format_errors(path):
            self._rows = int(file.metadata.num_rows)
            columns = [field.name for field in file.schema_arrow]
            said = (file.schema_arrow.metadata or {}).get(keys.STATES_FOOTER)
            self.about = _about(None if said is None else parsed(said), path)
        if columns != SCHEMA.names or not self._rows:
            raise FormatError(f"{path}: {self._rows} rows of the columns {shown(columns)}, expected {SCHEMA.names}")

    def __len__(self) -> int:
        """Return how many ticks there are: one less than states."""
        return self._rows - 1

    @property
    def not_brought_back(self) -> tuple[str, ...]:
        """What the states and commands cannot bring back to the bit, in words; nothing in most episodes."""
        return tuple(self.about["not_brought_back"])

    @property
    def states(self) -> NDArray[np.float64]:
        """The state before each tick, and that after the last, shape ``(ticks + 1, n)``; a last one not known is NaN.

        The values are those of ``mj_getState`` with ``mjSTATE_INTEGRATION``: time, qpos, qvel, act and so on.

        Raises:
            FormatError: If the file is broken, or all together would take an absurd amount of memory: see `parts`.
        """
        return self._whole[0]

    @property
    def commands(self) -> NDArray[np.float64]:
        """The commands that were applied in each tick, shape ``(ticks, nu)``; errors as for `states`."""
        return self._whole[1]

    @cached_property
    def _whole(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        one = self._part(self._files.table(self._name), 0)
        return one.states, one.commands[:-1]

    def parts(self) -> Iterator[Part]:
        """Go through all rows some at a time, however many there are; the last has the state after the last tick.

        Raises:
            FormatError: If the file is broken.
        """
        first = 0
        for table in self._files.batches(self._name):
            yield self._part(table, first)
            first += table.num_rows

    def _part(self, table: pa.Table, first: int) -> Part:
        if table.schema.names != SCHEMA.names or table.schema.types != SCHEMA.types:
            raise FormatError(f"{self._path}: its columns are {table.schema.types}, expected {SCHEMA.types}")
        if not np.array_equal(table["tick"].to_numpy(), np.arange(first, first + table.num_rows)):
            raise FormatError(f"{self._path}: its ticks do not run from 0 on without a gap")
        sizes = self.about["sizes"]
        is_last = first + table.num_rows == self._rows
        ended, later = self.about["ended"], self._rows - first - table.num_rows
        # Of a last tick whose end nobody knows, the commands may be known.
        at, may_be_lost = table.num_rows - 2 + later, not ended and self._rows > 1
        is_lost = may_be_lost and at < table.num_rows and at >= 0 and not table["ctrl"][at].is_valid
        states, commands = (
            self._vectors(table[name], size, gap - later)
            for name, size, gap in (("state", sizes["state"], 1 - ended), ("ctrl", sizes["nu"], 1 + is_lost))
        )
        assert is_last or len(states) == len(commands)
        return Part(first, states, commands)

    def _vectors(self, column: pa.ChunkedArray, size: int, gap: int) -> NDArray[np.float64]:
        """Return lists as an array; the last so many are null, and become NaN."""
        count, missing = len(column), min(max(gap, 0), len(column))
        held = column.slice(0, count - missing)
        flat = pc.list_flatten(held)
        whole = pc.all(pc.equal(pc.list_value_length(held), size), min_count=0, skip_nulls=False).as_py()
        if column.null_count != missing or held.null_count or not whole or flat.null_count:
            raise FormatError(f"{self._path}: a list has not {size} values, or one is missing")
        values = np.full((count, size), np.nan)
        values[: count - missing] = flat.to_numpy().reshape(count - missing, size)
        return values


def _about(said: Any, path: Path) -> Mapping[str, Any]:
    if not isinstance(said, dict):
        raise FormatError(f"{path}: its footer does not say what states it holds")
    for field, is_right in _ABOUT.items():
        if field not in said or not is_right(said[field]):
            raise FormatError(f"{path}: its footer says {field}={shown(said.get(field))}")
    return said
