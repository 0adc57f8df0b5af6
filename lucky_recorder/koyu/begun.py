"""Datasets of which there is nothing but the folder: a writer was about to begin, or did not come further."""

from __future__ import annotations

import os
from pathlib import Path

from lucky_recorder.errors import FormatError
from lucky_recorder.koyu import layout
from lucky_recorder.storage.lock import is_held
from lucky_recorder.storage.untrusted import format_errors
from lucky_recorder.storage.write import TEMPORARY

_OWN = frozenset({layout.EPISODES, layout.LOCK, layout.MANIFEST + TEMPORARY})
NONE_EVER = "its recording was cut short before it had a manifest or an episode; record into it again, or remove it"
_NONE_YET = "a recording is about to begin in it; look again when an episode is finished"


def is_begun(path: Path) -> bool:
    """Tell whether a folder has what a writer makes before it writes the manifest, and nothing else.

    Raises:
        FormatError: If it may not be looked into.
    """
    with format_errors(path):
        if not path.is_dir():
            return False
        names, episodes = set(os.listdir(path)), path / layout.EPISODES
        is_own = layout.EPISODES in names and names <= _OWN and not episodes.is_symlink() and episodes.is_dir()
        return is_own and not os.listdir(episodes)


def is_beginning(path: Path) -> bool:
    """Tell whether a writer is at it, of one that `is_begun`: it holds the lock until the manifest is there."""
    return (path / layout.LOCK).exists() and is_held(path / layout.LOCK) is True


def refuse_begun(path: Path) -> None:
    """Refuse a folder that `is_begun`.

    Raises:
        FormatError: If it is; says what to do.
    """
    if is_begun(path):
        raise FormatError(f"{path}: {_NONE_YET if is_beginning(path) else NONE_EVER}")


def without_bundles(path: Path) -> FormatError:
    """Return what is to be raised of a folder of whose bundles a manifest was to be made, and which has none."""
    try:
        refuse_begun(path)
    except FormatError as error:
        return error
    return FormatError(f"{path}: is no dataset: {layout.EPISODES}/ in it holds no bundle to make a manifest from")
