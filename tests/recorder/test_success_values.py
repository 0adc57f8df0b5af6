"""What counts as success, and what is refused since it is neither true nor false, wherever it is said."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lucky_recorder as lr
from lucky_recorder.testing import CountEnv


class Tensor:
    """A value of another library's, on its way to numpy."""

    def __init__(self, value: Any) -> None:
        self.value = np.array(value)

    def __repr__(self) -> str:
        # A test is called by it, the same in every process.
        return f"Tensor({self.value.tolist()})"

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.value


TRUE = [
    True,
    1,
    1.0,
    np.True_,
    np.float32(1),
    np.int8(1),
    np.array(True),
    np.array([1]),
    np.array([[1.0]]),
    Tensor([1]),
]
FALSE = [False, 0, 0.0, np.False_, np.float64(0), np.uint8(0), np.array(False), np.zeros((1, 1)), Tensor(0)]
NEITHER = [
    "False", "", b"1", 2, -1, 0.5, float("nan"), np.nan, np.float32("nan"), {}, {"success": True}, [], [True], (1,),
    np.array([True, False]), np.zeros(0), np.array([2]), np.array([np.nan]), np.array("yes"), Tensor([1, 1]), ...,
]  # fmt: skip


class Says(CountEnv):
    """Counts to two and says in its last step what it is told to, in one of the places where it can be said."""

    def __init__(self, place: str, value: Any) -> None:
        super().__init__(2, succeeds=None)
        self.place, self.value = place, value
        if place == "_check_success()":
            self._check_success = lambda: value

    def step(self, action: Any) -> Any:
        observation, reward, done, truncated, _ = super().step(action)
        if not done:
            return observation, reward, False, False, {}
        infos = {
            "info['success']": {"success": self.value},
            "info['is_success']": {"is_success": self.value, "success": None},
            "info['won']": {"won": self.value},
            "final_info": {"final_info": {"success": self.value}, "success": None},
        }
        return observation, reward, done, truncated, infos.get(self.place, {})


def settings(place: str, value: Any) -> dict[str, Any]:
    return {"info['won']": {"success": "info:won"}, "callable": {"success": lambda moment: value}}.get(place, {})


PLACES = ["info['success']", "info['is_success']", "info['won']", "final_info", "_check_success()", "callable"]
AT = pytest.mark.parametrize("place", PLACES)


@AT
@pytest.mark.parametrize("value", TRUE + FALSE, ids=repr)
def test_a_truth_value_of_any_type_is_a_verdict(record: Any, run: Any, place: str, value: Any, tmp_path: Any) -> None:
    sink = lr.testing.MemorySink(tmp_path)
    env = lr.RecordSession(
        Says(place, value), mode="custom", columns=[lr.Column("obs", "gym:obs")], formats=(), sinks=[sink],
        **settings(place, value),
    )  # fmt: skip
    run(env)
    env.close()
    assert [r.outcome.success for r in sink.records] == [any(value is one for one in TRUE)]


@AT
@pytest.mark.parametrize("value", NEITHER, ids=repr)
def test_what_is_neither_is_refused_with_its_place_and_value(run: Any, place: str, value: Any, tmp_path: Any) -> None:
    sink = lr.testing.MemorySink(tmp_path)
    env = lr.RecordSession(
        Says(place, value), mode="custom", columns=[lr.Column("obs", "gym:obs")], formats=(), sinks=[sink],
        **settings(place, value),
    )  # fmt: skip
    with pytest.raises(lr.SettingsError) as refused:
        run(env)
    said = {"callable": "the success callable's answer", "final_info": "info['success']"}.get(place, place)
    assert str(refused.value).startswith(f"{said}=")
    assert str(refused.value).endswith("give True or False")
    assert env.is_recording
    env.close()
    assert [(r.data_ticks, r.outcome.success) for r in sink.records] == [(2, False)]


@AT
def test_none_says_nothing_but_for_a_callable(record: Any, run: Any, read_back: Any, place: str) -> None:
    env = record(Says(place, None), **settings(place, None))
    if place == "callable":
        with pytest.raises(lr.SettingsError, match="the success callable's answer=None"):
            run(env)
        return
    run(env)
    with pytest.warns(UserWarning, match="the environment says nothing about success"):
        env.close()
    assert [e.meta["success"] for e in read_back(env.session_path)] == [False]


@pytest.mark.parametrize("value", NEITHER, ids=repr)
def test_success_of_each_step_is_refused_too(record: Any, run: Any, read_back: Any, value: Any) -> None:
    env = record(Says("info['success']", value), gym_columns=True)
    with pytest.raises(lr.SettingsError, match=r"info\['success'\]=.*give True or False"):
        run(env)
    env.close()
    assert [(e.rows["obs"].tolist(), e.meta["success"]) for e in read_back(env.session_path)] == [([0], False)]
