from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lucky_recorder as lr
from lucky_recorder.capture.moment import Moment
from lucky_recorder.testing import CountEnv


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


def test_a_callable_sees_the_state_the_observation_and_the_action_of_its_own_tick(record: Any, read_back: Any) -> None:
    seen: list[tuple[Any, ...]] = []

    def look(moment: Moment) -> float:
        seen.append(
            (float(moment.data.qpos[0]), float(moment.obs[0]), float(moment.action[0]), moment.env, moment.robot)
        )
        return float(moment.data.time)

    env = CountEnv(length=3, mujoco=True)
    recorder = record(env, columns=[lr.Column("time", look)])
    for _ in range(2):
        recorder.reset()
        for t in range(3):
            recorder.step(np.array([10.0 + t], np.float32))
    recorder.close()
    assert [s[:3] for s in seen] == [(c, c, 10.0 + c % 100) for c in (0.0, 1.0, 2.0, 100.0, 101.0, 102.0)]
    assert all(s[3] is env for s in seen)
    assert all(s[4] == "count" for s in seen)
    for episode in read_back(recorder.session_path):
        assert episode.rows["time"].tolist() == pytest.approx([0, 0.02, 0.04], abs=1e-12)


def test_the_first_tick_of_an_episode_knows_nothing_of_the_last_one(record: Any) -> None:
    known: list[tuple[Any, ...]] = []

    def look(moment: Moment) -> float:
        known.append((moment.reward, moment.done, moment.terminated, moment.success, dict(moment.info)))
        return 0.0

    recorder = record(CountEnv(length=2), columns=[lr.Column("c", look)], gym_columns=True)
    for _ in range(2):
        recorder.reset()
        for _ in range(2):
            recorder.step(np.zeros(1, np.float32))
    assert known[0] == known[2] == (0.0, False, False, False, {})
    assert known[1] == known[3] == (0.0, False, False, True, {"is_success": True})


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
