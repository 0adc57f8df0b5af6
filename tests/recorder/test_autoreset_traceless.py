"""Environments that reset themselves inside a step and write nothing but positions: time and MuJoCo's count go on."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import mujoco
import numpy as np
import pytest

XML = """<mujoco><worldbody><body><joint name="j" type="slide" range="-5 5"/><geom size="0.1"/></body></worldbody>
<actuator><position name="a" joint="j" kp="500" kv="20" ctrlrange="-5 5"/></actuator></mujoco>"""


class Slide(gym.Env[Any, Any]):
    """A mass on a slide, which may put itself back when an episode is over, or not move at all."""

    def __init__(self, length: int, puts_back: bool = True, moves: bool = True) -> None:
        self.model = mujoco.MjModel.from_xml_string(XML)
        self.data = mujoco.MjData(self.model)
        self.observation_space = gym.spaces.Box(-9, 9, (1,), np.float64)
        self.action_space = gym.spaces.Box(-5, 5, (1,), np.float64)
        self.length, self.puts_back, self.moves, self.t = length, puts_back, moves, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        mujoco.mj_resetData(self.model, self.data)
        self.t = 0
        return self.data.qpos.copy(), {}

    def step(self, action: Any) -> Any:
        self.data.ctrl[:] = action
        if self.moves:
            mujoco.mj_step(self.model, self.data, 10)
        else:
            self.data.time += 0.02
        self.t += 1
        done = self.t == self.length
        if done and self.puts_back:
            self.data.qpos[:] = self.data.qvel[:] = self.data.ctrl[:] = 0
            self.t = 0
        return self.data.qpos.copy(), 1.0, done, False, {"success": done}


def steps(env: Any, count: int) -> None:
    for _ in range(count):
        env.step(np.ones(1))


def test_positions_that_are_back_where_they_began_are_a_reset(record: Any, read_back: Any) -> None:
    env = record(Slide(4), mode="robot_arm")
    env.reset(seed=0)
    with pytest.warns(RuntimeWarning, match="reset itself inside a step"):
        steps(env, 12)
    env.close()
    episodes = read_back(env.session_path)
    assert [e.rows["action"][:, 0].tolist() for e in episodes] == [[1.0] * 3] * 3
    assert [e.meta["success"] for e in episodes] == [True] * 3
    assert [e.rows["observation.state"][0, 0] for e in episodes] == [0.0] * 3


@pytest.mark.parametrize(("puts_back", "moves"), [(False, True), (True, False)], ids=["stays", "never moved"])
def test_the_last_row_of_others_stays(record: Any, read_back: Any, puts_back: bool, moves: bool) -> None:
    env = record(Slide(4, puts_back, moves), mode="robot_arm")
    env.reset(seed=0)
    steps(env, 4)
    env.close()
    assert [len(e.rows["index"]) for e in read_back(env.session_path)] == [4]
