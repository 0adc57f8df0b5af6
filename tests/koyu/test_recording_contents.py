"""The recorder writes bundles: what a simulation did is read back from the dataset's files alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import lucky_recorder as lr
from lucky_recorder.testing import CountEnv, check_session
from tests.koyu.making import read_dataset, read_manifest
from tests.koyu.recording import KOYU, SMALL, bundles, counted, seen_counts


def test_a_bare_model_is_recorded_too(bare: Any) -> None:
    observer, advance = bare(koyu=KOYU, formats=["koyu"], cameras=[{"name": "wall", **SMALL}])
    observer.register_task("Count")
    observer.start_recording()
    advance(2)
    observer.mark_event("takeover", by="Kim", pose=[1.5, 2])
    advance()
    observer.end_current_episode(success=False, reward=0.25)
    observer.stop_recording()
    (read,) = read_dataset(observer.koyu_path)
    assert len(read.frames["observation.images.wall"]) == 3
    assert counted(read) == [0.0, 1.0, 2.0]
    assert read.sidecar["events"] == [{"step": 2, "type": "takeover", "by": "Kim", "pose": [1.5, 2]}]
    assert (read.sidecar["reward"], read.sidecar["task"]) == (0.25, "count")


def test_events_are_checked(film: Any) -> None:
    env = film()
    with pytest.raises(lr.StateError, match=r"mark_event\(\) needs the observer to be InEpisode"):
        env.mark_event("takeover")
    env.reset()
    for kind, fields, message in [
        ("", {}, "kind='': give a text"),
        ("x", {"step": 1}, "step=1: every event has a field of this name"),
        ("x", {"by": object()}, "by=<object .*give plain JSON values"),
        ("x", {"by": float("nan")}, "by=nan: give plain JSON values"),
    ]:
        with pytest.raises(lr.SettingsError, match=message):
            env.mark_event(kind, **fields)
    env.step(np.zeros(1))
    env.mark_event("done")
    env.close()
    (read,) = bundles(env)
    assert read.sidecar["events"] == [{"step": 1, "type": "done"}]


def test_several_robots_have_a_bundle_each(tmp_path: Path) -> None:
    env = lr.RecordSession(
        gym.make("LuckyRecorder/TwinArms-v0"),
        output_dir=tmp_path,
        robots=["left_base", "right_base"],
        cameras=[{"name": "front", **SMALL}],
        koyu=KOYU,
    )
    env.reset(seed=0)
    for _ in range(4):
        env.step(env.action_space.sample())
    env.end_episode(success=True)
    env.close()
    both = bundles(env)
    rows = check_session(env.session_path).episode(0).rows()
    for robot, read in enumerate(both):
        assert read.sidecar["robot"] == ("left_base", "right_base")[robot]
        assert all(name.startswith(("left", "right")[robot]) for name in read.sidecar["names"]["action"])
        for name in ("observation.state", "action"):
            mine = np.array(rows[name].to_pylist())[robot::2].astype(np.float32)
            assert np.array_equal(read.rows[name], mine)
        assert len(read.frames["observation.images.front"]) == read.sidecar["length"] == 4
    assert not np.array_equal(both[0].rows["action"], both[1].rows["action"])
    videos = {*env.koyu_path.rglob("*.mp4"), *env.session_path.rglob("*.mp4")}
    assert len(videos) == 3
    assert len({path.stat().st_ino for path in videos}) == 1


# What the bundle's action is.


@pytest.mark.parametrize("action", ["actuators", "gym"])
def test_which_vector_is_the_action_is_said(record: Any, run: Any, action: str) -> None:
    class Scaled(gym.ActionWrapper):
        def action(self, action: Any) -> Any:
            return action * 10

    env = record(
        Scaled(CountEnv(3, mujoco=True)), mode="robot_arm", gym_columns=True, koyu={"name": "cubes", "action": action}
    )
    run(env)
    env.close()
    (read,) = bundles(env)
    assert read.sidecar["action_source"] == read_manifest(env.koyu_path)["action_source"] == action
    sent, driven = [0, 1, 2], [0, 10, 20]
    if action == "gym":
        assert (counted(read, "action"), counted(read, "action.actuators")) == (sent, driven)
        assert "gym.action" not in read.rows
    else:
        assert (counted(read, "action"), counted(read, "gym.action")) == (driven, sent)


# What others were bitten by.


def test_rows_pair_what_was_seen_with_what_was_done(film: Any, run: Any) -> None:
    env = film(3)
    run(env, episodes=2)
    env.close()
    first, second = bundles(env)
    assert (counted(first), counted(first, "action"), seen_counts(first)) == ([0, 1, 2], [0, 1, 2], [0, 1, 2])
    assert counted(second) == seen_counts(second) == [100, 101, 102]


def test_the_first_frame_of_an_episode_is_its_own(record: Any, run: Any, wall: Any) -> None:
    env = record(CountEnv(3, mujoco=True), mode="robot_arm", cameras=[wall], koyu=KOYU)
    run(env, episodes=2)
    env.close()
    colors = [read.frames["observation.images.wall"][0].reshape(-1, 3).mean(0) for read in bundles(env)]
    (red, _, no_blue), (no_red, _, blue) = colors
    assert min(red, blue) > 200
    assert max(no_red, no_blue) < 60
