"""``lucky-recorder lerobot``: a copy of a session that LeRobot opens."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lucky_recorder.cli.console import say, stopping


def lerobot(
    session: Annotated[Path, typer.Argument(help="The session's folder.", show_default=False)],
    dst: Annotated[Path, typer.Argument(help="The folder to make; it must not exist.", show_default=False)],
    robot: Annotated[
        str | None, typer.Option(metavar="NAME", help="The robot whose rows are kept, where there are several.")
    ] = None,
    depth: Annotated[bool, typer.Option("--depth", help="Keep depth streams, described as LeRobot's own are.")] = False,
) -> None:
    """Link a copy of a session without what LeRobot's readers cannot take, and say what was left out.

    Exit status: 0 if LeRobot opens the copy, 1 if it would not, 2 if it cannot be made.
    """
    from lucky_recorder.lerobot.rules import check_lerobot
    from lucky_recorder.lerobot.view import lerobot_view

    with stopping():
        view = lerobot_view(session, dst, robot, depth)
        broken = check_lerobot(view.path)
    for what in view.left_out:
        say(f"left out: {what}")
    for fault in broken:
        say(f"rule {fault.rule}: {fault.file}: {fault.message}; {fault.remedy}", error=True)
    if broken:
        raise typer.Exit(1)
    say(f"ok: {view.path}: {view.episodes} episodes that LeRobot opens")
