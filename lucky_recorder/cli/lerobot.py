"""Making a copy of a session that LeRobot opens, and telling what was left out."""

from __future__ import annotations

from pathlib import Path

import typer

from lucky_recorder.cli.exits import FAULTY
from lucky_recorder.cli.lines import say
from lucky_recorder.lerobot.rules import check_lerobot
from lucky_recorder.lerobot.view import lerobot_view


def lerobot(session: Path, dst: Path, robot: str | None, depth: bool) -> None:
    """Link a copy of a session without what LeRobot's readers cannot take; see `lerobot_view`.

    Raises:
        LuckyRecorderError: If it cannot be made.
        typer.Exit: If LeRobot would not open it, with status 1.
    """
    view = lerobot_view(session, dst, robot, depth)
    broken = check_lerobot(view.path)
    for what in view.left_out:
        say(f"left out: {what}")
    for fault in broken:
        say(f"rule {fault.rule}: {fault.file}: {fault.message}; {fault.remedy}", error=True)
    if broken:
        raise typer.Exit(FAULTY)
    say(f"ok: {view.path}: {view.episodes} episodes that LeRobot opens")
