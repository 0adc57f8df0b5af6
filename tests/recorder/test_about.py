"""What is known of an episode besides its rows: seed, options, when, why it ended, and what the user said of it."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import lucky_recorder as lr
from lucky_recorder.episode.keys import LONGEST_TEXT
from lucky_recorder.recorder.circumstances import given_options, plain_options, plain_values
from lucky_recorder.storage.untrusted import parsed
from lucky_recorder.testing import CountEnv, check_koyu, check_session
from tests.recorder.resetting import SameStep


def closed(env: lr.RecordSession) -> lr.Session:
    env.close()
    return check_session(env.session_path)


class Takes(gym.Wrapper[Any, Any, Any, Any]):
    """Takes any options, and spoils those that it is given."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        if options is not None:
            options.clear()
        return self.env.reset(seed=seed)


# How it began.


def test_seeds_are_digits_and_none_where_none_was_given(record: Any, run: Any) -> None:
    env = record()
    huge = 2**127 + 1
    for seed in (0, None, 7, huge):
        env.reset(seed=seed)
        env.step(np.zeros(1, np.float32))
        # A reset within an episode did not begin it.
        env.reset(seed=99, options={"keep_episode": True})
        env.step(np.zeros(1, np.float32))
    assert [e.seed for e in closed(env)] == ["0", None, "7", str(huge)]


def test_options_are_kept_as_they_were_given_but_for_ours(record: Any) -> None:
    env = record(Takes(CountEnv()))
    given: list[Any] = [
        {"goal": [1, 2.5], "nested": {"a": None}},
        {"goal": np.arange(3, dtype=np.int16), "scale": np.float32(0.5)},
        {"keep_episode": False, "b": True},
        {"keep_episode": False},
        {},
        None,
        {"call": len, "pair": (1, 2), "bad": math.nan, "good": "é", 3: 4},
    ]
    for options in given:
        env.reset(options=options)
        env.step(np.zeros(1, np.float32))
    assert [e.options for e in closed(env)] == [
        {"goal": [1, 2.5], "nested": {"a": None}},
        {"goal": [0, 1, 2], "scale": 0.5, "lucky_recorder.arrays": {"goal": "<i2", "scale": "<f4"}},
        {"b": True},
        None,
        None,
        None,
        {
            "good": "é",
            "lucky_recorder.not_json": {"call": "<built-in function len>", "pair": "(1, 2)", "bad": "nan", "3": "4"},
        },
    ]


class Mute:
    def __repr__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize("value", ["x" * LONGEST_TEXT, Mute(), {"\ud800": "\ud800"}, [[]] * 100_000])
def test_options_of_any_kind_and_size_become_a_short_text(value: Any) -> None:
    said = plain_options({"value": value})
    assert said is not None
    assert len(json.dumps(said).encode()) < LONGEST_TEXT
    assert given_options(said) is None


def test_options_come_back_as_they_were() -> None:
    given = {"goal": np.arange(4.0).reshape(2, 2), "flag": np.bool_(True), "text": "a", "list": [1]}
    plain = plain_options(given)
    assert plain is not None
    back = given_options(json.loads(json.dumps(plain)))
    assert back is not None
    assert list(back) == ["goal", "flag", "text", "list"]
    assert np.array_equal(back["goal"], given["goal"])
    assert back["goal"].dtype == given["goal"].dtype
    assert back["flag"].dtype == bool
    assert given_options({"lucky_recorder.arrays": {"gone": "<f8"}}) is None
    for kind in ("no dtype", [], {"dtype": "<f8"}, {"dtype": "<f8", "shape": [2]}, {"dtype": "<f8", "shape": "a"}):
        assert given_options({"goal": [1], "lucky_recorder.arrays": {"goal": kind}}) is None


@pytest.mark.parametrize(
    "value",
    [np.int64(3), np.float32(0.5), np.array(3), np.zeros((0, 3)), np.zeros(0, np.int8), np.ones((1, 2), ">i4"), 3, []],
    ids=repr,
)
def test_a_value_of_any_shape_comes_back_as_what_it_was(value: Any) -> None:
    plain = plain_options({"value": value})
    assert plain is not None
    back = given_options(json.loads(json.dumps(plain)))
    assert back is not None
    assert (type(back["value"]), np.shape(back["value"])) == (type(value), np.shape(value))
    assert np.array_equal(back["value"], value)
    assert getattr(back["value"], "dtype", None) == getattr(value, "dtype", None)


