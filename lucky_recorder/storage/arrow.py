"""pyarrow, made ready while it still can be."""

from __future__ import annotations

import pyarrow as pa


def warm_up() -> None:
    """Make an array: for the first one pyarrow imports pandas, which is slow, and fails while Python shuts down.

    Every sink that writes Parquet calls it when it is made, in the caller's thread: where ``close()`` is forgotten, the
    worker may meet pyarrow for the first time when the process ends.
    """
    pa.array([0])
