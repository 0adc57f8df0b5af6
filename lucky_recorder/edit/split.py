"""A session's episodes shared out among several new ones, such as one to train on and one to test with."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path

from lucky_recorder.edit.pick import OnEpisode, Pick, opened
from lucky_recorder.edit.shaped import Shaped, made
from lucky_recorder.errors import FormatError, SettingsError
from lucky_recorder.session.reader import Session
from lucky_recorder.storage.names import part

__all__ = ["split"]

_ROUNDING = 1e-9


def split(
    session: str | Path,
    parts: Mapping[str, float],
    *,
    output: str | Path | Mapping[str, str | Path],
    seed: int = 0,
    by_task: bool = False,
    dry_run: bool = False,
    on_episode: OnEpisode | None = None,
) -> dict[str, Shaped]:
    """Share a session's episodes out among several new sessions: each is in one of them, in the session's order.

    Which episode comes where follows from the seed and its number alone, on every machine. Parts are as large as whole
    episodes can make them: what is left over goes to the part that lacks most.

    Args:
        session: The session's folder.
        parts: How much of the episodes each part is to have, by its name; together 1.
        output: The folder in which each part is a session of its name; or each one's own folder, by name.
        seed: Another one shares them out in another way.
        by_task: Share out the episodes of each task by themselves, so that every part has its share of each.
        dry_run: Say only what would be done, after all that can be refused was.
        on_episode: Called after each episode: how many are done, and how many there are.

    Returns:
        What was made of each part, by its name.

    Raises:
        SettingsError: If the parts are not 1 together, or one would have no episode; otherwise as `merge`.
        FormatError: As `merge`.
        StorageError: As `merge`.
        VideoError: As `merge`. Parts that were whole before stay.

    Example:
        ```python
        lr.split("recorded", {"train": 0.9, "val": 0.1}, output="parts")
        ```
    """
    source = opened(session)
    shares = _shares(parts)
    folders = _folders(shares, output)
    chosen = _shared_out(source, shares, seed, by_task)
    if empty := [name for name, episodes in chosen.items() if not episodes]:
        remedy = f"of {len(source)} episodes none would come into {empty[0]!r}; give it a larger part, or leave it out"
        raise SettingsError.of("parts", dict(parts), remedy)
    every = {name: [Pick(source, index) for index in sorted(chosen[name])] for name in shares}
    # All is refused before the first is written.
    planned = {n: made(every[n], folders[n], len(source), dry_run=True, on_episode=None) for n in shares}
    if dry_run:
        return planned
    done = 0
    for name, picks in every.items():
        made(picks, folders[name], len(source), dry_run=False, on_episode=_after(done, len(source), on_episode))
        done += len(picks)
    return planned


def _after(done: int, total: int, on_episode: OnEpisode | None) -> OnEpisode | None:
    return None if on_episode is None else lambda here, _: on_episode(done + here, total)


def _shares(parts: Mapping[str, float]) -> dict[str, Fraction]:
    for name, share in parts.items():
        try:
            part(name)
        except FormatError as error:
            raise SettingsError.of("parts", name, f"is no name of a folder ({error})") from error
        if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share <= 1:
            raise SettingsError.of("parts", {name: share}, "give a part of the episodes, above 0 and up to 1")
    total = math.fsum(parts.values())
    if abs(total - 1) > _ROUNDING:
        raise SettingsError.of("parts", dict(parts), f"are {total:g} together, and have to be 1")
    # By its digits: 0.1 is a tenth.
    exact = {name: Fraction(str(share)) for name, share in parts.items()}
    whole = sum(exact.values())
    return {name: share / whole for name, share in exact.items()}


def _folders(names: Iterable[str], output: str | Path | Mapping[str, str | Path]) -> dict[str, Path]:
    if not isinstance(output, Mapping):
        return {name: Path(output) / name for name in names}
    if set(output) != set(names):
        raise SettingsError.of("output", dict(output), f"give a folder for each of {', '.join(names)}")
    folders = {name: Path(output[name]) for name in names}
    real = [os.path.realpath(folder) for folder in folders.values()]
    if len(set(real)) < len(real):
        raise SettingsError.of("output", dict(output), "give each part a folder of its own")
    return folders


def _shared_out(source: Session, shares: Mapping[str, Fraction], seed: int, by_task: bool) -> dict[str, list[int]]:
    """Return the episodes of each part."""
    groups: dict[tuple[str, ...], list[int]] = {}
    for episode in source:
        groups.setdefault(episode.tasks if by_task else (), []).append(episode.index)
    chosen: dict[str, list[int]] = {name: [] for name in shares}
    # Kept from group to group: rounding must not take the same part short each time.
    owed = dict.fromkeys(shares, Fraction(0))
    for tasks in sorted(groups):
        for name in shares:
            owed[name] += shares[name] * len(groups[tasks])
        for index in _shuffled(groups[tasks], seed):
            most = max(shares, key=owed.__getitem__)
            owed[most] -= 1
            chosen[most].append(index)
    return chosen


def _shuffled(episodes: Sequence[int], seed: int) -> list[int]:
    """Return episodes in an order that follows from the seed, the same in every version of every library."""
    return sorted(episodes, key=lambda index: hashlib.blake2b(f"{seed}:{index}".encode()).digest())
