"""RecordSession: rows at a part of the control rate, and cameras at a part of theirs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lucky_recorder as lr
from lucky_recorder.testing import CountEnv
from tests.recorder.stepping import Restarts, steps


@pytest.mark.parametrize(("data_hz", "every"), [(50, 1), (25, 2), (10, 5), ("50/3", 3)])
def test_a_row_may_stand_for_several_steps(
    record: Any, run: Any, read_back: Any, counts: Any, seen: Any, wall: Any, data_hz: Any, every: int
) -> None:
    env = record(
        CountEnv(9, mujoco=True, render_mode="rgb_array"),
        mode="robot_arm",
        data_hz=data_hz,
        cameras=[seen, wall],
        gym_columns=True,
        columns=[
            lr.Column("obs", "gym:obs"),
            lr.Column("reward", "gym:reward"),
            lr.Column("late", lambda moment: moment.reward, when="after"),
            lr.Column("led_to", lambda moment: moment.data.qpos[0], when="after"),
        ],
    )
    run(env)
    env.close()
    (episode,) = read_back(env.session_path)
    groups = [list(range(k, min(k + every, 9))) for k in range(0, 9, every)]
    firsts = [group[0] for group in groups]
    assert episode.rows["obs"].tolist() == episode.rows["action"][:, 0].tolist() == firsts
    assert counts(episode)["seen"] == counts(episode)["wall"] == firsts
    assert episode.rows["next.reward"].tolist() == [sum(group) for group in groups]
    assert episode.rows["reward"].tolist() == [sum(group) for group in groups]
    # What is asked after the step is asked after the row's own: the first.
    assert episode.rows["late"].tolist() == firsts
    assert episode.rows["led_to"].tolist() == [first + 1 for first in firsts]
    assert episode.rows["next.done"].tolist() == [8 in group for group in groups]
    assert episode.rows["frame_index"].tolist() == list(range(len(groups)))
    assert np.allclose(episode.rows["timestamp"], np.array(firsts) / 50, rtol=0, atol=1e-9)
    info = lr.Session(env.session_path).info
    assert info["hz"] == info["fps"] == pytest.approx(50 / every)


@pytest.mark.parametrize("allow_nan", [False, True])
@pytest.mark.parametrize(("dtype", "each", "why"), [("int8", 100, "200 does not fit int8"), ("bool", 1, "2 does not"),
                                                    ("float64", 1.5e308, "inf is not finite")])  # fmt: skip
def test_a_sum_of_rewards_that_its_column_cannot_hold_is_an_error(
    record: Any, dtype: str, each: float, why: str, allow_nan: bool
) -> None:
    class Generous(CountEnv):
        def step(self, action: Any) -> Any:
            observation, _, *rest = super().step(action)
            return (observation, each, *rest)

    env = record(Generous(9), data_hz=25, columns=[lr.Column("reward", "gym:reward", dtype=dtype, allow_nan=allow_nan)])
    env.reset()
    env.step(np.zeros(1))
    with pytest.raises(lr.CaptureError, match=f"column 'reward': {why}") as raised:
        env.step(np.zeros(1))
    assert "it is the sum of" in str(raised.value)
    assert "allow_nan" not in str(raised.value)


def test_a_reward_that_may_be_nan_stays_nan_in_the_sum(record: Any, run: Any, read_back: Any) -> None:
    class Unsure(CountEnv):
        def step(self, action: Any) -> Any:
            observation, reward, *rest = super().step(action)
            return (observation, np.nan if reward == 2 else reward, *rest)

    env = record(Unsure(6), data_hz=25, columns=[lr.Column("reward", "gym:reward", allow_nan=True)])
    run(env)
    env.close()
    (episode,) = read_back(env.session_path)
    np.testing.assert_array_equal(episode.rows["reward"], [1, np.nan, 9])


def test_the_longest_episode_is_counted_in_rows_of_the_data_rate(record: Any, run: Any, read_back: Any) -> None:
    env = record(CountEnv(None), data_hz=25, max_episode_length_s=0.12)
    run(env, steps=20)
    env.close()
    assert [e.rows["obs"].tolist() for e in read_back(env.session_path)] == [[0, 2, 4]]


def test_a_kept_reset_between_two_rows_flags_the_next(record: Any, read_back: Any) -> None:
    env = record(Restarts(None, mujoco=True), mode="robot_arm", data_hz=25)
    env.reset()
    steps(env, 3)
    env.reset(options={"keep_episode": True, "how": "gently"})
    steps(env, 3)
    env.close()
    (episode,) = read_back(env.session_path)
    assert episode.rows["observation.state"][:, 0].tolist() == [0, 2, 1]
    assert episode.rows["frame_flags"].tolist() == [3, 1, 3]


@pytest.mark.parametrize(("frame_rate", "every"), [(25, 2), ("50/7", 7), (1, 50)])
@pytest.mark.parametrize("length", [1, 7, 15])
def test_a_slower_camera_takes_every_nth_row(
    record: Any, run: Any, read_back: Any, counts: Any, seen: Any, frame_rate: Any, every: int, length: int
) -> None:
    env = record(CountEnv(length, render_mode="rgb_array"), cameras=[{**seen, "frame_rate": frame_rate}])
    run(env)
    env.close()
    (episode,) = read_back(env.session_path)
    frames = counts(episode)["seen"]
    assert frames == list(range(0, length, every))
    ends = episode.meta["videos/observation.images.seen/to_timestamp"]
    assert ends == pytest.approx(len(frames) * every / 50, abs=1e-9)
    feature = lr.Session(env.session_path).info["features"]["observation.images.seen"]
    assert feature["info"]["video.fps"] == pytest.approx(50 / every)


def test_an_environment_without_a_rate_needs_one(record: Any, run: Any) -> None:
    class Timeless(CountEnv):
        metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012

        def __init__(self) -> None:
            super().__init__()
            del self.dt

    env = record(Timeless())
    with pytest.raises(lr.SettingsError, match=r"data_hz=None: .*give the rate"):
        env.reset()
    env = record(Timeless(), data_hz=12)
    run(env)
    env.close()
    assert lr.Session(env.session_path).info["hz"] == 12
