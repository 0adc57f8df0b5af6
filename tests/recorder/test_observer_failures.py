"""Observer: a simulation that is no longer finite, has reset itself, or ticks at another rate than was said."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import mujoco
import numpy as np
import pytest

import lucky_recorder as lr
from lucky_recorder.recorder.recorder import State


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("array", ["qpos", "ctrl"])
def test_a_state_that_is_not_finite_is_refused(bare: Any, read_back: Any, array: str, value: float) -> None:
    observer, advance = bare()
    observer.start_recording()
    advance(2)
    getattr(observer.env.data, array)[0] = value
    with pytest.raises(lr.CaptureError, match=f"{array} holds NaN or infinity at tick 2"):
        observer.tick()
    observer.stop_recording()
    assert [(e.meta["length"], e.meta["success"]) for e in read_back(observer.session_path)] == [(2, False)]


@pytest.mark.parametrize("tick", [1, 4], ids=["first-step", "later"])
def test_a_simulation_that_resets_itself_fails_the_episode(bare: Any, read_back: Any, tick: int) -> None:
    observer, advance = bare()
    observer.start_recording()
    advance(tick - 1)
    observer.tick()
    observer.env.data.qvel[0] = 1e30
    mujoco.mj_step(observer.env.model, observer.env.data, 10)
    with pytest.raises(lr.CaptureError, match=rf"reset itself.*at tick {tick}|at tick {tick}.*reset itself"):
        observer.tick()
    observer.mark_reset()
    advance(2)
    observer.end_current_episode(success=True)
    observer.stop_recording()
    episodes = read_back(observer.session_path)
    assert [(e.meta["length"], e.meta["success"]) for e in episodes] == [(tick, False), (2, True)]


def explode(data: Any) -> None:
    data.qvel[0] = 1e30


def overdo(data: Any) -> None:
    data.ctrl[0] = 1e30


def leads_to(spoil: Callable[[Any], None], observer: Any) -> None:
    """Record a tick, and have the physics go wrong after it."""
    observer.tick()
    spoil(observer.env.data)
    mujoco.mj_step(observer.env.model, observer.env.data, 10)
    observer.env.data.ctrl[:] = 0


@pytest.mark.parametrize("spoil", [explode, overdo])
@pytest.mark.parametrize("verb", ["end_current_episode", "end_current_episode_begin_next"])
def test_what_the_last_command_led_to_is_no_success(bare: Any, read_back: Any, spoil: Any, verb: str) -> None:
    observer, advance = bare()
    observer.start_recording()
    advance(2)
    leads_to(spoil, observer)
    with pytest.raises(lr.CaptureError, match="tick 3"):
        getattr(observer, verb)(True)
    assert observer.state is State.BETWEEN_EPISODES
    observer.stop_recording()
    assert [(e.meta["length"], e.meta["success"]) for e in read_back(observer.session_path)] == [(3, False)]


@pytest.mark.parametrize("success", [False, True])
def test_what_came_after_the_last_command_is_forgiven(bare: Any, read_back: Any, success: bool) -> None:
    observer, advance = bare()
    observer.start_recording()
    advance(2)
    leads_to(explode, observer)
    if success:
        observer.mark_reset()
    observer.end_current_episode(success)
    observer.stop_recording()
    assert [(e.meta["length"], e.meta["success"]) for e in read_back(observer.session_path)] == [(3, success)]


@pytest.mark.parametrize("then", ["observe", "tick"])
def test_what_comes_after_a_reset_that_was_looked_at_is_the_next_commands(bare: Any, read_back: Any, then: str) -> None:
    observer, advance = bare()
    observer.start_recording()
    advance(2)
    observer.mark_reset()
    getattr(observer, then)()
    explode(observer.env.data)
    mujoco.mj_step(observer.env.model, observer.env.data, 10)
    if then == "tick":  # a command was given since
        with pytest.raises(lr.CaptureError, match="unstable"):
            observer.end_current_episode(True)
    else:
        observer.end_current_episode(True)
    observer.stop_recording()
    rows, success = (2, True) if then == "observe" else (3, False)
    assert [(e.meta["length"], e.meta["success"]) for e in read_back(observer.session_path)] == [(rows, success)]


def test_where_mujoco_may_not_reset_itself_a_bad_state_is_found_all_the_same(bare: Any, read_back: Any) -> None:
    observer, advance = bare()
    observer.env.model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_AUTORESET)
    observer.start_recording()
    advance(1)
    observer.tick()
    observer.env.data.qvel[0] = np.nan
    mujoco.mj_step(observer.env.model, observer.env.data, 10)
    with pytest.raises(lr.CaptureError, match="qpos holds NaN or infinity at tick 2"):
        observer.tick()
    observer.stop_recording()
    assert [(e.meta["length"], e.meta["success"]) for e in read_back(observer.session_path)] == [(2, False)]


@pytest.mark.parametrize("how", ["tick", "step"])
def test_commands_that_mujoco_refuses_are_found(bare: Any, read_back: Any, how: str) -> None:
    """Beyond 1e10 MuJoCo applies zeros and goes on, so that a row would hold a command that never acted."""
    observer, advance = bare()
    observer.start_recording()
    advance(2)
    model, data = observer.env.model, observer.env.data
    data.ctrl[0] = 1e11

    def go_on() -> None:
        with observer.step() if how == "step" else contextlib.nullcontext(observer.tick()):
            mujoco.mj_step(model, data, 10)
        observer.tick()

    with pytest.raises(lr.CaptureError, match=r"refused the commands .* applied zeros"):
        go_on()
    advance(1)
    observer.end_current_episode(success=True)
    observer.stop_recording()
    # A tick that is taken at once is over when the physics refuses it: its episode has failed.
    lengths = [(e.meta["length"], e.meta["success"]) for e in read_back(observer.session_path)]
    assert lengths == [(2 if how == "step" else 3, False), (1, True)]


@pytest.mark.parametrize("array", ["qpos", "ctrl"])
def test_a_bad_value_is_found_at_a_tick_without_a_row(bare: Any, read_back: Any, array: str) -> None:
    observer, advance = bare(control_hz=50, data_hz=25)
    observer.start_recording()
    advance(3)
    getattr(observer.env.data, array)[0] = np.nan
    with pytest.raises(lr.CaptureError, match=f"{array} holds NaN or infinity at tick 3"):
        observer.tick()
    observer.stop_recording()
    assert [(e.meta["length"], e.meta["success"]) for e in read_back(observer.session_path)] == [(2, False)]
