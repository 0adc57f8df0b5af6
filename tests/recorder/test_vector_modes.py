"""Vector environments in every mode in which they reset their environments: rows, frames, commands and boundaries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

import lucky_recorder as lr
from lucky_recorder.testing import MemorySink, check_session
from tests.recorder.lanes import (
    LENGTHS,
    OBS,
    PER_LANE,
    SIZE,
    Expected,
    Lane,
    action,
    assert_recorded,
    custom,
    expected,
    run,
    vector,
)

MODES = list(AutoresetMode)
EYE = lr.Camera("eye", source="render", **SIZE)
STEPS = 13


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_gives_the_rows_and_frames_of_each_environment(tmp_path: Path, mode: AutoresetMode) -> None:
    env = lr.RecordSession(vector(mode=mode), **custom(tmp_path, cameras=[EYE]))
    run(env, STEPS, mode)
    env.close()
    assert_recorded(env.session_path, expected(LENGTHS, STEPS, mode), ["eye"])


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_keeps_commands_and_last_pictures_of_a_simulation(tmp_path: Path, mode: AutoresetMode) -> None:
    env = lr.RecordSession(
        vector(mode=mode, mujoco=True),
        output_dir=tmp_path,
        columns=[OBS],
        gym_columns=True,
        cameras=[lr.Camera("wall", **SIZE), EYE],
    )
    run(env, STEPS, mode)
    env.close()
    assert_recorded(env.session_path, expected(LENGTHS, STEPS, mode), ["eye", "wall"])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("is_simulated", [False, True])
def test_one_environment_is_recorded_as_a_vector_of_one_is(
    tmp_path: Path, mode: AutoresetMode, is_simulated: bool
) -> None:
    one = lr.RecordSession(Lane(0, 4, mujoco=is_simulated), **custom(tmp_path / "one", cameras=[EYE]))
    one.reset(seed=7)
    done, step = False, 0
    while step < 11:
        if done:
            one.reset()
            step += mode is AutoresetMode.NEXT_STEP
        *_, done, _, _ = one.step(np.array([action(step, 0)], np.float32))
        step += 1
    one.close()
    many = lr.RecordSession(
        vector([4], mode, mujoco=is_simulated),
        **custom(tmp_path / "many", cameras=[EYE]),
    )
    run(many, step, mode)
    many.close()
    alone, among = (check_session(path) for path in (one.session_path, many.session_path))
    assert len(alone) == len(among)
    for index in range(len(alone)):
        assert alone.episode(index).rows().equals(among.episode(index).rows())


@pytest.mark.parametrize("is_simulated", [False, True])
def test_gymnasiums_autoreset_wrapper_inside_of_a_vector_environment(tmp_path: Path, is_simulated: bool) -> None:
    """It resets on the step after the last one; so does the vector environment, and there are two resets then."""
    inner = vector([3, 3], AutoresetMode.NEXT_STEP, gym.wrappers.Autoreset, mujoco=is_simulated)
    env = lr.RecordSession(inner, **custom(tmp_path, cameras=[EYE]))
    run(env, 8)
    env.close()
    wanted = [Expected(lane, PER_LANE * lane, (0, 1, 2), True) for lane in (0, 1)]
    wanted += [Expected(lane, PER_LANE * lane + 1, (4, 5, 6), True) for lane in (0, 1)]
    assert_recorded(env.session_path, wanted, ["eye"])


def test_lanes_that_reset_themselves_are_followed_where_nobody_else_resets_them(tmp_path: Path) -> None:
    """With `shared`, and without a vector environment: gymnasium's `Autoreset` is all there is."""
    wrap = lr.vector.shared(**custom(tmp_path, cameras=[EYE]))
    lanes = [wrap(gym.wrappers.Autoreset(Lane(lane, n))) for lane, n in enumerate(LENGTHS)]
    for lane in lanes:
        lane.reset(seed=7)
    for step in range(STEPS):
        for number, lane in enumerate(lanes):
            lane.step(np.array([action(step, number)], np.float32))
    for lane in lanes:
        lane.close()
    session = check_session(lanes[0].session_path)
    counted = [np.ravel(session.episode(index).rows()["obs"].to_pylist()).tolist() for index in range(len(session))]
    wanted = expected(LENGTHS, STEPS, AutoresetMode.NEXT_STEP)
    # Here the verdict falls on the step after the one that has begun the next episode: the order is another.
    assert sorted(counted) == sorted([100 * one.episode + t for t in range(len(one.steps))] for one in wanted)