def _nested(depth: int) -> list[Any]:
    return [_nested(depth - 1)] if depth else []


@pytest.mark.parametrize(
    "options",
    [
        {3: np.arange(2)},
        {"a": np.ma.array([1.0, 2.0], mask=[True, False])},
        {"a": {1: 2}},
        {"a": _nested(70)},
        {"lucky_recorder.arrays": {"a": "<f8"}, "a": 1},
    ],
    ids=["key", "masked", "inner key", "deep", "ours"],
)
def test_options_that_would_come_back_as_others_are_not_given_back(options: dict[Any, Any]) -> None:
    said = plain_options(options)
    assert said is not None
    assert "lucky_recorder.not_json" in said
    assert parsed(json.dumps(said).encode()) == said
    assert given_options(said) is None


# When.


def test_moment_and_length_are_the_walls(record: Any) -> None:
    before = datetime.now(UTC)
    env = record()
    env.reset()
    middle = datetime.now(UTC)
    done = False
    while not done:
        _, _, done, _, _ = env.step(np.zeros(1, np.float32))
    after, began = datetime.now(UTC), time.perf_counter()
    while time.perf_counter() < began + 0.02:  # what comes before the verdict is none of it
        pass
    (episode,) = closed(env)
    assert before - timedelta(milliseconds=1) <= episode.recorded_at <= middle
    assert episode.recorded_at.utcoffset() == timedelta(0)
    assert 0 < episode.duration_s <= (after - episode.recorded_at).total_seconds() + 0.001
    assert episode.lane == 0


# Why it ended.

ACTION = np.zeros(1, np.float32)


def steps(env: Any, count: int = 3) -> None:
    for _ in range(count):
        env.step(ACTION)


def both(env: Any) -> Any:
    """An environment that says terminated and truncated at once."""
    return gym.wrappers.TimeLimit(env, 3)


ENDS: dict[str, tuple[Any, Callable[[Any], object]]] = {
    "terminated": (lambda: CountEnv(3), lambda env: env.reset()),
    "truncated": (lambda: gym.wrappers.TimeLimit(CountEnv(None), 3), lambda env: env.close()),
    "terminated, both": (lambda: both(CountEnv(3)), lambda env: env.end_episode(success=True)),
    "terminated, unsaid": (lambda: CountEnv(3, succeeds=None), lambda env: env.reset()),
    "verdict": (lambda: CountEnv(None), lambda env: env.end_episode(success=False)),
    "no_verdict": (lambda: CountEnv(None, succeeds=None), lambda env: env.reset()),
    "time_limit": (lambda: CountEnv(None), lambda env: env.step(ACTION)),
    "stopped": (lambda: CountEnv(None), lambda env: env.close()),
}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.filterwarnings("ignore:.*success.*")
def test_the_reason_of_each_end(record: Any, end: str) -> None:
    make, then = ENDS[end]
    limit = {"max_episode_length_s": 0.06} if end == "time_limit" else {}
    env = record(make(), **limit)
    env.reset()
    steps(env)
    then(env)
    assert [e.end_reason for e in closed(env)] == [end.split(",")[0]]


def test_an_environment_that_raises_and_one_that_resets_itself(record: Any) -> None:
    inner = CountEnv(None)
    env = record(inner)
    env.reset()
    steps(env)
    inner.step = lambda action: 1 / 0  # type: ignore[method-assign, assignment, return-value]
    with pytest.raises(ZeroDivisionError):
        env.step(ACTION)
    assert [e.end_reason for e in closed(env)] == ["error"]
    again = record(SameStep(CountEnv([2, 3]), "final_obs"))
    again.reset(seed=5)
    steps(again, 5)
    found = closed(again)
    assert [(e.end_reason, e.seed) for e in found] == [("terminated", "5"), ("terminated", None)]


# What the user says.


def test_annotations_are_joined_and_belong_to_the_open_episode(record: Any) -> None:
    env = record(CountEnv([2, 2, 2]))
    env.reset()
    env.annotate(**{"operator": "Ada", "rating": 4, "self": "me"})
    steps(env, 2)
    env.annotate(rating=5, tags=["é", {"deep": None}])  # frozen, and not judged yet
    env.reset()
    steps(env, 2)
    env.observer.annotate(**{"rating": 1, "self": "me"})
    env.end_episode(success=False)
    env.reset()
    steps(env, 2)
    found = [e.annotations for e in closed(env)]
    first = {"operator": "Ada", "rating": 5, "self": "me", "tags": ["é", {"deep": None}]}
    assert found == [first, {"rating": 1, "self": "me"}, None]


