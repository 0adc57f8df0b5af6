"""Exact quantiles of values that are too many for the memory: they are gone through several times."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np

from lucky_recorder.session.checks.vectors import Array

# So many values are held at a time: 32 MB.
HELD_VALUES = 1 << 22
_STEP, _WIDTH = 16, 64
_BINS = 1 << _STEP

Parts = Callable[[], Iterator[Array]]


def quantiles(parts: Parts, count: int, size: int, wanted: Sequence[float]) -> Array:
    """Return quantiles per element, shape ``(len(wanted), size)``, as numpy's: between two values, in proportion.

    Args:
        parts: Goes through all rows, float64, shape ``(rows, size)`` each; called as often as needed.
        count: Rows that there are, at least one.
        size: Elements of a row.
        wanted: The quantiles, 0 to 1.
    """
    together = HELD_VALUES // count
    found = np.empty((len(wanted), size))
    if together:
        for first in range(0, size, together):
            some = slice(first, min(first + together, size))
            held, filled = np.empty((count, some.stop - some.start)), 0
            for rows in parts():
                held[filled : filled + len(rows)] = rows[:, some]
                filled += len(rows)
            found[:, some] = np.quantile(held, list(wanted), axis=0, overwrite_input=True)
        return found
    for element in range(size):
        places = [q * (count - 1) for q in wanted]
        ranks = sorted({rank for place in places for rank in (math.floor(place), math.ceil(place))})
        values = dict(zip(ranks, _ranked(parts, element, ranks), strict=True))
        for i, place in enumerate(places):
            low, high = values[math.floor(place)], values[math.ceil(place)]
            found[i, element] = low + (high - low) * (place - math.floor(place))
    return found


def quantiles_of_runs(rows: Array, counts: Array, wanted: Sequence[float]) -> Array:
    """Return quantiles per element of many short runs of rows at once, shape ``(runs, len(wanted), size)``.

    Args:
        rows: All rows, run after run, float64, shape ``(rows, size)``.
        counts: How many rows each run has; of one that has none the quantiles are 0.
        wanted: The quantiles, 0 to 1.
    """
    size, longest = rows.shape[1], int(counts.max())
    if len(counts) * longest * size > HELD_VALUES:
        runs = np.split(rows, np.cumsum(counts)[:-1])
        found = np.zeros((len(counts), len(wanted), size))
        for number, run in enumerate(runs):
            found[number] = quantiles(partial(iter, [run]), len(run), size, wanted) if len(run) else 0
        return found
    # What is not there comes last.
    padded = np.full((len(counts), longest, size), np.inf)
    padded[np.arange(longest) < counts[:, None]] = rows
    padded.sort(axis=1)
    places = np.maximum(counts - 1, 0)[:, None] * np.asarray(wanted)
    runs_of = np.arange(len(counts))[:, None]
    low = padded[runs_of, np.floor(places).astype(np.int64)]
    high = padded[runs_of, np.ceil(places).astype(np.int64)]
    has_any = (counts > 0)[:, None, None]
    between: Array = (
        np.where(has_any, low, 0)
        + (np.where(has_any, high, 0) - np.where(has_any, low, 0)) * (places - np.floor(places))[..., None]
    )
    return between


def _ranked(parts: Parts, element: int, ranks: Sequence[int]) -> Array:
    """Return the values of some ranks: 16 bits of each value at a time, those are counted that begin alike."""
    begins, left = np.zeros(len(ranks), np.uint64), list(ranks)
    for shift in range(_WIDTH - _STEP, -1, -_STEP):
        counts = {int(begin): np.zeros(_BINS, np.int64) for begin in begins}
        for rows in parts():
            keys = _keys(rows[:, element])
            for begin, counted in counts.items():
                # A number has no bits beyond its width to be shifted by.
                alike = keys if shift + _STEP == _WIDTH else keys[keys >> np.uint64(shift + _STEP) == begin]
                counted += np.bincount((alike >> np.uint64(shift)).astype(np.int64) & (_BINS - 1), minlength=_BINS)
        for i, begin in enumerate(begins.tolist()):
            sums = np.cumsum(counts[begin])
            chosen = int(np.searchsorted(sums, left[i], "right"))
            left[i] -= int(sums[chosen] - counts[begin][chosen])
            begins[i] = begin << _STEP | chosen
    return _values(begins)


def _keys(values: Array) -> Array:
    """Return whole numbers without a sign that are in the order of the values."""
    bits = np.ascontiguousarray(values, np.float64).view(np.int64)
    # The larger the bits of a negative number, the smaller it is.
    return (bits ^ ((bits >> 63) & np.int64(2**63 - 1))).view(np.uint64) ^ np.uint64(1 << 63)


def _values(keys: Array) -> Array:
    bits = (keys ^ np.uint64(1 << 63)).view(np.int64)
    return (bits ^ ((bits >> 63) & np.int64(2**63 - 1))).view(np.float64)
