"""``lucky-recorder check``: verify sessions and koyu datasets against their formats."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lucky_recorder import cli
from lucky_recorder.cli.commands.options import Decode, Deep


def check(
    paths: Annotated[list[Path], typer.Argument(help="Sessions and koyu datasets.", show_default=False)],
    decode: Decode = True,
    deep: Deep = False,
    workers: Annotated[
        int,
        typer.Option("--workers", metavar="N", min=1, max=1024, help="Processes that look at episodes of a session."),
    ] = 1,
    lerobot: Annotated[bool, typer.Option("--lerobot", help="Tell instead whether LeRobot opens it as it is.")] = False,
) -> None:
    """Verify everything in a session or dataset; print each fault with its file and episode.

    Where sums were written (see checksum), every file is compared with them. The same is found, in the same order, by
    any number of workers.

    Exit status: 0 if all are good, 1 if there are faults, 2 if a folder is neither.
    """
    if lerobot:
        cli.check.check_for_lerobot(paths)
    else:
        cli.check.check_all(paths, decode, deep, workers)
