"""Observer: rows that are marked as the first after a reset, and time that only then may run backwards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import mujoco
import pytest

import lucky_recorder as lr
from tests.recorder.states import BETWEEN


def test_marked_rows_are_the_first_after_a_reset(bare: Any, read_back: Any) -> None:
    observer, advance = bare()
    observer.start_recording()
    observer.mark_reset()
    advance(2)
    observer.mark_reset()
    observer.mark_reset()
    advance(2, new_policy_step=False)
    observer.end_current_episode(success=True)
    advance(1)
    observer.end_current_episode(success=True)
    observer.mark_reset()
    advance(2)
    observer.stop_recording()
    flags = [e.rows["frame_flags"].tolist() for e in read_back(observer.session_path)]
    assert flags == [[3, 1, 2, 0], [1], [3, 1]]


def test_a_mark_is_of_the_next_row_also_where_that_is_the_first_after_a_time_limit(bare: Any, read_back: Any) -> None:
    observer, advance = bare(max_episode_length_s=0.04)
    observer.start_recording()
    advance(2)
    observer.mark_reset()
    advance(2)
    observer.stop_recording()
    assert [e.rows["frame_flags"].tolist() for e in read_back(observer.session_path)] == [[1, 1], [3, 1]]


@pytest.mark.parametrize("verb", ["end_current_episode", "end_current_episode_begin_next"])
@pytest.mark.parametrize("rows", [0, 1])
def test_a_mark_that_no_row_has_told_of_is_the_next_episodes(bare: Any, read_back: Any, verb: str, rows: int) -> None:
    observer, advance = bare()
    observer.start_recording()
    advance(rows)
    observer.mark_reset()
    getattr(observer, verb)(True)
    advance(2)
    observer.stop_recording()
    assert [e.rows["frame_flags"].tolist() for e in read_back(observer.session_path)] == [[1]] * rows + [[3, 1]]


def test_a_mark_does_not_outlive_its_session(bare: Any, read_back: Any) -> None:
    observer, advance = bare()
    observer.start_recording()
    observer.end_current_episode(success=True)
    observer.mark_reset()
    observer.stop_recording()
    observer.start_recording()
    advance()
    observer.stop_recording()
    assert [e.rows["frame_flags"].tolist() for e in read_back(observer.session_path)] == [[1]]


@pytest.mark.parametrize("between", [False, True], ids=["inside", "between"])
def test_one_robot_of_two_is_marked(tmp_path: Path, read_back: Any, between: bool) -> None:
    env = gym.make("LuckyRecorder/TwinArms-v0").unwrapped
    env.reset(seed=0)
    observer = lr.Observer(
        output_dir=tmp_path, data_hz=50, robots=["left_base", "right_base"], model=env.model, data=env.data
    )
    observer.start_recording()
    if between:
        observer.end_current_episode(success=True)
    observer.mark_reset("right_base")
    observer.tick()
    observer.tick()
    with pytest.raises(lr.SettingsError, match=r"robot='middle'.*known: left_base, right_base"):
        observer.mark_reset("middle")
    observer.stop_recording()
    (episode,) = read_back(observer.session_path)
    assert episode.rows["frame_flags"].reshape(2, 2).tolist() == [[1, 3], [1, 1]]
    assert episode.rows["frame_index"].tolist() == [0, 0, 1, 1]
    assert episode.meta["length"] == 4
    assert len(set(episode.rows["robot_id"].tolist())) == 2
    env.close()


def test_time_that_runs_backwards_fails_the_episode_and_names_mark_reset(bare: Any, read_back: Any) -> None:
    observer, advance = bare()
    observer.start_recording()
    advance(3)
    observer.env.data.time = 0.0
    with pytest.raises(lr.CaptureError, match=r"time ran backwards, from 0\.04 s to 0 s, at tick 3.*mark_reset\(\)"):
        advance()
    assert observer.state is BETWEEN
    advance(2)
    observer.end_current_episode(success=True)
    observer.stop_recording()
    episodes = read_back(observer.session_path)
    assert [(e.meta["length"], e.meta["success"]) for e in episodes] == [(3, False), (2, True)]


def test_time_may_run_backwards_over_a_marked_reset(bare: Any, read_back: Any) -> None:
    observer, advance = bare()
    observer.start_recording()
    advance(3)
    mujoco.mj_resetData(observer.env.model, observer.env.data)
    observer.mark_reset()
    advance(2)
    observer.end_current_episode(success=True)
    observer.stop_recording()
    (episode,) = read_back(observer.session_path)
    assert episode.rows["frame_flags"].tolist() == [1, 1, 1, 3, 1]
    assert episode.rows["timestamp"].tolist() == [0, 0.02, 0.04, 0.06, 0.08]
