"""Columns of what gymnasium says: parts of observations, infos that come and go, and the layout of spaces."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pyarrow.parquet as pq
import pytest

import lucky_recorder as lr
from lucky_recorder.errors import CaptureError, SettingsError
from lucky_recorder.testing import CountEnv, check_session
from tests.capture.models import features, scene


class Says(CountEnv):
    """An environment of dicts: observations of two parts, and infos that come and go."""

    def __init__(self) -> None:
        super().__init__(length=4)
        box = gym.spaces.Box(-np.inf, np.inf, (2,), np.float64)
        self.observation_space = gym.spaces.Dict({"pose": box, "grip.force": gym.spaces.Discrete(100)})

    def _observation(self) -> Any:
        return {"pose": np.array([self.t, -self.t], np.float64), "grip.force": np.int64(self.t)}

    def _info(self) -> dict[str, Any]:
        info: dict[str, Any] = {"is_success": True}
        if self.t % 2 == 0:
            info |= {"distance": self.t / 4, "hits": self.t, "where": np.array([self.t, 0.0]), "maybe": None}
        return info


def test_parts_of_an_observation_are_those_the_action_was_chosen_on(record: Any, read_back: Any, run: Any) -> None:
    columns = [lr.Column("pose", "gym:obs.pose", shape=(2,)), lr.Column("force", "gym:obs.grip.force", dtype="int64")]
    env = record(Says(), columns=[*columns, lr.Column("a", "gym:action"), lr.Column("r", "gym:reward")])
    run(env)
    env.close()
    [episode] = read_back(env.session_path)
    assert episode.rows["pose"].tolist() == [[t, -t] for t in range(4)]
    assert episode.rows["force"].tolist() == [0, 1, 2, 3]
    assert episode.rows["a"].tolist() == [0, 1, 2, 3]
    assert episode.rows["r"].tolist() == [0, 1, 2, 3]


def test_a_declared_info_is_null_when_it_is_absent(record: Any, run: Any) -> None:
    columns = [
        lr.Column("distance", "info:distance"),
        lr.Column("hits", "info:hits", dtype="int64"),
        lr.Column("where", "info:where", shape=(2,)),
        lr.Column("maybe", "info:maybe"),
        lr.Column("never", "info:never", dtype="bool"),
    ]
    env = record(Says(), columns=columns)
    run(env)
    env.close()
    table = pq.read_table(env.session_path / "data/chunk-000/file-000.parquet", partitioning=None)
    assert table["distance"].to_pylist() == [None, 0.5, None, 1.0]
    assert table["hits"].to_pylist() == [None, 2, None, 4]
    assert table["where"].to_pylist() == [None, [2.0, 0.0], None, [4.0, 0.0]]
    assert table["maybe"].to_pylist() == [None] * 4
    assert table["never"].to_pylist() == [None] * 4
    assert str(table.schema.field("hits").type) == "int64"
    check_session(env.session_path)


def test_an_info_of_another_kind_than_declared_is_refused(record: Any) -> None:
    env = record(Says(), columns=[lr.Column("hits", "info:hits", dtype="bool")])
    env.reset()
    env.step(np.zeros(1))
    with pytest.raises(CaptureError, match=r"'hits'.*2 does not fit bool"):
        env.step(np.zeros(1))


@pytest.mark.parametrize("source", ["gym:obs.pse", "gym:obs", "gym:action.x", "gym:observation", "gym:done"])
def test_an_unknown_part_of_gymnasium_lists_those_there_are(record: Any, source: str) -> None:
    env = record(Says(), columns=[lr.Column("c", source)])
    with pytest.raises(SettingsError, match=r"known: gym:action, gym:reward, gym:obs\.grip\.force, gym:obs\.pose"):
        env.reset()


def test_a_key_of_an_observation_without_keys_is_refused(record: Any) -> None:
    env = record(CountEnv(), columns=[lr.Column("c", "gym:obs.pose")])
    with pytest.raises(SettingsError, match=r"known: gym:action, gym:reward, gym:obs$"):
        env.reset()


@pytest.mark.parametrize("source", ["gym:obs", "gym:reward", "gym:action"])
def test_a_bare_model_has_no_gymnasium(source: str) -> None:
    with pytest.raises(SettingsError, match=f"source='{source}'.*no Gymnasium environment"):
        features(scene("joint_zoo"), "custom", columns=[lr.Column("c", source)])


def test_an_observation_is_copied_even_if_the_environment_keeps_writing_into_it(
    record: Any, read_back: Any, run: Any
) -> None:
    class Reuses(CountEnv):
        held = np.zeros(1)

        def _observation(self) -> Any:
            self.held[0] = self.count
            return self.held

    env = record(Reuses(length=3))
    run(env)
    env.close()
    [episode] = read_back(env.session_path)
    assert episode.rows["obs"].tolist() == [0, 1, 2]


def test_an_observation_of_another_shape_names_the_column(record: Any) -> None:
    class Lies(CountEnv):
        def _observation(self) -> Any:
            return np.zeros(3)

    env = record(Lies(), columns=[lr.Column("obs", "gym:obs")])
    env.reset()
    with pytest.raises(CaptureError, match=r"column 'obs': the source gave shape \(3,\), declared is \(\)"):
        env.step(np.zeros(1))


WRAPPED: list[Any] = [1.5, np.float64(1.5), np.float32(1.5), np.array(1.5), np.array([1.5]), [1.5], 2, np.int64(2)]
WRAPPED += [np.int8(2), True, np.bool_(True), 2**53, None, -0.0]


class Wraps(CountEnv):
    """An environment whose infos hold a number, each time in another wrapping."""

    def __init__(self, numbers: list[Any]) -> None:
        self.numbers = numbers
        super().__init__(length=len(numbers))

    def _info(self) -> dict[str, Any]:
        return {"is_success": True} | ({"n": self.numbers[self.t - 1]} if self.t else {})


def test_a_number_is_the_same_in_any_wrapping(record: Any, run: Any) -> None:
    env = record(Wraps(WRAPPED), columns=[lr.Column("n", "info:n"), lr.Column("f", "info:n", dtype="float32")])
    run(env)
    env.close()
    table = pq.read_table(env.session_path / "data/chunk-000/file-000.parquet", partitioning=None)
    expected = [None if n is None else float(np.asarray(n).item()) for n in WRAPPED]
    assert table["n"].to_pylist() == table["f"].to_pylist() == expected
    assert np.signbit(table["n"][-1].as_py())


@pytest.mark.parametrize("number", [np.nan, np.float64(np.inf), np.float32(np.nan), 2**53 + 1, "1.5"])
def test_a_number_that_cannot_be_recorded_ends_the_episode_at_its_step(record: Any, number: Any) -> None:
    env = record(Wraps([1.0, number, 1.0]), columns=[lr.Column("n", "info:n")])
    env.reset()
    env.step(np.zeros(1))
    with pytest.raises(CaptureError, match="column 'n'"):
        env.step(np.zeros(1))
    env.close()
    table = pq.read_table(env.session_path / "data/chunk-000/file-000.parquet", partitioning=None)
    assert table["n"].to_pylist() == [1.0]
