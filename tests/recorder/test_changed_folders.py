"""A process that changes its folder while it records: relative paths are meant from where they were given."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import lucky_recorder as lr
from lucky_recorder.koyu.check import inspect_koyu
from lucky_recorder.testing import CountEnv

ID = "LuckyRecorder/PickCube-v0"


@pytest.fixture
def moves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Begin in ``home``; returns what goes to a folder where nobody has been, at each call."""
    (tmp_path / "home").mkdir()
    monkeypatch.chdir(tmp_path / "home")
    numbers: Iterator[int] = itertools.count()

    def move() -> None:
        folder = tmp_path / f"away-{next(numbers)}"
        folder.mkdir()
        monkeypatch.chdir(folder)

    return move


def record(env: Any, moves: Callable[[], None]) -> None:
    """Record two episodes; there is a move before every call."""
    for seed in range(2):
        moves()
        env.reset(seed=seed)
        moves()
        env.step(np.zeros(env.action_space.shape))
        moves()
        env.end_episode(success=True)
        moves()
        env.observer.flush()
    moves()
    env.close()
    moves()


def assert_only_at_home(tmp_path: Path) -> None:
    assert [path for away in tmp_path.glob("away-*") for path in away.iterdir()] == []


@pytest.mark.parametrize("make", [lambda: gym.make(ID), lambda: CountEnv(3, mujoco=True)])
@pytest.mark.parametrize("output_dir", [None, ".", "data/mine"])
@pytest.mark.parametrize("path", [None, "sets/cubes"])
def test_a_new_session_and_its_bundles(
    tmp_path: Path, moves: Callable[[], None], make: Callable[[], Any], output_dir: str | None, path: str | None
) -> None:
    place = {} if output_dir is None else {"output_dir": output_dir}
    env = lr.RecordSession(make(), koyu=lr.KoyuSettings("cubes", path=path), **place)
    home = tmp_path / "home"
    record(env, moves)
    assert env.session_path.parent == home / (output_dir or "") / "DataSessions"
    assert (len(lr.Session(env.session_path)), lr.Session(env.session_path).state) == (2, "complete")
    assert env.koyu_path == (home / path if path else home / (output_dir or "") / "cubes")
    assert inspect_koyu(env.koyu_path).episodes == 2
    assert_only_at_home(tmp_path)


def test_one_that_is_gone_on_with(tmp_path: Path, moves: Callable[[], None]) -> None:
    first = lr.RecordSession(gym.make(ID), output_dir="data")
    record(first, moves)
    name = first.session_path.name
    for count, given in enumerate((f"data/DataSessions/{name}", f"./data/../data/DataSessions/{name}"), 2):
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(tmp_path / "home")
            more = lr.RecordSession(gym.make(ID), resume=given)
            record(more, moves)
        assert len(lr.Session(first.session_path)) == 2 * count
    assert_only_at_home(tmp_path)


def test_one_that_is_made_anew_of_its_spec(tmp_path: Path, moves: Callable[[], None]) -> None:
    first = lr.RecordSession(gym.make(ID), output_dir="data", koyu=lr.KoyuSettings("cubes", path="sets"))
    record(first, moves)
    again = gym.make(first.spec)
    record(again, moves)
    assert len(list((tmp_path / "home/data/DataSessions").iterdir())) == 2
    assert inspect_koyu(tmp_path / "home/sets").episodes == 4
    assert_only_at_home(tmp_path)


def test_an_observer_s_later_sessions(tmp_path: Path, moves: Callable[[], None], bare: Callable[..., Any]) -> None:
    observer, advance = bare(output_dir="mine")
    for _ in range(2):
        moves()
        observer.start_recording()
        moves()
        observer.tick()
        advance()
        observer.end_current_episode(True)
        moves()
        observer.stop_recording()
        assert observer.session_path.parent == tmp_path / "home/mine/DataSessions"
    assert_only_at_home(tmp_path)


def test_a_folder_that_is_gone_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    for field, act in (
        ("resume", lambda: lr.RecorderSettings(resume="x")),
        ("koyu.path", lambda: lr.KoyuSettings("cubes", path="x")),
        ("output_dir", lambda: lr.RecordSession(CountEnv(3), mode="custom", gym_columns=True)),
    ):
        with pytest.raises(lr.SettingsError, match=f"^{field}=.*is gone .*; give the whole path"):
            act()
    lr.RecordSession(CountEnv(3), mode="custom", gym_columns=True, output_dir=tmp_path)
