"""Replaying an episode, and telling whether its states are the same."""

from __future__ import annotations

from pathlib import Path

import typer

from lucky_recorder.cli.exits import FAULTY
from lucky_recorder.cli.lines import say
from lucky_recorder.errors import SettingsError
from lucky_recorder.rollouts.open_loop import NOT_EXACT
from lucky_recorder.rollouts.open_loop import open_loop as played
from lucky_recorder.rollouts.replay import replay as replayed


def replay(session: Path, episode: int, verify: bool, open_loop: bool, model: Path | None) -> None:
    """Step an episode's states again, and say whether they are the same, or where they differ first.

    Raises:
        LuckyRecorderError: If it cannot be replayed.
        typer.Exit: If it differs, and that is to be a fault.
    """
    if model is not None and not open_loop:
        raise SettingsError.of(
            "--model", str(model), "is for --open-loop: states are stepped in the model that is kept with them"
        )
    if open_loop and verify:
        raise SettingsError.of(
            "--verify", True, "compares states to the bit, and --open-loop is not exact; leave one out"
        )
    if open_loop:
        _open_loop(session, episode, model)
        return
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


def _open_loop(session: Path, episode: int, model: Path | None) -> None:
    try:
        found = played(session, episode, model)
    except IndexError as error:
        raise SettingsError.of("EPISODE", episode, str(error)) from error
    say(f"episode {episode}: {found.rows} rows played in {found.model}; {NOT_EXACT}")
    if found.resets:
        say(f"put into place again at the rows of the ticks {', '.join(map(str, found.resets))}")
    for drift in found.drifts:
        say(f"{drift.joint}: off by {drift.last:.3g} at the end, at most by {drift.most:.3g}, in row {drift.row}")
