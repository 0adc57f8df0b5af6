"""Tasks that an environment's infos say: which rows they are of, and which the session lists."""

from __future__ import annotations

import json
import os
import random
import warnings
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import lucky_recorder as lr
from lucky_recorder.episode.record import EpisodeRecord, Outcome
from lucky_recorder.testing import CountEnv, MemorySink
from tests.koyu.making import read_dataset
from tests.recorder.saying import KEY, Says, listed, tasks_of
from tests.recorder.stepping import steps

INFO = f"info:{KEY}"
SILENT = pytest.warns(UserWarning, match=rf"^task='{INFO}': no info has held '{KEY}' yet")


def expected_rows(script: Any, episode: int, length: int, fallback: str, steps_per_row: int = 1) -> list[str]:
    """A row is of what was said last in its episode, up to the observation that its action is chosen on."""
    rows = []
    for t in range(0, length, steps_per_row):
        said = [one for one in (script(episode, k) for k in range(t + 1)) if one is not None]
        rows.append(said[-1] if said else fallback)
    return rows


@pytest.mark.parametrize("seed", range(8))
def test_every_row_is_of_what_was_said_before_its_step(record: Any, run: Any, read_back: Any, seed: int) -> None:
    chance = random.Random(seed)
    words = ["Pick", "Place", "Würfel heben", "Default Task", None, None, *(f"unique {n}" for n in range(20))]
    told = {(e, t): chance.choice(words) for e in range(9) for t in range(8)}
    lengths = [chance.randint(1, 7) for _ in range(9)]
    kept = [chance.random() < 0.6 for _ in range(9)]
    registered = chance.choice([(), ("Place",), ("Rest", "Pick")])
    steps_per_row = chance.choice([1, 2])
    env = record(
        Says(lambda e, t: told[e, t], lengths, succeeds=lambda e: kept[e]),
        task=INFO,
        tasks=registered,
        data_hz=50 // steps_per_row,
        metadata_every=chance.choice([1, 2, 25]),
        episodes_per_file=chance.choice([1, 3]),
        discard_and_retry_failed=True,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        run(env, episodes=9)
    env.close()
    fallback = (*registered, "Default Task")[0]
    rows = [expected_rows(lambda e, t: told[e, t], e, lengths[e], fallback, steps_per_row) for e in range(9) if kept[e]]
    assert tasks_of(env.session_path, read_back(env.session_path)) == rows
    # What is registered comes first, and then what kept rows are of, in their order; nothing else has an index.
    found = list(dict.fromkeys([*registered, *(one for episode in rows for one in episode)]))
    assert listed(env.session_path) == (found or ["Default Task"])
    assert json.loads((env.session_path / "meta/info.json").read_text())["total_tasks"] == max(1, len(found))


def test_a_key_may_be_nested_and_one_dict_filled_for_ever(record: Any, run: Any, read_back: Any) -> None:
    env = record(Says(lambda e, t: f"{e}.{t}"), task="info:at.now.said")
    run(env, episodes=2)
    env.close()
    assert tasks_of(env.session_path, read_back(env.session_path)) == [[f"{e}.{t}" for t in range(4)] for e in (0, 1)]


def test_what_is_not_said_is_the_first_task_and_told_once(record: Any, run: Any, read_back: Any) -> None:
    env = record(Says(lambda e, t: None if t == 0 else "Pick"), task=INFO, tasks=["Unknown"])
    with SILENT as told:
        run(env, episodes=3)
    assert len(told) == 1
    env.close()
    # An episode that says nothing is not taken for the one before it.
    assert tasks_of(env.session_path, read_back(env.session_path)) == [["Unknown", "Pick", "Pick", "Pick"]] * 3


def test_all_that_is_written_says_the_same(record: Any, run: Any, read_back: Any, tmp_path: Path) -> None:
    sink = MemorySink(tmp_path / "memory")
    env = lr.RecordSession(
        Says(lambda e, t: "Count" if t < 2 else f"Rest {e}", mujoco=True),
        output_dir=tmp_path,
        task=INFO,
        koyu=lr.KoyuSettings(name="bundles"),
        sinks=[sink],
    )
    run(env, episodes=2)
    env.close()
    rows = [["Count", "Count", f"Rest {e}", f"Rest {e}"] for e in (0, 1)]
    assert tasks_of(env.session_path, read_back(env.session_path)) == rows
    assert [r.tasks for r in sink.records] == [{0: "Count", 1: "Rest 0"}, {0: "Count", 2: "Rest 1"}]
    assert sink.tasks == ("Count", "Rest 0", "Rest 1")
    sidecars = [read.sidecar for read in read_dataset(env.koyu_path)]
    assert {(s["task"], s["task_description"]) for s in sidecars} == {("count", "Count")}
    assert sorted(s["events"][0]["task_description"] for s in sidecars) == ["Rest 0", "Rest 1"]
    assert {(len(s["events"]), s["events"][0]["step"], s["events"][0]["type"]) for s in sidecars} == {(1, 2, "task")}


def test_bundles_alone_say_it_too(record: Any, run: Any) -> None:
    koyu = {"koyu": {"name": "alone"}, "formats": ("koyu",)}
    env = record(Says(lambda e, t: f"Count {e}", mujoco=True), mode="robot_arm", task=INFO, **koyu)
    run(env, episodes=2)
    env.close()
    described = sorted(read.sidecar["task_description"] for read in read_dataset(env.koyu_path))
    assert described == ["Count 0", "Count 1"]


def test_at_no_moment_an_episode_is_listed_before_its_tasks(
    record: Any, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = record(Says(lambda e, t: f"{e}.{t // 2}"), task=INFO, metadata_every=2)
    working, totals = os.replace, []

    def rename(source: Any, target: Any) -> None:
        working(source, target)
        meta = next((p for p in Path(target).parents if p.name == "meta"), None)
        if meta is None:
            return
        known = pd.read_parquet(meta / "tasks.parquet").index.tolist()
        for file in meta.glob("episodes/*/*.parquet"):
            assert {task for tasks in pq.read_table(file)["tasks"].to_pylist() for task in tasks} <= set(known)
        if Path(target).name == "info.json":
            totals.append((json.loads(Path(target).read_text())["total_tasks"], len(known)))

    monkeypatch.setattr(os, "replace", rename)
    run(env, episodes=5)
    env.close()
    assert totals == [(4, 4), (8, 8), (10, 10)]


# Environments that begin episodes by themselves.


class NextStep(Says):
    """The step after an episode's last one resets it."""

    metadata = {**CountEnv.metadata, "autoreset_mode": "next_step"}  # noqa: RUF012
    _is_over = False

    def step(self, action: Any) -> Any:
        if self._is_over:
            self._is_over = False
            observation, info = self.reset()
            return observation, 0.0, False, False, info
        *_, self._is_over, _, _ = result = super().step(action)
        return result


class SameStep(Says):
    """The last step of an episode resets it; its info is the next one's, that of the last is within."""

    metadata = {**CountEnv.metadata, "autoreset_mode": "same_step"}  # noqa: RUF012

    def step(self, action: Any) -> Any:
        observation, reward, terminated, truncated, info = super().step(action)
        if not terminated:
            return observation, reward, terminated, truncated, info
        final = {"final_info": dict(info), "final_obs": observation}
        observation, info = self.reset()
        return observation, reward, terminated, truncated, {**info, **final}


KINDS = [NextStep, SameStep, lambda script, length: gym.wrappers.Autoreset(Says(script, length))]


@pytest.mark.parametrize("kind", KINDS, ids=["next step", "same step", "wrapper"])
@pytest.mark.parametrize("says_it", [True, False], ids=["said", "not said"])
def test_the_first_info_of_an_episode_says_its_task(record: Any, read_back: Any, kind: Any, says_it: bool) -> None:
    # Where the first info says nothing, what the episode before it was of does not count.
    env = record(kind(lambda e, t: f"{e}" if t or says_it or e == 0 else None, 3), task=INFO)
    env.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        steps(env, 11)
    env.close()
    first = [["0", "0", "0"], *([f"{e}" if says_it else "Default Task", f"{e}", f"{e}"] for e in (1, 2))]
    found = tasks_of(env.session_path, read_back(env.session_path))
    assert found[:2] == first[:2]
    assert found[2] == first[2][: len(found[2])]


class Counted(gym.Wrapper[Any, Any, Any, Any]):
    """Says which step comes next."""

    count = 0

    def reset(self, **fields: Any) -> Any:
        observation, info = self.env.reset(**fields)
        self.count = 0
        return observation, {**info, "said": "step 0"}

    def step(self, action: Any) -> Any:
        *result, info = self.env.step(action)
        self.count += 1
        return (*result, {**info, "said": f"step {self.count}"})


def test_rows_inside_a_step_are_of_what_was_said_before_it(tmp_path: Path, read_back: Any) -> None:
    inner = Counted(gym.make("LuckyRecorder/PickCube-v0"))
    env = lr.RecordSession(inner, output_dir=tmp_path, data_hz=100, task="info:said")
    env.reset(seed=1)
    for _ in range(3):
        env.step(env.action_space.sample())
    env.end_episode(success=True)
    env.close()
    (found,) = tasks_of(env.session_path, read_back(env.session_path))
    parts = len(found) // 3
    assert parts > 1
    assert found == [f"step {k}" for k in range(3) for _ in range(parts)]


def test_a_reset_inside_an_episode_may_say_another_and_what_is_not_said_stays(record: Any, read_back: Any) -> None:
    env = record(Says(lambda e, t: {0: "Pick", 1: "Place"}.get(e) if t == 0 else None, None), task=INFO)
    env.reset()
    for _ in range(2):
        steps(env, 2)
        env.reset(options={"keep_episode": True})
    steps(env, 1)
    env.close()
    (episode,) = read_back(env.session_path)
    assert tasks_of(env.session_path, [episode]) == [["Pick", "Pick", "Place", "Place", "Place"]]


def test_an_episode_that_the_other_face_begins_goes_on_with_the_task(record: Any, read_back: Any) -> None:
    env = record(Says(lambda e, t: "Pick" if t == 0 else None, None), task=INFO)
    env.reset()
    steps(env, 2)
    env.observer.end_current_episode_begin_next(success=True)
    steps(env, 2)
    env.close()
    assert tasks_of(env.session_path, read_back(env.session_path)) == [["Pick"] * 2] * 2


def test_a_step_that_raises_leaves_no_half_row_and_no_task(record: Any, run: Any, read_back: Any) -> None:
    class Raises(Says):
        def step(self, action: Any) -> Any:
            if (self.episode, self.t) == (0, 2):
                raise ZeroDivisionError
            return super().step(action)

    env = record(Raises(lambda e, t: f"{e}.{t}", 3), task=INFO)
    with pytest.raises(ZeroDivisionError):
        run(env)
    run(env)
    env.close()
    rows = [["0.0", "0.1"], ["1.0", "1.1", "1.2"]]
    assert tasks_of(env.session_path, read_back(env.session_path)) == rows
    assert listed(env.session_path) == [one for episode in rows for one in episode]


# What is no task.

WRONG = ["", " \n", 3, b"Pick", True, ["Pick"], {"a": 1}, np.array(["a", "b"]), "\ud800", "x" * 70_000]


@pytest.mark.parametrize("value", WRONG, ids=lambda value: str(type(value).__name__))
def test_a_reset_that_says_no_text_is_refused_before_anything_is_written(
    record: Any, run: Any, tmp_path: Path, value: Any
) -> None:
    env = record(Says(lambda e, t: value), task=INFO)
    with pytest.raises(lr.CaptureError, match=rf"^task='{INFO}': info\['{KEY}'\] gave "):
        run(env)
    assert list(tmp_path.iterdir()) == []
    env.close()


@pytest.mark.parametrize("value", WRONG, ids=lambda value: str(type(value).__name__))
def test_a_step_that_says_no_text_fails_its_episode_only(record: Any, run: Any, read_back: Any, value: Any) -> None:
    env = record(Says(lambda e, t: value if (e, t) == (0, 2) else "Pick"), task=INFO)
    with pytest.raises(lr.CaptureError, match=rf"^task='{INFO}': info\['{KEY}'\] gave "):
        run(env)
    run(env)
    env.close()
    episodes = read_back(env.session_path)
    assert tasks_of(env.session_path, episodes) == [["Pick"] * 2, ["Pick"] * 4]
    assert [e.meta["success"] for e in episodes] == [False, True]


@pytest.mark.parametrize("value", [np.str_("Pick"), np.array("Pick"), np.array(["Pick"], object)], ids=repr)
def test_texts_of_numpy_are_texts(record: Any, run: Any, read_back: Any, value: Any) -> None:
    env = record(Says(lambda e, t: value if t else "Pick"), task=INFO)
    run(env)
    env.close()
    assert tasks_of(env.session_path, read_back(env.session_path)) == [["Pick"] * 4]
    assert listed(env.session_path) == ["Pick"]


def test_an_array_that_is_filled_again_says_what_it_said(record: Any, run: Any, read_back: Any) -> None:
    array = np.array(["Pick"], "<U9")

    def script(episode: int, t: int) -> Any:
        if t == 2:
            array[0] = "Forgotten"
        return array if t == 1 else None

    env = record(Says(script), task=INFO, data_hz=25)
    with SILENT:
        run(env)
    env.close()
    assert tasks_of(env.session_path, read_back(env.session_path)) == [["Default Task", "Pick"]]


# What cannot be said besides.


def test_a_task_that_is_said_cannot_be_chosen_too(record: Any, run: Any) -> None:
    env = record(Says(lambda e, t: "Pick"), task=INFO, tasks=["Pick", "Place"])
    for _ in range(2):
        for choose in (env.set_task, env.observer.set_current_task_index):
            with pytest.raises(lr.StateError, match=rf"^task='{INFO}' says what each row is of"):
                choose(1)
        run(env)
    assert env.observer.current_task == "Pick"
    with pytest.raises(lr.StateError, match=r"register_task\(\) needs .* said by the setting task, 'info:KEY' or"):
        env.observer.register_task("Rest")
    env.close()


def test_the_current_task_is_what_was_said_last(record: Any) -> None:
    env = record(Says(lambda e, t: f"{e}.{t}"), task=INFO, tasks=["Unknown"])
    assert env.observer.current_task == "Unknown"
    env.reset()
    assert env.observer.current_task == "0.0"
    steps(env, 1)
    assert env.observer.current_task == "0.1"
    env.reset()
    assert env.observer.current_task == "1.0"


def test_a_session_begins_with_what_is_registered_whatever_the_last_one_found(tmp_path: Path, run: Any) -> None:
    found = []
    for first in ("Pick", "Place"):
        env = lr.RecordSession(
            Says(lambda e, t, first=first: first), output_dir=tmp_path, mode="custom", gym_columns=True, task=INFO
        )
        run(env)
        env.close()
        found.append(listed(env.session_path))
    assert found == [["Pick"], ["Place"]]


def test_a_record_whose_tasks_leave_an_index_out_is_refused() -> None:
    record = EpisodeRecord(3, 0, 0, {}, Outcome(True), {0: "Pick", 2: "Place", 3: "Rest"})
    assert record.new_tasks(2) == ["Place", "Rest"]
    assert record.new_tasks(4) == []
    with pytest.raises(lr.StateError, match=r"^take 3: its tasks have the indices \[2, 3\], but 1 comes next"):
        record.new_tasks(1)
