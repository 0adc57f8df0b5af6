"""Episodes that somebody names by number, such as ``"0:40,52"``; the end of a range is not one of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path

from lucky_recorder.errors import SettingsError
from lucky_recorder.settings import validators


def listed(path: Path, there: Collection[int], asked: str | Iterable[int]) -> set[int]:
    """Return the episodes that somebody has named.

    Args:
        path: The session or dataset, for the error.
        there: Its episodes.
        asked: Numbers and ranges, or the numbers themselves.

    Raises:
        SettingsError: If it is written otherwise, or names episodes that are not there.
    """
    known = set(there)
    last = max(known, default=-1) + 1
    found = _written(asked, last) if isinstance(asked, str) else list(asked)
    if wrong := [n for n in found if validators.index(n) is None or n not in known]:
        has = f"{path} has the episodes 0 to {last - 1}" if known else f"{path} has none"
        raise SettingsError.of("episodes", asked, f"there is no episode {wrong[0]}; {has}")
    return set(map(int, found))


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
