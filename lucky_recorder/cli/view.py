"""Showing a session in the Rerun viewer, or saving what it would show."""

from __future__ import annotations

from pathlib import Path

import typer

from lucky_recorder.cli.lines import say
from lucky_recorder.viewer import rerun as viewer


def view(session: Path, save: Path | None) -> None:
    """Open the viewer and wait until it is closed; or write a file for it.

    Raises:
        LuckyRecorderError: If the folder is no session that can be shown, or the viewer is not installed.
        typer.Exit: When the viewer is closed, with its status.
    """
    if save is None:
        raise typer.Exit(viewer.show(session))
    viewer.save(session, save)
    say(f"ok: {save}")
