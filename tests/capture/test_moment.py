from __future__ import annotations

from typing import Any

import mujoco
import numpy as np
import pytest

import lucky_recorder as lr
from lucky_recorder.capture.moment import Moment, entry_of
from lucky_recorder.capture.source import Source
from lucky_recorder.errors import CaptureError, StateError
from lucky_recorder.testing import CountEnv
from tests.capture.models import moving, rows, scene, source_of, state


def test_a_moment_begins_with_nothing_known() -> None:
    moment = Moment()
    assert (moment.model, moment.data, moment.env, moment.obs, moment.action) == (None,) * 5
    assert (moment.reward, moment.terminated, moment.done, moment.success, moment.info) == (
        0.0,
        False,
        False,
        False,
        {},
    )


class Asked:
    """A callable that keeps what it is shown."""

    def __init__(self, *names: str) -> None:
        self.names = names
        self.seen: list[tuple[Any, ...]] = []

    def __call__(self, moment: Any) -> float:
        shown = (getattr(moment, name) for name in self.names)
        state = () if moment.data is None else (float(moment.data.qpos[0]), float(moment.data.body("counter").xpos[2]))
        self.seen.append((*state, float(moment.obs[0]), *(float(np.ravel(value)[0]) for value in shown)))
        return float(len(self.seen))


def steps(recorder: Any, episodes: int, length: int, begin: float = 10.0) -> None:
    for _ in range(episodes):
        recorder.reset()
        for t in range(length):
            recorder.step(np.array([begin + t], np.float32))
    recorder.close()


def test_before_the_step_a_callable_sees_the_state_and_the_observation_of_its_own_tick(
    record: Any, read_back: Any
) -> None:
    asked, env = Asked(), CountEnv(length=3, mujoco=True)
    named: list[Any] = []

    def look(moment: Any) -> float:
        named.append((moment.env, moment.robot, moment.model))
        return float(moment.data.time)

    recorder = record(env, columns=[lr.Column("n", asked, when="before"), lr.Column("time", look)])
    steps(recorder, 2, 3)
    assert asked.seen == [(c, -1 - c, c) for c in (0.0, 1.0, 2.0, 100.0, 101.0, 102.0)]
    assert named == [(env, "count", env.model)] * 6
    for episode in read_back(recorder.session_path):
        assert episode.rows["time"].tolist() == pytest.approx([0, 0.02, 0.04], abs=1e-12)


@pytest.mark.parametrize("mujoco", [True, False])
def test_after_the_step_a_callable_sees_what_the_step_has_said_and_led_to(
    record: Any, read_back: Any, mujoco: bool
) -> None:
    asked = Asked("reward", "action", "terminated", "done")
    infos: list[Any] = []

    def look(moment: Any) -> float:
        infos.append(moment.info)
        return float(moment.reward)

    columns = [
        lr.Column("n", asked, when="after"),
        lr.Column("mine", look, when="after"),
        lr.Column("theirs", "gym:reward"),
        lr.Column("obs", "gym:obs"),
        lr.Column("early", lambda m: m.obs[0]),
    ]
    recorder = record(CountEnv(length=3, mujoco=mujoco), columns=columns)
    steps(recorder, 2, 3)
    counts = [1.0, 2.0, 3.0, 101.0, 102.0, 103.0]
    said = [(float(t), 10.0 + t, float(t == 2), float(t == 2)) for t in (0, 1, 2)] * 2
    led_to = [((c, -1 - c) if mujoco else ()) + (c, *s) for c, s in zip(counts, said, strict=True)]
    assert asked.seen == led_to
    assert infos == [{"is_success": True}] * 6
    for episode, first in zip(read_back(recorder.session_path), (0, 100), strict=True):
        assert episode.rows["mine"].tolist() == episode.rows["theirs"].tolist() == [0, 1, 2]
        # What is read before the step is of before it, whoever looks after it.
        assert episode.rows["obs"].tolist() == episode.rows["early"].tolist() == [first, first + 1, first + 2]


