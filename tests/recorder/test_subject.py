"""What a recorder can be put around, and what it knows of that from outside."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import mujoco
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers import Autoreset, TimeLimit

import lucky_recorder as lr
from lucky_recorder.recorder.subject import Subject
from lucky_recorder.testing import CountEnv


def vector() -> gym.vector.VectorEnv[Any, Any, Any]:
    return gym.vector.SyncVectorEnv([CountEnv] * 3)


class Batched(CountEnv):
    """Many environments behind the face of one, as simulators on a GPU have it."""

    num_envs = 16


class DmControl:
    """An environment of another library."""

    def reset(self) -> Any:
        return None

    def step(self, action: Any) -> Any:
        return None


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Batched(), r"\.unwrapped\.single_observation_space=None: it has 16 environments in it"),
        (lambda: TimeLimit(Batched(), 3), r"\.unwrapped\.single_observation_space=None: it has 16 environments in it"),
        (DmControl, r"is no gymnasium\.Env: wrap .*shimmy.*lucky_recorder\.Observer"),
        (lambda: None, r"=None: is no gymnasium\.Env"),
        (lambda: "CartPole-v1", r"='CartPole-v1': is no gymnasium\.Env"),
        (lambda: CountEnv, r"is no gymnasium\.Env"),
    ],
)
def test_what_is_no_single_environment_is_refused_by_name(make: Any, message: str, tmp_path: Any) -> None:
    with pytest.raises(lr.SettingsError, match=f"^env.*{message}"):
        lr.RecordSession(make(), output_dir=tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "make",
    [vector, lambda: gym.wrappers.vector.RecordEpisodeStatistics(vector()), Batched, lambda: TimeLimit(Batched(), 3)],
)
def test_many_environments_are_no_lane(make: Any, tmp_path: Any) -> None:
    wrap = lr.vector.shared(output_dir=tmp_path)
    with pytest.raises(lr.SettingsError, match=r"^env.*has \d+ environments in it, .*gym\.make_vec"):
        wrap(make())
    assert list(tmp_path.iterdir()) == []


def test_one_of_one_environment_is_recorded(record: Any, run: Any, read_back: Any) -> None:
    inner = CountEnv(2)
    inner.num_envs = 1
    env = record(inner)
    run(env)
    env.close()
    assert [e.meta["length"] for e in read_back(env.session_path)] == [2]


@pytest.mark.parametrize("shape", [(0,), (3, 0)])
def test_an_environment_that_takes_no_action_is_refused_at_the_first_reset(
    record: Any, tmp_path: Any, shape: tuple[int, ...]
) -> None:
    inner = CountEnv()
    inner.action_space = gym.spaces.Box(-1, 1, shape)
    env = record(inner)
    with pytest.raises(lr.SettingsError, match=r"^action_space=Box.*takes no action; give it one, or record"):
        env.reset()
    env.close()
    assert list(tmp_path.iterdir()) == []


def declaring(mode: Any) -> CountEnv:
    env = CountEnv()
    env.metadata = {"autoreset_mode": mode}
    return env


@pytest.mark.parametrize(
    ("env", "in_step", "on_next"),
    [
        (CountEnv(), False, False),
        (Autoreset(CountEnv()), False, True),
        (TimeLimit(Autoreset(TimeLimit(CountEnv(), 9)), 9), False, True),
        (declaring(AutoresetMode.SAME_STEP), True, False),
        (declaring(AutoresetMode.NEXT_STEP), False, True),
        (declaring(AutoresetMode.DISABLED), False, False),
        (declaring("same_step"), True, False),
        (declaring("NextStep"), False, True),
        (declaring(None), False, False),
        (declaring(3), False, False),
        (TimeLimit(declaring("SAME_STEP"), 9), True, False),
    ],
)
def test_how_an_environment_says_that_it_resets_itself(env: Any, in_step: bool, on_next: bool) -> None:
    subject = Subject(env)
    assert subject.resets_on_next_step is on_next
    last, first = np.ones(2), np.zeros(2)
    assert subject.says_reset({}, last) is in_step
    assert subject.says_reset({"final_obs": last}, first) is True
    assert subject.says_reset({"final_info": {}}, first) is True
    # What says nothing, or says the observation that was returned, says of no reset.
    assert subject.says_reset({"final_obs": None, "final_info": None}, last) is in_step
    assert subject.says_reset({"terminal_observation": last.copy()}, last) is in_step
    assert subject.says_reset({"final_obs": {"a": last}}, {"a": last.copy()}) is in_step


class Loops(CountEnv):
    """Leads to itself, and to things that are not there before the first reset."""

    @property
    def env(self) -> Any:
        return self

    @property
    def sim(self) -> Any:
        raise RuntimeError("not before reset")


def test_an_environment_that_leads_to_itself_is_looked_at_once(record: Any, run: Any, read_back: Any) -> None:
    env = record(Loops(2))
    run(env)
    env.close()
    assert [e.meta["length"] for e in read_back(env.session_path)] == [2]


class Robosuite(CountEnv):
    """Keeps its simulation as robosuite does, in an object that a hard reset makes anew."""

    def __init__(self, **fields: Any) -> None:
        super().__init__(mujoco=True, **fields)
        self._native = self.model, self.data
        self.wrap()

    def wrap(self) -> None:
        model, data = self._native
        self.model = self.data = None
        self.sim = SimpleNamespace(model=SimpleNamespace(_model=model), data=SimpleNamespace(_data=data))

    def within(self, call: Any) -> Any:
        """Run something of the counting environment's, which knows nothing of ``sim``."""
        self.model, self.data = self._native
        try:
            return call()
        finally:
            self._native = self.model, self.data
            self.wrap()

    def reset(self, **options: Any) -> Any:
        native = mujoco.MjModel.__copy__(self._native[0])
        self._native = native, mujoco.MjData(native)
        return self.within(lambda: CountEnv.reset(self, **options))

    def step(self, action: Any) -> Any:
        return self.within(lambda: CountEnv.step(self, action))


def test_a_simulation_whose_holder_is_replaced_at_every_step(
    record: Any, run: Any, read_back: Any, counts: Any, wall: Any
) -> None:
    env = record(Robosuite(length=4), mode="robot_arm", gym_columns=True, cameras=[wall], columns=[])
    run(env, episodes=2)
    env.close()
    episodes = read_back(env.session_path)
    for n, episode in enumerate(episodes):
        assert counts(episode) == {"state": [100 * n + t for t in range(4)], "wall": [100 * n + t for t in range(4)]}
        assert episode.rows["action"][:, 0].tolist() == list(range(4))
    assert [e.meta["success"] for e in episodes] == [True, True]


def test_looking_between_episodes_costs_no_attribute_of_the_environment() -> None:
    subject = Subject(CountEnv(mujoco=True))
    assert (subject.beat(), subject.was_reset_since(None, True, True)) == (None, False)
    assert subject.locate() is not None
    before = subject.beat()
    env = subject.env
    env.reset()
    env.step(np.zeros(1))
    assert not subject.was_reset_since(before, is_done=False, is_first=True)
    now = subject.beat()
    env.reset()
    assert subject.was_reset_since(now, is_done=False, is_first=False)
    env.data = mujoco.MjData(env.model)
    assert subject.was_reset_since(now, is_done=False, is_first=False)
    assert subject.is_still_there is not None
    assert subject.is_still_there()
