"""RecordSession: a model or data that an environment replaces while an episode goes on."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import mujoco
import numpy as np
import pytest

import lucky_recorder as lr
from lucky_recorder.testing import CountEnv

ROOM = CountEnv(mujoco=True).model
ROBOT = {"mode": "robot_arm", "gym_columns": True, "columns": [lr.Column("obs", "gym:obs")]}


class Replaces(CountEnv):
    """Replaces what it is told to in the steps that it is told to; models of odd numbers have a blue wall.

    Args:
        at: In which steps.
        what: Replaces one or both.
        when: ``before`` the physics of the step or ``after`` it.
    """

    def __init__(self, at: tuple[int, ...] = (), what: Any = None, when: str = "before", length: int = 6) -> None:
        self.number = 0
        super().__init__(length, mujoco=True)
        self.at, self.what, self.when = at, what or both, when

    def step(self, action: Any) -> Any:
        is_due = self.t in self.at
        if is_due and self.when == "before":
            self.what(self)
        result = super().step(action)
        if is_due and self.when == "after":
            self.what(self)
        return result

    def _show(self) -> None:
        super()._show()
        green = 8 * (self.t % 30) / 255
        self.model.geom("wall").rgba[:3] = (0, green, 1) if self.number % 2 else (1, green, 0)


def fresh_data(env: Replaces) -> None:
    old, env.data = env.data, mujoco.MjData(env.model)
    env.data.time, env.data.qpos[:] = old.time, old.qpos
    env.data.ctrl[:] = old.ctrl


def both(env: Replaces) -> None:
    env.number += 1
    env.model = mujoco.MjModel.__copy__(ROOM)
    fresh_data(env)
    env._show()


def act(env: Any, steps: int, between: Callable[[int], None] = lambda t: None) -> None:
    env.reset(seed=0)
    for t in range(steps):
        between(t)
        env.step(np.full(1, t + 0.5, np.float32))


def check_rows(episode: Any, length: int = 6) -> None:
    """Every row as if nothing had been replaced."""
    assert episode.rows["observation.state"][:, 0].tolist() == episode.rows["obs"].tolist() == list(range(length))
    assert episode.rows["action"][:, 0].tolist() == [t + 0.5 for t in range(length)]
    assert episode.rows["frame_flags"].tolist() == [3] + [1] * (length - 1)
    assert episode.rows["timestamp"] == pytest.approx(np.arange(length) / 50, abs=1e-9)


@pytest.mark.parametrize("when", ["before", "after", "between"])
@pytest.mark.parametrize("at", [(0,), (2,), (2, 3), (4, 5), tuple(range(6))], ids=str)
@pytest.mark.parametrize("rate", [50, 25])
def test_a_model_that_is_replaced_is_followed_on_the_same_step(
    record: Any, read_back: Any, counts: Any, wall: Any, when: str, at: tuple[int, ...], rate: int
) -> None:
    inner = Replaces(() if when == "between" else at, when=when, length=7)
    env = record(inner, cameras=[{**wall, "frame_rate": rate}], **ROBOT)
    act(env, 6, lambda t: both(inner) if when == "between" and t in at else None)
    env.end_episode(success=True)
    env.close()
    (episode,) = read_back(env.session_path)
    check_rows(episode)
    # What is replaced inside step t is seen from tick t + 1 on; before step t, from tick t on.
    models = [sum(one < t or (one == t and when == "between") for one in at) for t in range(0, 6, 50 // rate)]
    assert counts(episode)["wall"] == [100 * (n % 2) + t for n, t in zip(models, range(0, 6, 50 // rate), strict=True)]


@pytest.mark.parametrize("when", ["before", "after", "between"])
def test_data_alone_that_are_replaced_are_followed(
    record: Any, read_back: Any, counts: Any, wall: Any, when: str
) -> None:
    at = (0, 3)
    inner = Replaces(() if when == "between" else at, fresh_data, when, length=7)
    env = record(inner, cameras=[wall], **ROBOT)
    act(env, 6, lambda t: fresh_data(inner) if when == "between" and t in at else None)
    env.end_episode(success=True)
    env.close()
    (episode,) = read_back(env.session_path)
    check_rows(episode)
    assert counts(episode)["wall"] == list(range(6))


def test_rows_that_stand_for_several_steps_across_a_replaced_model(record: Any, read_back: Any) -> None:
    env = record(Replaces((1, 2), length=7), data_hz=25, **ROBOT)
    act(env, 6)
    env.end_episode(success=True)
    env.close()
    (episode,) = read_back(env.session_path)
    assert episode.rows["observation.state"][:, 0].tolist() == [0, 2, 4]
    assert episode.rows["action"][:, 0].tolist() == [0.5, 2.5, 4.5]
    assert episode.rows["next.reward"].tolist() == [1, 5, 9]


def test_what_was_looked_at_before_a_model_was_replaced_is_looked_at_anew(
    record: Any, read_back: Any, counts: Any, wall: Any
) -> None:
    inner = Replaces(length=7)
    env = record(inner, cameras=[wall], **ROBOT)

    def look(t: int) -> None:
        env.observe()
        if t == 3:
            both(inner)

    act(env, 6, look)
    env.end_episode(success=True)
    env.close()
    (episode,) = read_back(env.session_path)
    check_rows(episode)
    assert counts(episode)["wall"] == [0, 1, 2, 103, 104, 105]


def spawn(xml: str) -> Callable[[Replaces], None]:
    """Replace the model by one of another layout."""

    def what(env: Replaces) -> None:
        time, env.model = env.data.time, mujoco.MjModel.from_xml_string(xml)
        env.data = mujoco.MjData(env.model)
        env.data.time = time

    return what


def foreign_data(env: Replaces) -> None:
    env.data = mujoco.MjData(mujoco.MjModel.from_xml_string(FREE))


def nothing(env: Replaces) -> None:
    env.data = None


FREE = '<mujoco><worldbody><body><freejoint/><geom size=".1"/></body></worldbody></mujoco>'
BODY = '<geom size=".1"/></body>'
HEAD = '<mujoco model="count"><worldbody>{}<geom name="wall" size="1"/><body><joint name="{}" type="slide"/>' + BODY
EYE = '<camera name="wall"/>'
PUSH = '<general name="push" joint="count"/>'


def room(joint: str = "count", eye: str = EYE, more: str = "", actuators: str = PUSH) -> Callable[[Replaces], None]:
    return spawn(f"{HEAD.format(eye, joint)}{more}</worldbody><actuator>{actuators}</actuator></mujoco>")


OTHER = {
    "a joint of another name": (
        room("other", actuators='<motor joint="other"/>'),
        r"another layout: .*observation\.state has values of other names \(new: other, gone: count\)",
    ),
    "one more joint": (
        room(more='<body><joint name="more"/>' + BODY, actuators=PUSH + '<motor name="m" joint="more"/>'),
        r"another layout: .*observation\.state has 2 values, it had 1 \(new: more\)",
    ),
    "no actuator": (room(actuators=""), "no actuator"),
    "no camera": (room(eye=""), "camera 'wall'"),
    "the data of another model": (foreign_data, r"the MjData is that of another model \(nq 7 and not 1"),
    "nothing at all": (nothing, "no longer in the environment"),
}  # fmt: skip


@pytest.mark.parametrize("when", ["after", "between"])
@pytest.mark.parametrize("other", OTHER)
def test_another_layout_fails_the_episode_and_names_the_difference(
    record: Any, read_back: Any, counts: Any, wall: Any, other: str, when: str
) -> None:
    what, message = OTHER[other]

    class Restores(Replaces):
        def reset(self, **options: Any) -> Any:
            self.model = mujoco.MjModel.__copy__(ROOM)
            self.data = mujoco.MjData(self.model)
            self.at = (3,) if self.episode < 0 and when == "after" else ()
            return super().reset(**options)

        def _show(self) -> None:
            if self.data is not None and self.model.nq == 1 and self.model.ncam:
                CountEnv._show(self)

    inner = Restores((), what, when, length=7)
    env = record(inner, cameras=[wall], **ROBOT)

    with pytest.raises(lr.CaptureError, match="(within a step|between two steps): .*" + message):
        act(env, 6, lambda t: what(inner) if when == "between" and t == 3 else None)
    assert env.is_recording
    act(env, 4)
    env.end_episode(success=True)
    env.close()
    first, second = read_back(env.session_path)
    assert (first.rows["obs"].tolist(), first.meta["success"]) == ([0, 1, 2], False)
    assert (counts(second)["state"], second.meta["success"]) == ([100, 101, 102, 103], True)
    assert (counts(first)["wall"], counts(second)["wall"]) == ([0, 1, 2], [100, 101, 102, 103])


def test_a_model_that_jumps_back_in_time_is_a_reset(record: Any, read_back: Any, wall: Any) -> None:
    def anew(env: Replaces) -> None:
        env.model = mujoco.MjModel.__copy__(ROOM)
        env.data = mujoco.MjData(env.model)

    env = record(Replaces((3,), anew, "after", length=7), cameras=[wall], **ROBOT)
    with pytest.warns(RuntimeWarning, match="reset itself inside a step"):
        act(env, 6)
    env.end_episode(success=True)
    env.close()
    first, second = read_back(env.session_path)
    assert (first.rows["obs"].tolist(), second.rows["obs"].tolist()) == ([0, 1, 2], [4, 5])


def test_a_model_that_jumps_back_in_time_between_steps_fails_the_episode(record: Any, read_back: Any) -> None:
    inner = Replaces(length=7)
    env = record(inner, **ROBOT)

    def anew(t: int) -> None:
        if t == 3:
            inner.data = mujoco.MjData(inner.model)

    with pytest.raises(lr.CaptureError, match=r"ran backwards, from 0\.06 s to 0 s, at tick 3"):
        act(env, 6, anew)
    env.close()
    assert [(e.rows["obs"].tolist(), e.meta["success"]) for e in read_back(env.session_path)] == [([0, 1, 2], False)]


class Ranges(gym.Env[Any, Any]):
    """Replaces its model at every step: the joint of model n goes from 0 to n + 1; the command is always half way."""

    action_space = gym.spaces.Box(-1, 1, (1,))
    observation_space = gym.spaces.Box(-math.inf, math.inf, (1,))

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.number = 0
        self._load()
        return np.zeros(1, np.float32), {}

    def _load(self, time: float = 0.0) -> None:
        self.model = mujoco.MjModel.from_xml_string(
            f"""<mujoco><worldbody><body><joint name="j" type="slide" range="0 {self.number + 1}" limited="true"/>
            <geom size=".1"/></body></worldbody><actuator><position joint="j" ctrlrange="-1 1" ctrllimited="true"/>
            </actuator></mujoco>"""
        )
        self.data = mujoco.MjData(self.model)
        self.data.time = time

    def step(self, action: Any) -> Any:
        self.number += 1
        self._load(self.data.time)
        self.data.ctrl[:] = action
        mujoco.mj_step(self.model, self.data, 10)
        return np.zeros(1, np.float32), 0.0, False, False, {"success": True}


def test_commands_are_on_the_scale_of_the_model_that_took_them(record: Any, read_back: Any) -> None:
    env = record(Ranges(), mode="robot_arm", columns=[])
    env.reset(seed=0)
    for _ in range(4):
        env.step(np.zeros(1))
    env.end_episode(success=True)
    env.close()
    (episode,) = read_back(env.session_path)
    # In step k it is model k + 1 that takes the command: half of a range from 0 to k + 2.
    assert episode.rows["action"][:, 0].tolist() == [1, 1.5, 2, 2.5]


@pytest.mark.parametrize("uneven", ["refuse", "allow"])
@pytest.mark.parametrize("steps", [1, 2, 5])
def test_a_reset_behind_the_recorders_back_fails_the_episode(
    record: Any, read_back: Any, steps: int, uneven: str
) -> None:
    env = record(CountEnv(None, mujoco=True), uneven_steps=uneven, **ROBOT)
    act(env, steps)
    env.unwrapped.reset()
    with pytest.raises(lr.CaptureError, match=r"ran backwards.*mark_reset"):
        env.step(np.zeros(1, np.float32))
    env.close()
    assert [(len(e.rows["obs"]), e.meta["success"]) for e in read_back(env.session_path)] == [(steps, False)]


@pytest.mark.parametrize("when", ["before", "after"])
def test_an_object_that_is_spawned_in_an_episode_that_is_skipped_begins_none(
    record: Any, read_back: Any, when: str
) -> None:
    env = record(Replaces((2, 4), when=when, length=6), episode_trigger=lambda n: n == 1, **ROBOT)
    act(env, 6)
    act(env, 6)
    env.close()
    (episode,) = read_back(env.session_path)
    assert episode.rows["obs"].tolist() == [100, 101, 102, 103, 104, 105]


@pytest.mark.parametrize("what", [fresh_data, both])
def test_what_is_replaced_before_the_last_step_loses_none(record: Any, read_back: Any, what: Any) -> None:
    inner = Replaces(length=6)
    env = record(inner, **ROBOT)
    act(env, 6, lambda t: what(inner) if t == 5 else None)
    env.close()
    (episode,) = read_back(env.session_path)
    check_rows(episode)
    assert episode.meta["success"] is True
