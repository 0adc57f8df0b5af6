"""Drawing a session, and telling what was made."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lucky_recorder.cli.console import Episodes
from lucky_recorder.cli.lines import say
from lucky_recorder.rollouts.render import render as rendered


def render(
    session: Path, output: Path, workers: int, allow_inexact: bool, dry_run: bool, fields: Mapping[str, Any]
) -> None:
    """Draw a session.

    Raises:
        LuckyRecorderError: If it cannot be drawn.
    """
    with Episodes() as bar:
        made = rendered(
            session,
            output,
            workers=workers,
            allow_inexact=allow_inexact,
            dry_run=dry_run,
            on_episode=bar.tell,
            **fields,
        )
    told = "would be drawn" if dry_run else "drawn and checked"
    say(f"{made.path}: {told}: {made.episodes} episodes, {made.rows} rows")
    if dry_run:
        say("nothing was written")
