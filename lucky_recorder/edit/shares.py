"""How episodes are shared out among parts: a pure matter of numbers, the same on every machine."""

from __future__ import annotations

import hashlib
import itertools
import numbers
import os
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path

from lucky_recorder.edit.partial import PARTIAL, is_where_made
from lucky_recorder.edit.pick import OnEpisode
from lucky_recorder.errors import FormatError, SettingsError
from lucky_recorder.storage.names import part

# Shares of a type with few digits, such as float32, are thirds as well as theirs can be.
_ROUNDING = Fraction(1, 10**6)


def after(done: int, total: int, on_episode: OnEpisode | None) -> OnEpisode | None:
    """Return what is called after each episode of a part, when the parts before it have so many."""
    return None if on_episode is None else lambda here, _: on_episode(done + here, total)


def shares_of(parts: Mapping[str, float]) -> dict[str, Fraction]:
    """Return how much each part is to have, 1 together.

    Raises:
        SettingsError: If they are not 1 together, or a name is no name of a folder.
    """
    for name, share in parts.items():
        try:
            part(name)
        except FormatError as error:
            raise SettingsError.of("parts", name, f"is no name of a folder ({error})") from error
        if isinstance(share, bool) or not isinstance(share, numbers.Real) or not 0 < share <= 1:
            raise SettingsError.of("parts", {name: share}, "give a part of the episodes, above 0 and up to 1")
    # By its digits: 0.1 is a tenth, also in float32.
    exact = {name: Fraction(str(share)) for name, share in parts.items()}
    whole = sum(exact.values(), Fraction(0))
    if abs(whole - 1) > _ROUNDING:
        raise SettingsError.of("parts", dict(parts), f"are {float(whole):.9g} together, and have to be 1")
    return {name: share / whole for name, share in exact.items()}


def folders_of(names: Iterable[str], output: str | Path | Mapping[str, str | Path]) -> dict[str, Path]:
    """Return the folder of each part: one of its name in a folder, or its own.

    Raises:
        SettingsError: If a part has none, two have one, or one is where another will be made.
    """
    if not isinstance(output, Mapping):
        folders = {name: Path(output) / name for name in names}
        _refuse_partial(folders)
        return folders
    if set(output) != set(names):
        raise SettingsError.of("output", dict(output), f"give a folder for each of {', '.join(names)}")
    folders = {name: Path(output[name]) for name in names}
    real = [os.path.realpath(folder) for folder in folders.values()]
    # One within another would be part of a session that is checked without it.
    if any(os.path.commonpath([one, other]) == one for one, other in itertools.permutations(real, 2)):
        raise SettingsError.of("output", dict(output), "give each part a folder of its own, beside the others")
    _refuse_partial(folders)
    return folders


def _refuse_partial(folders: Mapping[str, Path]) -> None:
    for (one, here), (other, there) in itertools.permutations(folders.items(), 2):
        if is_where_made(there, here):
            remedy = f"is where {one!r} is made, in {here.name}{PARTIAL}; give one of them another name"
            raise SettingsError.of("parts", other, remedy)


def shared_out(
    episodes: Iterable[tuple[int, tuple[str, ...]]], shares: Mapping[str, Fraction], seed: int
) -> dict[str, list[int]]:
    """Return the episodes of each part.

    Args:
        episodes: Their numbers, and the tasks by which they are shared out: those of each by themselves.
        shares: How much of them each part is to have, 1 together.
        seed: Another one shares them out in another way.

    Raises:
        SettingsError: If a part would have none.
    """
    groups: dict[tuple[str, ...], list[int]] = {}
    for index, tasks in episodes:
        groups.setdefault(tasks, []).append(index)
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
    if empty := [name for name in shares if not chosen[name]]:
        there = sum(map(len, groups.values()))
        remedy = f"of {there} episodes none would come into {empty[0]!r}; give it a larger part, or leave it out"
        raise SettingsError.of("parts", {name: float(share) for name, share in shares.items()}, remedy)
    return chosen


def _shuffled(episodes: Sequence[int], seed: int) -> list[int]:
    """Return episodes in an order that follows from the seed, the same in every version of every library."""
    return sorted(episodes, key=lambda index: hashlib.blake2b(f"{seed}:{index}".encode()).digest())
