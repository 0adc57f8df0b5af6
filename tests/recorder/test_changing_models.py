"""A model that is changed between episodes, or exchanged for another, is the one that is recorded."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import mujoco
import numpy as np
import pytest

import lucky_recorder as lr
from lucky_recorder.capture.draw.renderer import Renderer
from lucky_recorder.testing import CountEnv
from tests.recorder.breaking import give_up

# A model that is changed.


class Repaints(CountEnv):
    """Changes what a rendering context holds of the model, at every reset."""

    def reset(self, **options: Any) -> Any:
        self.model.mat_texrepeat[0] += 1
        return super().reset(**options)


def test_a_model_that_changes_between_episodes_is_drawn_as_it_is(
    record: Any, run: Any, read_back: Any, counts: Any, wall: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes, working = [], Renderer.update
    monkeypatch.setattr(Renderer, "update", lambda renderer, change: changes.append(1) or working(renderer, change))
    env = record(Repaints(3, mujoco=True), cameras=[wall])
    run(env, episodes=3)
    env.close()
    assert [counts(e)["wall"] for e in read_back(env.session_path)] == [[0, 1, 2], [100, 101, 102], [0, 1, 2]]
    assert len(changes) == 2


def test_a_change_that_cannot_be_drawn_stops_the_session(
    record: Any, run: Any, read_back: Any, wall: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Renderer, "update", lambda renderer, change: give_up())
    env = record(Repaints(3, mujoco=True), cameras=[wall])
    run(env)
    with pytest.raises(lr.StreamError, match=r"the changed model could not be drawn: RuntimeError: .* had enough"):
        run(env, episodes=20)
    env.close()
    assert [(e.meta["length"], e.meta["success"]) for e in read_back(env.session_path)] == [(3, True)]
    assert not list(env.session_path.rglob("*.tmp"))


# A model that is exchanged.


class Swapping(gym.Env[Any, Any]):
    """Makes a model of its own at every reset, as robosuite does: the joint moves by the episode's number."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (1,), np.float64)
    action_space = gym.spaces.Box(-1, 1, (1,), np.float32)
    dt = 0.02

    def __init__(self, joints: list[int]) -> None:
        self._joints = iter(joints)
        self.episode = -1

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.episode += 1
        joints = "".join(
            f'<body><joint name="j{i}" type="slide"/><geom size=".1" rgba="{self.episode % 2} 0 1 1"/></body>'
            for i in range(next(self._joints))
        )
        camera = '<camera name="front" pos="0 0 3"/><light pos="0 0 3"/>'
        actuators = '<actuator><general joint="j0" gainprm="0"/></actuator>'
        self.model = mujoco.MjModel.from_xml_string(
            f'<mujoco><option gravity="0 0 0"/><worldbody>{camera}{joints}</worldbody>{actuators}</mujoco>'
        )
        self.data = mujoco.MjData(self.model)
        self.data.qpos[:] = self.episode
        return self.data.qpos.copy(), {}

    def step(self, action: Any) -> Any:
        self.data.ctrl[:] = action
        mujoco.mj_step(self.model, self.data, 10)
        return self.data.qpos.copy(), 0.0, False, False, {"success": True}


def test_a_model_that_is_exchanged_at_every_reset_is_followed(record: Any, read_back: Any) -> None:
    camera = lr.Camera("front", width=64, height=48)
    env = record(Swapping([1, 1, 1]), mode="robot_arm", cameras=[camera])
    for _ in range(3):
        env.reset()
        for _ in range(2):
            env.step(np.zeros(1))
    env.close()
    episodes = read_back(env.session_path)
    assert [e.rows["observation.state"].tolist() for e in episodes] == [[[k], [k]] for k in range(3)]
    reds = [e.frames["front"][..., 0].astype(float).mean() for e in episodes]
    assert reds[1] > 2 * max(reds[0], reds[2])


@pytest.mark.parametrize("mode", ["full_scene", "robot_arm"])
def test_another_layout_of_the_rows_is_refused_for_good(record: Any, read_back: Any, mode: str) -> None:
    env = record(Swapping([1, 2, 2, 1]), mode=mode, cameras=[lr.Camera("front", width=64, height=48)])
    env.reset()
    env.step(np.zeros(1))
    if mode == "robot_arm":
        env.reset()
        env.step(np.zeros(1))
        env.close()
        assert [e.rows["observation.state"].tolist() for e in read_back(env.session_path)] == [[[0]], [[1]]]
        return
    for _ in range(2):
        with pytest.raises(
            lr.SettingsError, match=r"another layout: observation\.state has 2 values, it had 1 \(new: j1\)"
        ):
            env.reset()
        env.step(np.zeros(1))
    env.reset()
    env.step(np.zeros(1))
    env.close()
    assert [e.rows["observation.state"].tolist() for e in read_back(env.session_path)] == [[[0]], [[3]]]
