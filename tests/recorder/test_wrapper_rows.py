"""RecordSession: row k is the state before step k, with its command, and the policy's own objects stay its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lucky_recorder as lr
from lucky_recorder.testing import CountEnv
from tests.recorder.stepping import steps


@pytest.mark.parametrize("mode", ["robot_arm", "full_scene", "custom"])
def test_row_k_is_the_state_before_step_k_with_its_command(
    record: Any, run: Any, read_back: Any, counts: Any, seen: Any, wall: Any, mode: str
) -> None:
    env = record(
        CountEnv([3, 4], mujoco=True, render_mode="rgb_array"),
        mode=mode,
        cameras=[seen, wall],
        gym_columns=True,
        columns=[lr.Column("obs", "gym:obs"), lr.Column("ctrl", "ctrl:push"), lr.Column("joint", "qpos:count")],
    )
    run(env, episodes=2)
    env.close()
    for number, episode in enumerate(read_back(env.session_path)):
        length, first = 3 + number, 100 * number
        rows = episode.rows
        states = [first + t for t in range(length)]
        assert rows["obs"].tolist() == rows["joint"].tolist() == states
        assert rows["gym.action"].tolist() == rows["ctrl"].tolist() == list(range(length))
        assert rows["next.reward"].tolist() == list(range(length))
        assert rows["next.done"].tolist() == [t == length - 1 for t in range(length)]
        assert rows["next.success"].all()
        assert rows["frame_index"].tolist() == list(range(length))
        assert rows["timestamp"].tolist() == [t / 50 for t in range(length)]
        assert rows["frame_flags"].tolist() == [3] + [1] * (length - 1)
        assert counts(episode)["seen"] == counts(episode)["wall"] == states
        if mode != "custom":
            assert rows["observation.state"][:, 0].tolist() == states
            assert rows["action"][:, 0].tolist() == list(range(length))


def test_the_environments_own_objects_come_back(record: Any) -> None:
    class Keeps(CountEnv):
        def reset(self, **options: Any) -> Any:
            self.returned = super().reset(**options)
            return self.returned

        def step(self, action: Any) -> Any:
            assert action is given
            self.returned = super().step(action)
            return self.returned

    inner, given = Keeps(3), np.zeros(1)
    env = record(inner)
    assert env.reset(seed=3, options={"anything": 1}) is inner.returned
    for _ in range(3):
        assert env.step(given) is inner.returned


def test_an_observation_that_is_overwritten_in_place_is_recorded_as_it_was(record: Any, read_back: Any) -> None:
    class Reuses(CountEnv):
        buffer = np.zeros(1)

        def _observation(self) -> Any:
            self.buffer[0] = self.count
            return self.buffer

    env = record(Reuses(3))
    env.reset()
    steps(env, 3)
    env.close()
    assert read_back(env.session_path)[0].rows["obs"].tolist() == [0, 1, 2]


def test_the_policys_action_may_be_reused_too(record: Any, read_back: Any) -> None:
    env = record(CountEnv(3), gym_columns=True)
    action = np.zeros(1, np.float32)
    env.reset()
    for t in range(3):
        action[0] = t
        env.step(action)
    env.close()
    assert read_back(env.session_path)[0].rows["gym.action"].tolist() == [0, 1, 2]
