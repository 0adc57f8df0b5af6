"""Completing what interrupted recordings left, and telling what was done."""

from __future__ import annotations

from pathlib import Path

import typer

from lucky_recorder.cli.console import show, table
from lucky_recorder.cli.exits import FAULTY
from lucky_recorder.cli.lines import say
from lucky_recorder.edit.recover import Recovered, Verdict
from lucky_recorder.edit.recover import recover as complete
from lucky_recorder.storage.aside import LOST

_UNSOUND = (Verdict.REFUSED, Verdict.FAULTY)


def recover(paths: list[Path], dry_run: bool = False, force: bool = False) -> None:
    """Complete sessions and datasets, and show what became of each.

    Raises:
        FormatError: If a folder is not there, or is none of these; what came before it is done.
        typer.Exit: If one could not be completed, with status 1.
    """
    done = [one for path in paths for one in complete(path, dry_run=dry_run, force=force)]
    titles = ("", "verdict", "episodes", "brought back", "set aside")
    show(table(titles, ((d.path, d.verdict, d.episodes, d.brought_back, len(d.set_aside)) for d in done)))
    for one in done:
        _tell(one, dry_run)
    if dry_run:
        say("nothing was changed")
    if any(one.verdict in _UNSOUND for one in done):
        raise typer.Exit(FAULTY)


def _tell(one: Recovered, dry_run: bool) -> None:
    if one.why:
        say(f"{one.path}: {one.verdict}: {one.why}", error=one.verdict in _UNSOUND)
    for file, reason in one.set_aside:
        moved = "would go" if dry_run else "went"
        say(f"{one.path / file} {moved} to {LOST}/: {reason}")
