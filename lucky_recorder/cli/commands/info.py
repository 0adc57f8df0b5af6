"""``lucky-recorder info``: what a session holds, at a glance."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lucky_recorder import cli
from lucky_recorder.cli.commands.options import SessionFolder


def info(
    session: SessionFolder,
    frame: Annotated[
        str | None, typer.Option(metavar="EPISODE:FRAME", help="Draw every stream of one frame.", show_default=False)
    ] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Where --frame writes its picture, a PNG file.")
    ] = Path("frame.png"),
) -> None:
    """Show what a session holds: episodes, cameras, columns, tasks."""
    if frame is None:
        cli.info.info(session)
    else:
        cli.info.draw_frame(session, frame, output)
