"""A simulation that goes bad: found on its tick, its episode failed, the others sound, and no NaN in a JSON file."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lucky_recorder as lr
from lucky_recorder.testing import CountEnv, check_koyu, check_session

LENGTH = 6


class Broken(Exception):
    """What an environment raises of its own."""


class Sick(CountEnv):
    """Counts to six, and goes bad in one step of its second episode."""

    def __init__(self, before: Callable[[Sick, Any], Any], after: Callable[[Sick, list[Any]], Any], at: int) -> None:
        super().__init__(LENGTH, mujoco=True)
        self.before, self.after, self.at = before, after, at

    def step(self, action: Any) -> Any:
        is_now = self.episode == 1 and self.t == self.at
        if is_now:
            action = self.before(self, action)
        result = [*super().step(action)]
        result[4]["force"] = 1.0
        if is_now:
            self.after(self, result)
        return tuple(result)


def sound(env: Sick, action: Any) -> Any:
    return action


def fine(env: Sick, result: list[Any]) -> None:
    pass


def acts(value: float) -> Callable[[Sick, Any], Any]:
    return lambda env, action: np.full_like(action, value, np.float64)


def leaves(array: str, value: float) -> Callable[[Sick, list[Any]], None]:
    return lambda env, result: getattr(env.data, array).__setitem__(0, value)


def begins_with(array: str, value: float) -> Callable[[Sick, Any], Any]:
    def set_it(env: Sick, action: Any) -> Any:
        getattr(env.data, array)[...] = value
        return action

    return set_it


def returns(place: int, value: Any) -> Callable[[Sick, list[Any]], None]:
    return lambda env, result: result.__setitem__(place, value)


def says(value: Any) -> Callable[[Sick, list[Any]], None]:
    return lambda env, result: result[4].__setitem__("force", value)


def breaks(env: Sick, _: Any) -> None:
    raise Broken


def loses_time(env: Sick, result: list[Any]) -> None:
    env.data.time = np.nan


# What goes wrong in the step before and after the physics, and how many steps later it can be seen.
FAULTS: dict[str, tuple[Any, Any, int]] = {
    **{f"action {value}": (acts(value), fine, 0) for value in (np.nan, np.inf, -np.inf, 1e11)},
    **{f"qpos {value}": (sound, leaves("qpos", value), 1) for value in (np.nan, np.inf, 1e300)},
    "qvel nan": (begins_with("qvel", np.nan), fine, 0),
    "qvel huge": (begins_with("qvel", 1e30), fine, 0),
    "force huge": (begins_with("qfrc_applied", 1e300), fine, 0),
    "force nan": (begins_with("xfrc_applied", np.nan), fine, 0),
    "time nan": (sound, loses_time, 0),
    **{f"reward {value}": (sound, returns(1, value), 0) for value in (np.nan, np.inf)},
    "reward none": (sound, returns(1, None), 0),
    **{f"observation {value}": (sound, returns(0, np.array([value])), 1) for value in (np.nan, np.inf)},
    "observation of two": (sound, returns(0, np.zeros(2)), 1),
    "observation of text": (sound, returns(0, np.array(["x"])), 1),
    "observation of complex numbers": (sound, returns(0, np.array([1j])), 1),
    "observation of objects": (sound, returns(0, np.array([object()])), 1),
    "observation none": (sound, returns(0, None), 1),
    **{f"info {value}": (sound, says(value), 0) for value in (np.nan, np.inf, "strong", [1, 2])},
    "raises": (breaks, fine, 0),
    "raises late": (sound, breaks, 0),
}
MODES = ("robot_arm", "full_scene", "custom")
# Seen at a row of its own only: what a row holds of the step or of the observation in which it begins.
OF_A_ROW = ("observation", "info")


def strict(path: Path) -> int:
    """Read every JSON file as JSON, which knows no NaN; returns how many there are."""

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} in a JSON file")

    files = [*path.rglob("*.json")]
    for file in files:
        json.loads(file.read_text(), parse_constant=refuse)
    return len(files)


def record_three(env: Sick, folder: Path, mode: str, expected: type[Exception], **fields: Any) -> tuple[Any, list[int]]:
    """Record three episodes; returns the recorder, and at which step of the second an error came."""
    koyu = {} if mode != "robot_arm" else {"koyu": {"name": "bundles"}}
    columns = [lr.Column("obs", "gym:obs"), lr.Column("force", "info:force")]
    wrapped = lr.RecordSession(env, output_dir=folder, mode=mode, gym_columns=True, columns=columns, **koyu, **fields)
    raised = []
    for episode in range(3):
        wrapped.reset(seed=episode)
        for t in range(LENGTH):
            try:
                wrapped.step(np.zeros(1, np.float32))
            except expected:
                raised.append((episode, t))
                break
    wrapped.close()
    assert all(episode == 1 for episode, _ in raised)
    return wrapped, [t for _, t in raised]


# Each fault in every mode, in the midst of an episode and in its first step, and between two rows.
WHEN = {
    "in the midst": ("custom", 3, 1),
    "in the first step": ("robot_arm", 0, 1),
    "between two rows": ("full_scene", 3, 2),
}


def cases() -> Iterator[tuple[str, str, int, int]]:
    for number, fault in enumerate(FAULTS):
        for mode, at, every in WHEN.values():
            # Where no row holds what is between two of them, each step has its row.
            is_seen = not fault.startswith(OF_A_ROW) or (at + FAULTS[fault][2]) % every == 0
            yield fault, mode, at, every if is_seen else 1
        # And what is left of modes and moments, for some.
        if number % 6 == 0:
            yield from ((fault, mode, 3, 1) for mode in ("robot_arm", "full_scene"))


@pytest.mark.parametrize(("fault", "mode", "at", "every"), list(cases()))
def test_it_is_found_on_its_tick(tmp_path: Path, mode: str, fault: str, at: int, every: int) -> None:
    before, after, later = FAULTS[fault]
    expected = Broken if fault.startswith("raises") else lr.CaptureError
    wrapped, found = record_three(Sick(before, after, at), tmp_path, mode, expected, data_hz=50 // every)
    steps = at + later
    assert found == [steps]
    session = check_session(wrapped.session_path)
    ends = [LENGTH, steps, LENGTH] if steps else [LENGTH, LENGTH]
    assert [(e.length, e.success) for e in session] == [(-(-n // every), n == LENGTH) for n in ends]
    for number, (episode, length) in enumerate(zip(session, ends, strict=True)):
        rows = episode.rows()
        # An episode that was lost has a number of its own in the environment.
        first = 100 * (number if steps else 2 * number)
        assert rows["obs"].to_pylist() == [first + t for t in range(0, length, every)]
        pays = [sum(range(t, min(t + every, length))) for t in range(0, length, every)]
        assert rows["next.reward"].to_pylist() == pays
    if mode == "robot_arm":
        with check_koyu(wrapped.koyu_path) as dataset:
            assert sorted(entry.length for entry in dataset.episodes) == sorted(-(-n // every) for n in ends)
    assert strict(tmp_path) >= 2


@pytest.mark.parametrize("values", [[np.nan] * 6, [np.inf] * 6, [np.nan, 1.0, -np.inf, 2.0, np.nan, np.inf]], ids=repr)
@pytest.mark.parametrize("mode", MODES)
def test_where_it_may_be_data_it_is_and_no_json_holds_it(tmp_path: Path, mode: str, values: list[float]) -> None:
    class Unsure(CountEnv):
        def step(self, action: Any) -> Any:
            value = values[self.t]
            observation, _, *rest, info = super().step(action)
            return np.full_like(observation, value), value, *rest, {**info, "force": value}

    may = {"allow_nan": True}
    columns = [
        lr.Column("obs", "gym:obs", **may),
        lr.Column("reward", "gym:reward", **may),
        lr.Column("force", "info:force", **may),
        lr.Column("asked", lambda moment: values[0], **may),
    ]
    koyu = {} if mode != "robot_arm" else {"koyu": {"name": "bundles"}}
    env = lr.RecordSession(Unsure(LENGTH, mujoco=True), output_dir=tmp_path, mode=mode, columns=columns, **koyu)
    env.reset(seed=0)
    for _ in range(LENGTH):
        env.step(np.zeros(1, np.float32))
    env.close()
    rows = check_session(env.session_path).episode(0).rows()
    np.testing.assert_array_equal(rows["obs"].to_pylist(), [0.0, *values[:-1]])
    for name in ("reward", "force"):
        np.testing.assert_array_equal(rows[name].to_pylist(), values)
    if mode == "robot_arm":
        with check_koyu(env.koyu_path) as dataset:
            np.testing.assert_array_equal(dataset.columns(0)["reward"][:, 0], values)
    assert strict(tmp_path) >= 2


@pytest.mark.parametrize("fails", ["raises", "returns no info"])
def test_a_reset_inside_an_episode_that_fails_ends_it(tmp_path: Path, fails: str) -> None:
    class Stuck(CountEnv):
        is_stuck = False

        def reset(self, **options: Any) -> Any:
            result = super().reset(**options)
            if self.is_stuck and fails == "raises":
                raise Broken
            return result[0] if self.is_stuck else result

    inner = Stuck(None, mujoco=True)
    env = lr.RecordSession(inner, output_dir=tmp_path, gym_columns=True)
    env.reset(seed=0)
    for _ in range(2):
        env.step(np.zeros(1, np.float32))
    inner.is_stuck = True
    with pytest.raises((Broken, lr.CaptureError)):
        env.reset(options={"keep_episode": True})
    # Where the environment stands now nobody knows, so nothing is a row before a reset that works.
    env.step(np.zeros(1, np.float32))
    inner.is_stuck = False
    env.reset(seed=1)
    env.step(np.zeros(1, np.float32))
    env.end_episode(success=True)
    env.close()
    session = check_session(env.session_path)
    assert [(e.length, e.success) for e in session] == [(2, False), (1, True)]
    assert [e.rows()["observation.state"].to_pylist() for e in session] == [[[0], [1]], [[200]]]


@pytest.mark.parametrize("fails", ["raises", "returns no info"])
def test_after_a_reset_that_fails_an_environment_that_had_reset_itself_is_not_recorded(
    tmp_path: Path, fails: str
) -> None:
    class Restless(CountEnv):
        is_stuck = False

        def reset(self, **options: Any) -> Any:
            result = super().reset(**options)
            if self.is_stuck and fails == "raises":
                raise Broken
            return result[0] if self.is_stuck else result

        def step(self, action: Any) -> Any:
            observation, reward, terminated, truncated, info = super().step(action)
            if terminated:
                info["final_obs"] = observation
                observation, _ = CountEnv.reset(self)
            return observation, reward, terminated, truncated, info

    inner = Restless(2, mujoco=True)
    env = lr.RecordSession(inner, output_dir=tmp_path, mode="custom", columns=[lr.Column("obs", "gym:obs")])
    env.reset(seed=0)
    for _ in range(2):
        env.step(np.zeros(1, np.float32))
    inner.is_stuck = True
    with pytest.raises((Broken, lr.CaptureError)):
        env.reset()
    env.step(np.zeros(1, np.float32))
    inner.is_stuck = False
    with pytest.warns(RuntimeWarning, match=r"^1 steps came after one that had ended its episode, .* that worked"):
        env.reset(seed=1)
    env.step(np.zeros(1, np.float32))
    env.close()
    session = check_session(env.session_path)
    assert [e.rows()["obs"].to_pylist() for e in session] == [[0, 1], [300]]
