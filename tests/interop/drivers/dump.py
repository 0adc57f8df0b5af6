"""What LeRobot hands out, as plain arrays in a file: the tests compare them with the session's own files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np


def plain(value: Any) -> np.ndarray:
    """Make an array of one value of an item: pictures come back as uint8, channels last."""
    if isinstance(value, str | list):
        return np.array(value)
    array = value.numpy()
    if array.dtype == np.float32 and array.ndim >= 3:
        return np.rint(np.moveaxis(array, -3, -1) * 255).astype(np.uint8)
    return array


def dump(path: Path, items: Iterable[dict[str, Any]], join: Any = np.stack) -> None:
    """Write items under their keys, one row each."""
    columns: dict[str, list[np.ndarray]] = {}
    for item in items:
        for key, value in item.items():
            columns.setdefault(key, []).append(plain(value))
    np.savez(path, **{key.replace("/", "|"): join(values) for key, values in columns.items()})


def dump_dataset(path: Path, dataset: Any) -> None:
    """Write every item of a dataset, by index."""
    dump(path, (dataset[k] for k in range(len(dataset))))
