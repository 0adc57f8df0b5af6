"""Checks of ``meta/stats.json`` against all rows (spec: stats.json)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lucky_recorder.errors import shown
from lucky_recorder.session.checks.declared import DeclaredColumn
from lucky_recorder.session.checks.evidence import STATS, Evidence, Fault, Listed
from lucky_recorder.session.checks.quantiles import quantiles
from lucky_recorder.session.checks.vectors import Array, type_fault, values

# Repeated on purpose: a check that used the writer's constants would not find a wrong one.
_REQUIRED = ("min", "max", "mean", "std", "count")
_QUANTILES = {"q01": 0.01, "q10": 0.10, "q50": 0.50, "q90": 0.90, "q99": 0.99}
_COLOR_SHAPE = (3, 1, 1)
_RELATIVE = 1e-9
# Others add up in another order, or in float32, and the format does not say which deviation ``std`` is.
_OTHERS_RELATIVE = 1e-5
# What may wait in memory for the rest of its episode.
_WAITING_BYTES = 32 << 20
# What is larger, NaN or infinite stands for "no value": its square is no float64.
_LARGEST = 1e150


class Measured:
    """A column over all rows: one pass for the mean and the quantiles, a second one for the distances from the mean.

    The writer merges episode by episode; this is another way to the same numbers. Sums are longdouble, so that rounding
    stays far below the 1e-9 that is allowed.

    Attributes:
        count: Rows that have a value.
        low: Minimum per element.
        high: Maximum per element.
        usable: False if some file's column cannot be read as numbers.
    """

    def __init__(self, column: DeclaredColumn) -> None:
        self.column = column
        self.count = 0
        self.low: Array = np.array(np.inf)
        self.high: Array = np.array(-np.inf)
        self.usable = True
        self._shift: Array = np.array(0.0)
        self._sum: Array = np.array(0, np.longdouble)
        self._rest: Array = np.array(0, np.longdouble)
        self._squares: Array = np.array(0, np.longdouble)
        self._weighted: Array = np.array(0, np.longdouble)

    def first_pass(self, table: pa.Table) -> Array:
        """Count some rows; returns those that have a value."""
        rows = self.rows(table)
        if not len(rows):
            return rows
        if not self.count:
            # Sums of distances from some row stay small where the values are large.
            self._shift = rows[0]
        self.count += len(rows)
        self.low = np.minimum(self.low, rows.min(axis=0))
        self.high = np.maximum(self.high, rows.max(axis=0))
        self._sum = self._sum + (rows - self._shift).sum(axis=0, dtype=np.longdouble)
        return rows

    def add_quantiles(self, parts: Callable[[], Iterator[Array]], count: int) -> None:
        """Add the quantiles of an episode: of all rows together there would be others, these are means over them.

        Args:
            parts: Goes through the episode's rows that have a value.
            count: How many there are.
        """
        if count and self.usable:
            found = quantiles(parts, count, self.column.size, list(_QUANTILES.values()))
            self._weighted = self._weighted + count * found

    def second_pass(self, table: pa.Table) -> None:
        """Add up the distances of some rows from the mean."""
        # The mean is rounded too: what the distances from it add up to is taken off in `std`.
        distances = (self.rows(table) - self._shift) - self._sum / max(self.count, 1)
        self._rest = self._rest + distances.sum(axis=0)
        self._squares = self._squares + (distances**2).sum(axis=0)

    @property
    def mean(self) -> Array:
        """Mean per element."""
        mean: Array = (self._shift + self._sum / max(self.count, 1)).astype(np.float64)
        return mean

    @property
    def std(self) -> Array:
        """Standard deviation of the population, per element."""
        count = max(self.count, 1)
        std: Array = np.sqrt(np.maximum(self._squares / count - (self._rest / count) ** 2, 0)).astype(np.float64)
        return std

    @property
    def quantiles(self) -> dict[str, Array]:
        """Means of each episode's quantiles, weighted by its rows, per element."""
        means = (self._weighted / max(self.count, 1)).astype(np.float64)
        return dict(zip(_QUANTILES, means, strict=True))

    def rows(self, table: pa.Table) -> Array:
        """Return the rows that have a value, float64, shape ``(rows, size)``."""
        name = self.column.name
        nothing = np.empty((0, self.column.size))
        if table.column_names.count(name) != 1 or type_fault(table.schema.field(name).type, self.column):
            self.usable = False
            return nothing
        found = values(table[name], self.column.shape)
        if found is None:
            self.usable = False
            return nothing
        rows: Array = found.astype(np.float64, copy=False)
        is_value = np.abs(rows) <= _LARGEST
        return rows if is_value.all() else rows[is_value.all(axis=1)]


def check_columns(evidence: Evidence) -> Iterator[Fault]:
    """Check that there is an entry per value column and colour stream, and each column's numbers against all rows."""
    stats = evidence.stats
    if stats is None or evidence.declared.features is None:
        return
    measured = [Measured(column) for column in evidence.declared.measured]
    yield from _check_keys(stats, evidence)
    for one in _measure(measured, evidence):
        entry = stats.get(one.column.name)
        if isinstance(entry, dict):
            yield from (_fault(one.column.name, message) for message in _entry_faults(entry, (one.column.size,)))
            faults = _number_faults(entry, one) if evidence.declared.is_ours else _others_faults(entry, one)
            yield from (_fault(one.column.name, message) for message in faults)


