"""Splits a session, deletes from it and merges it again with LeRobot's own tools: tools.py SESSION OUT."""

from __future__ import annotations

import sys
from pathlib import Path

from dump import dump_dataset
from lerobot.datasets.dataset_tools import delete_episodes, merge_datasets, split_dataset
from lerobot.datasets.lerobot_dataset import LeRobotDataset

SESSION, OUT = Path(sys.argv[1]), Path(sys.argv[2])
DELETED = [0, 3, 26]


def main() -> None:
    session = LeRobotDataset("local/session", root=SESSION)
    parts = split_dataset(session, {"train": 0.75, "val": 0.25}, output_dir=OUT / "split")
    for name, part in parts.items():
        dump_dataset(OUT / f"{name}.npz", part)
    left = delete_episodes(session, DELETED, output_dir=OUT / "left", repo_id="local/left")
    dump_dataset(OUT / "left.npz", left)
    merged = merge_datasets([parts["val"], parts["train"]], "local/merged", output_dir=OUT / "merged")
    dump_dataset(OUT / "merged.npz", merged)
    twice = merge_datasets([session, session], "local/twice", output_dir=OUT / "twice")
    dump_dataset(OUT / "twice.npz", twice)


if __name__ == "__main__":
    main()
