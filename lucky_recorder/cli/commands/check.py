"""``lucky-recorder check``: verify a session against the format."""

from __future__ import annotations

from typing import Annotated

import typer

from lucky_recorder import cli
from lucky_recorder.cli.commands.options import Decode, SessionFolder


def check(
    session: SessionFolder,
    decode: Decode = True,
    lerobot: Annotated[bool, typer.Option("--lerobot", help="Tell instead whether LeRobot opens it as it is.")] = False,
) -> None:
    """Verify everything in a session; print each fault with its file and episode.

    Exit status: 0 for a good session, 1 if there are faults, 2 if the folder is no session.
    """
    if lerobot:
        cli.check.check_for_lerobot(session)
    else:
        cli.check.check(session, decode)
