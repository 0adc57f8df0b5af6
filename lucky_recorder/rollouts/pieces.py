"""Numbered pieces of work, and what does them: processes of this machine, or a cluster.

Whoever wants episodes gives an `Engine` pieces of seeds, and is told what became of each. Nothing large passes between
the two: what is recorded lies in shards, sessions of their own, which are made into one when all is done.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, Protocol

from lucky_recorder.errors import LuckyRecorderError
from lucky_recorder.rollouts.results import Rollout


class Piece(NamedTuple):
    """Attempts that one worker is to make.

    Attributes:
        number: The number of its first attempt; those of the others follow.
        seeds: The seed of each attempt's reset, in order.
    """

    number: int
    seeds: tuple[int, ...]


class Attempt(NamedTuple):
    """What became of an attempt; whatever is said to be kept is written.

    Attributes:
        number: Its number.
        seed: The seed of its reset.
        steps: Steps taken.
        success: The verdict.
        reason: Why it ended, a word of `Reason`.
        episode: Its ``episode_index`` in the shard; None if it was discarded.
        rollout: What an evaluation says of it; None in a collection.
        bundles: The folders of its bundles in the shard, one for each robot; none where none are written.
    """

    number: int
    seed: int
    steps: int
    success: bool
    reason: str
    episode: int | None
    rollout: Rollout | None = None
    bundles: tuple[Path, ...] = ()


class BrokenOff(Exception):
    """A piece was broken off, because whoever wanted it does not any more."""


class Bench(Protocol):
    """What a worker works at: it makes the attempts of pieces, and writes them into its shard.

    It may write an attempt while the next is made, so what became of it is known later: `written` tells.
    """

    @property
    def path(self) -> Path | None:
        """The shard; None before there is one."""

    @property
    def is_behind(self) -> bool:
        """Whether attempts are not written yet, or nobody was told that they are."""

    def attempt(self, piece: Piece, which: int, is_stopped: Callable[[], bool]) -> Attempt:
        """Make one of the attempts of a piece; returns what will have become of it once it is written.

        Raises:
            BrokenOff: If it was broken off.
        """

    def written(self) -> list[Attempt]:
        """Return the attempts that are written, or discarded, by now, each once."""

    def close(self) -> list[Attempt]:
        """Close the shard; returns the last attempts that are written."""


class Work(Protocol):
    """What every worker is to do. It is pickled."""

    def bench(self, folder: Path) -> Bench:
        """Make what a worker works at; its shard is made below a folder."""


class Done(NamedTuple):
    """A piece that was done.

    Attributes:
        piece: The piece.
        shard: The session that its episodes are in, or the dataset, where only bundles are written. It may go on to
            grow.
        attempts: One for each seed.
    """

    piece: Piece
    shard: Path
    attempts: tuple[Attempt, ...]


class Lost(NamedTuple):
    """A piece that was not done: its worker has died, or could not go on.

    Attributes:
        piece: The piece. It may be submitted again.
        why: What happened, in a line.
        is_struck: Whether it was this piece that was worked on. Others were lost because they waited.
        details: The traceback of what was raised; empty where nothing was.
        error: What would strike every worker, and is not worth another try; None if another may do it.
    """

    piece: Piece
    why: str
    is_struck: bool = True
    details: str = ""
    error: LuckyRecorderError | None = None


class Engine(Protocol):
    """Does pieces of work, several at once, in any order."""

    @property
    def at_once(self) -> int:
        """How many pieces are worked on at once; to give it twice as many keeps all its workers busy."""

    def submit(self, piece: Piece) -> None:
        """Take a piece; returns at once."""

    def next_done(self, timeout_s: float) -> Done | Lost | None:
        """Return what became of a piece; None if nothing is known of another one within the time."""

    def stop(self) -> None:
        """Have what is worked on broken off. It is neither done nor lost."""

    def close(self) -> None:
        """Have every worker end and close its shard, once what it has is done; returns at once."""

    @property
    def is_closed(self) -> bool:
        """Whether all have, or were ended because they did not. It is so only as long as `next_done` is asked."""

    def kill(self) -> None:
        """End every worker now. What is committed in the shards is whole."""