def _measure(measured: list[Measured], evidence: Evidence) -> list[Measured]:
    for file, episodes, batches in evidence.tables():
        _first_pass(measured, file, episodes, batches, evidence)
    for _, episodes, batches in evidence.tables():
        numbers = {e.number for e in episodes}
        for table in batches:
            for _, rows in _by_episode(table, numbers):
                for one in measured:
                    one.second_pass(rows)
    return measured


def _first_pass(
    measured: list[Measured], file: str, episodes: list[Listed], batches: Iterator[pa.Table], evidence: Evidence
) -> None:
    """Count the rows of a data file. Quantiles are of an episode as a whole, and of one column after the other."""
    lengths = {e.number: e.length for e in episodes}
    waiting = {number: _Waiting() for number in (*lengths, None)}
    for table in batches:
        for number, rows in _by_episode(table, set(lengths)):
            one = waiting[number]
            counted = [column.first_pass(rows) for column in measured]
            if number is not None and rows.num_rows == lengths[number] and not one.rows:
                # All of it is here.
                one.rows = rows.num_rows
                for column, found in zip(measured, counted, strict=True):
                    column.add_quantiles(partial(iter, [found]), len(found))
                continue
            one.add(rows, list(map(len, counted)))
            if number is not None and one.rows == lengths[number]:
                one.finish(measured)
        if sum(one.bytes for one in waiting.values()) > _WAITING_BYTES:
            for one in waiting.values():
                one.give_up()
    for number, one in waiting.items():
        if one.tables:
            one.finish(measured)
        elif any(one.counts):
            for column, count in zip(measured, one.counts, strict=True):
                column.add_quantiles(partial(_again, column, file, number, evidence), count)


def _again(one: Measured, file: str, number: int | None, evidence: Evidence) -> Iterator[Array]:
    """Go through one column of an episode once more."""
    for table in evidence.column(file, one.column.name):
        yield from (one.rows(rows) for found, rows in _by_episode(table, {number}) if found == number)


class _Waiting:
    """The rows of an episode until all have come; of one that is long they are read again."""

    def __init__(self) -> None:
        self.rows = 0
        self.counts: list[int] = []
        self.tables: list[pa.Table] = []
        self.bytes = 0
        self._is_long = False

    def add(self, rows: pa.Table, counts: list[int]) -> None:
        self.rows += rows.num_rows
        self.counts = [a + b for a, b in zip(self.counts or [0] * len(counts), counts, strict=True)]
        if not self._is_long:
            self.bytes += rows.nbytes
            self.tables.append(rows)

    def give_up(self) -> None:
        """Hold nothing of an episode that has begun."""
        self._is_long = self._is_long or bool(self.tables)
        self.tables, self.bytes = [], 0

    def finish(self, measured: list[Measured]) -> None:
        """Take the quantiles of what is there, if it is all; then it may go."""
        if self.tables:
            for column, count in zip(measured, self.counts, strict=True):
                column.add_quantiles(partial(map, column.rows, self.tables), count)
            self.tables, self.counts, self.bytes = [], [], 0


def _by_episode(table: pa.Table, numbers: Set[int | None]) -> Iterator[tuple[int | None, pa.Table]]:
    """Split rows into those of each listed episode; None where no column says of which they are."""
    if table.column_names.count("episode_index") != 1 or table["episode_index"].type != pa.int64():
        yield None, table
        return
    column = table["episode_index"]
    occurring = [number for number in column.unique().to_pylist() if number in numbers and number is not None]
    for number in occurring:
        is_its = pc.equal(column, number)
        # Nothing is copied where all rows are of one.
        yield number, table if pc.all(is_its).as_py() and not column.null_count else table.filter(is_its)


def _check_keys(stats: Mapping[str, Any], evidence: Evidence) -> Iterator[Fault]:
    features = evidence.declared.features or {}
    expected = {c.name for c in evidence.declared.measured if evidence.episodes}
    is_ours = evidence.declared.is_ours
    colors = [key for key, stream in evidence.declared.streams.items() if not stream.is_depth]
    for key in colors if is_ours else ():
        if any(e.values.get(f"videos/{key}/file_index") is not None for e in evidence.episodes):
            expected.add(key)
    for name in sorted(expected - stats.keys()):
        yield _fault(name, "has no entry")
    for name in sorted(stats):
        if is_ours and (name not in features or name in evidence.declared.leading or _has_no_numbers(name, evidence)):
            yield _fault(name, "has an entry, and is no column or stream that has statistics")
        elif not isinstance(stats[name], dict):
            yield _fault(name, f"is {shown(stats[name])}, expected an object")


def _has_no_numbers(name: str, evidence: Evidence) -> bool:
    column = evidence.declared.columns.get(name)
    return _is_depth(name, evidence) or (column is not None and column.is_text)


def _is_depth(name: str, evidence: Evidence) -> bool:
    stream = evidence.declared.streams.get(name)
    return stream is not None and stream.is_depth


