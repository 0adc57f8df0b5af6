"""Checks of what ``meta/episodes`` says of an episode besides its numbers: who, when, why, and the user's own words."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from lucky_recorder.episode import clock
from lucky_recorder.errors import FormatError, shown
from lucky_recorder.session.about import as_object
from lucky_recorder.session.checks.declared import is_whole
from lucky_recorder.session.checks.episodes import ABOUT
from lucky_recorder.session.checks.evidence import Evidence, Fault

_SEED = re.compile(r"-?\d+")


def _is_object(value: Any) -> bool:
    try:
        return bool(as_object(value, ""))
    except FormatError:
        return False


# A column that is of another type is told by `check_meta_files`, and has no values here.
_EXPECTED: dict[str, tuple[Callable[[Any], bool], str]] = {
    "seed": (lambda v: bool(_SEED.fullmatch(v)), "decimal digits"),
    "options": (_is_object, "a JSON object"),
    "lane": (is_whole, "a whole number"),
    "recorded_at": (lambda v: clock.moment_ns(v) is not None, "a moment in UTC, ISO 8601"),
    "duration_s": (lambda v: math.isfinite(v) and v >= 0, "seconds"),
    "end_reason": (bool, "a reason"),
    "annotations": (_is_object, "a JSON object"),
}
# What is always known of an episode of which anything is: one of a version before has none of it.
_ALWAYS = ("lane", "end_reason")


def check_about(evidence: Evidence) -> Iterator[Fault]:
    """Check the values of each episode; other recorders may mean other things by these names."""
    if not evidence.declared.is_ours:
        return
    there = {n: {c for c in _EXPECTED if _is_there(table.schema, c)} for n, table in evidence.meta_files.items()}
    for name, row in evidence.rows:
        number = row.get("episode_index")
        is_told = any(row.get(column) is not None for column in _EXPECTED)
        for column, (is_right, expected) in _EXPECTED.items():
            value = row.get(column)
            is_there = column in there[name]
            if value is None and is_there and is_told and column in _ALWAYS:
                yield Fault(name, number, f"{column} is empty, expected {expected}")
            elif value is not None and is_there and not is_right(value):
                yield Fault(name, number, f"{column} is {shown(value)}, expected {expected}")


def _is_there(schema: pa.Schema, column: str) -> bool:
    """Tell whether a column stands in a table, once and of its type; if not, others say so."""
    return bool(schema.names.count(column) == 1 and schema.field(column).type == ABOUT[column])
