"""``lucky-recorder lerobot``: a copy of a session that LeRobot opens."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lucky_recorder import cli
from lucky_recorder.cli.commands.options import SessionFolder


def lerobot(
    session: SessionFolder,
    dst: Annotated[Path, typer.Argument(help="The folder to make; it must not exist.", show_default=False)],
    robot: Annotated[
        str | None, typer.Option(metavar="NAME", help="The robot whose rows are kept, where there are several.")
    ] = None,
    depth: Annotated[bool, typer.Option("--depth", help="Keep depth streams, described as LeRobot's own are.")] = False,
) -> None:
    """Link a copy of a session without what LeRobot's readers cannot take, and say what was left out.

    Exit status: 0 if LeRobot opens the copy, 1 if it would not, 2 if it cannot be made.
    """
    cli.lerobot.lerobot(session, dst, robot, depth)
