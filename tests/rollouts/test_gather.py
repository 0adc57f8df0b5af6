"""What is submitted, what is kept and when it is enough, whatever the engine: pieces come back in any order, or not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import lucky_recorder as lr
from lucky_recorder.errors import LuckyRecorderError
from lucky_recorder.rollouts.gather import Gathering, Wanted
from lucky_recorder.rollouts.pieces import Attempt, Done, Lost, Piece

Answer = Callable[[Piece, int], Done | Lost]


class Scripted:
    """An engine that answers as it is told, the latest piece first.

    Args:
        succeeds: Which seeds do.
        lost: How often a seed ends its worker before it is done.
        at_once: How many are worked on at once.
    """

    def __init__(self, succeeds: Callable[[int], bool], lost: dict[int, int] | None = None, at_once: int = 3) -> None:
        self._succeeds = succeeds
        self._lost = dict(lost or {})
        self.at_once = at_once
        self.given: list[int] = []
        self.most = 0
        self._open: list[Piece] = []
        self.error: LuckyRecorderError | None = None

    def submit(self, piece: Piece) -> None:
        self._open.append(piece)
        self.given += piece.seeds
        self.most = max(self.most, len(self._open))

    def next_done(self, timeout_s: float) -> Done | Lost | None:
        if not self._open:
            return None
        piece = self._open.pop()
        (seed,) = piece.seeds
        if self._lost.get(seed, 0):
            self._lost[seed] -= 1
            return Lost(piece, "worker 0 was ended by SIGKILL", error=self.error)
        is_kept = self._succeeds(seed)
        attempt = Attempt(piece.number, seed, 1, is_kept, "verdict", len(self.given) if is_kept else None)
        return Done(piece, Path("shard"), (attempt,))

    def stop(self) -> None: ...

    def close(self) -> None: ...

    @property
    def is_closed(self) -> bool:
        return True

    def kill(self) -> None: ...


def gathering(engine: Scripted, episodes: int, is_picky: bool = True, patience: int = 100) -> Gathering:
    def give_up(kept: int, fruitless: int) -> LuckyRecorderError:
        return lr.SettingsError(f"{kept} kept, none of {fruitless}")

    return Gathering(engine, Wanted(lambda number: 10 + number, episodes, is_picky, patience, give_up))


@pytest.mark.parametrize("at_once", [1, 2, 3, 8])
@pytest.mark.parametrize("lost", [{}, {11: 1, 16: 2, 17: 1}])
def test_the_first_successes_are_kept_in_the_order_of_their_seeds(at_once: int, lost: dict[int, int]) -> None:
    engine = Scripted(lambda seed: seed % 3 != 1, lost, at_once)
    found = gathering(engine, 4)
    found.run()
    assert [one.attempt.seed for one in found.kept()] == [11, 12, 14, 15]
    gathered = found.gathered(None)
    assert [one.seed for one in gathered.attempts] == [10, 11, 12, 13, 14, 15]
    assert gathered.surplus == len({*engine.given}) - 6 <= 2 * at_once
    assert engine.most <= 2 * at_once


def test_without_discarding_nothing_is_tried_that_is_not_wanted() -> None:
    engine = Scripted(lambda seed: True, {12: 2}, at_once=8)
    found = gathering(engine, 5, is_picky=False)
    found.run()
    assert sorted({*engine.given}) == [10, 11, 12, 13, 14]
    assert found.gathered(None).surplus == 0


def test_nothing_wanted_is_enough_at_once() -> None:
    engine = Scripted(lambda seed: True)
    gathering(engine, 0).run()
    assert engine.given == []


def test_a_seed_that_ends_three_workers_ends_the_run(caplog: pytest.LogCaptureFixture) -> None:
    found = gathering(Scripted(lambda seed: True, {12: 3}), 5)
    with pytest.raises(lr.WorkerDiedError, match=r"^seed 12: 3 workers tried it, and none lived: worker 0 was"):
        found.run()
    assert 12 not in [one.attempt.seed for one in found.kept()]
    assert len(caplog.messages) == 3


def test_what_would_strike_all_ends_it_at_once() -> None:
    engine = Scripted(lambda seed: True, {12: 1})
    engine.error = lr.StorageError("/full: no space left")
    with pytest.raises(lr.StorageError, match=r"^/full: no space left$"):
        gathering(engine, 5).run()


def test_too_many_that_leave_nothing_end_it_by_the_order_of_their_seeds() -> None:
    engine = Scripted(lambda seed: seed in (10, 25))
    with pytest.raises(lr.SettingsError, match=r"^1 kept, none of 7$"):
        gathering(engine, 3, patience=7).run()


def seeds(found: Gathering) -> list[str | None]:
    return [one.seed for one in found.discarded()]


# What is known of the seeds that were tried: whoever goes on with the session does not try them again.


def test_where_it_is_enough_what_was_tried_beyond_is_left_out() -> None:
    found = gathering(Scripted(lambda seed: seed in (11, 13)), 2)
    found.run()
    assert seeds(found) == ["10", "12"]


def test_where_it_is_given_up_every_seed_that_left_nothing_is_told() -> None:
    engine = Scripted(lambda seed: seed in (10, 12))
    found = gathering(engine, 3, patience=7)
    with pytest.raises(lr.SettingsError, match=r"^2 kept, none of 7$"):
        found.run()
    tried = [str(one.seed) for one in found.gathered(None).attempts]
    assert [seed for seed in seeds(found) if seed in tried] == ["11", *map(str, range(13, 20))]


def test_where_a_seed_ends_the_run_those_that_left_nothing_are_told_also_beyond_it() -> None:
    found = gathering(Scripted(lambda seed: seed == 10, {12: 3}, at_once=2), 5)
    with pytest.raises(lr.WorkerDiedError):
        found.run()
    assert "12" not in seeds(found)
    assert max(map(int, seeds(found))) > 12


def test_where_all_are_there_in_spite_of_a_gap_what_is_kept_and_discarded_end_together() -> None:
    found = gathering(Scripted(lambda seed: seed in (12, 13), {10: 3}, at_once=3), 1)
    with pytest.raises(lr.WorkerDiedError):
        found.run()
    kept = [one.attempt.seed for one in found.kept()]
    assert kept == [12]
    assert all(int(seed) < 12 for seed in seeds(found))
