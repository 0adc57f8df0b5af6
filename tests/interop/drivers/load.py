"""Loads a session with our dataset in torch's own loader, beside LeRobot's: load.py SESSION OUT PACKAGE."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
from dump import dump, dump_dataset
from lerobot.datasets.lerobot_dataset import LeRobotDataset

SESSION, OUT = Path(sys.argv[1]), Path(sys.argv[2])
sys.path.append(sys.argv[3])


def items(loader: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Take batches apart."""
    for batch in loader:
        yield from ({key: values[k] for key, values in batch.items()} for k in range(len(batch["index"])))


def main() -> None:
    import lucky_recorder as lr

    theirs = LeRobotDataset("local/session", root=SESSION)
    period, cameras = 1 / theirs.meta.fps, theirs.meta.video_keys
    windows = {"observation.state": [-period, 0.0], "action": [0.0, period, 2 * period]}
    windows |= {camera: [-period, 0.0] for camera in cameras}
    theirs = LeRobotDataset("local/session", root=SESSION, delta_timestamps=windows)
    ours = lr.SessionDataset(SESSION, delta_seconds=windows)
    dump_dataset(OUT / "theirs.npz", theirs)
    dump_dataset(OUT / "ours.npz", ours)
    for method in ("fork", "spawn"):
        loader = torch.utils.data.DataLoader(
            ours,
            batch_size=8,
            shuffle=True,
            num_workers=2,
            multiprocessing_context=method,
            generator=torch.Generator().manual_seed(1),
        )
        dump(OUT / f"{method}.npz", items(loader))


if __name__ == "__main__":
    main()
