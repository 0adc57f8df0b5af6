"""Vector environments that step others than those in their ``envs``: that is said, and not found out a month later."""

from __future__ import annotations

import abc
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium.vector import SyncVectorEnv, VectorEnv

import lucky_recorder as lr
from lucky_recorder.testing import check_session
from tests.recorder.lanes import custom, vector
from tests.recorder.vec_envs import FakeVecEnv

ACTIONS = np.zeros((3, 1), np.float32)


class Copying(SyncVectorEnv):
    """Steps a copy of the list that it shows, of all its environments or of the last one."""

    def __init__(self, of: SyncVectorEnv, first: int) -> None:
        self.__dict__ |= of.__dict__
        self._own = of.envs
        self.envs = list(of.envs)
        self._first = first

    def _called(self, name: str, *args: Any, **kwargs: Any) -> Any:
        shown, self.envs = self.envs, [*self.envs[: self._first], *self._own[self._first :]]
        try:
            return getattr(SyncVectorEnv, name)(self, *args, **kwargs)
        finally:
            self.envs = shown

    def reset(self, **kwargs: Any) -> Any:
        return self._called("reset", **kwargs)

    def step(self, actions: Any) -> Any:
        return self._called("step", actions)


class OfDummies(FakeVecEnv):
    """The same, of Stable-Baselines3's kind."""

    def __init__(self, of: SyncVectorEnv, first: int) -> None:
        super().__init__([lambda env=env: env for env in of.envs], False)
        self._own, self._first = list(of.envs), first

    @property
    def at_hand(self) -> list[Any]:
        return [*self.envs[: self._first], *self._own[self._first :]]


@pytest.mark.parametrize("kind", [Copying, OfDummies])
@pytest.mark.parametrize(("first", "said"), [(0, "of all lanes"), (2, "of lanes 2")])
def test_lanes_of_which_nothing_would_be_recorded_are_named(tmp_path: Path, kind: Any, first: int, said: str) -> None:
    env = lr.RecordSession(kind(vector(), first), **custom(tmp_path))
    env.reset()
    for _ in range(2 if not first else 1):
        with pytest.raises(lr.SettingsError, match=rf"`envs`, where the recorders were put: nothing {said} would be"):
            env.step(ACTIONS)
    env.close()


def test_environments_that_are_replaced_later_are_noticed_at_the_next_step(tmp_path: Path) -> None:
    inner = vector()
    env = lr.RecordSession(inner, **custom(tmp_path))
    env.reset()
    env.step(ACTIONS)
    inner.envs = vector().envs
    env.reset()
    with pytest.raises(lr.SettingsError, match="nothing of all lanes would be recorded"):
        env.step(ACTIONS)
    env.close()
    assert [episode.length for episode in check_session(env.session_path)] == [1, 1, 1]


def test_a_step_in_which_all_are_reset_is_heard(tmp_path: Path) -> None:
    env = lr.RecordSession(vector([1, 1, 1]), **custom(tmp_path))
    env.reset()
    for _ in range(4):
        env.step(ACTIONS)
    env.close()
    assert len(check_session(env.session_path)) == 6


@pytest.mark.parametrize("lane", [np.int64(1), np.uint8(1)])
def test_lanes_and_seeds_may_be_numbers_of_numpy(tmp_path: Path, lane: Any) -> None:
    env = lr.RecordSession(vector(), **custom(tmp_path))
    env.reset()
    env.step(ACTIONS)
    env.end_episode(lane, True)
    for wrong in (np.float64(1), True, "1"):
        with pytest.raises(lr.SettingsError, match="lane="):
            env.end_episode(wrong)
    env.close()
    env = lr.RecordSession(OutOfReach(vector()), **custom(tmp_path))
    env.reset(seed=np.int64(4))
    env.step(ACTIONS)
    env.close()
    assert [episode.seed for episode in check_session(env.session_path)] == ["4", "5", "6"]


class OutOfReach(VectorEnv[Any, Any, Any]):
    """Shows none of its environments, and takes a number of NumPy for a seed."""

    def __init__(self, of: SyncVectorEnv) -> None:
        self._of, self.num_envs, self.metadata = of, of.num_envs, of.metadata
        self.single_observation_space, self.single_action_space = of.single_observation_space, of.single_action_space
        self.observation_space, self.action_space = of.observation_space, of.action_space

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return self._of.reset(seed=int(seed), options=options)

    def step(self, actions: Any) -> Any:
        return self._of.step(actions)

    def render(self) -> Any:
        return self._of.render()


def test_stable_baselines_takes_the_recorder_for_one_of_its_wrappers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class VecEnv(abc.ABC):  # noqa: B024 - as it is there
        pass

    class VecEnvWrapper(VecEnv):
        pass

    module = types.ModuleType("stable_baselines3.common.vec_env.base_vec_env")
    module.VecEnvWrapper = VecEnvWrapper  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    env = lr.RecordSession(FakeVecEnv(vector().env_fns, False), **custom(tmp_path))
    assert isinstance(env, VecEnvWrapper)
    assert isinstance(env, VecEnv)
    assert not isinstance(lr.RecordSession(vector(), **custom(tmp_path)), VecEnv)
