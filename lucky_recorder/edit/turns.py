"""Lanes that have recorded a shard each become one session: which episode follows which, whoever was faster.

The first attempt of every lane comes first, by lane, then the second of every lane, and so on. That is known without
asking when anything has happened: processes take turns as the system has it, and no two runs do so alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from lucky_recorder.edit.shards import Discarded, Kept, has_episodes
from lucky_recorder.edit.source import Source
from lucky_recorder.errors import FormatError
from lucky_recorder.session import provenance
from lucky_recorder.storage.untrusted import Folder


class Turn(NamedTuple):
    """What became of an attempt.

    Attributes:
        attempt: Its number in its lane.
        lane: The lane.
        shard: The shard of it.
        episode: Its ``episode_index`` there; None if it was discarded.
        seed: The seed of its reset, of one that was discarded.
    """

    attempt: int
    lane: int
    shard: Path
    episode: int | None
    seed: str | None = None


class Turns(NamedTuple):
    """What the lanes have recorded, in order.

    Attributes:
        kept: The episodes.
        discarded: The attempts that were discarded.
        lanes: How many episodes each lane has.
    """

    kept: list[Kept]
    discarded: list[Discarded]
    lanes: dict[int, int]


def turns(shards: Sequence[Path], before: int) -> Turns:
    """Find the order of what lanes have recorded.

    Args:
        shards: Sessions, each in a folder whose name is its lane's number, one above ``DataSessions/``.
        before: The number of the first take of each.

    Raises:
        FormatError: If one cannot be read.
    """
    found = sorted((turn for shard in shards for turn in _of_shard(shard, before)), key=lambda turn: turn[:2])
    numbered = list(enumerate(found))
    kept = [Kept(turn.shard, turn.episode, number) for number, turn in numbered if turn.episode is not None]
    lanes = {lane_of(shard): 0 for shard in shards}
    for turn in found:
        lanes[turn.lane] += turn.episode is not None
    discarded = [Discarded(number, turn.seed) for number, turn in numbered if turn.episode is None]
    return Turns(kept, discarded, lanes)


def lane_of(shard: Path) -> int:
    """Return the number of the lane that has recorded a shard."""
    return int(shard.parent.parent.name)


def _of_shard(shard: Path, before: int) -> Iterator[Turn]:
    lane, attempts = lane_of(shard), set[int]()
    # One that has only discarded is no session, and says so all the same.
    if has_episodes(shard):
        source, takes = Source(shard), -before
        for episode in sorted(source.numbers):
            takes += source.takes(episode)
            attempts.add(takes - 1)
            yield Turn(takes - 1, lane, shard, episode)
    number = 0
    for seed in _discarded(shard):
        while number in attempts:
            number += 1
        yield Turn(number, lane, shard, None, seed)
        number += 1


def _discarded(shard: Path) -> list[str | None]:
    """Return the seeds of the attempts that a shard has discarded; none where it does not say so."""
    try:
        recordings = provenance.read(Folder(shard))
    except FormatError:
        return []
    said = [seed for entry in recordings for seed in entry.get(provenance.DISCARDED) or ()]
    return [seed if isinstance(seed, str) else None for seed in said]
