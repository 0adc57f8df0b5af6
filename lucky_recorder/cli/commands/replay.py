"""``lucky-recorder replay``: step an episode's states again, and compare."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lucky_recorder import cli


def replay(
    session: Annotated[Path, typer.Argument(metavar="SESSION", help="The session's folder.")],
    episode: Annotated[int, typer.Argument(metavar="EPISODE", help="The episode's number.")],
    verify: Annotated[bool, typer.Option("--verify", help="Exit with 1 where a state differs.")] = False,
    open_loop: Annotated[
        bool,
        typer.Option("--open-loop", help="Play the commands of the rows alone, and say how far each joint drifts."),
    ] = False,
    model: Annotated[
        Path | None, typer.Option("--model", metavar="FILE", help="With --open-loop: the model, XML or MJB.")
    ] = None,
) -> None:
    """Step an episode's simulation again from its recorded states, and compare each state bit for bit.

    For sessions that keep states (record --keep-states). The model is the session's own: replay those of people whom
    you trust. With --open-loop it needs no states: it begins where the first row has the joints, and is not exact.

    Exit status: 0 if it was replayed, 1 with --verify if a state differs, 2 if it cannot be replayed.
    """
    cli.replay.replay(session, episode, verify, open_loop, model)
