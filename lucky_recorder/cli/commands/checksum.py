"""``lucky-recorder checksum``: write the sums of all files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lucky_recorder import cli


def checksum(
    paths: Annotated[
        list[Path],
        typer.Argument(
            help="Sessions, koyu datasets, or folders that hold some, such as DataSessions.", show_default=False
        ),
    ],
) -> None:
    """Write the SHA-256 of every file into a session or dataset; check compares every file, of a copy too, with them.

    Exit status: 0 if all are written, 2 if one is being recorded, or is no session and no dataset.
    """
    cli.checksum.checksum(paths)
