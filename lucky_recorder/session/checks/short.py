"""Short episodes of many files, looked at together: what is done once for a file takes longer than its few rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from lucky_recorder.session.checks.evidence import Evidence, Listed
from lucky_recorder.session.checks.vectors import Array

_MOST_ROWS = 1024


class Short(NamedTuple):
    """Rows of episodes that are as many as is listed, file after file, in the order of the list.

    Attributes:
        files: The files that they are of.
        episodes: The episodes.
        lengths: How many rows each has.
        rows: The rows; None where there are none.
    """

    files: frozenset[str]
    episodes: list[Listed]
    lengths: Array
    rows: pa.Table | None


def short(evidence: Evidence) -> Short:
    """Return the short episodes of what has been read and is kept; none where one of them is not as is listed."""
    files: dict[str, pa.Table] = {}
    episodes: list[Listed] = []
    for file, listed in evidence.data_files.items():
        tables = evidence.kept(file)
        count = sum(e.length for e in listed)
        is_whole = len(tables) == 1 and tables[0].num_rows == count and max(e.length for e in listed) <= _MOST_ROWS
        if is_whole and tables[0].schema.equals(next(iter(files.values()), tables[0]).schema):
            files[file] = tables[0]
            episodes += listed
    lengths = np.array([e.length for e in episodes], np.int64)
    rows = pa.concat_tables(files.values()).combine_chunks() if files else None
    if rows is None or not lengths.all() or not _are_in_order(rows, episodes, lengths):
        return Short(frozenset(), [], np.zeros(0, np.int64), None)
    return Short(frozenset(files), episodes, lengths, rows)


def _are_in_order(rows: pa.Table, episodes: list[Listed], lengths: Array) -> bool:
    if rows.column_names.count("episode_index") != 1:
        return False
    column = rows["episode_index"]
    expected = np.repeat(np.array([e.number for e in episodes], np.int64), lengths)
    return column.type == pa.int64() and not column.null_count and np.array_equal(column.to_numpy(), expected)
