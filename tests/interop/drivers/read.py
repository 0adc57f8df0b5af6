"""Opens a session in LeRobot in every way a user does: read.py SESSION OUT."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch
from dump import dump, dump_dataset
from lerobot.datasets.lerobot_dataset import LeRobotDataset

SESSION, OUT = Path(sys.argv[1]), Path(sys.argv[2])
CHOSEN = [30, 2, 7]


def opened(**ways: object) -> LeRobotDataset:
    return LeRobotDataset("local/session", root=SESSION, **ways)


def windows(fps: float, cameras: list[str]) -> dict[str, list[float]]:
    """One step back, and two ahead."""
    return {"observation.state": [-1 / fps, 0.0], "action": [0.0, 1 / fps, 2 / fps]} | {
        camera: [-1 / fps, 0.0] for camera in cameras
    }


def main() -> None:
    whole = opened()
    dump_dataset(OUT / "items.npz", whole)
    dump_dataset(OUT / "windows.npz", opened(delta_timestamps=windows(whole.meta.fps, whole.meta.video_keys)))
    dump_dataset(OUT / "chosen.npz", opened(episodes=CHOSEN))
    succeeded = [e["episode_index"] for e in whole.meta.episodes if e["success"]]
    dump_dataset(OUT / "succeeded.npz", opened(episodes=succeeded))
    if hasattr(whole.meta, "filter_episodes"):
        dump_dataset(OUT / "filtered.npz", opened(episode_filter=lambda episode: episode["success"]))
        dump_dataset(OUT / "pyav.npz", opened(video_backend="pyav"))
    loader = torch.utils.data.DataLoader(opened(), batch_size=16, num_workers=2)
    dump(OUT / "batches.npz", loader, np.concatenate)


if __name__ == "__main__":
    main()
