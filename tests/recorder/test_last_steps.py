"""RecordSession: steps that end an episode without moving the simulation, or that are the only ones of theirs."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import mujoco
import numpy as np
import pytest
from gymnasium.wrappers import Autoreset

import lucky_recorder as lr

XML = """<mujoco><worldbody><body><joint name="j" type="slide" range="-5 5"/><geom size="0.1"/></body></worldbody>
<actuator><position name="a" joint="j" kp="500" kv="20" ctrlrange="-5 5"/></actuator></mujoco>"""


class Slide(gym.Env[Any, Any]):
    """A mass on a slide; ``lasts`` says in how many physics steps each of its steps is taken, the last one for ever."""

    def __init__(self, lasts: list[int], length: int, dt: float | None = None) -> None:
        self.model = mujoco.MjModel.from_xml_string(XML)
        self.data = mujoco.MjData(self.model)
        self.observation_space = gym.spaces.Box(-9, 9, (1,), np.float64)
        self.action_space = gym.spaces.Box(-5, 5, (1,), np.float64)
        self.lasts, self.length, self.t = lasts, length, 0
        if dt is not None:
            self.dt = dt

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        mujoco.mj_resetData(self.model, self.data)
        self.t = 0
        return self.data.qpos.copy(), {}

    def step(self, action: Any) -> Any:
        physics = self.lasts[min(self.t, len(self.lasts) - 1)]
        if physics:
            self.data.ctrl[:] = action
            mujoco.mj_step(self.model, self.data, physics)
        self.t += 1
        return self.data.qpos.copy(), 1.0, self.t == self.length, False, {"success": True}


def play(env: Any, actions: list[float]) -> None:
    env.reset(seed=0)
    for action in actions:
        env.step(np.full(1, action))


def rows(env: Any, read_back: Any) -> list[list[float]]:
    return [e.rows["action"][:, 0].tolist() for e in read_back(env.session_path)]


def test_a_last_step_that_takes_no_time_is_no_row(record: Any, read_back: Any) -> None:
    """An environment that looks first whether it is over does not step then: its command never acts."""
    env = record(Slide([10, 10, 10, 0], 4), mode="robot_arm", gym_columns=True)
    with pytest.warns(RuntimeWarning, match="did not move in it"):
        play(env, [1, 2, 3, 4])
    env.close()
    (episode,) = read_back(env.session_path)
    assert episode.rows["action"][:, 0].tolist() == episode.rows["gym.action"].tolist() == [1, 2, 3]
    assert episode.meta["success"] is True


def test_where_no_command_is_recorded_it_stays(record: Any, read_back: Any) -> None:
    env = record(Slide([10, 10, 0], 3), mode="custom", columns=[lr.Column("sent", "gym:action")])
    play(env, [1, 2, 3])
    env.close()
    assert [e.rows["sent"].tolist() for e in read_back(env.session_path)] == [[1, 2, 3]]


def test_a_last_step_that_is_longer_is_refused_as_any_other(record: Any, read_back: Any) -> None:
    env = record(Slide([10, 10, 15], 3), mode="robot_arm")
    with pytest.raises(lr.CaptureError, match=r"tick 2 .* lasted 0\.03 s .* the others 0\.02 s"):
        play(env, [1, 2, 3])
    env.close()
    assert rows(env, read_back) == [[1, 2]]


@pytest.mark.parametrize(("dt", "first"), [(0.02, []), (0.1, [[1.0]]), (None, [[1.0]])], ids=["other", "same", "none"])
def test_a_first_step_that_is_the_last_shows_the_rate_only_if_nothing_else_is_stated(
    record: Any, read_back: Any, dt: float | None, first: list[list[float]]
) -> None:
    inner = Slide([50], 1, dt)
    env = record(inner, mode="robot_arm")
    if first:
        play(env, [1])
    else:
        with pytest.warns(RuntimeWarning, match="its rate is not known"):
            play(env, [1])
        inner.lasts, inner.length = [10], 3
        play(env, [2, 3, 4])
    env.close()
    assert rows(env, read_back) == (first or [[2, 3, 4]])
    assert lr.Session(env.session_path).info["fps"] == (10 if first else 50)


def test_a_hold_is_over_with_a_step_that_is_no_row(record: Any, read_back: Any) -> None:
    env = record(Autoreset(Slide([10], 2)), mode="robot_arm")
    play(env, [1, 2])
    env.hold()
    for action in (3, 4, 5):
        env.step(np.full(1, action))
    env.close()
    flags = [e.rows["frame_flags"].tolist() for e in read_back(env.session_path)]
    assert flags == [[3, 1], [3, 1]]
