"""Episodes that are to stand in a new session, and sessions that they can be taken from."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from lucky_recorder.errors import FormatError, SettingsError
from lucky_recorder.session.metadata import VIEW
from lucky_recorder.session.reader import Session
from lucky_recorder.storage.lock import refuse_held

OnEpisode = Callable[[int, int], None]
"""Called after each episode: how many are done, and how many there are."""


class Pick(NamedTuple):
    """An episode that is to stand in a new session.

    Attributes:
        session: The session that has it.
        episode: Its ``episode_index`` there.
        first: The first tick that is taken; a tick is a row of each robot.
        stop: The tick after the last that is taken; None for all that there are.
    """

    session: Session
    episode: int
    first: int = 0
    stop: int | None = None


def every(session: Session) -> list[Pick]:
    """Return all episodes of a session, in order."""
    return [Pick(session, index) for index in session.episodes["episode_index"].to_pylist()]


def opened(path: str | Path) -> Session:
    """Open a session that episodes are to be taken from.

    Raises:
        FormatError: If it is no session, was recorded without rows, or is a copy for LeRobot.
        StorageError: If it is being written; names who holds it.
    """
    if Path(path).is_dir():
        refuse_held(Path(path))
    session = Session(path)
    refuse_others(session.path, session.is_video_only, session.info)
    return session


def refuse_others(path: Path, is_video_only: bool, info: Mapping[str, Any]) -> None:
    """Refuse a session of which no episode can be taken.

    Raises:
        FormatError: If it was recorded without rows, or is a copy for LeRobot.
    """
    if is_video_only:
        raise FormatError(f"{path}: recorded without rows: nothing says what its episodes are, so none can be taken")
    if info.get(VIEW) is True:
        raise FormatError(f"{path}: a copy for LeRobot; take the session it was made of, and make the copy anew")


def numbers(session: Session, asked: str | Iterable[int]) -> set[int]:
    """Return the episodes that somebody has named, such as ``"0:40,52"``; an end is not one of them.

    Raises:
        SettingsError: If it is written otherwise, or names episodes that are not there.
    """
    there = {episode: None for episode in session.episodes["episode_index"].to_pylist()}
    last = max(there, default=-1) + 1
    found = _written(asked, last) if isinstance(asked, str) else list(asked)
    if wrong := [n for n in found if type(n) is not int or n not in there]:
        has = f"{session.path} has the episodes 0 to {last - 1}" if there else f"{session.path} has none"
        raise SettingsError.of("episodes", asked, f"there is no episode {wrong[0]}; {has}")
    return set(found)


def _written(asked: str, last: int) -> list[int]:
    found: list[int] = []
    for part in asked.split(","):
        first, colon, stop = (text.strip() for text in part.partition(":"))
        bounds = [text for text in (first, stop) if text]
        if not all(text.isascii() and text.isdecimal() and len(text) < 10 for text in bounds) or not (first or colon):
            raise SettingsError.of("episodes", asked, "write numbers and ranges such as 0:40,52; an end is left out")
        if not colon:
            found.append(int(first))
            continue
        begin, end = int(first or 0), int(stop or last)
        if begin >= end or end > last:
            raise SettingsError.of(
                "episodes", asked, f"{part.strip()}: there are the episodes 0 to {last - 1}, as 0:{last}"
            )
        found += range(begin, end)
    return found


def named_once(sessions: Iterable[str | Path]) -> list[Path]:
    """Return paths of sessions, each of which is named once.

    Raises:
        SettingsError: If there is none, or one is named twice.
    """
    if isinstance(sessions, str | Path):
        raise SettingsError.of("sessions", sessions, "give a list of sessions")
    paths = [Path(path) for path in sessions]
    if not paths:
        raise SettingsError.of("sessions", [], "name the sessions to be merged")
    real = [os.path.realpath(path) for path in paths]
    if twice := [path for path, one in zip(paths, real, strict=True) if real.count(one) > 1]:
        raise SettingsError.of("sessions", str(twice[0]), "is named twice")
    return paths
