"""Seeds and counts as somebody gives them: numbers of NumPy, and what is none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lucky_recorder as lr
from lucky_recorder.rollouts import gather
from lucky_recorder.testing import check_session
from tests.rollouts.inline import Inline
from tests.rollouts.seeded import Wandering, maker


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
