"""Shards that were to be added to a session, and were left behind by whoever was killed before that was done."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

from lucky_recorder.edit.shards import GOES_ON, Shards
from lucky_recorder.episode import keys
from lucky_recorder.errors import FormatError
from lucky_recorder.session import layout
from lucky_recorder.settings.recorder import RecorderSettings
from lucky_recorder.storage.lock import is_held
from lucky_recorder.storage.untrusted import Folder

logger = logging.getLogger("lucky_recorder")


def tell_of_left(settings: RecorderSettings) -> None:
    """Tell where shards are that were to be added to the session that is gone on with, and what has that done.

    Args:
        settings: What is recorded.
    """
    for shards in _left(settings):
        told = f"{shards.folder}: was to be added to {settings.resume}, and that was broken off; remove it"
        beside, command = shards.beside(), shards.command()
        # Where the session has all of it, there is nothing to merge.
        if " merge " in command:
            told = f"{told}, or have one session made of both, and go on with that; {beside}{command}"
        logger.warning("%s", told)


def _left(settings: RecorderSettings) -> Iterator[Shards]:
    if settings.resume is None:
        return
    # Beside the session, or where this recording would put its own.
    places = {settings.output_dir.absolute() / keys.SESSIONS, settings.resume.absolute().parent}
    for folder in sorted(folder for place in places for folder in place.glob(f"*{layout.SHARDS}")):
        begun = _begun(folder, settings.resume)
        if begun is not None:
            shards = Shards(settings, folder, begun)
            # What somebody records at this moment is not left behind.
            if shards.finished and not any(map(is_held, shards.sessions)):
                yield shards


def _begun(folder: Path, resume: Path) -> tuple[int, int] | None:
    """Return what the session had when the shards were begun; None where they were not for it."""
    try:
        files = Folder(folder)
        said = files.json(GOES_ON) if files.has(GOES_ON) else {}
    except FormatError:
        return None
    episodes, takes = said.get("episodes"), said.get("takes")
    if said.get("session") != resume.resolve().as_uri() or type(episodes) is not int or type(takes) is not int:
        return None
    return episodes, takes
