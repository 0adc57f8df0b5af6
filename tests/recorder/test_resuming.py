"""Going on with a session through the recorder: its settings, its counts, its tasks, and what a full disk has left."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest

import lucky_recorder as lr
from lucky_recorder.session import rows
from lucky_recorder.storage import write as files
from lucky_recorder.testing import CountEnv, check_koyu, check_session
from tests.session.resuming import contents, listed

PAIR = [lr.Column("observation.state", "gym:obs"), lr.Column("action", "gym:action", dtype="float32")]


def test_episodes_follow_those_that_are_there(record: Any, run: Any, read_back: Any, counts: Any) -> None:
    first = record(CountEnv(succeeds=lambda episode: episode != 1))
    run(first, episodes=3)
    first.close()
    second = record(CountEnv(4), resume=first.session_path, output_dir=Path())
    assert second.session_path is None
    run(second, episodes=2, seed=3)
    second.close()
    assert second.session_path == first.session_path
    assert (second.observer.counts.kept, second.observer.counts.rows) == (2, 8)
    episodes = read_back(first.session_path)
    assert [counts(episode)["rows"] for episode in episodes] == [
        [0, 1, 2], [100, 101, 102], [200, 201, 202], [0, 1, 2, 3], [100, 101, 102, 103]
    ]  # fmt: skip
    assert [episode.meta["success"] for episode in episodes] == [True, False, True, True, True]
    index = np.concatenate([episode.rows["index"] for episode in episodes])
    assert np.array_equal(index, np.arange(17))


def test_the_number_of_episodes_is_that_of_this_recording(record: Any, run: Any) -> None:
    first = record(total_episodes=2)
    run(first, episodes=2)
    first.end_episode()
    assert not first.is_recording
    env = CountEnv(succeeds=lambda episode: episode % 2 == 1)
    second = record(env, resume=first.session_path, total_episodes=3, discard_and_retry_failed=True)
    run(second, episodes=6, seed=2)
    second.end_episode()
    assert not second.is_recording
    assert (second.observer.counts.kept, second.observer.counts.discarded) == (3, 3)
    assert len(check_session(first.session_path)) == 5


def test_an_observer_goes_on_each_time_it_is_started(tmp_path: Path) -> None:
    env = CountEnv(length=None, mujoco=True)
    model, data = env.model, env.data
    settings = {"mode": "full_scene", "data_hz": 50, "control_hz": 50}
    first = lr.Observer(model=model, data=data, output_dir=tmp_path, **settings)
    path = first.start_recording()
    first.tick()
    first.stop_recording()
    second = lr.Observer(model=model, data=data, resume=path, **settings)
    for ticks in (2, 3):
        assert second.start_recording() == path
        for _ in range(ticks):
            second.tick()
            mujoco.mj_step(model, data, 10)
        second.end_current_episode(success=True)
        second.stop_recording()
    assert [episode.length for episode in check_session(path)] == [1, 2, 3]
    assert len(list(tmp_path.glob("DataSessions/*"))) == 1


def test_other_settings_are_refused_at_the_first_reset_and_touch_nothing(record: Any, run: Any, seen: Any) -> None:
    first = record(tasks=["Count"])
    run(first, episodes=2)
    first.close()
    before = contents(first.session_path)
    koyu = lr.KoyuSettings(name="counted")
    second = record(columns=PAIR, cameras=[seen], resume=first.session_path, tasks=["Count"], koyu=koyu)
    with pytest.raises(lr.SettingsError, match=r"^resume=.*'obs': only the session has it; 'observation\.state': only"):
        second.reset(seed=0)
    assert not second.is_recording
    third = record(CountEnv(mujoco=True), columns=[lr.Column("obs", "qpos:count")], resume=first.session_path)
    with pytest.raises(lr.LuckyRecorderError):
        run(third)
    assert contents(first.session_path) == before
    assert not (first.session_path.parents[1] / "counted").exists()


def test_a_rate_that_only_the_first_step_shows_is_compared_then(record: Any, run: Any) -> None:
    first = record(CountEnv(mujoco=True), data_hz=25)
    run(first)
    first.close()
    before = contents(first.session_path)
    second = record(CountEnv(mujoco=True), resume=first.session_path)
    with pytest.raises(lr.SettingsError, match="hz: the session has 25, this recording 50"):
        run(second)
    assert not second.is_recording
    assert contents(first.session_path) == before
    third = record(CountEnv(mujoco=True), resume=first.session_path, data_hz=25)
    run(third)
    third.close()
    assert len(check_session(first.session_path)) == 2


def test_a_session_that_is_open_is_refused(record: Any, run: Any) -> None:
    first = record()
    run(first)
    second = record(resume=first.session_path)
    with pytest.raises(lr.StorageError, match="this process is writing it: it holds the folder's lock"):
        run(second)
    first.close()
    run(second)
    second.close()
    assert len(check_session(first.session_path)) == 2


# Tasks.


def test_rows_of_no_task_do_not_follow_those_of_one(record: Any, run: Any) -> None:
    first = record(tasks=["Count"])
    run(first)
    first.close()
    second = record(resume=first.session_path)
    with pytest.raises(lr.SettingsError, match=r"^tasks=\(\): the session's rows are of 'Count'; say what these are"):
        run(second)
    third = record(resume=first.session_path, tasks=["Count on", "Count"])
    run(third)
    third.set_task(1)
    run(third)
    third.close()
    session = check_session(first.session_path)
    assert session.tasks == ["Count", "Count on"]
    assert [row["tasks"] for row in listed(first.session_path)] == [["Count"], ["Count on"], ["Count"]]
    assert [set(episode.rows()["task_index"].to_pylist()) for episode in session] == [{0}, {1}, {0}]


def test_a_session_without_tasks_goes_on_without(record: Any, run: Any) -> None:
    first = record()
    run(first)
    first.close()
    second = record(resume=first.session_path)
    run(second)
    second.close()
    assert check_session(first.session_path).tasks == ["Default Task"]


def test_tasks_that_are_found_are_united_too(record: Any, run: Any) -> None:
    texts = iter(["left", "right", "right", "up", "left"])
    said: list[str] = []

    def say(moment: Any) -> str:
        return said[-1]

    path = None
    for episodes in (2, 3):
        env = record(resume=path, task=say)
        for _ in range(episodes):
            said.append(next(texts))
            run(env)
        env.close()
        path = env.session_path
    session = check_session(path)
    assert session.tasks == ["left", "right", "up"]
    assert [row["tasks"] for row in listed(path)] == [["left"], ["right"], ["right"], ["up"], ["left"]]


# Other formats.


def test_the_dataset_beside_it_goes_on_too(tmp_path: Path, record: Any, run: Any, monkeypatch: Any) -> None:
    koyu = lr.KoyuSettings(name="counted")
    first = record(columns=PAIR, koyu=koyu)
    run(first, episodes=2)
    first.close()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    second = record(columns=PAIR, koyu=koyu, resume=first.session_path, output_dir=Path())
    run(second, episodes=3, seed=2)
    second.close()
    assert second.koyu_path == first.koyu_path == tmp_path / "counted"
    assert len(check_koyu(first.koyu_path).episodes) == len(check_session(first.session_path)) == 5


# A full disk.


def _once(refused: list[str], call: Callable[..., Any], name: str) -> Callable[..., Any]:
    def strike(path: Any, *given: Any, **named: Any) -> Any:
        target = Path(given[0] if call is os.replace else path)
        if name in target.name and not refused:
            refused.append(target.name)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(target))
        return call(path, *given, **named)

    return strike


@pytest.mark.parametrize(
    ("per_file", "owner", "call", "name"),
    [
        (1, rows, "write", "file-001.parquet"),
        (3, rows, "write", "file-000.parquet.1"),
        (3, rows, "write", "file-001.parquet.tmp"),
        *((n, files.os, "replace", f"file-00{k}.parquet") for n in (1, 3) for k in (0, 1)),
        *((n, files.os, "replace", name) for n in (1, 3) for name in ("stats.json", "info.json", "tasks.parquet")),
    ],
)
def test_after_a_full_disk_the_session_goes_on(
    tmp_path: Path, record: Any, run: Any, monkeypatch: Any, owner: Any, call: str, name: str, per_file: int
) -> None:
    """Whatever was refused, in the end it is the session of a recording that met no full disk."""
    whole = record(output_dir=tmp_path / "whole", episodes_per_file=per_file)
    run(whole, episodes=6)
    whole.close()
    refused: list[str] = []
    monkeypatch.setattr(owner, call, _once(refused, getattr(owner, call), name))
    first = record(episodes_per_file=per_file)
    with pytest.raises(lr.LuckyRecorderError, match="No space left on device"):  # noqa: PT012, any call may raise it
        for seed in range(5):
            run(first, seed=seed)
            first.observer.flush()
        first.close()
    assert refused
    monkeypatch.undo()
    kept = len(lr.Session(first.session_path)) if (first.session_path / "meta/info.json").exists() else 0
    env = CountEnv(render_mode="rgb_array")
    env.episode = kept - 1
    second = record(env, resume=first.session_path, episodes_per_file=per_file)
    run(second, episodes=6 - kept, seed=kept)
    second.close()
    assert contents(first.session_path) == contents(whole.session_path)
    assert listed(first.session_path) == listed(whole.session_path)
    assert len(check_session(first.session_path)) == 6
