"""Replaying an episode, and telling whether its states are the same."""

from __future__ import annotations

from pathlib import Path

import typer

from lucky_recorder.cli.exits import FAULTY
from lucky_recorder.cli.lines import say
from lucky_recorder.errors import SettingsError
from lucky_recorder.rollouts.replay import replay as replayed


def replay(session: Path, episode: int, verify: bool) -> None:
    """Step an episode's states again, and say whether they are the same, or where they differ first.

    Raises:
        LuckyRecorderError: If it cannot be replayed.
        typer.Exit: If it differs, and that is to be a fault.
    """
    try:
        found = replayed(session, episode)
    except IndexError as error:
        raise SettingsError.of("EPISODE", episode, str(error)) from error
    for lack in found.not_brought_back:
        say(f"recorded with: {lack}")
    if found.left_out:
        say(f"not stepped: {found.left_out} ticks, which end in a reset or in a state that nobody knows")
    if found.difference is None:
        say(f"episode {episode}: the same: {found.ticks} ticks, every state to the bit")
        return
    difference = found.difference
    say(
        f"episode {episode}: tick {difference.tick}, {difference.what}: recorded {difference.recorded!r}, now "
        f"{difference.replayed!r}, which differs by {difference.by:.3g}; of {found.ticks} ticks {found.unlike} do not "
        "follow from the state before them"
    )
    if verify:
        raise typer.Exit(FAULTY)
