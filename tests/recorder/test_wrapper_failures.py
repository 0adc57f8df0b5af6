"""RecordSession: a step or a reset that goes wrong fails its episode, and the next is recorded."""

from __future__ import annotations

from typing import Any

import pytest

import lucky_recorder as lr
from lucky_recorder.testing import CountEnv
from tests.recorder.stepping import steps


def test_without_keeping_it_time_that_runs_backwards_fails_the_episode(record: Any, read_back: Any) -> None:
    env = record(CountEnv(None, mujoco=True), mode="robot_arm")
    env.reset()
    steps(env, 3)
    env.unwrapped.data.time = 0
    with pytest.raises(lr.CaptureError, match=r"time ran backwards.*mark_reset\(\)"):
        steps(env, 1)
    steps(env, 2)
    env.reset()
    steps(env, 1)
    env.end_episode(success=True)
    env.close()
    assert [(e.meta["length"], e.meta["success"]) for e in read_back(env.session_path)] == [(3, False), (1, True)]


@pytest.mark.parametrize("step", [0, 1, 3])
def test_a_simulation_that_becomes_unstable_fails_the_episode(record: Any, read_back: Any, step: int) -> None:
    class Explodes(CountEnv):
        def step(self, action: Any) -> Any:
            if action[0] < 0:
                self.data.qvel[0] = 1e30
            return super().step(action)

    env = record(Explodes(None, mujoco=True), mode="robot_arm")
    env.reset()
    steps(env, step)
    with pytest.raises(lr.CaptureError, match=f"reset itself at tick {step} of the episode"):
        steps(env, 1, action=-1)
    steps(env, 1)
    env.reset()
    steps(env, 2)
    env.end_episode(success=True)
    env.close()
    episodes = [(e.meta["length"], e.meta["success"]) for e in read_back(env.session_path)]
    assert episodes == [(step, False)] * bool(step) + [(2, True)]


def test_a_step_that_raises_drops_its_half_row_and_fails_the_episode(
    record: Any, run: Any, read_back: Any, counts: Any, seen: Any, wall: Any
) -> None:
    class Breaks(CountEnv):
        def step(self, action: Any) -> Any:
            if self.count == 102:
                raise OSError("the gripper is stuck")
            return super().step(action)

    env = record(Breaks(4, mujoco=True, render_mode="rgb_array"), cameras=[seen, wall])
    run(env)
    env.reset()
    steps(env, 2)
    with pytest.raises(OSError, match="the gripper is stuck"):
        steps(env, 1)
    with pytest.raises(OSError, match="stuck"):
        steps(env, 1)
    run(env)
    env.close()
    episodes = read_back(env.session_path)
    assert [(e.rows["obs"].tolist(), e.meta["success"]) for e in episodes] == [
        ([0, 1, 2, 3], True),
        ([100, 101], False),
        ([200, 201, 202, 203], True),
    ]
    assert [counts(e)["seen"] for e in episodes] == [e.rows["obs"].tolist() for e in episodes]
    assert [len(e.frames["wall"]) for e in episodes] == [4, 2, 4]


def test_a_reset_that_raises_leaves_the_recorder_ready_for_the_next(record: Any, run: Any, read_back: Any) -> None:
    class Breaks(CountEnv):
        is_broken = True

        def reset(self, **options: Any) -> Any:
            if self.is_broken:
                raise OSError("no scene")
            return super().reset(**options)

    inner = Breaks(2)
    env = record(inner)
    with pytest.raises(OSError, match="no scene"):
        env.reset()
    assert env.session_path is None
    inner.is_broken = False
    run(env)
    inner.is_broken = True
    with pytest.raises(OSError, match="no scene"):
        env.reset()
    inner.is_broken = False
    run(env)
    env.close()
    assert [e.rows["obs"].tolist() for e in read_back(env.session_path)] == [[0, 1], [100, 101]]
