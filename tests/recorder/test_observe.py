"""What a policy is shown before a step is what that step records: the same values, the same pixels, drawn once."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import lucky_recorder as lr
from lucky_recorder.capture.draw.renderer import Renderer
from lucky_recorder.testing import CountEnv, check_session

KEY = "observation.images.wall"


def digests(path: Path | None) -> dict[str, str]:
    assert path is not None
    files = [p for p in sorted(path.rglob("*")) if p.is_file() and "meta" not in p.parts]
    return {str(p.relative_to(path)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


def play(env: lr.RecordSession, observes: bool, episodes: int = 2) -> list[dict[str, Any]]:
    seen = []
    for _ in range(episodes):
        env.reset(seed=0)
        done = False
        while not done:
            if observes:
                seen.append(env.observe())
            _, _, done, _, _ = env.step(np.array([1.5], np.float32))
    env.close()
    return seen


def wall(**camera: Any) -> lr.Camera:
    return lr.Camera("wall", width=64, height=48, **camera)


def test_a_policy_sees_the_row_that_is_recorded(record: Any, read_back: Any) -> None:
    env = record(CountEnv(length=4, mujoco=True), mode="robot_arm", cameras=[wall()])
    seen = play(env, observes=True)
    episodes = read_back(env.session_path)
    states = np.concatenate([e.rows["observation.state"] for e in episodes])
    assert [s["observation.state"].tolist() for s in seen] == states.tolist()
    assert [s["observation.state"].dtype for s in seen] == [np.float64] * 8
    frames = np.concatenate([e.frames["wall"] for e in episodes])
    for one, frame in zip(seen, frames, strict=True):
        assert np.abs(one[KEY].astype(int) - frame).max() <= 8
        assert one[KEY].shape == (48, 64, 3)


@pytest.mark.parametrize("depth_mode", ["off", "separate", "rgbd", "depth_only"])
def test_what_is_recorded_is_the_same_to_the_byte(record: Any, tmp_path: Path, depth_mode: str) -> None:
    written = []
    for observes in (False, True):
        camera = wall(depth_mode=depth_mode, masks=["wall"])
        folder = tmp_path / str(observes)
        env = record(
            CountEnv(length=5, mujoco=True), mode="robot_arm", cameras=[camera], record_masks=True, output_dir=folder
        )
        play(env, observes)
        written.append(digests(env.session_path))
    assert written[0] == written[1]
    assert len(written[0]) > 6


def test_nothing_is_drawn_twice(record: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[int] = []
    original = Renderer.color

    def color(self: Renderer, picture: Any) -> Any:
        drawn.append(picture.pixels is None)
        return original(self, picture)

    monkeypatch.setattr(Renderer, "color", color)
    env = record(CountEnv(length=4, mujoco=True), mode="robot_arm", cameras=[wall()])
    env.reset()
    for _ in range(4):
        env.observe()
        env.observe()
        env.step(np.array([1.5], np.float32))
    env.close()
    assert sum(drawn) == 4
    assert len(drawn) == 8


def test_what_a_policy_does_to_its_picture_is_not_recorded(record: Any, read_back: Any, counts: Any) -> None:
    env = record(CountEnv(length=3, mujoco=True), mode="robot_arm", cameras=[wall()])
    env.reset()
    for _ in range(3):
        seen = env.observe()
        seen[KEY][:] = 0
        seen["observation.state"][:] = 99
        env.step(np.array([0], np.float32))
    env.close()
    (episode,) = read_back(env.session_path)
    assert counts(episode)["wall"] == [0, 1, 2]
    assert counts(episode)["state"] == [0, 1, 2]


def test_a_state_that_moves_on_before_the_tick_is_looked_at_anew(bare: Any, read_back: Any, counts: Any) -> None:
    observer, advance = bare(cameras=[wall()])
    observer.start_recording()
    advance(1)
    before = observer.observe()
    observer.env.t = 7
    observer.env._show()
    observer.env.data.time += 1e-10
    advance(2)
    observer.end_current_episode(success=True)
    observer.stop_recording()
    (episode,) = read_back(observer.session_path)
    assert before["observation.state"].tolist() == [1]
    assert counts(episode)["state"] == [0, 7, 8]


def test_a_bare_model_begins_an_episode(bare: Any, read_back: Any) -> None:
    observer, advance = bare(cameras=[wall()])
    with pytest.raises(lr.StateError, match="observe"):
        observer.observe()
    observer.start_recording()
    observer.observe()
    advance(2)
    observer.end_current_episode(success=True)
    assert observer.observe()[KEY].shape == (48, 64, 3)
    observer.stop_recording()
    assert [len(e.rows["index"]) for e in read_back(observer.session_path)] == [2]


def test_more_episodes_end_observed_than_there_are_scenes(record: Any) -> None:
    env = record(CountEnv(length=3, mujoco=True), mode="robot_arm", cameras=[wall()], worker_timeout_s=5)
    for _ in range(20):
        env.reset()
        env.observe()
    env.step(np.array([0], np.float32))
    env.close()
    assert len(check_session(env.session_path)) == 1


def test_cameras_that_are_not_due_are_not_seen(bare: Any) -> None:
    observer, advance = bare(cameras=[wall(frame_rate=25), lr.Camera("slow", source="wall", width=64, height=48)])
    observer.start_recording()
    keys = []
    for _ in range(3):
        keys.append(sorted(k for k in observer.observe() if "images" in k))
        advance(1)
    observer.stop_recording()
    slow = "observation.images.slow"
    assert keys == [[slow, KEY], [slow], [slow, KEY]]


def test_columns_of_ones_own_but_not_what_only_the_step_knows(record: Any) -> None:
    columns = [
        lr.Column("seen", "gym:obs"),
        lr.Column("sent", "gym:action", dtype="float32"),
        lr.Column("twice", lambda moment: 2 * moment.data.qpos[0]),
        lr.Column("ok", "info:is_success", dtype="bool"),
        lr.Column("pose", "qpos:count"),
    ]
    env = record(CountEnv(length=3, mujoco=True), mode="robot_arm", columns=columns, gym_columns=True)
    env.reset()
    env.step(np.array([5], np.float32))
    seen = env.observe()
    assert {k: np.asarray(value).tolist() for k, value in seen.items()} == {
        "observation.state": [1],
        "seen": 1,
        "twice": 2,
        "pose": 1,
    }


def test_render_is_asked_once_for_a_row_and_once_before(record: Any) -> None:
    env = CountEnv(length=3, render_mode="rgb_array")
    asked: list[int] = []
    paint = env.render
    env.render = lambda: (asked.append(1), paint())[1]  # type: ignore[method-assign]
    recorded = record(env, cameras=[lr.Camera("seen", source="render", width=64, height=48)])
    play(recorded, observes=True, episodes=1)
    assert len(asked) == 1 + 3


def test_without_an_open_episode(record: Any) -> None:
    env = record(CountEnv(length=1))
    with pytest.raises(lr.StateError, match="call reset"):
        env.observe()
    env.reset()
    env.observe()
    env.step(np.array([0], np.float32))
    with pytest.raises(lr.StateError, match="call reset"):
        env.observe()


def test_a_picture_that_cannot_be_drawn_stops_the_session(record: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    env = record(CountEnv(length=5, mujoco=True), mode="robot_arm", cameras=[wall()])
    env.reset()
    env.observe()
    env.step(np.array([0], np.float32))

    def fail(self: Renderer, picture: Any) -> Any:
        raise RuntimeError("the driver has gone")

    monkeypatch.setattr(Renderer, "color", fail)
    with pytest.raises(lr.StreamError, match="the driver has gone"):
        env.observe()
    assert not env.is_recording


def test_two_robots(tmp_path: Path) -> None:
    env = lr.RecordSession(
        gym.make("LuckyRecorder/TwinArms-v0"), output_dir=tmp_path, robots=["left_base", "right_base"]
    )
    env.reset(seed=0)
    assert env.observe()["observation.state"].shape == (2, 6)
    env.close()
