"""The columns over all rows, measured another way than the writer does: what ``meta/stats.json`` is compared with.

It is done for some episodes at a time. Means and squares of parts are joined as longdouble, so that rounding stays far
below the 1e-9 that is allowed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lucky_recorder.session.checks.declared import DeclaredColumn
from lucky_recorder.session.checks.evidence import Evidence, Listed
from lucky_recorder.session.checks.quantiles import quantiles, quantiles_of_runs
from lucky_recorder.session.checks.short import short
from lucky_recorder.session.checks.vectors import Array, type_fault, values

# Repeated on purpose: a check that used the writer's constants would not find a wrong one.
QUANTILES = {"q01": 0.01, "q10": 0.10, "q50": 0.50, "q90": 0.90, "q99": 0.99}
# What may wait in memory for the rest of its episode.
_WAITING_BYTES = 32 << 20
# What is larger, NaN or infinite stands for "no value": its square is no float64.
_LARGEST = 1e150


class Moments(NamedTuple):
    """What is known of a column in some rows; `join` adds those of others.

    Attributes:
        column: The column.
        usable: False if some file's column cannot be read as numbers.
        rows: Rows that have a value.
        low: Minimum per element.
        high: Maximum per element.
        mean: Mean per element, longdouble.
        squares: The squares of the distances from the mean, added up, longdouble.
        weighted: Each episode's quantiles times its rows, added up, longdouble, shape ``(quantiles, size)``.
    """

    column: DeclaredColumn
    usable: bool = True
    rows: int = 0
    low: Array = np.array(np.inf)
    high: Array = np.array(-np.inf)
    mean: Array = np.array(0, np.longdouble)
    squares: Array = np.array(0, np.longdouble)
    weighted: Array = np.array(0, np.longdouble)

    def join(self, other: Moments) -> Moments:
        """Return what is known of the rows of both."""
        usable, count = self.usable and other.usable, self.rows + other.rows
        if not self.rows or not other.rows:
            return (self if self.rows else other)._replace(usable=usable)
        apart, share = other.mean - self.mean, np.longdouble(other.rows) / count
        return Moments(
            self.column,
            usable,
            count,
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
            self.mean + apart * share,
            self.squares + other.squares + apart**2 * share * self.rows,
            self.weighted + other.weighted,
        )

    @property
    def means(self) -> Array:
        """Mean per element."""
        mean: Array = np.asarray(self.mean, np.float64)
        return mean

    @property
    def std(self) -> Array:
        """Standard deviation of the population, per element."""
        std: Array = np.asarray(np.sqrt(self.squares / max(self.rows, 1)), np.float64)
        return std

    @property
    def quantiles(self) -> dict[str, Array]:
        """Means of each episode's quantiles, weighted by its rows, per element."""
        means = np.asarray(self.weighted / max(self.rows, 1), np.float64)
        return dict(zip(QUANTILES, means, strict=True))


class _Column:
    """A column over some rows: one pass for the mean and the quantiles, a second one for distances from the mean."""

    def __init__(self, column: DeclaredColumn) -> None:
        self.column = column
        self._count = 0
        self._low: Array = np.array(np.inf)
        self._high: Array = np.array(-np.inf)
        self._usable = True
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
        if not self._count:
            # Sums of distances from some row stay small where the values are large.
            self._shift = rows[0]
        self._count += len(rows)
        self._low = np.minimum(self._low, rows.min(axis=0))
        self._high = np.maximum(self._high, rows.max(axis=0))
        self._sum = self._sum + (rows - self._shift).sum(axis=0, dtype=np.longdouble)
        return rows

    def add_quantiles(self, parts: Callable[[], Iterator[Array]], count: int) -> None:
        """Add the quantiles of an episode: of all rows together there would be others, these are means over them.

        Args:
            parts: Goes through the episode's rows that have a value.
            count: How many there are.
        """
        if count and self._usable:
            found = quantiles(parts, count, self.column.size, list(QUANTILES.values()))
            self._weighted = self._weighted + count * found

    def add_episodes(self, table: pa.Table, lengths: Array) -> None:
        """Count the rows of whole episodes, one after the other, and add the quantiles of each.

        Args:
            table: Their rows.
            lengths: How many rows each has.
        """
        rows = self.first_pass(table)
        counts = lengths if len(rows) == table.num_rows else self._counts(table, lengths)
        if self._usable and len(rows):
            found = quantiles_of_runs(rows, counts, list(QUANTILES.values()))
            self._weighted = self._weighted + (found * counts[:, None, None]).sum(axis=0, dtype=np.longdouble)

    def _counts(self, table: pa.Table, lengths: Array) -> Array:
        """Return how many rows of each episode have a value."""
        if not self._usable:
            return lengths
        has_value = table[self.column.name].is_valid().to_numpy().copy()
        found = values(table[self.column.name], self.column.shape)
        assert found is not None
        has_value[has_value] = (np.abs(found.astype(np.float64, copy=False)) <= _LARGEST).all(axis=1)
        ends = np.cumsum(lengths)
        counted = np.concatenate([[0], np.cumsum(has_value)])
        counts: Array = counted[ends] - counted[ends - lengths]
        return counts

    def second_pass(self, table: pa.Table) -> None:
        """Add up the distances of some rows from the mean."""
        # The mean is rounded too: what the distances from it add up to is taken off in `moments`.
        distances = (self.rows(table) - self._shift) - self._sum / max(self._count, 1)
        self._rest = self._rest + distances.sum(axis=0)
        self._squares = self._squares + (distances**2).sum(axis=0)

    def moments(self) -> Moments:
        """Return what is known, after both passes."""
        count = max(self._count, 1)
        mean = self._shift + self._sum / count
        squares = np.maximum(self._squares - self._rest**2 / count, 0)
        found = (self._low, self._high, mean, squares, self._weighted)
        return Moments(self.column, self._usable, self._count, *found)

    def rows(self, table: pa.Table) -> Array:
        """Return the rows that have a value, float64, shape ``(rows, size)``."""
        name = self.column.name
        nothing = np.empty((0, self.column.size))
        if table.column_names.count(name) != 1 or type_fault(table.schema.field(name).type, self.column):
            self._usable = False
            return nothing
        found = values(table[name], self.column.shape)
        if found is None:
            self._usable = False
            return nothing
        rows: Array = found.astype(np.float64, copy=False)
        is_value = np.abs(rows) <= _LARGEST
        return rows if is_value.all() else rows[is_value.all(axis=1)]


def measure(evidence: Evidence) -> list[Moments]:
    """Measure the columns that have statistics in all rows of some episodes."""
    measured = [_Column(column) for column in evidence.declared.measured]
    together = short(evidence)
    blocks = [] if together.rows is None else [together.rows]
    for file, episodes, batches in evidence.tables():
        if file not in together.files:
            _first_pass(measured, file, episodes, batches, evidence)
    for table in blocks:
        for one in measured:
            one.add_episodes(table, together.lengths)
    for file, episodes, batches in evidence.tables():
        numbers = {e.number for e in episodes}
        for table in batches if file not in together.files else ():
            for _, rows in _by_episode(table, numbers):
                for one in measured:
                    one.second_pass(rows)
    for table in blocks:
        for one in measured:
            one.second_pass(table)
    return [one.moments() for one in measured]


def _first_pass(
    measured: list[_Column], file: str, episodes: list[Listed], batches: Iterator[pa.Table], evidence: Evidence
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


def _again(one: _Column, file: str, number: int | None, evidence: Evidence) -> Iterator[Array]:
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

    def finish(self, measured: list[_Column]) -> None:
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
