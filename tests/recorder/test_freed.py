"""What was recorded is the user's: dropped, it goes at once, as it does without a recorder.

A viewer that waits for a collection of garbage is freed in the middle of another environment's run, and deletes by
number, in the context that is current there, what that one draws with.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

import lucky_recorder as lr
from lucky_recorder import vector
from lucky_recorder.testing import CountEnv
from tests.recorder.stepping import steps

Inner = list[weakref.ref[CountEnv]]


@pytest.fixture(autouse=True)
def _nothing_is_collected() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def count(made: Inner) -> CountEnv:
    env = CountEnv(3, mujoco=True, render_mode="rgb_array", width=32, height=32)
    made.append(weakref.ref(env))
    return env


def fields(folder: Path) -> dict[str, Any]:
    seen = [lr.Camera("seen", source="render", width=32, height=32), lr.Camera("wall", width=32, height=32)]
    after = lr.Column("after", lambda moment: float(moment.data.qpos[0]), when="after")
    return {"output_dir": folder, "cameras": seen, "columns": [after], "gym_columns": True, "task": "info:none"}


def closed(made: Inner, folder: Path) -> None:
    env = lr.RecordSession(count(made), **fields(folder))
    env.reset()
    steps(env, 2)
    env.close()


def complete(made: Inner, folder: Path) -> None:
    env = lr.RecordSession(count(made), **fields(folder), total_episodes=1)
    env.reset()
    steps(env, 3)
    env.reset()
    assert not env.is_recording


def forgotten(made: Inner, folder: Path) -> None:
    env = lr.RecordSession(count(made), **fields(folder))
    env.reset()
    steps(env, 2)
    with pytest.warns(RuntimeWarning, match=r"close\(\) was not called"):
        del env


def never_stepped(made: Inner, folder: Path) -> None:
    env = lr.RecordSession(count(made), **fields(folder))
    env.reset()
    env.close()


def observed(made: Inner, folder: Path) -> None:
    inner = count(made)
    inner.reset()
    column = lr.Column("own", lambda moment: float(inner.count))
    observer = lr.Observer(output_dir=folder, data_hz=50, model=inner.model, data=inner.data, columns=[column])
    observer.start_recording()
    observer.tick()
    observer.stop_recording()


def in_lanes(made: Inner, folder: Path) -> None:
    envs = gym.vector.SyncVectorEnv([lambda: count(made)] * 2)
    recorded = vector.VectorRecordSession(envs, **fields(folder))
    recorded.reset()
    recorded.step(recorded.action_space.sample())
    recorded.close()


@pytest.mark.parametrize("use", [closed, complete, forgotten, never_stepped, observed, in_lanes])
@pytest.mark.filterwarnings("ignore:.*")
def test_what_was_recorded_is_gone_with_the_last_who_knows_it(use: Callable[..., None], tmp_path: Path) -> None:
    made: Inner = []
    use(made, tmp_path)
    assert made
    assert [env for env in made if env() is not None] == []
