"""Seeds and counts as somebody gives them: numbers of NumPy, and what is none."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lucky_recorder as lr
from lucky_recorder.rollouts import gather, tried
from lucky_recorder.rollouts.collect import Summary
from lucky_recorder.testing import check_session
from tests.rollouts.inline import Inline
from tests.rollouts.seeded import Seeded, Wandering, maker


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gather, "Workers", Inline)


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("seed", [-3, 1.5, True, "7", 2**63])
def test_a_seed_that_is_none_is_refused_before_anything_is_made(tmp_path: Path, workers: int, seed: Any) -> None:
    with pytest.raises(lr.SettingsError, match=r"seed=.*give a whole number from 0"):
        lr.collect(maker(tmp_path), Wandering(), episodes=1, seed=seed, workers=workers)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("workers", [1, 2])
def test_numbers_of_numpy_are_numbers(tmp_path: Path, workers: int) -> None:
    make = maker(tmp_path, discard_and_retry_failed=True)
    given = {"seed": np.uint16(4), "episodes": np.int64(2), "workers": np.int8(workers)}
    summary = lr.collect(make, Wandering(), **given)  # type: ignore[arg-type]
    assert summary.path is not None
    session = check_session(summary.path)
    assert [session.episode(i).seed for i in np.arange(2)] == ["5", "6"]
    assert json.loads(json.dumps(session.provenance))[0]["discarded_seeds"] == ["4"]
    seeds, made = np.array([3, 2]), maker(tmp_path)
    result = lr.evaluate(made, Wandering(), action="gym", seeds=seeds, episodes=np.int64(2), workers=workers)  # type: ignore[arg-type]
    assert [rollout["seed"] for rollout in json.loads(result.to_json())["rollouts"]] == [3, 2]


def test_a_reset_may_be_given_a_seed_of_numpy(tmp_path: Path) -> None:
    class Lenient(lr.testing.CountEnv):
        def reset(self, *, seed: Any = None, options: Any = None) -> Any:
            return super().reset(seed=None if seed is None else int(seed))

    env = lr.RecordSession(Lenient(), output_dir=tmp_path, mode="custom", columns=[lr.Column("obs", "gym:obs")])
    env.reset(seed=np.int64(9))
    env.step(np.zeros(1, np.float32))
    env.close()
    assert env.session_path is not None
    assert check_session(env.session_path).episode(0).seed == "9"


class Hopeless(Seeded):
    def step(self, action: Any) -> Any:
        *result, _ = super().step(action)
        return *result, {"is_success": False}


def hopeless(session: Path, **fields: Any) -> lr.RecordSession:
    given = {"mode": "custom", "columns": [lr.Column("obs", "gym:obs")], "gym_columns": True, **fields}
    return lr.RecordSession(Hopeless(), given, resume=session, discard_and_retry_failed=True)


def interrupting() -> Callable[[Summary], None]:
    """Whoever is told how it stands, and interrupts once three attempts are known to have left nothing."""
    done: list[Summary] = []

    def note(summary: Summary) -> None:
        if summary.discarded >= 3 and not done:
            done.append(summary)
            raise KeyboardInterrupt

    return note


@pytest.mark.parametrize("workers", [1, 2])
def test_a_session_that_nothing_was_added_to_says_which_seeds_were_tried(tmp_path: Path, workers: int) -> None:
    first = lr.collect(maker(tmp_path), Wandering(), episodes=1, workers=1).path
    assert first is not None
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            lr.collect(lambda: hopeless(first), Wandering(), episodes=2, workers=workers, on_episode=interrupting())
    session = check_session(first)
    assert [one["episodes"] for one in session.provenance] == ["0:1", "1:1", "1:1"]
    told = [one["discarded_seeds"] for one in session.provenance]
    assert min(map(len, told[1:])) >= 3
    # Those that were under way as well: each seed once, and none left out.
    assert [*itertools.chain(*told)] == [str(seed) for seed in range(1, 1 + len(told[1]) + len(told[2]))]
    assert tried.largest_seed(first) == len(told[1]) + len(told[2])
    assert (len(session), [path.name for path in (tmp_path / "DataSessions").iterdir()]) == (1, [first.name])
    with pytest.raises(KeyboardInterrupt):
        lr.collect(
            lambda: hopeless(first, provenance=False), episodes=2, workers=workers, seed=9, on_episode=interrupting()
        )
    assert len(check_session(first)) == 1
    assert [one["episodes"] for one in lr.Session(first).provenance] == ["0:1", "1:1", "1:1"]


@pytest.mark.parametrize("workers", [1, 2])
def test_where_a_session_comes_from_is_left_alone_if_it_cannot_be_read(tmp_path: Path, workers: int) -> None:
    first = lr.collect(maker(tmp_path), Wandering(), episodes=1, workers=1).path
    assert first is not None
    (first / "meta/provenance.json").write_text("{broken")
    summary = lr.collect(maker(Path(), resume=first), Wandering(), episodes=3, workers=workers, seed=5)
    assert (summary.kept, len(lr.Session(first))) == (2, 3)
    assert (first / "meta/provenance.json").read_text() == "{broken"
