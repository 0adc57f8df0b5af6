"""`SessionDataset` in torch's own loader: LeRobot's items, and the same ones from any worker."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import lucky_recorder as lr
from tests.interop.conftest import DRIVERS, LeRobot, Truth

# What LeRobot rounds: its times are float32. Two libraries convert colours in their own ways.
ROUNDED, CODES = ("timestamp",), 6


def load(path: Path) -> dict[str, np.ndarray]:
    with np.load(path) as columns:
        return {name.replace("|", "/"): columns[name] for name in columns}


def test_items_are_lerobots(lerobot: LeRobot, pendulum: Truth, tmp_path: Path) -> None:
    lerobot.run(DRIVERS / "load.py", pendulum.path, tmp_path, Path(lr.__file__).parents[1])
    ours, theirs = load(tmp_path / "ours.npz"), load(tmp_path / "theirs.npz")
    assert len(ours["index"]) == len(pendulum.table)
    assert set(theirs) - set(ours) == set()
    for name, values in theirs.items():
        if name.startswith("observation.images.") and values.dtype == np.uint8:
            assert np.abs(ours[name].astype(int) - values).max() <= CODES
        else:
            expected = values.astype(np.float64) if name in ROUNDED else values
            assert (
                np.allclose(ours[name], expected, rtol=1e-6, atol=0)
                if name in ROUNDED
                else (np.array_equal(ours[name], expected))
            ), name
    for method in ("fork", "spawn"):
        loaded = load(tmp_path / f"{method}.npz")
        order = loaded["index"]
        assert sorted(order.tolist()) == list(range(len(order)))
        assert order.tolist() != sorted(order.tolist())
        assert all(np.array_equal(loaded[name], ours[name][order]) for name in ours)
