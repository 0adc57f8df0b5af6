"""Running statistics that merge exactly, for ``stats.json`` (spec: stats.json).

Mean and variance merge pairwise (Chan's update), so the result is that of numpy over all rows; pixels are counted
in histograms, which merge by addition. Quantiles merge as count-weighted means of per-episode quantiles.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_recorder.episode.keys import LARGEST_MAGNITUDE
from lucky_recorder.episode.parts import let_go, parts

QUANTILES = {"q01": 0.01, "q10": 0.10, "q50": 0.50, "q90": 0.90, "q99": 0.99}
_LEVELS = 256
# Sums of such counts, of all files that a session may have, still fit 64 bits. Three million frames count as much.
_MOST_COUNTED = 1 << 36
_MOST_CHANNELS = 4
# Of a column, so much is measured at a time; of a single element, all rows.
_HELD_BYTES = 4 << 20

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ColumnStatistics:
    """Statistics of one column over some rows.

    Rows without a value do not count, nor do rows with NaN, an infinity or a magnitude above 1e150
    (`keys.LARGEST_MAGNITUDE`), which stand for "no value" and whose squares are no float64.

    Attributes:
        count: Rows counted.
        low: Minimum per element, float64, shape ``(size,)``.
        high: Maximum per element.
        mean: Mean per element.
        rest: What rounding left out of the mean, per element: without it, many merges far from zero lose the spread.
        squares: Sum of squared distances from the mean, per element.
        quantiles: Quantiles per element, shape ``(5, size)``.
    """

    count: int
    low: Floats
    high: Floats
    mean: Floats
    rest: Floats
    squares: Floats
    quantiles: Floats

    @classmethod
    def of(cls, rows: NDArray[Any], missing: NDArray[np.bool_] | None = None) -> ColumnStatistics:
        """Measure rows of shape ``(rows, …)``, but for those that are ``missing``, bool, shape ``(rows,)``.

        What it takes in memory for a long column is that of one of its elements.
        """
        size = math.prod(rows.shape[1:])
        counted = _Counted(rows.reshape(len(rows), size), missing)
        if not counted.count:
            return cls._nothing(size)
        low, high, quantiles = np.empty(size), np.empty(size), np.empty((len(QUANTILES), size))
        for some in parts(size, 8 * counted.count, _HELD_BYTES):
            values = counted.elements(some)
            low[some], high[some] = values.min(axis=1), values.max(axis=1)
            quantiles[:, some] = _quantiles(values, low[some], high[some])
        mean = counted.sum(lambda values: values) / counted.count
        rest = counted.sum(lambda values: values - mean) / counted.count
        squares = counted.sum(lambda values: _squares(values, mean, rest))
        return cls(counted.count, low, high, mean, rest, squares, quantiles)

    @classmethod
    def _nothing(cls, size: int) -> ColumnStatistics:
        zeros = np.zeros(size)
        return cls(0, zeros, zeros, zeros, zeros, zeros, np.zeros((len(QUANTILES), size)))

    def merge(self, other: ColumnStatistics) -> ColumnStatistics:
        """Return the statistics of both sets of rows together."""
        if not self.count or not other.count:
            return self if self.count else other
        count = self.count + other.count
        share = other.count / count
        delta = (other.mean - self.mean) + (other.rest - self.rest)
        shift = self.rest + delta * share
        # The sum is rounded. `rest` keeps what the rounding lost.
        mean = self.mean + shift
        return ColumnStatistics(
            count=count,
            low=np.minimum(self.low, other.low),
            high=np.maximum(self.high, other.high),
            mean=mean,
            rest=shift - (mean - self.mean),
            squares=self.squares + other.squares + delta**2 * self.count * share,
            quantiles=self.quantiles + (other.quantiles - self.quantiles) * share,
        )

    def to_json(self) -> dict[str, list[float] | list[int]]:
        """Return the entry of ``stats.json``: one value per element, ``count`` a one-element list."""
        std = np.sqrt(self.squares / max(self.count, 1))
        entry = {"min": self.low, "max": self.high, "mean": self.mean + self.rest, "std": std}
        entry |= dict(zip(QUANTILES, self.quantiles, strict=True))
        return {name: values.tolist() for name, values in entry.items()} | {"count": [self.count]}


class _Counted:
    """The rows of a column that count, shape ``(count, size)``, part by part.

    Attributes:
        count: How many.
    """

    def __init__(self, table: NDArray[Any], missing: NDArray[np.bool_] | None) -> None:
        self._table = table
        # None where all of them count, as nearly always: then nothing is picked, nor copied.
        self._is_counted = self._found() if missing is None else self._found(~missing)
        self.count = len(table) if self._is_counted is None else int(self._is_counted.sum())

    def _found(self, has_value: NDArray[np.bool_] | None = None) -> NDArray[np.bool_] | None:
        is_counted = has_value
        for part in self._parts():
            # NaN is not counted either: it compares false with everything.
            is_small = np.abs(self._floats(part)) <= LARGEST_MAGNITUDE
            if not is_small.all():
                is_counted = np.ones(len(self._table), np.bool_) if is_counted is None else is_counted
                is_counted[part] &= is_small.all(axis=1)
        return is_counted

    def _floats(self, part: slice) -> Floats:
        return np.ascontiguousarray(self._table[part], np.float64)

    def _parts(self) -> Iterator[slice]:
        for part in parts(len(self._table), 8 * self._table.shape[1], _HELD_BYTES):
            yield part
            let_go(self._table)

    def _kept(self, part: slice, some: slice) -> NDArray[Any]:
        values = self._table[part, some]
        return values if self._is_counted is None else values[self._is_counted[part]]

    def elements(self, some: slice) -> Floats:
        """Return some elements of all rows, shape ``(elements, count)``: a row for each."""
        values, first = np.empty((some.stop - some.start, self.count)), 0
        for part in self._parts():
            kept = self._kept(part, some)
            values[:, first : first + len(kept)] = kept.T
            first += len(kept)
        return values

    def sum(self, of: Callable[[Floats], Floats]) -> Floats:
        """Add up something of every row, per element, shape ``(size,)``; in the order in which numpy adds up all.

        Args:
            of: Makes it of rows, which it does not write to.
        """
        size = self._table.shape[1]
        if size == 1:
            # Numpy adds up single numbers in pairs, and pairs of these.
            total: Floats = of(self.elements(slice(0, 1)).reshape(-1, 1)).sum(axis=0)
            return total
        total = np.zeros(size)
        for part in self._parts():
            values = of(np.ascontiguousarray(self._kept(part, slice(0, size)), np.float64))
            # Numpy adds up vectors one after the other.
            rows = np.concatenate([total[None], values]) if part.start else values
            total = np.add.reduce(rows, axis=0, initial=0.0)
        return total


def _quantiles(values: Floats, low: Floats, high: Floats) -> Floats:
    """Return the quantiles of values, shape ``(elements, count)``, as numpy's: between two of them, in proportion.

    Numpy gives the same, and takes twice as long for it, since there a value lies far from the next of its element.

    Args:
        values: They may be put in another order.
        low: The least of each element.
        high: The largest.
    """
    found = np.repeat(low[None], len(QUANTILES), axis=0)
    # What never moves, as many a joint of a scene, needs no order.
    moves = low < high
    if not moves.all():
        values = values[moves]
    last = values.shape[1] - 1
    places = np.array(list(QUANTILES.values())) * last
    below = places.astype(np.intp)
    above, share = np.minimum(below + 1, last), places - below
    values.partition(np.unique(np.concatenate([below, above])), axis=1)
    left, right = values[:, below], values[:, above]
    # From the nearer of the two, so that nothing is lost where the other is much larger.
    found[:, moves] = np.where(share < 0.5, left + (right - left) * share, right - (right - left) * (1 - share)).T
    return found


def _squares(values: Floats, mean: Floats, rest: Floats) -> Floats:
    """Return the squares of the distances of rows from the mean."""
    distances = values - mean
    distances -= rest
    return np.square(distances, out=distances)


class PixelHistogram:
    """Counts of 8-bit levels per channel over a regular subsample of a colour stream's pixels and frames.

    Every tenth frame counts, and of it a grid of at most 150 pixels a side.
    """

    # To count every pixel of every frame takes longer than to encode it: 1.4 ms at 640x480, against 1 ms.

    every = 10
    side = 150

    def __init__(self, channels: int = 3) -> None:
        self.frames = 0
        self.counts = np.zeros((channels, _LEVELS), np.int64)

    def add(self, index: int, frame: NDArray[np.uint8]) -> None:
        """Count frame ``index`` of an episode, uint8, shape ``(height, width, channels)``."""
        if index % self.every:
            return
        step = math.ceil(max(frame.shape[:2]) / self.side)
        pixels = frame[::step, ::step].reshape(-1, frame.shape[2])
        for channel, counts in enumerate(self.counts):
            counts += np.bincount(pixels[:, channel], minlength=_LEVELS)
        self.frames += 1

    def dump(self) -> dict[str, Any]:
        """Return it as plain JSON values, exact: `load` makes the same of them."""
        return {"frames": self.frames, "counts": self.counts.tolist()}

    @classmethod
    def load(cls, dumped: object) -> PixelHistogram:
        """Make the histogram that `dump` has written, whoever has it now.

        Raises:
            ValueError: If it is none.
        """
        frames, counts = (dumped.get(k) for k in ("frames", "counts")) if isinstance(dumped, dict) else (None, None)
        if type(frames) is not int or not isinstance(counts, list) or not 0 <= frames < _MOST_COUNTED:
            raise ValueError("no histogram of pixels")
        if not 0 < len(counts) <= _MOST_CHANNELS:
            raise ValueError("no histogram of pixels")
        levels = [level for channel in counts for level in channel] if all(isinstance(c, list) for c in counts) else []
        whole = all(type(level) is int and 0 <= level < _MOST_COUNTED for level in levels)
        if not whole or any(len(channel) != _LEVELS for channel in counts):
            raise ValueError("no histogram of pixels")
        loaded = cls(len(counts))
        loaded.frames, loaded.counts = frames, np.array(counts, np.int64)
        return loaded

    def merge(self, other: PixelHistogram) -> PixelHistogram:
        """Return the counts of both together."""
        merged = PixelHistogram(len(self.counts))
        merged.frames = self.frames + other.frames
        merged.counts = self.counts + other.counts
        return merged

    def to_json(self) -> dict[str, Any]:
        """Return the entry of ``stats.json``: values from 0 to 1, shape ``(channels, 1, 1)``; ``count`` in frames."""
        levels = np.arange(_LEVELS)
        total = np.maximum(self.counts.sum(axis=1), 1)
        mean = (self.counts @ levels) / total
        std = np.sqrt((self.counts * (levels - mean[:, None]) ** 2).sum(axis=1) / total)
        entry = {
            "min": (self.counts > 0).argmax(axis=1),
            "max": ((self.counts > 0) * levels).max(axis=1),
            "mean": mean,
            "std": std,
        }
        entry |= {name: self._quantile(q) for name, q in QUANTILES.items()}
        scaled = {name: (np.asarray(values) / (_LEVELS - 1))[:, None, None].tolist() for name, values in entry.items()}
        return scaled | {"count": [self.frames]}

    def _quantile(self, q: float) -> Floats:
        reached = self.counts.cumsum(axis=1) >= q * self.counts.sum(axis=1, keepdims=True)
        level: Floats = reached.argmax(axis=1).astype(np.float64)
        return level
