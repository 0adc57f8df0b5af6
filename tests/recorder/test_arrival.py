"""What the environment hands out is recorded as it was when it arrived, whoever changes it later."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import lucky_recorder as lr
from lucky_recorder.errors import CaptureError, SettingsError
from lucky_recorder.recorder.arrival import copied, ends
from lucky_recorder.testing import CountEnv


class Tensor:
    """An array of another library's."""

    def __init__(self, values: Any) -> None:
        self.values = np.array(values)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.values


class Reuses(CountEnv):
    """Hands out the same objects for ever: observation, reward and info, the info's arrays and nested ones too."""

    def __init__(self, length: int | None = 4, nested: bool = False, **fields: Any) -> None:
        super().__init__(length, **fields)
        self.buffer = np.zeros(1)
        self.reward = np.zeros(())
        self.info: dict[str, Any] = {"success": np.zeros(1, bool), "grade": np.zeros(2), "more": {"deep": [0]}}
        if nested:
            self.shown: Any = {"robot": {"count": self.buffer}, "both": (self.buffer, self.buffer)}
            box = self.observation_space
            self.observation_space = gym.spaces.Dict(
                {"robot": gym.spaces.Dict({"count": box}), "both": gym.spaces.Tuple((box, box))}
            )
        else:
            self.shown = self.buffer

    def reset(self, **options: Any) -> Any:
        super().reset(**options)
        self.fill(0)
        return self.shown, self.info

    def step(self, action: Any) -> Any:
        t = self.t
        _, _, terminated, truncated, _ = super().step(action)
        self.fill(t)
        return self.shown, self.reward, terminated, truncated, self.info

    def fill(self, t: int) -> None:
        self.buffer[:], self.reward[...] = self.count, t
        self.info["success"][:] = self.t == 4
        self.info["grade"][:] = t
        self.info["more"]["deep"][0] = t


def spoil(env: Reuses) -> None:
    """What a policy that normalises in place does, and a wrapper that tidies up."""
    env.buffer[:], env.reward[...] = -9, -9
    env.info["success"][:], env.info["grade"][:], env.info["more"]["deep"][0] = False, -9, -9


def act(env: Any, inner: Reuses, steps: int = 4) -> None:
    env.reset(seed=0)
    spoil(inner)
    for t in range(steps):
        env.step(np.full(1, t, np.float32))
        spoil(inner)


GRADE = lr.Column("grade", "info:grade", shape=(2,))
DEEP = lr.Column("deep", lambda m: float(m.info["more"]["deep"][0]) if m.info else -1.0)


