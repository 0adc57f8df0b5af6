"""Observer: every tick is compared with the time that the simulation says has passed."""

from __future__ import annotations

from typing import Any

import mujoco
import pytest

import lucky_recorder as lr


def tick(observer: Any, *lasts: int) -> None:
    """Tick, and step the physics by so many of its steps of 2 ms after each tick."""
    for steps in lasts:
        observer.tick()
        if steps:
            mujoco.mj_step(observer.env.model, observer.env.data, steps)


def lengths(observer: Any, read_back: Any) -> list[tuple[int, bool]]:
    observer.stop_recording()
    return [(len(e.rows["index"]), e.meta["success"]) for e in read_back(observer.session_path)]


@pytest.mark.parametrize(("asked", "says"), [(25, r"0\.04 s \(25 Hz\)"), (60, r"0\.0166667 s \(60 Hz\)")])
def test_ticks_at_another_rate_than_was_said_fail_the_episode(bare: Any, read_back: Any, asked: int, says: str) -> None:
    observer, _ = bare(data_hz=asked)
    observer.start_recording()
    with pytest.raises(lr.CaptureError, match=rf"tick 0 .* lasted 0\.02 s .*and not {says}.*data_hz=50 says so"):
        tick(observer, 10, 10)
    assert lengths(observer, read_back) == [(1, False)]


@pytest.mark.parametrize("at", [0, 1, 5])
@pytest.mark.parametrize("other", [1, 9, 11, 20, 0])
def test_a_tick_of_another_length_fails_the_episode_only(bare: Any, read_back: Any, at: int, other: int) -> None:
    observer, _ = bare()
    observer.start_recording()
    with pytest.raises(lr.CaptureError, match=r"uneven_steps='allow'"):
        tick(observer, *[10] * at, other, 10, 10)
    kept = at + 1 if other else at + 1 + (at == 0)
    tick(observer, 10, 10)
    observer.end_current_episode(success=True)
    assert lengths(observer, read_back) == [(kept, False), (2, True)]


def test_ticks_of_other_lengths_may_be_allowed_and_are_counted(bare: Any, read_back: Any) -> None:
    observer, _ = bare(uneven_steps="allow")
    observer.start_recording()
    tick(observer, 10, 9, 10, 20, 10, 10)
    observer.end_current_episode(success=True)
    tick(observer, 10, 0, 10, 10)
    observer.end_current_episode(success=True)
    with pytest.warns(RuntimeWarning, match=r"^3 steps lasted another time than 0\.02 s"):
        observer.stop_recording()
    assert [e.rows["timestamp"].tolist() for e in read_back(observer.session_path)] == [
        [0, 0.02, 0.04, 0.06, 0.08, 0.1],
        [0, 0.02, 0.04, 0.06],
    ]


def test_a_simulation_whose_time_never_moves_says_nothing(bare: Any, read_back: Any) -> None:
    observer, _ = bare()
    observer.start_recording()
    for count in range(5):
        observer.env.data.qpos[0] = count
        observer.tick()
    observer.end_current_episode(success=True)
    observer.stop_recording()
    (episode,) = read_back(observer.session_path)
    assert episode.rows["observation.state"][:, 0].tolist() == list(range(5))


@pytest.mark.parametrize("still", [1, 2, 5])
def test_a_simulation_that_begins_to_move_after_some_ticks(bare: Any, read_back: Any, still: int) -> None:
    observer, _ = bare()
    observer.start_recording()
    with pytest.raises(
        lr.CaptureError, match=rf"stood still at the first {still + 1} ticks .* before tick {still + 1}:"
    ):
        tick(observer, *[0] * still, 10, 10, 10)
    assert lengths(observer, read_back) == [(still + 1, False)]
    observer, _ = bare(uneven_steps="allow")
    observer.start_recording()
    tick(observer, *[0] * still, 10, 10, 10)
    observer.end_current_episode(success=True)
    with pytest.warns(RuntimeWarning, match=f"^{still} steps lasted another time"):
        assert lengths(observer, read_back) == [(still + 3, True)]


def test_where_a_reset_is_marked_time_begins_anew(bare: Any, read_back: Any) -> None:
    observer, _ = bare()
    observer.start_recording()
    tick(observer, 10, 10)
    observer.env.reset()
    observer.mark_reset()
    tick(observer, 10, 10)
    observer.env.data.time = 7.0
    observer.mark_reset()
    tick(observer, 10, 10)
    observer.end_current_episode(success=True)
    assert lengths(observer, read_back) == [(6, True)]


def around(observer: Any, *lasts: int) -> None:
    """Take steps around the physics, each of so many of its steps."""
    for steps in lasts:
        with observer.step():
            mujoco.mj_step(observer.env.model, observer.env.data, steps)


def test_ticks_around_steps_and_at_once_take_turns(bare: Any, read_back: Any) -> None:
    observer, _ = bare()
    observer.start_recording()
    around(observer, 10)
    tick(observer, 10, 10)
    around(observer, 10, 10)
    tick(observer, 10)
    observer.end_current_episode(success=True)
    assert lengths(observer, read_back) == [(6, True)]


def test_between_them_an_uneven_one_is_found(bare: Any, read_back: Any) -> None:
    observer, _ = bare()
    observer.start_recording()
    around(observer, 10)
    with pytest.raises(lr.CaptureError, match=r"lasted 0\.03 s"):
        tick(observer, 15, 10)
    assert lengths(observer, read_back) == [(2, False)]


def test_a_remedy_names_the_setting_that_says_the_rate(bare: Any) -> None:
    observer, _ = bare(data_hz=25, control_hz=50)
    observer.start_recording()
    with pytest.raises(lr.CaptureError, match=r"lasted 0\.04 s .* control_hz=25 says so"):
        tick(observer, 20, 20)


def test_a_step_in_which_nothing_moves_fails_the_episode_once_something_does(bare: Any, read_back: Any) -> None:
    """At time 0 a reset inside of a step leaves no trace in time; the next step shows it."""
    observer, _ = bare()
    observer.start_recording()
    with observer.step():
        mujoco.mj_step(observer.env.model, observer.env.data, 10)
        mujoco.mj_resetData(observer.env.model, observer.env.data)
    with pytest.raises(lr.CaptureError, match="stood still"):
        around(observer, 10)
    assert lengths(observer, read_back) == [(1, False)]