@pytest.mark.parametrize("name", ["action", "reward", "terminated", "done", "success", "info"])
@pytest.mark.parametrize("episodes", [1, 2])
def test_what_only_the_step_knows_is_no_answer_before_it(record: Any, read_back: Any, name: str, episodes: int) -> None:
    asked = [0]

    def look(moment: Any) -> float:
        asked[0] += 1
        return float(getattr(moment, name) is None) if asked[0] > 3 * (episodes - 1) + 1 else 0.0

    recorder = record(CountEnv(length=3), columns=[lr.Column("mine", look)], gym_columns=True)
    for _ in range(episodes - 1):
        recorder.reset()
        for _ in range(3):
            recorder.step(np.zeros(1, np.float32))
    recorder.reset()
    recorder.step(np.zeros(1, np.float32))
    with pytest.raises(CaptureError, match=rf"column 'mine': moment\.{name} is known after the step.*when='after'"):
        recorder.step(np.zeros(1, np.float32))
    recorder.close()
    *whole, last = read_back(recorder.session_path)
    assert [e.meta["success"] for e in whole] == [True] * (episodes - 1)
    assert (last.meta["success"], last.rows["mine"].tolist()) == (False, [0.0])


def test_what_no_moment_has_is_an_ordinary_mistake(record: Any) -> None:
    recorder = record(CountEnv(length=3), columns=[lr.Column("mine", lambda m: m.rewrad)])
    recorder.reset()
    with pytest.raises(AttributeError, match="a moment has no 'rewrad'"):
        recorder.step(np.zeros(1, np.float32))


def test_after_the_step_is_asked_for_each_robot() -> None:
    model = scene("twin_arms")
    data = mujoco.MjData(model)

    def act(step: int) -> None:
        data.qpos[[0, 6]] = step + 0.25, step + 0.5

    def pan(moment: Any) -> float:
        return float(moment.data.joint(moment.robot.replace("base", "shoulder_pan")).qpos[0])

    columns = [
        lr.Column("after", pan, when="after"),
        lr.Column("before", pan),
        lr.Column("who", lambda m: m.robot, dtype="str", when="after"),
    ]
    source = source_of(model, data=data, robots=("left_base", "right_base"), columns=columns)
    derived = rows(source, 2, act)
    assert derived["after"].tolist() == [0.25, 0.5, 1.25, 1.5]
    assert derived["before"].tolist() == [0, 0, 0.25, 0.5]
    assert derived["who"].tolist() == ["left_base", "right_base"] * 2


