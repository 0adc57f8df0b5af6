"""``lucky-recorder view``: a session in the Rerun viewer."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lucky_recorder import cli
from lucky_recorder.cli.commands.options import SessionFolder


def view(
    session: SessionFolder,
    save: Annotated[
        Path | None, typer.Option(help="Write an .rrd file for the viewer instead of opening it.", show_default=False)
    ] = None,
) -> None:
    """Show a session in the Rerun viewer: rows, pictures and tasks, a recording per episode.

    Exit status: the viewer's; 2 if the folder is no session, or the viewer is not installed.
    """
    cli.view.view(session, save)
