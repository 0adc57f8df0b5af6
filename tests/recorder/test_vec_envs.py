"""Vector environments of Stable-Baselines3's kind: what each environment was told is in its episodes' rows."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

import lucky_recorder as lr
from lucky_recorder.testing import check_session
from tests.recorder.lanes import LENGTHS, SIZE, Lane, action, assert_recorded, custom, expected
from tests.recorder.vec_envs import FakeVecEnv

STEPS = 13
EYE = lr.Camera("eye", source="render", **SIZE)


@pytest.mark.parametrize("hidden", [False, True], ids=["dummy", "subproc"])
def test_stable_baselines_vec_env(tmp_path: Path, hidden: bool) -> None:
    inner = FakeVecEnv([functools.partial(Lane, lane, n) for lane, n in enumerate(LENGTHS)], hidden)
    env = lr.RecordSession(inner, **custom(tmp_path, cameras=[EYE]))
    assert isinstance(env, lr.vector.VecRecordSession)
    assert env.what_it_is() == "a VecEnv"
    env.seed(7)
    observation = env.reset()
    assert observation.shape == (3, 1)
    for step in range(STEPS):
        _, rewards, _, infos = env.step(np.array([[action(step, lane)] for lane in range(3)], np.float32))
        assert rewards.shape == (3,)
        assert len(infos) == 3
    env.close()
    assert_recorded(env.session_path, expected(LENGTHS, STEPS, AutoresetMode.SAME_STEP), ["eye"])


@pytest.mark.parametrize("hidden", [False, True], ids=["dummy", "subproc"])
def test_a_time_limit_is_no_termination(tmp_path: Path, hidden: bool) -> None:
    inner = FakeVecEnv([lambda: gym.wrappers.TimeLimit(Lane(0, None, succeeds=None), 3)] * 2, hidden)
    env = lr.RecordSession(inner, **custom(tmp_path, success="terminated"))
    env.reset()
    for _ in range(6):
        env.step(np.zeros((2, 1), np.float32))
    env.close()
    session = check_session(env.session_path)
    assert len(session) == 4
    assert not any(session.episodes["success"].to_pylist())
    assert session.episode(0).rows()["next.done"].to_pylist() == [False, False, True]


def test_a_vec_env_of_simulations_at_hand_is_recorded_in_full(tmp_path: Path) -> None:
    inner = FakeVecEnv([functools.partial(Lane, lane, n, mujoco=True) for lane, n in enumerate(LENGTHS)], False)
    env = lr.RecordSession(
        inner,
        output_dir=tmp_path,
        columns=custom(tmp_path)["columns"],
        gym_columns=True,
        cameras=[lr.Camera("wall", **SIZE)],
    )
    env.reset()
    for step in range(STEPS):
        env.step(np.array([[action(step, lane)] for lane in range(3)], np.float32))
    env.close()
    assert_recorded(env.session_path, expected(LENGTHS, STEPS, AutoresetMode.SAME_STEP), ["wall"])


@pytest.mark.parametrize("hidden", [False, True], ids=["dummy", "subproc"])
def test_what_the_next_reset_was_told_is_noted(tmp_path: Path, hidden: bool) -> None:
    """Whoever has said it, also before it was recorded, and once only."""
    inner = FakeVecEnv([functools.partial(Lane, lane, 1) for lane in range(2)], hidden)
    inner.seed(5)
    env = lr.RecordSession(inner, **custom(tmp_path))

    def run(said: Any = None, seed: Any = ()) -> Any:
        drawn = env.seed(*seed) if seed != () else None
        if said is not None:
            env.set_options(said)
        env.reset()
        env.step(np.zeros((2, 1), np.float32))
        return drawn

    run({"ep": 50})
    # The reset that the vector environment makes by itself is told nothing.
    run()
    assert run([{"ep": 1}, {}], seed=[None]) == [1234, 1235]
    run(seed=[9])
    env.close()
    table = check_session(env.session_path).episodes.to_pydict()
    told = sorted(zip(table["lane"], table["seed"], table["options"], strict=True), key=lambda one: one[0])
    of_0, of_1 = [t[1:] for t in told if t[0] == 0 and t[1]], [t[1:] for t in told if t[0] == 1 and t[1]]
    assert of_0 == [("5", '{"ep": 50}'), ("1234", '{"ep": 1}'), ("9", None)]
    assert of_1 == [("6", '{"ep": 50}'), ("1235", None), ("10", None)]
    assert all(seed is not None or options is None for _, seed, options in told)


def test_one_that_does_not_say_what_is_pending_is_asked_what_it_returns(tmp_path: Path) -> None:
    class Older(FakeVecEnv):
        """Its seeds are its own, and it may return nothing."""

        returns = True

        def __getattribute__(self, name: str) -> Any:
            if name in ("_seeds", "_options") and not object.__getattribute__(self, "is_inside"):
                raise AttributeError(name)
            return object.__getattribute__(self, name)

        is_inside = True

        def seed(self, seed: int | None = None) -> Any:
            self.is_inside = True
            seeds = super().seed(seed)
            self.is_inside = False
            return seeds if self.returns else None

        def reset(self) -> Any:
            self.is_inside = True
            return super().reset()

    inner = Older([functools.partial(Lane, lane, None) for lane in range(2)], True)
    env = lr.RecordSession(inner, **custom(tmp_path))
    for seed, returns in ((None, True), (7, False)):
        inner.returns = returns
        env.seed(seed)
        env.reset()
        env.step(np.zeros((2, 1), np.float32))
    env.close()
    assert check_session(env.session_path).episodes["seed"].to_pylist() == ["1234", "1235", "7", "8"]
