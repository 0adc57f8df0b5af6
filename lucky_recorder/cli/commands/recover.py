"""``lucky-recorder recover``: complete what interrupted recordings left."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lucky_recorder import cli


def recover(
    paths: Annotated[
        list[Path],
        typer.Argument(help="Sessions, koyu datasets, or folders that hold some, such as DataSessions."),
    ],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and change nothing.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Also where the file system has no locks; nobody may be recording there.")
    ] = False,
) -> None:
    """List every finished episode of recordings that were cut short, and set aside what is torn.

    What is being recorded is left alone. It may be run at any time, also again.

    Exit status: 0 if all is complete, 1 if something could not be completed, 2 for a folder of another kind.
    """
    cli.recover.recover(paths, dry_run, force)
