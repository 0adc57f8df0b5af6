"""Parquet files by their names, whatever the bytes of a name are.

`pyarrow` takes a name for UTF-8, and fails where it is not. The system knows bytes, and so does a folder that came from
another one.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq


def readable(path: Path) -> pa.NativeFile:
    """Open a file for `pyarrow` to read.

    Raises:
        OSError: If it cannot be opened.
    """
    return pa.OSFile(os.fsencode(path), "rb")


def writable(path: Path) -> pa.NativeFile:
    """Open a file for `pyarrow` to write, from its beginning; errors as for `readable`."""
    return pa.OSFile(os.fsencode(path), "wb")


def write_table(path: Path, table: pa.Table) -> None:
    """Write a small Parquet file."""
    with writable(path) as file:
        pq.write_table(table, file, compression="zstd", write_page_checksum=True)


def metadata_of(path: Path) -> Any:
    """Return what a file's footer says; errors are what `pyarrow` raises."""
    with readable(path) as file:
        return pq.read_metadata(file)
