"""How a copy of the small session is broken, one part at a time."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lucky_recorder.session.check import Fault
from lucky_recorder.video.encoder import VideoEncoder

INFO, STATS, TASKS = "meta/info.json", "meta/stats.json", "meta/tasks.parquet"
META = "meta/episodes/chunk-000/file-001.parquet"  # episodes 3, 4, 5, 6
DATA = "data/chunk-000/file-001.parquet"  # episodes 3, 4, 5
FRONT = "observation.images.Front"
VIDEO = f"videos/{FRONT}/chunk-002/file-001.mp4"  # episode 5

Edit = Callable[[str, Callable[[Any], None]], list[Fault]]


def rewrite(path: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    """Change a table, and keep its footer where the change has none of its own."""
    table = pq.ParquetFile(path).read()
    changed = change(table)
    metadata = changed.schema.metadata or table.schema.metadata
    pq.write_table(changed.replace_schema_metadata(metadata), path, write_page_checksum=True)


def with_value(column: str, row: int, value: Any) -> Callable[[pa.Table], pa.Table]:
    """Put another value in one place of a table."""

    def change(table: pa.Table) -> pa.Table:
        values = table[column].to_pylist()
        values[row] = value
        field = table.schema.field(column)
        return table.set_column(table.column_names.index(column), field, pa.array(values, field.type))

    return change


def film(path: Path, frames: int, width: int = 64, height: int = 48, fps: int = 50) -> None:
    path.unlink(missing_ok=True)
    encoder = VideoEncoder(path, width=width, height=height, fps=Fraction(fps))
    for k in range(frames):
        encoder.write(np.full((height, width, 3), k, np.uint8))
    encoder.close()
