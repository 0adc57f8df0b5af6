"""``lucky-recorder koyu``: check, index and describe a koyu dataset."""

from __future__ import annotations

from lucky_recorder import cli
from lucky_recorder.cli.commands.options import DatasetFolder, Decode, Deep


def check(dataset: DatasetFolder, decode: Decode = True, deep: Deep = False) -> None:
    """Verify everything in a dataset; print each fault with its file.

    Exit status: 0 for a good dataset, 1 if there are faults, 2 if the folder is no dataset.
    """
    cli.koyu.check(dataset, decode, deep)


def index(dataset: DatasetFolder) -> None:
    """Write manifest.json anew, from the bundles alone."""
    cli.koyu.index(dataset)


def info(dataset: DatasetFolder) -> None:
    """Show what a dataset holds, as its manifest has it: episodes, features, tasks."""
    cli.koyu.info(dataset)
