"""``lucky-recorder view``: a session in the Rerun viewer."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lucky_recorder.cli.console import say, stopping


def view(
    session: Annotated[Path, typer.Argument(help="The session's folder.", show_default=False)],
    save: Annotated[
        Path | None, typer.Option(help="Write an .rrd file for the viewer instead of opening it.", show_default=False)
    ] = None,
) -> None:
    """Show a session in the Rerun viewer: rows, pictures and tasks, a recording per episode.

    Exit status: the viewer's; 2 if the folder is no session, or the viewer is not installed.
    """
    from lucky_recorder.viewer import rerun as viewer

    with stopping():
        if save is None:
            raise typer.Exit(viewer.show(session))
        viewer.save(session, save)
    say(f"ok: {save}")
