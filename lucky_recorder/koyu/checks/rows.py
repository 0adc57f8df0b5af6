"""Checks of a bundle's rows, looked at some at a time as they come (spec: data.parquet, The invariant)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from lucky_recorder.episode import keys
from lucky_recorder.errors import FormatError
from lucky_recorder.koyu import layout
from lucky_recorder.koyu.index import Feature
from lucky_recorder.koyu.rows import values

_VECTOR = pa.list_(pa.float32())


class BundleRows:
    """What the rows of a bundle turn out to be: of each kind of fault, the first.

    Attributes:
        count: How many have come.
    """

    def __init__(self, columns: Mapping[str, Feature]) -> None:
        self.count = 0
        self._columns = columns
        # Each once, in the order in which they were found.
        self._column_faults: dict[str, None] = {}
        self._value_faults: dict[str, str] = {}
        self._gaps: set[str] = set()
        self._latest: int | None = None

    def add(self, table: pa.Table) -> None:
        """Look at more rows."""
        self._column_faults |= dict.fromkeys(_column_faults(table, self._columns))
        for key in (layout.STEP, keys.TIMESTAMP):
            if table.column_names.count(key) == 1 and table[key].type == pa.int64():
                self._look_at_clock(key, table[key])
        for key, feature in self._columns.items():
            if table.column_names.count(key) == 1 and table[key].type == _VECTOR:
                self._look_at_vectors(key, table[key], feature)
        self.count += table.num_rows

    def faults(self) -> Iterator[str]:
        """Tell what is wrong, once all rows have come."""
        yield from self._column_faults
        # Numbers with a gap between them are not compared: the gap is told.
        for key in dict.fromkeys((layout.STEP, keys.TIMESTAMP, *self._columns)):
            if key in self._value_faults and key not in self._gaps:
                yield self._value_faults[key]

    def _look_at_clock(self, key: str, column: pa.ChunkedArray) -> None:
        if column.null_count:
            self._gaps.add(key)
        if key in self._gaps or not len(column):
            return
        numbers = column.to_numpy()
        if key == layout.STEP:
            expected = np.arange(self.count, self.count + len(numbers))
            wrong = np.flatnonzero(numbers != expected)
            if len(wrong):
                row = wrong[0]
                self._tell(key, f"row {self.count + row}: step is {numbers[row]}, expected {expected[row]}")
            return
        before = np.concatenate([numbers[:1] if self._latest is None else [self._latest], numbers[:-1]])
        back = numbers <= before
        # Before the very first there is none.
        back[0] &= self._latest is not None
        self._latest = int(numbers[-1])
        if back.any():
            row = int(np.argmax(back))
            self._tell(key, f"row {self.count + row}: timestamp is {numbers[row]}, not after {before[row]}")

    def _look_at_vectors(self, key: str, column: pa.ChunkedArray, feature: Feature) -> None:
        try:
            rows = values(column, feature.shape, key)
        except FormatError as error:
            # It stands for what was told of earlier rows: the lists are what is wrong.
            self._value_faults[key] = str(error)
            return
        if key in (keys.STATE, keys.ACTION):
            broken = np.flatnonzero(~np.isfinite(rows.reshape(len(rows), math.prod(feature.shape))).all(axis=1))
            if len(broken):
                self._tell(key, f"{key}: row {self.count + broken[0]} holds NaN or infinity")

    def _tell(self, key: str, message: str) -> None:
        self._value_faults.setdefault(key, message)


def _column_faults(table: pa.Table, columns: Mapping[str, Feature]) -> Iterator[str]:
    kinds = {layout.STEP: pa.int64(), keys.TIMESTAMP: pa.int64()} | {key: _VECTOR for key in columns}
    for key, kind in kinds.items():
        count = table.column_names.count(key)
        if count != 1:
            yield f"column {key} is missing" if not count else f"column {key} stands {count} times"
        elif table[key].type != kind:
            yield f"column {key} is {table[key].type}, expected {kind}"
        elif table[key].null_count:
            yield f"column {key}: a value is missing"
    for key in sorted(set(table.column_names) - set(kinds)):
        yield f"column {key} has no feature in the sidecar"
