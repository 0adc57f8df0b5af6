"""Whole sessions, compared byte for byte but for what says when they were recorded."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

# Of ``meta/episodes``; nothing else in a session may differ between two runs of the same seeds.
WHEN = ["recorded_at", "duration_s"]


def bytes_of(path: Path) -> dict[str, bytes]:
    """The bytes of every file; of a file of ``meta/episodes``, those of its table without the two columns."""
    return {p.relative_to(path).as_posix(): _bytes(p) for p in sorted(path.rglob("*")) if p.is_file()}


def _bytes(path: Path) -> bytes:
    if path.suffix != ".parquet" or "episodes" not in path.parts or "meta" not in path.parts:
        return path.read_bytes()
    table = pq.ParquetFile(path).read()
    assert set(WHEN) <= set(table.column_names)
    kept = table.drop_columns(WHEN)
    written = pa.BufferOutputStream()
    with pa.ipc.new_stream(written, kept.schema) as stream:
        stream.write_table(kept)
    return bytes(written.getvalue())
