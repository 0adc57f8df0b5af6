"""Takes every item of a view, depth in LeRobot's own unit: view.py SESSION OUT."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from dump import dump
from lerobot.datasets.lerobot_dataset import LeRobotDataset

SESSION, OUT = Path(sys.argv[1]), Path(sys.argv[2])


def main() -> None:
    dataset = LeRobotDataset("local/session", root=SESSION)
    items = [dataset[k] for k in range(len(dataset))]
    depth = {key: [] for key in items[0] if key.endswith("_depth")}
    for item in items:
        for key, frames in depth.items():
            frames.append(item.pop(key).numpy()[0])
    dump(OUT / "items.npz", items)
    np.savez(OUT / "depth.npz", **depth)


if __name__ == "__main__":
    main()
