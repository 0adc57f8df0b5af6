"""Making an episode again, and telling whether it is the same."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import typer

from lucky_recorder.cli.exits import FAULTY
from lucky_recorder.cli.lines import say
from lucky_recorder.errors import SettingsError, shown
from lucky_recorder.rollouts.remake import remake as made_again


def remake(session: Path, episode: int, allow_code: bool) -> None:
    """Make an episode again, and say whether its rows are the same, or where they differ first.

    Raises:
        LuckyRecorderError: If it cannot be made again.
        typer.Exit: If it differs.
    """
    if allow_code:
        # As with `python -m`: where the user's own environments are.
        sys.path.insert(0, os.getcwd())
    try:
        found = made_again(session, episode, allow_code=allow_code)
    except IndexError as error:
        raise SettingsError.of("EPISODE", episode, str(error)) from error
    for changed in found.changed:
        say(f"changed since: {changed}")
    if found.left_out:
        say(f"not compared: {', '.join(found.left_out)}")
    if found.difference is None:
        say(f"episode {episode}: the same: {found.rows} rows of {', '.join(found.columns)}")
        return
    row, column, recorded, remade = found.difference
    say(f"episode {episode}: row {row}, {column}: recorded {shown(recorded)}, now {shown(remade)}")
    raise typer.Exit(FAULTY)
