"""Opens session after session and takes every item; says what went wrong with each: open.py OUT SESSION..."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
from lerobot.datasets.lerobot_dataset import LeRobotDataset


def trouble(session: Path) -> str:
    """Return what LeRobot raises, nothing if it hands out every item."""
    try:
        for _ in torch.utils.data.DataLoader(LeRobotDataset("local/session", root=session), batch_size=4):
            pass
    except Exception as error:  # whatever it is, it is the finding
        return f"{type(error).__name__}: {error}"
    return ""


def main() -> None:
    out, *sessions = map(Path, sys.argv[1:])
    out.write_text(json.dumps({session.name: trouble(session) for session in sessions}))


if __name__ == "__main__":
    main()
