"""Checks of ``meta/stats.json`` against all rows (spec: stats.json)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from lucky_recorder.errors import shown
from lucky_recorder.session.checks.evidence import STATS, Evidence, Fault
from lucky_recorder.session.checks.measured import QUANTILES, Moments
from lucky_recorder.session.checks.vectors import Array

# Repeated on purpose: a check that used the writer's constants would not find a wrong one.
_REQUIRED = ("min", "max", "mean", "std", "count")
_COLOR_SHAPE = (3, 1, 1)
_RELATIVE = 1e-9
# Others add up in another order, or in float32, and the format does not say which deviation ``std`` is.
_OTHERS_RELATIVE = 1e-5


def check_columns(evidence: Evidence, measured: list[Moments]) -> Iterator[Fault]:
    """Check that there is an entry per value column and colour stream, and each column's numbers against all rows.

    Args:
        evidence: The session.
        measured: What the columns come to over all rows.
    """
    stats = evidence.stats
    if stats is None or evidence.declared.features is None:
        return
    yield from _check_keys(stats, evidence)
    for one in measured:
        entry = stats.get(one.column.name)
        if isinstance(entry, dict):
            yield from (_fault(one.column.name, message) for message in _entry_faults(entry, (one.column.size,)))
            faults = _number_faults(entry, one) if evidence.declared.is_ours else _others_faults(entry, one)
            yield from (_fault(one.column.name, message) for message in faults)


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
    arrays = {name: _array(entry[name], shape) for name in (*_REQUIRED[:-1], *QUANTILES) if name in entry}
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
    for name in ("mean", *QUANTILES):
        between = arrays.get(name)
        if between is not None and not ((low - slack <= between) & (between <= high + slack)).all():
            yield f"{name} is {shown(entry[name])}, not between min and max"
    quantiles = [array for name, array in arrays.items() if name in QUANTILES and array is not None]
    if any((a > b + slack).any() for a, b in pairwise(quantiles)):
        yield "its quantiles are not in order"


def _number_faults(entry: Mapping[str, Any], one: Moments) -> Iterator[str]:
    if not one.usable:
        return
    if entry.get("count") != [one.rows]:
        yield f"count is {shown(entry.get('count'))}, expected [{one.rows}]"
    if not one.rows:
        return
    largest = np.maximum(np.abs(one.low), np.abs(one.high))
    # A mean close to zero is no more exact than the values it is the mean of.
    slacks = {"min": 0.0, "max": 0.0, "std": _RELATIVE * one.std + np.spacing(largest)}
    numbers = {"min": one.low, "max": one.high, "mean": one.means, "std": one.std} | one.quantiles
    for name, expected in numbers.items():
        slack = slacks.get(name, _RELATIVE * largest)
        found = _array(entry.get(name), expected.shape)
        if found is not None and not (np.abs(found - expected) <= slack).all():
            element = int(np.argmax(np.abs(found - expected) - slack))
            yield f"{name}[{element}] is {found[element]!r}, expected {expected[element]!r} over all rows"


def _others_faults(entry: Mapping[str, Any], one: Moments) -> Iterator[str]:
    """Check another writer's numbers, as far as the format says what they are."""
    if not one.usable:
        return
    if entry.get("count") != [one.rows]:
        yield f"count is {shown(entry.get('count'))}, expected [{one.rows}]"
    if not one.rows:
        return
    slack = _OTHERS_RELATIVE * np.maximum(np.abs(one.low), np.abs(one.high))
    samples = one.std * np.sqrt(one.rows / max(one.rows - 1, 1))
    for name, allowed in {"min": [one.low], "max": [one.high], "mean": [one.means], "std": [one.std, samples]}.items():
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