@pytest.mark.parametrize("has_simulation", [False, True])
@pytest.mark.parametrize("every", [1, 2])
@pytest.mark.parametrize("ends", ["reset", "close", "end_episode"])
def test_every_column_is_what_arrived(record: Any, read_back: Any, has_simulation: bool, every: int, ends: str) -> None:
    inner = Reuses(mujoco=has_simulation)
    env = record(inner, gym_columns=True, columns=[lr.Column("obs", "gym:obs"), GRADE], data_hz=50 // every)
    act(env, inner)
    getattr(env, ends)()
    env.close()
    (episode,) = read_back(env.session_path)
    firsts = list(range(0, 4, every))
    assert episode.rows["obs"].tolist() == firsts
    assert episode.rows["grade"].tolist() == [[t, t] for t in firsts]
    assert episode.rows["next.reward"].tolist() == [sum(range(t, t + every)) for t in firsts]
    assert episode.rows["next.success"].tolist() == [False] * (len(firsts) - 1) + [True]
    assert episode.meta["success"] is True


@pytest.mark.parametrize("success", ["auto", "info:success", lambda m: bool(m.info["success"][0])])
@pytest.mark.parametrize("is_done", [False, True])
@pytest.mark.parametrize("steps", [3, 4])
def test_a_verdict_is_of_what_arrived_also_when_it_falls_later(
    record: Any, read_back: Any, success: Any, is_done: bool, steps: int
) -> None:
    """It falls at the next reset; by then the info says something else."""
    inner = Reuses(steps if is_done else None)
    env = record(inner, success=success)
    act(env, inner, steps)
    env.reset(seed=1)
    env.close()
    (episode,) = read_back(env.session_path)
    assert episode.meta["success"] is (steps == 4)


def test_callables_see_what_arrived(record: Any, read_back: Any) -> None:
    inner = Reuses(nested=True)
    seen = lr.Column("seen", lambda m: [m.obs["robot"]["count"][0], m.obs["both"][1][0]], shape=(2,))
    env = record(inner, columns=[seen])
    act(env, inner)
    env.close()
    (episode,) = read_back(env.session_path)
    assert episode.rows["seen"].tolist() == [[t, t] for t in range(4)]


@pytest.mark.parametrize("data_hz", [50, 25])
def test_an_action_that_the_environment_clips_in_place_is_what_was_sent(
    record: Any, read_back: Any, data_hz: int
) -> None:
    class Clips(CountEnv):
        def step(self, action: Any) -> Any:
            np.clip(action, -1, 1, out=action)
            return super().step(action)

    sent = lr.Column("sent", lambda m: m.action[0], when="after")
    env = record(Clips(None, mujoco=True), mode="robot_arm", gym_columns=True, columns=[sent], data_hz=data_hz)
    env.reset(seed=0)
    for t in range(4):
        env.step(np.full(1, 5.0 + t, np.float32))
    env.close()
    (episode,) = read_back(env.session_path)
    firsts = [5, 6, 7, 8] if data_hz == 50 else [5, 7]
    assert episode.rows["gym.action"].tolist() == episode.rows["sent"].tolist() == firsts
    assert episode.rows["action"][:, 0].tolist() == [1] * len(firsts)


def test_the_environments_own_objects_are_handed_on(record: Any) -> None:
    """The caller gets what the environment gave, and not a copy."""
    inner = Reuses()
    env = record(inner)
    observation, info = env.reset(seed=0)
    assert observation is inner.shown
    assert info is inner.info
    result = env.step(np.zeros(1, np.float32))
    assert (result[0], result[1], result[4]) == (inner.shown, inner.reward, inner.info)


def test_a_copy_has_nothing_in_common_with_what_it_was_made_of() -> None:
    inside = np.arange(3)
    given = {"a": inside, "b": [inside, (inside,)], "c": Tensor([0, 0]), "d": "text", "e": None, "f": np.float32(1)}
    taken = copied(given)
    inside[:] = -1
    given["c"].values[:] = 7
    given["b"].append(1)
    assert taken["a"].tolist() == taken["b"][0].tolist() == taken["b"][1][0].tolist() == [0, 1, 2]
    assert (taken["c"].values.tolist(), len(taken["b"]), taken["d"], taken["e"], taken["f"]) == (
        [0, 0],
        2,
        "text",
        None,
        1,
    )


def test_what_cannot_be_copied_is_taken_as_it_is() -> None:
    class Stubborn:
        def __deepcopy__(self, memo: Any) -> Any:
            raise TypeError

    stubborn = Stubborn()
    assert copied({"a": stubborn})["a"] is stubborn


# What is not what gymnasium's environments return.


@pytest.mark.parametrize("one", [True, 1, 1.0, np.True_, np.array([1]), np.array(True), Tensor([True])])
@pytest.mark.parametrize("other", [False, 0, np.False_, np.array([[0.0]]), Tensor(0)])
def test_steps_end_by_any_truth_value(one: Any, other: Any) -> None:
    assert ends(one, other) is True
    assert ends(other, one) is True
    assert ends(one, one) is True
    assert ends(other, other) is False


@pytest.mark.parametrize(
    "wrong", [None, "False", "", np.nan, 2, -1, {}, [], [True], np.array([True, False]), np.zeros(0)]
)
def test_what_is_no_truth_value_ends_nothing_but_is_refused(wrong: Any) -> None:
    with pytest.raises(SettingsError, match=r"terminated=.*give True or False"):
        ends(wrong, False)
    with pytest.raises(SettingsError, match=r"truncated=.*give True or False"):
        ends(False, wrong)


class Returns(CountEnv):
    """Returns from its second step what it is given."""

    def __init__(self, result: Any) -> None:
        super().__init__(None)
        self.result = result

    def step(self, action: Any) -> Any:
        result = super().step(action)
        return self.result(*result) if self.t == 2 else result


STEPS = [
    (lambda o, r, d, u, i: (o, r, d, i), r"returned 4 values; gymnasium's .*wrap an environment of the old gym"),
    (lambda o, r, d, u, i: o, r"env\.step returned .*; gymnasium's environments return \(observation, reward"),
    (lambda o, r, d, u, i: None, r"env\.step returned None; gymnasium's"),
    (lambda o, r, d, u, i: (o, r, d, u, None), r"env\.step returned info=None; .* return an empty one"),
    (lambda o, r, d, u, i: (o, r, d, u, ["success"]), r"info=\['success'\]; .* a dict"),
]


@pytest.mark.parametrize(("result", "message"), STEPS)
def test_a_step_that_is_none_of_gymnasiums_is_refused_by_name(
    record: Any, read_back: Any, result: Any, message: str
) -> None:
    env = record(Returns(result))
    env.reset(seed=0)
    env.step(np.zeros(1))
    with pytest.raises(CaptureError, match=message):
        env.step(np.zeros(1))
    assert env.is_recording
    env.reset(seed=1)
    env.step(np.zeros(1))
    env.close()
    episodes = [(e.rows["obs"].tolist(), e.meta["success"]) for e in read_back(env.session_path)]
    assert episodes == [([0], False), ([100], False)]


@pytest.mark.parametrize(
    "result", [np.zeros(1), (np.zeros(1),), (np.zeros(1), None), [np.zeros(1), {}], np.zeros(2), None, (1, {}, 3)]
)
def test_a_reset_without_an_info_is_refused_by_name_and_leaves_nothing(record: Any, result: Any, tmp_path: Any) -> None:
    class Old(CountEnv):
        def reset(self, **options: Any) -> Any:
            super().reset(**options)
            return result

    env = record(Old())
    with pytest.raises(CaptureError, match=r"env\.reset returned .*; .* \(observation, info\): wrap the environment"):
        env.reset(seed=0)
    assert not env.is_recording
    env.close()
    assert not list(tmp_path.iterdir())