def test_only_what_is_asked_after_the_step_costs_another_look(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []
    plain = Source.refresh
    monkeypatch.setattr(Source, "refresh", lambda self: (looked.append("x"), plain(self)))
    for when, times in (("before", 0), ("after", 3)):
        source = source_of(scene("joint_zoo"), "custom", columns=[lr.Column("c", lambda m: 0.0, when=when)])
        rows(source, 3, lambda step: None)
        assert len(looked) == times


def test_the_run_is_the_same_whether_a_column_looks_after_the_step_or_not() -> None:
    states = []
    for late in ([], [lr.Column("late", lambda m: m.data.qacc.sum(), when="after")]):
        model, data = moving()
        source = source_of(model, "custom", data, columns=[lr.Column("q", "qpos:wheel"), *late])
        rows(source, 20, lambda step, m=model, d=data: mujoco.mj_step(m, d, 10))
        states.append(state(model, data).tobytes())
    assert states[0] == states[1]


def test_a_tick_before_physics_has_nothing_to_say_of_after(bare: Any) -> None:
    observer, advance = bare(columns=[lr.Column("late", lambda m: 0.0, when="after")])
    observer.start_recording()
    with pytest.raises(StateError, match=r"when='after' asks after it: column 'late'; step inside.*observer\.step"):
        advance()
    observer.stop_recording()
    assert not list(observer.session_path.glob("data/**/*.parquet"))


def test_a_callable_sees_the_model_of_the_user_and_data_that_is_not_the_users(record: Any) -> None:
    env = CountEnv(length=2, mujoco=True)
    seen: list[Any] = []

    def look(moment: Moment) -> float:
        seen.append((moment.model, moment.data))
        moment.data.qpos[:] = 1e6  # what a callable does to its own data stays there
        return 0.0

    recorder = record(env, columns=[lr.Column("c", look)])
    recorder.reset()
    recorder.step(np.zeros(1, np.float32))
    assert seen[0][0] is env.model
    assert seen[0][1] is not env.data
    assert env.data.qpos[0] == 1


@pytest.mark.parametrize("columns", [[], [lr.Column("time", lambda moment: moment.data.time)]])
@pytest.mark.parametrize("cut_short", [False, True])
def test_success_is_judged_by_what_the_last_step_has_led_to(
    record: Any, read_back: Any, columns: Any, cut_short: bool
) -> None:
    seen: list[tuple[float, ...]] = []

    def succeeds(moment: Moment) -> bool:
        seen.append((moment.data.qpos[0], moment.data.body("counter").xpos[2], moment.obs[0], moment.reward))
        return bool(moment.data.qpos[0] == 103)

    recorder = record(CountEnv(length=3, mujoco=True), mode="robot_arm", columns=columns, success=succeeds)
    for steps in (3, 2 if cut_short else 3):
        recorder.reset()
        for _ in range(steps):
            recorder.step(np.zeros(1, np.float32))
    if cut_short:
        recorder.end_episode()
    recorder.close()
    last = 102 if cut_short else 103
    assert seen == [(3, -1 - 3, 3, 2), (last, -1 - last, last, last - 101)]
    assert [e.meta["success"] for e in read_back(recorder.session_path)] == [False, not cut_short]


def test_success_of_every_step_is_judged_by_what_it_has_led_to(record: Any, read_back: Any, run: Any) -> None:
    succeeds = lambda moment: moment.data.qpos[0] >= 2  # noqa: E731
    recorder = record(CountEnv(length=4, mujoco=True), mode="robot_arm", gym_columns=True, columns=[], success=succeeds)
    run(recorder)
    recorder.close()
    [episode] = read_back(recorder.session_path)
    assert episode.rows["next.success"].tolist() == [False, True, True, True]
    assert episode.rows["observation.state"][:, 0].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("wrapped", [False, True])
def test_success_may_depend_on_the_last_reward(record: Any, read_back: Any, run: Any, wrapped: bool) -> None:
    columns = [lr.Column("r", "gym:reward")] if wrapped else [lr.Column("obs", "gym:obs")]
    recorder = record(CountEnv(length=3, succeeds=None), columns=columns, success=lambda moment: moment.reward == 2)
    run(recorder)
    recorder.close()
    [episode] = read_back(recorder.session_path)
    assert episode.meta["success"] is True


@pytest.mark.parametrize(
    ("info", "key", "found"),
    [
        ({"a": 1}, "a", 1),
        ({"a": 1}, "b", None),
        ({"a": {"b": 1}}, "a.b", 1),
        ({"a": {"b": {"c": 1}}}, "a.b.c", 1),
        ({"a.b": 2, "a": {"b": 1}}, "a.b", 2),
        ({"a.b": {"c": 2}, "a": {"b": {"c": 1}}}, "a.b.c", 2),
        ({"a.b": {}, "a": {"b": {"c": 1}}}, "a.b.c", 1),
        ({"a": {"b.c": 1}}, "a.b.c", 1),
        ({"a": 1}, "a.b", None),
        ({"a": {"b": None}}, "a.b", None),
        ({"a.b": None, "a": {"b": 1}}, "a.b", None),
        ({"a": {"b": 1}}, "a.b.c", None),
        ({}, "a.b", None),
    ],
)
def test_an_entry_of_an_info_is_found_by_its_key_or_by_those_of_dicts_within(info: Any, key: str, found: Any) -> None:
    assert entry_of(info, key) == found