def test_resets_without_a_step_leave_no_episode(tmp_path: Path) -> None:
    env = lr.RecordSession(vector([None] * 3), **custom(tmp_path))
    env.reset(seed=0)
    env.reset()
    env.step(np.zeros((3, 1), np.float32))
    env.reset()
    env.close()
    session = check_session(env.session_path)
    assert [len(session.episode(index).rows()) for index in range(len(session))] == [1, 1, 1]


def test_ten_resets_without_done_are_ten_episodes_of_each_lane(tmp_path: Path) -> None:
    env = lr.RecordSession(vector([None] * 2), **custom(tmp_path))
    for seed in range(10):
        env.reset(seed=seed)
        for _ in range(6):
            env.step(np.zeros((2, 1), np.float32))
    env.close()
    session = check_session(env.session_path)
    assert [len(session.episode(index).rows()) for index in range(len(session))] == [6] * 20


def test_a_mask_resets_lanes_whose_episodes_go_on(tmp_path: Path) -> None:
    env = lr.RecordSession(vector([9, 9, 9], AutoresetMode.DISABLED), **custom(tmp_path))
    env.reset(seed=0)
    for _ in range(3):
        env.step(np.zeros((3, 1), np.float32))
    env.reset(options={"reset_mask": np.array([False, True, False])})
    env.step(np.zeros((3, 1), np.float32))
    env.reset(options={"reset_mask": np.array([True, False, False]), "keep_episode": True})
    env.step(np.zeros((3, 1), np.float32))
    env.close()
    session = check_session(env.session_path)
    rows = [session.episode(index).rows().to_pydict() for index in range(len(session))]
    assert [np.ravel(one["obs"]).tolist() for one in rows] == [
        [2000, 2001, 2002],
        [0, 1, 2, 3, 100],
        [2100, 2101],
        [4000, 4001, 4002, 4003, 4004],
    ]
    assert [flags & 2 for flags in rows[1]["frame_flags"]] == [2, 0, 0, 0, 2]


@pytest.mark.parametrize("mode", MODES)
def test_the_run_is_the_same_with_the_recorder_and_without(tmp_path: Path, mode: AutoresetMode) -> None:
    def trace(env: Any) -> list[Any]:
        heard: list[Any] = []
        whole_step = env.step

        def step(actions: Any) -> Any:
            result = whole_step(actions)
            heard.extend([*(np.array(part) for part in result[:4]), repr(result[4])])
            return result

        env.step = step
        run(env, STEPS, mode)
        env.close()
        return heard

    bare = trace(vector(mode=mode, mujoco=True))
    recorded = trace(lr.RecordSession(vector(mode=mode, mujoco=True), **custom(tmp_path)))
    assert all(np.array_equal(a, b) for a, b in zip(bare, recorded, strict=True))


def test_noise_is_keyed_by_the_lane_and_its_own_attempts(tmp_path: Path, monkeypatch: Any) -> None:
    seen: list[str] = []
    whole = lr.recorder.writer.Tracks.__init__  # type: ignore[attr-defined]

    def init(self: Any, devices: Any, place: Any, key: str) -> None:
        seen.append(key)
        whole(self, devices, place, key)

    monkeypatch.setattr("lucky_recorder.recorder.writer.Tracks.__init__", init)
    env = lr.RecordSession(vector((1, 2), AutoresetMode.SAME_STEP), **custom(tmp_path, cameras=[EYE]))
    run(env, 4, AutoresetMode.SAME_STEP)
    env.close()
    assert seen == [
        "seed 7",
        "seed 8",
        "lane 0 attempt 1",
        "lane 0 attempt 2",
        "lane 1 attempt 1",
        "lane 0 attempt 3",
    ]


def test_a_sink_of_ones_own_takes_the_episodes_of_all_lanes(tmp_path: Path) -> None:
    sink = MemorySink(tmp_path)
    env = lr.RecordSession(vector(), **custom(tmp_path, formats=()), sinks=[sink])
    run(env, STEPS)
    env.close()
    wanted = expected(LENGTHS, STEPS, AutoresetMode.NEXT_STEP)
    assert [record.rows for record in sink.records] == [len(one.steps) for one in wanted]
    assert sink.is_closed
