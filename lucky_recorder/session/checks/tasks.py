"""Checks of ``meta/tasks.parquet`` (spec: tasks.parquet)."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pyarrow as pa

from lucky_recorder.session.checks.evidence import TASKS, Evidence, Fault


def check_tasks(evidence: Evidence) -> Iterator[Fault]:
    """Check that the indices run from 0 and that the description is the table's pandas index."""
    table = evidence.tasks
    if table is None:
        return
    texts = [f.name for f in table.schema if pa.types.is_string(f.type)]
    if sorted(table.column_names) != sorted(["task_index", *texts]) or len(texts) != 1:
        yield Fault(TASKS, None, f"columns are {table.column_names}, expected task_index and the description")
        return
    if table["task_index"].type != pa.int64() or table["task_index"].to_pylist() != list(range(table.num_rows)):
        yield Fault(TASKS, None, f"task_index is not int64 from 0 to {table.num_rows - 1} in order")
    described = table[texts[0]].to_pylist()
    if not described or not all(described) or len(set(described)) != len(described):
        yield Fault(TASKS, None, "descriptions are missing or stand twice")
    if _index_columns(table) != texts:
        yield Fault(TASKS, None, f"pandas would not take {texts[0]!r} as the index")


def _index_columns(table: pa.Table) -> object:
    """Return what the table's note to pandas calls its index."""
    try:
        note = json.loads((table.schema.metadata or {}).get(b"pandas", b"{}"))
    except (ValueError, RecursionError):
        return None
    return note.get("index_columns") if isinstance(note, dict) else None
