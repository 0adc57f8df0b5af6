"""``lucky-recorder remake``: make an episode again, and compare."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lucky_recorder import cli


def remake(
    session: Annotated[Path, typer.Argument(metavar="SESSION", help="The session's folder.")],
    episode: Annotated[int, typer.Argument(metavar="EPISODE", help="The episode's number.")],
    allow_code: Annotated[
        bool, typer.Option("--allow-code", help="Let the session name code that is run: environments, wrappers.")
    ] = False,
) -> None:
    """Build an episode's environment again, play its recorded actions, and compare the rows.

    Exit status: 0 if they are the same, 1 if they differ, 2 if it cannot be made again.
    """
    cli.remake.remake(session, episode, allow_code)