def check_streams(evidence: Evidence) -> Iterator[Fault]:
    """Check the entries of colour streams, which the format's page does not have."""
    return stream_faults(evidence) if evidence.declared.is_ours else iter(())


def stream_faults(evidence: Evidence) -> Iterator[Fault]:
    """Check that a colour stream's entry has a value per channel on a 0..1 scale."""
    for key in evidence.declared.streams:
        entry = (evidence.stats or {}).get(key)
        if not isinstance(entry, dict) or _is_depth(key, evidence):
            continue
        for message in _entry_faults(entry, _COLOR_SHAPE):
            yield _fault(key, message)
        for name in ("min", "max", "mean", "std"):
            numbers = _array(entry.get(name), _COLOR_SHAPE)
            if numbers is not None and not ((numbers >= 0) & (numbers <= 1)).all():
                yield _fault(key, f"{name} is {shown(entry[name])}, expected values from 0 to 1")


def _entry_faults(entry: Mapping[str, Any], shape: tuple[int, ...]) -> Iterator[str]:
    """Check an entry's form: the numbers are all there, of one shape, and in order."""
    arrays = {name: _array(entry[name], shape) for name in (*_REQUIRED[:-1], *_QUANTILES) if name in entry}
    for name in _REQUIRED:
        if name not in entry:
            yield f"{name} is missing"
    for name, array in arrays.items():
        if array is None:
            yield f"{name} is {shown(entry[name])}, expected finite numbers of shape {list(shape)}"
    count = entry.get("count")
    if not isinstance(count, list) or len(count) != 1 or type(count[0]) is not int or count[0] < 0:
        yield f"count is {shown(count)}, expected a list of one whole number"
    low, high = arrays.get("min"), arrays.get("max")
    if low is None or high is None:
        return
    slack = _RELATIVE * np.maximum(np.abs(low), np.abs(high))
    for name in ("mean", *_QUANTILES):
        between = arrays.get(name)
        if between is not None and not ((low - slack <= between) & (between <= high + slack)).all():
            yield f"{name} is {shown(entry[name])}, not between min and max"
    quantiles = [array for name, array in arrays.items() if name in _QUANTILES and array is not None]
    if any((a > b + slack).any() for a, b in pairwise(quantiles)):
        yield "its quantiles are not in order"


def _number_faults(entry: Mapping[str, Any], one: Measured) -> Iterator[str]:
    if not one.usable:
        return
    if entry.get("count") != [one.count]:
        yield f"count is {shown(entry.get('count'))}, expected [{one.count}]"
    if not one.count:
        return
    largest = np.maximum(np.abs(one.low), np.abs(one.high))
    # A mean close to zero is no more exact than the values it is the mean of.
    slacks = {"min": 0.0, "max": 0.0, "std": _RELATIVE * one.std + np.spacing(largest)}
    numbers = {"min": one.low, "max": one.high, "mean": one.mean, "std": one.std} | one.quantiles
    for name, expected in numbers.items():
        slack = slacks.get(name, _RELATIVE * largest)
        found = _array(entry.get(name), expected.shape)
        if found is not None and not (np.abs(found - expected) <= slack).all():
            element = int(np.argmax(np.abs(found - expected) - slack))
            yield f"{name}[{element}] is {found[element]!r}, expected {expected[element]!r} over all rows"


def _others_faults(entry: Mapping[str, Any], one: Measured) -> Iterator[str]:
    """Check another writer's numbers, as far as the format says what they are."""
    if not one.usable:
        return
    if entry.get("count") != [one.count]:
        yield f"count is {shown(entry.get('count'))}, expected [{one.count}]"
    if not one.count:
        return
    slack = _OTHERS_RELATIVE * np.maximum(np.abs(one.low), np.abs(one.high))
    samples = one.std * np.sqrt(one.count / max(one.count - 1, 1))
    for name, allowed in {"min": [one.low], "max": [one.high], "mean": [one.mean], "std": [one.std, samples]}.items():
        found = _array(entry.get(name), allowed[0].shape)
        if found is not None and not any((np.abs(found - expected) <= slack).all() for expected in allowed):
            yield f"{name} is {shown(entry[name])}, expected {shown(allowed[0].tolist())} over all rows"


def _array(value: object, shape: tuple[int, ...]) -> Array | None:
    """Return a JSON value as finite numbers of a shape, None if it is anything else."""
    numbers = _flat(value, shape)
    try:
        array = None if numbers is None else np.array(numbers, np.float64).reshape(shape)
    except OverflowError:
        return None
    return array if array is not None and np.isfinite(array).all() else None


def _flat(value: object, shape: tuple[int, ...]) -> list[float] | None:
    if not shape:
        return [value] if type(value) in (int, float) else None  # type: ignore[list-item]
    if not isinstance(value, list) or len(value) != shape[0]:
        return None
    parts = [_flat(item, shape[1:]) for item in value]
    return None if None in parts else [n for part in parts if part is not None for n in part]


def _fault(name: str, message: str) -> Fault:
    return Fault(STATS, None, f"{name}: {message}")
