"""A lane: two halves make a tick, and half a tick is nothing."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from lucky_recorder.capture.schedule import clocks
from lucky_recorder.capture.source import Source, open_source
from lucky_recorder.episode.keys import MOST_SCENES
from lucky_recorder.errors import CaptureError
from lucky_recorder.recorder.lane import Lane, release
from lucky_recorder.settings.recorder import RecorderSettings
from lucky_recorder.testing import CountEnv, read_count


class Shown:
    """Takes what a lane hands over, as the worker would."""

    def __init__(self) -> None:
        self.ticks: list[int] = []
        self.counts: list[int] = []

    def __call__(self, tick: int, pictures: list[Any]) -> None:
        self.ticks.append(tick)
        self.counts += [read_count(p.pixels) for p in pictures if p.pixels is not None]
        release(pictures)


def lane_on(env: CountEnv, task: int = 0, **settings: Any) -> tuple[Lane, Source, Shown]:
    fields = {"cameras": [{"name": "seen", "source": "render", "width": 64, "height": 48}], **settings}
    asked = RecorderSettings.of(fields)
    source = open_source(asked, env.model, env.data, env, env.render, clocks(asked, Fraction(50)))
    source.moment.obs = np.array([0.0])
    shown = Shown()
    return Lane(source, task, shown), source, shown


@pytest.fixture
def env() -> CountEnv:
    env = CountEnv(None, mujoco=True, render_mode="rgb_array")
    env.reset()
    return env


def states(lane: Lane, source: Source) -> list[float]:
    finished = lane.buffer.finish(source.columns, source.schema, source.entity_ids)
    assert finished.data_ticks == lane.ticks
    return finished.columns["observation.state"][:, 0].tolist()


def test_two_halves_make_a_row_of_the_state_before_and_the_command_after(env: CountEnv) -> None:
    lane, source, shown = lane_on(env)
    for t in range(3):
        lane.look()
        assert lane.is_open
        env.step(np.array([10 + t]))
        lane.settle()
        assert not lane.is_open
    finished = lane.buffer.finish(source.columns, source.schema, source.entity_ids)
    assert finished.columns["observation.state"].tolist() == [[0], [1], [2]]
    assert finished.columns["action"].tolist() == [[10], [11], [12]]
    assert (shown.ticks, shown.counts) == ([0, 1, 2], [0, 1, 2])


def test_half_a_tick_leaves_no_row_and_no_frame(env: CountEnv) -> None:
    lane, source, shown = lane_on(env)
    lane.look()
    lane.settle()
    env.step(np.zeros(1))
    lane.look()
    lane.drop_half()
    assert not lane.is_open
    assert states(lane, source) == [0]
    assert (shown.ticks, shown.counts) == ([0], [0])


def test_a_second_look_takes_the_place_of_the_first(env: CountEnv) -> None:
    lane, source, shown = lane_on(env)
    lane.look()
    env.step(np.zeros(1))
    lane.look()
    lane.settle()
    assert states(lane, source) == [1]
    assert shown.counts == [1]


def test_dropped_halves_give_their_scenes_back(env: CountEnv) -> None:
    lane, _, _ = lane_on(env, cameras=[{"name": "wall", "width": 64, "height": 48}], worker_timeout_s=0.1)
    for _ in range(3 * MOST_SCENES):
        lane.look()
        lane.drop_half()
    for _ in range(3 * MOST_SCENES):
        lane.look()
    lane.settle()
    assert lane.ticks == 1


def test_a_step_without_a_row_joins_the_row_that_stands_for_it(env: CountEnv) -> None:
    lane, source, shown = lane_on(env, gym_columns=True, data_hz=25)
    moment = source.moment
    moment.action = np.zeros(1)
    for t in range(5):
        moment.reward, moment.done, moment.success = float(t), t == 3, t == 1
        lane.look()
        lane.settle()
    columns = lane.buffer.finish(source.columns, source.schema, source.entity_ids).columns
    assert columns["next.reward"].tolist() == [1, 5, 4]
    assert columns["next.done"].tolist() == [False, True, False]
    assert columns["next.success"].tolist() == [True, False, False]
    assert shown.ticks == [0, 2, 4]


def test_steps_join_across_the_seam_of_two_blocks(env: CountEnv) -> None:
    lane, source, _ = lane_on(env, gym_columns=True, data_hz=25, cameras=())
    source.moment.action, source.moment.reward = np.zeros(1), 1.0
    for _ in range(2 * 1030):
        lane.look()
        lane.settle()
    columns = lane.buffer.finish(source.columns, source.schema, source.entity_ids).columns
    assert set(columns["next.reward"].tolist()) == {2.0}
    assert len(columns["next.reward"]) == 1030


def test_only_the_cameras_that_are_due_are_shown(env: CountEnv) -> None:
    slow = {"name": "seen", "source": "render", "width": 64, "height": 48, "frame_rate": "50/3"}
    lane, _, shown = lane_on(env, cameras=[slow])
    for _ in range(8):
        lane.look()
        env.step(np.zeros(1))
        lane.settle()
    assert (shown.ticks, shown.counts) == ([0, 3, 6], [0, 3, 6])
    assert lane.last_seen == 6


def test_a_task_holds_from_the_next_tick_on(env: CountEnv) -> None:
    lane, source, _ = lane_on(env, task=3, cameras=(), tasks=list("abcdef"))
    for task in (None, 5, None, 1):
        if task is not None:
            lane.buffer.set_task(4)
            lane.buffer.set_task(task)
        lane.look()
        lane.settle()
    finished = lane.buffer.finish(source.columns, source.schema, source.entity_ids)
    assert finished.columns["task_index"].tolist() == [3, 5, 5, 1]


def test_a_column_that_fails_leaves_the_rows_before_it(env: CountEnv) -> None:
    column = {"name": "half", "source": "gym:reward", "dtype": "int64"}
    lane, source, _ = lane_on(env, cameras=(), columns=[column])
    for reward in (1.0, 2.0):
        source.moment.reward = reward
        lane.look()
        lane.settle()
    source.moment.reward = 2.5
    lane.look()
    with pytest.raises(CaptureError, match=r"column 'half': 2\.5 does not fit int64"):
        lane.settle()
    lane.drop_half()
    finished = lane.buffer.finish(source.columns, source.schema, source.entity_ids)
    assert finished.columns["half"].tolist() == [1, 2]


def test_a_huge_but_finite_state_is_a_row(env: CountEnv) -> None:
    lane, source, _ = lane_on(env, cameras=())
    env.data.qpos[0] = 1e100
    lane.look()
    lane.settle()
    assert states(lane, source) == [1e100]


def test_the_run_is_not_touched_by_looking(env: CountEnv) -> None:
    import mujoco

    lane, _, _ = lane_on(env, cameras=[{"name": "wall", "width": 64, "height": 48}])
    everything = int(mujoco.mjtState.mjSTATE_INTEGRATION)
    before = np.empty(mujoco.mj_stateSize(env.model, everything))
    after = before.copy()
    mujoco.mj_step(env.model, env.data)
    mujoco.mj_getState(env.model, env.data, before, everything)
    places = env.data.xpos.copy()
    lane.look()
    lane.settle()
    mujoco.mj_getState(env.model, env.data, after, everything)
    assert before.tobytes() == after.tobytes()
    assert places.tobytes() == env.data.xpos.tobytes()
