"""The state after the last tick: the true one, or none. With `Observer.tick` nobody has looked at it until the verdict.

And what else is said of an episode is what was so when it began.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import mujoco
import numpy as np
import pytest

import lucky_recorder as lr
from lucky_recorder.recorder.observer import State
from lucky_recorder.testing import check_session
from tests.recorder.physics import XML, Cart, push, state

Ending = Callable[[lr.Observer, mujoco.MjModel, mujoco.MjData], None]


def ticked(folder: Path, ticks: int, ending: Ending, **settings: object) -> tuple[list[np.ndarray], lr.Session]:
    """Record ticks at once, four steps of the physics after each, and do something before the verdict."""
    model = mujoco.MjModel.from_xml_string(XML)
    data = mujoco.MjData(model)
    observer = lr.Observer(model=model, data=data, output_dir=folder, keep_states=True, data_hz=50, **settings)  # type: ignore[arg-type]
    observer.start_recording()
    states = []
    for tick in range(ticks):
        data.ctrl[0] = np.sin(tick)
        states.append(state(model, data))
        observer.tick()
        mujoco.mj_step(model, data, nstep=4)
    states.append(state(model, data))
    ending(observer, model, data)
    if observer.state is State.IN_EPISODE:
        observer.end_current_episode(True)
    observer.stop_recording()
    return states, check_session(observer.session_path)


def reset(steps: int, is_marked: bool = False, looks: bool = False) -> Ending:
    def ending(observer: lr.Observer, model: mujoco.MjModel, data: mujoco.MjData) -> None:
        mujoco.mj_resetData(model, data)
        data.qpos[0] = 0.5
        if is_marked:
            observer.mark_reset()
        if steps:
            mujoco.mj_step(model, data, nstep=steps)
        if looks:
            observer.observe()

    return ending


def elsewhere(observer: lr.Observer, model: mujoco.MjModel, data: mujoco.MjData) -> None:
    thread = threading.Thread(target=lambda: observer.end_current_episode(True))
    thread.start()
    thread.join()


ENDINGS: dict[str, tuple[int, Ending]] = {
    "reset": (6, reset(0)),
    "reset, and settled for longer": (6, reset(60)),
    "reset, said, and settled for as long": (6, reset(24, is_marked=True)),
    "reset, said, and looked at": (6, reset(24, is_marked=True, looks=True)),
    "reset after the first tick": (1, reset(0)),
    "steps that go on": (6, lambda observer, model, data: mujoco.mj_step(model, data, nstep=40)),
    "time put back": (6, lambda observer, model, data: setattr(data, "time", data.time - 0.02)),
    "another thread": (6, elsewhere),
}


@pytest.mark.parametrize("name", ENDINGS)
def test_a_last_state_that_may_be_another_is_missing(name: str, tmp_path: Path) -> None:
    ticks, ending = ENDINGS[name]
    states, session = ticked(tmp_path, ticks, ending)
    kept = session.episode(0).states()
    assert kept.about["ended"] is False
    assert np.isnan(kept.states[-1]).all()
    assert np.array_equal(kept.states[:-1], states[:-1])
    assert lr.replay(session, 0).is_same


@pytest.mark.parametrize("ticks", [1, 2, 7])
def test_one_that_a_tick_has_led_to_is_kept(ticks: int, tmp_path: Path) -> None:
    states, session = ticked(tmp_path, ticks, lambda observer, model, data: None)
    kept = session.episode(0).states()
    assert kept.about["ended"] is True
    assert np.array_equal(kept.states, states)


def test_a_last_tick_without_a_step_leads_nowhere(tmp_path: Path) -> None:
    states, session = ticked(tmp_path, 3, lambda observer, model, data: observer.tick())
    kept = session.episode(0).states()
    assert (len(kept), kept.about["ended"]) == (4, False)
    assert np.array_equal(kept.states[:-1], states)


def test_time_that_stands_still_shows_no_step(tmp_path: Path) -> None:
    model = mujoco.MjModel.from_xml_string(XML)
    data = mujoco.MjData(model)
    observer = lr.Observer(model=model, data=data, output_dir=tmp_path, keep_states=True, data_hz=50)
    observer.start_recording()
    for _ in range(4):
        observer.tick()
        data.qpos[0] += 0.1
    observer.end_current_episode(True)
    observer.stop_recording()
    kept = check_session(observer.session_path).episode(0).states()
    assert kept.about["ended"] is False
    assert kept.states[:-1, 1].tolist() == pytest.approx([0.0, 0.1, 0.2, 0.3])


def test_what_is_said_of_an_episode_is_of_its_beginning(tmp_path: Path) -> None:
    env = Cart()
    wrapped = lr.RecordSession(env, output_dir=tmp_path, keep_states=True)
    wrapped.reset(seed=0)
    push(wrapped, 9)
    # As an environment does that draws another one for the next episode, while the worker writes this one.
    env.model.opt.timestep = 0.011
    wrapped.end_episode(success=True)
    wrapped.close()
    about = check_session(wrapped.session_path).episode(0).states().about
    assert (about["timestep"], about["physics_steps"]) == (0.005, 4)


@pytest.mark.parametrize(("steps", "tried"), [(1, []), (2, [0]), (9, [0, 1]), (20, [0, 1, 16])])
def test_which_ticks_were_tried_is_said(steps: int, tried: list[int], tmp_path: Path) -> None:
    wrapped = lr.RecordSession(Cart(), output_dir=tmp_path, keep_states=True)
    wrapped.reset(seed=0)
    push(wrapped, steps)
    wrapped.end_episode(success=True)
    wrapped.close()
    assert check_session(wrapped.session_path).episode(0).states().about["tried"] == tried


def test_what_a_callback_keeps_from_being_tried_is_not_said_to_be(tmp_path: Path) -> None:
    env = Cart()
    mujoco.set_mjcb_control(lambda model, data: None)
    try:
        wrapped = lr.RecordSession(env, output_dir=tmp_path, keep_states=True)
        wrapped.reset(seed=0)
        push(wrapped, 20)
        wrapped.end_episode(success=True)
        wrapped.close()
    finally:
        mujoco.set_mjcb_control(None)
    assert check_session(wrapped.session_path).episode(0).states().about["tried"] == []
