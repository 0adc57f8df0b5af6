"""An engine without processes: its shards are recorded here, one piece after the other, and told the latest first."""

from __future__ import annotations

from pathlib import Path

import cloudpickle

from lucky_recorder.rollouts.pieces import Done, Lost, Piece
from lucky_recorder.rollouts.shard import Shard


class Inline:
    """Takes the place of `lucky_recorder.rollouts.workers.Workers`.

    Args:
        job: The pickled `Job`.
        folder: Where the shards are made.
        count: How many there are.
    """

    def __init__(self, job: bytes, folder: Path, count: int) -> None:
        self._job = cloudpickle.loads(job)
        self._folder = folder
        self._shards: list[Shard] = []
        self._done: list[Done | Lost] = []
        self._given = 0
        self.at_once = count

    def submit(self, piece: Piece) -> None:
        if len(self._shards) < self.at_once:
            self._shards.append(Shard(self._job, self._folder / f"{len(self._shards):03d}"))
        shard = self._shards[self._given % len(self._shards)]
        self._given += 1
        for which in range(len(piece.seeds)):
            shard.attempt(piece, which, lambda: False)
        shard.env.observer.flush()
        assert shard.path is not None
        self._done.append(Done(piece, shard.path, tuple(shard.written())))

    def next_done(self, timeout_s: float) -> Done | Lost | None:
        return self._done.pop() if self._done else None

    def stop(self) -> None: ...

    def close(self) -> None:
        for shard in self._shards:
            shard.close()

    @property
    def is_closed(self) -> bool:
        return True

    def kill(self) -> None:
        self.close()