def test_annotations_are_refused_where_there_is_no_episode_or_no_json(record: Any) -> None:
    env = record()
    with pytest.raises(lr.StateError, match=r"annotate\(\) needs the observer to be InEpisode"):
        env.annotate(a=1)
    env.reset()
    env.annotate(kept=1)
    for value in (math.nan, {1, 2}, np.zeros(2), object(), "\ud800"):
        with pytest.raises(lr.SettingsError, match=r"^bad=.*: give plain JSON values"):
            env.annotate(kept=2, bad=value)
    with pytest.raises(lr.SettingsError, match=r"bytes of JSON; at most 65536 are kept"):
        env.annotate(kept=2, long="x" * LONGEST_TEXT)
    steps(env)
    env.end_episode()
    with pytest.raises(lr.StateError, match="BetweenEpisodes"):
        env.annotate(a=1)
    assert [e.annotations for e in closed(env)] == [{"kept": 1}]
    with pytest.raises(lr.StateError, match=r"close\(\) was called"):
        env.annotate(a=1)


def test_an_episode_that_the_environment_begins_by_itself_can_be_annotated(record: Any) -> None:
    env = record(SameStep(CountEnv([2, 3]), "final_obs"))
    env.reset()
    steps(env, 2)
    env.annotate(of="first")
    env.end_episode()
    env.annotate(of="second")
    steps(env, 3)
    assert [e.annotations for e in closed(env)] == [{"of": "first"}, {"of": "second"}]


def test_an_observer_says_the_same(bare: Any) -> None:
    observer, step = bare()
    path = observer.start_recording()
    for seed in (3, None):
        observer.tick()
        step()
        observer.annotate(seed=seed)
        observer.end_current_episode(success=True)
        observer.begin_episode(seed=4)
    observer.stop_recording()
    found = check_session(path)
    said = [(e.seed, e.end_reason, e.annotations) for e in found]
    assert said == [(None, "verdict", {"seed": 3}), ("4", "verdict", {"seed": None})]


def test_a_bundle_says_it_too(record: Any, run: Any, tmp_path: Path) -> None:
    columns = [lr.Column("observation.state", "gym:obs"), lr.Column("action", "gym:action")]
    env = record(columns=columns, koyu=lr.KoyuSettings(name="counted"))
    env.reset(seed=8)
    env.annotate(operator="Ada")
    steps(env)
    run(env, seed=None)
    env.close()
    dataset = check_koyu(env.koyu_path)
    said = [
        {key: dataset.sidecar(k)[key] for key in ("seed", "end_reason", "annotations")}
        for k in range(len(dataset.episodes))
    ]
    assert said == [
        {"seed": "8", "end_reason": "terminated", "annotations": {"operator": "Ada"}},
        {"seed": None, "end_reason": "terminated", "annotations": {}},
    ]


def test_rows_and_pictures_know_nothing_of_the_clock(record: Any, run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What says when stands in ``meta/episodes`` alone: not in the footers of data files."""
    env = record(CountEnv(3))
    run(env)
    path = closed(env).path
    (data,) = path.glob("data/*/*.parquet")
    content = data.read_bytes()
    assert b'"end_reason": "terminated"' in content
    assert b"recorded_at" not in content
    assert b"duration_s" not in content


def test_what_is_said_comes_out_equal_or_is_refused() -> None:
    said = {"a": [1, {"b": None, "1": -0.5}], "c": np.float64(2), "d": True, "e": "é", "f": [[[]]], "": {}}
    assert plain_values(said) == said
    for value in ((1, 2), [(1,)], {1: "x", "1": "y"}, {True: 0}):
        with pytest.raises(lr.SettingsError, match=r"^said=.*: would be read back as .*give lists for tuples"):
            plain_values({"said": value})
    for name, value in (("said", 10**5000), ("\ud800", 1), ("said", {"\ud800": 1}), ("said", math.inf)):
        with pytest.raises(lr.SettingsError, match=r"=.*: give plain JSON values"):
            plain_values({name: value})


def test_what_is_nested_deeper_than_can_be_read_back_is_refused() -> None:
    deep: Any = 1
    for _ in range(70):
        deep = [deep]
    with pytest.raises(lr.SettingsError, match="more than 64 deep"):
        plain_values({"said": deep})
