"""Worker processes: the same session whatever their number, and what happens where one does not come through."""

from __future__ import annotations

import functools
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

import lucky_recorder as lr
from lucky_recorder.rollouts.collect import Summary
from lucky_recorder.rollouts.results import Rollout
from lucky_recorder.testing import MemorySink, check_session
from tests.rollouts.seeded import Seeded, Wandering, maker, only_here
from tests.same import bytes_of

EPISODES = 6
KEPT = [0, 2, 3, 5, 6, 8]
# Rows, pictures, a task per seed, and files of several episodes.
FULL: dict[str, Any] = {
    "discard_and_retry_failed": True,
    "episodes_per_file": 2,
    "cameras": [lr.Camera("wall", width=64, height=48)],
    "task": "info:task",
}


class Telling(Seeded):
    """Says of which task it is, and changes it within the episode: the later seeds know it first."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        observation, _ = super().reset(seed=seed)
        return observation, {"task": f"task {9 - (seed or 0) % 4}"}

    def step(self, action: Any) -> Any:
        observation, *rest, info = super().step(action)
        return observation, *rest, {**info, "task": f"task {self.t}"}


def telling(folder: Path, once: Path | None = None) -> lr.RecordSession:
    env = Telling(trap=5, once=once, mujoco=True)
    return lr.RecordSession(env, output_dir=folder, mode="full_scene", gym_columns=True, **FULL)


def collected(folder: Path, make: Callable[[], lr.RecordSession], workers: int, **given: Any) -> Summary:
    return lr.collect(make, Wandering(), **{"episodes": EPISODES, "workers": workers, **given})


def seeds_in(path: Path) -> list[int]:
    return [int(e.rows()["obs"][0].as_py()) // 100 for e in check_session(path)]


def content_of(path: Path) -> dict[str, Any]:
    """What every file holds, but for what says when, and what a process says of itself.

    Git is asked for a moment only, and a package that nothing has imported yet is not named. The model that is kept is
    the one of the first attempt in a process, and this environment changes its own.
    """
    found: dict[str, Any] = {name: x for name, x in bytes_of(path).items() if not name.startswith("meta/models/")}
    told = json.loads(found["meta/provenance.json"])
    for recording in told["recordings"]:
        del recording["git"], recording["packages"], recording["model"]
    return {**found, "meta/provenance.json": told}


def only_in(folder: Path) -> Path:
    (path,) = (folder / "DataSessions").iterdir()
    return path


def test_any_number_of_workers_gives_the_same_bytes_also_where_one_is_killed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "once").touch()
    found = []
    for name, workers in (("alone", 1), ("killed", 2), ("four", 4)):
        once = tmp_path / ("killed.once" if name == "killed" else "once")
        told: list[Summary] = []

        def make(name: str = name, once: Path = once) -> lr.RecordSession:
            return telling(tmp_path / name, once)

        with caplog.at_level(logging.WARNING, "lucky_recorder"):
            summary = collected(tmp_path / name, make, workers, on_episode=told.append)
        assert (summary.kept, summary.discarded, summary.steps, summary.wanted) == (6, 3, 36, 0)
        # In one process the episodes are written later than their attempts end.
        assert name == "alone" or (told[-1].kept, told[-1].wanted) == (6, 0)
        path = only_in(tmp_path / name)
        assert path == summary.path
        assert [e.rows()["next.reward"].to_pylist()[-1] for e in check_session(path)] == [s % 3 + 2.0 for s in KEPT]
        assert summary.bytes == sum(file.stat().st_size for file in path.glob("videos/*/*/*"))
        found.append(content_of(path))
    assert caplog.messages == [caplog.messages[0]]
    assert "was ended by SIGKILL, while it tried seed 5; that is tried again" in caplog.text
    for other in found[1:]:
        assert other.keys() == found[0].keys()
        assert [name for name in other if other[name] != found[0][name]] == []


def test_a_session_is_gone_on_with_by_workers_as_by_one(tmp_path: Path) -> None:
    whole = collected(tmp_path / "whole", maker(tmp_path / "whole"), 1).path
    first = collected(tmp_path / "two", maker(tmp_path / "two"), 1, episodes=2).path
    assert whole is not None
    assert first is not None
    summary = collected(tmp_path / "two", maker(Path(), resume=first), 2)
    assert (summary.kept, summary.wanted, summary.path) == (4, 0, first)
    assert seeds_in(only_in(tmp_path / "two")) == [0, 1, 2, 3, 4, 5]
    told = lr.Session(first).provenance
    assert [one["episodes"] for one in told] == ["0:2", "2:6"]
    ours, theirs = bytes_of(first), bytes_of(whole)
    assert [name for name in theirs if name.startswith("data/") and ours[name] != theirs[name]] == []
    assert ours["meta/stats.json"] == theirs["meta/stats.json"]
    assert collected(tmp_path / "two", maker(Path(), resume=first), 2).kept == 0
    with pytest.raises(lr.SettingsError, match=r"^resume=.*goes on with the settings it was recorded with"):
        collected(tmp_path / "two", maker(Path(), resume=first, gym_columns=False), 2, episodes=8)
    assert (only_in(tmp_path / "two"), bytes_of(first)) == (first, ours)


def test_a_seed_that_no_worker_survives_stops_the_run(tmp_path: Path) -> None:
    make = maker(tmp_path, {"trap": 3, "how": "raise"})
    with pytest.raises(lr.WorkerDiedError, match=r"^seed 3: 3 workers tried it, and none lived") as raised:
        collected(tmp_path, make, 2)
    path = only_in(tmp_path)
    assert str(path) in str(raised.value)
    seeds = seeds_in(path)
    assert seeds == sorted(set(seeds) - {3})
    assert {0, 1} <= set(seeds)
    assert "ZeroDivisionError: of the environment" in raised.value.__notes__[0]


def test_what_fails_in_every_worker_is_told_once_with_its_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(lr.WorkerDiedError, match="ZeroDivisionError: not in a worker; no episode was") as raised:
        lr.collect(only_here, Wandering(), episodes=2, workers=2)
    assert "in only_here" in raised.value.__notes__[0]
    assert caplog.messages == []
    assert list(tmp_path.iterdir()) == []


def test_an_evaluation_by_workers_is_that_of_one(tmp_path: Path) -> None:
    found = []
    for workers in (1, 2):
        told: list[int] = []

        def note(rollout: Rollout, told: list[int] = told) -> None:
            told.append(rollout.seed)

        make = maker(tmp_path / str(workers))
        result = lr.evaluate(make, Wandering(), action="gym", seeds=[4, 2, 2, 7], workers=workers, on_episode=note)
        assert sorted(told) == [2, 2, 4, 7]
        assert result.path is not None
        assert seeds_in(result.path) == [4, 2, 2, 7]
        rollouts = [{**one, "seconds": 0} for one in result.to_dict()["rollouts"]]
        found.append((rollouts, result.policy, content_of(result.path)))
    assert found[0][:2] == found[1][:2]
    assert [name for name, content in found[0][2].items() if found[1][2][name] != content] == []
    assert [r["success"] for r in found[0][0]] == [False, True, True, False]


# What is refused beforehand.


def with_a_sink() -> lr.RecordSession:
    return lr.RecordSession(Seeded(), mode="custom", gym_columns=True, sinks=[MemorySink(Path("there"))])


REFUSED: list[tuple[Callable[[], Any], Any, str]] = [
    (maker(Path(), record_data=False, record_cameras=True, cameras=[lr.Camera("render")]), None, "^record_data=False"),
    (maker(Path(), episode_trigger=bool), None, "^episode_trigger=.*use workers=1"),
    (with_a_sink, None, "^sinks: .*workers=1"),
    (lambda: Seeded(), None, "^env=.*must return a new lucky_recorder.RecordSession"),
]


@pytest.mark.parametrize(("make", "policy", "message"), REFUSED, ids=[message for _, _, message in REFUSED])
def test_what_several_processes_cannot_record(
    make: Callable[[], Any], policy: Any, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(lr.SettingsError, match=message):
        lr.collect(make, policy, episodes=1, workers=2)
    assert list(tmp_path.iterdir()) == []


def test_a_recorder_that_is_there_cannot_be_shared(record: Any) -> None:
    with pytest.raises(lr.SettingsError, match=r"^workers=2: each worker makes an environment of its own"):
        lr.collect(record(), Wandering(), episodes=1, workers=2)
    with pytest.raises(lr.SettingsError, match=r"^workers=2: each worker makes an environment of its own"):
        lr.evaluate(record(), Wandering(), action="gym", episodes=1, workers=2)


class Stuck(Wandering):
    """Cannot be pickled."""

    def __getstate__(self) -> Any:
        raise TypeError("it holds a lock")


def test_what_cannot_be_sent_is_named(tmp_path: Path) -> None:
    with pytest.raises(lr.SettingsError, match=r"^policy=.*cannot be sent to a worker process \(it holds a lock\)"):
        lr.collect(maker(tmp_path), Stuck(), episodes=1, workers=2)
    assert not (tmp_path / "DataSessions").exists()


def test_a_session_of_a_robot_with_a_camera_is_gone_on_with_by_workers(tmp_path: Path) -> None:
    def made(**fields: Any) -> Any:
        return functools.partial(_pick_cube, fields)

    first = lr.collect(made(output_dir=tmp_path), episodes=1, workers=1, seed=3).path
    summary = lr.collect(made(resume=first), episodes=2, workers=1)
    assert (summary.kept, summary.path, len(check_session(first))) == (1, first, 2)


def _pick_cube(fields: dict[str, Any]) -> lr.RecordSession:
    camera = lr.Camera("front", width=32, height=32)
    env = gym.make("LuckyRecorder/PickCube-v0")
    return lr.RecordSession(env, cameras=[camera], max_episode_length_s=0.1, success="terminated", **fields)
