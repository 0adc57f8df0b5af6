"""Observer.step: a tick around the physics, whose commands are read when the block is left."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import Any

import mujoco
import numpy as np
import pytest

import lucky_recorder as lr
from lucky_recorder.recorder.observer import State
from tests.recorder.states import BETWEEN, IDLE, IN, lead_to


def move(observer: lr.Observer, command: float | None = None) -> None:
    """Step the counting model on; a controller inside of the step writes its command."""
    env = observer.env
    env.data.ctrl[:] = env.count if command is None else command
    mujoco.mj_step(env.model, env.data, 10)
    env.t += 1
    env.data.qpos[0] = env.count


def fail(observer: lr.Observer, error: BaseException) -> None:
    move(observer)
    raise error


def restart(observer: lr.Observer) -> None:
    move(observer)
    mujoco.mj_resetData(observer.env.model, observer.env.data)


def explode(observer: lr.Observer) -> None:
    observer.env.data.qpos[0] = np.nan
    mujoco.mj_step(observer.env.model, observer.env.data, 10)


def step(observer: lr.Observer, count: int = 1, **fields: Any) -> None:
    for _ in range(count):
        with observer.step(**fields):
            move(observer)


def test_a_row_is_the_state_before_with_the_command_after(bare: Any, read_back: Any) -> None:
    observer, _ = bare(mode="full_scene")
    observer.start_recording()
    step(observer, 4)
    observer.end_current_episode(True)
    observer.stop_recording()
    [episode] = read_back(observer.session_path)
    positions = episode.rows["observation.state"][:, 0]
    np.testing.assert_array_equal(positions, observer.env.count - np.array([4, 3, 2, 1]))
    np.testing.assert_array_equal(episode.rows["action"].reshape(-1), positions)
    assert episode.rows["frame_flags"].tolist() == [1, 1, 1, 1]


def test_a_tick_would_have_the_command_of_the_step_before(bare: Any, read_back: Any) -> None:
    rows = []
    for two_sided in (True, False):
        observer, _ = bare(mode="full_scene")
        observer.start_recording()
        for command in (5.0, 6.0, 7.0):
            if two_sided:
                with observer.step():
                    move(observer, command)
            else:
                observer.tick()
                move(observer, command)
        observer.stop_recording()
        rows.append(read_back(observer.session_path)[0].rows["action"].reshape(-1).tolist())
    assert rows == [[5, 6, 7], [0, 5, 6]]


def test_pictures_are_of_the_state_before(bare: Any, read_back: Any, wall: Any, counts: Any) -> None:
    recorded = []
    for way in ("step", "tick"):
        observer, advance = bare(cameras=[wall])
        observer.start_recording()
        if way == "step":
            step(observer, 3)
        else:
            advance(3)
        observer.stop_recording()
        recorded.append(counts(read_back(observer.session_path)[0]))
    assert recorded[0] == recorded[1]
    assert len(recorded[0]["wall"]) == 3


def test_it_begins_episodes_and_keeps_the_time_limit_as_tick_does(bare: Any, read_back: Any) -> None:
    written = []
    for way in ("step", "tick"):
        observer, advance = bare(max_episode_length_s=0.06)
        observer.start_recording()
        advances = (lambda n, o=observer: step(o, n)) if way == "step" else advance
        advances(7)
        observer.end_current_episode(True)
        advances(1)
        observer.end_current_episode(True)
        observer.stop_recording()
        written.append([(e.meta["length"], e.meta["success"]) for e in read_back(observer.session_path)])
    assert written == [[(3, False), (3, False), (1, True), (1, True)]] * 2


def test_a_block_after_the_last_episode_runs_unrecorded(bare: Any, read_back: Any) -> None:
    observer, _ = bare(max_episode_length_s=0.04, total_episodes=1)
    observer.start_recording()
    step(observer, 3)
    assert not observer.is_recording
    assert [e.meta["length"] for e in read_back(observer.session_path)] == [2]
    with pytest.raises(lr.StateError, match=r"step\(\) needs the observer.*total_episodes=1"):
        step(observer)


def test_what_observe_shows_is_what_the_step_records(bare: Any, read_back: Any, wall: Any) -> None:
    observer, _ = bare(cameras=[wall], mode="full_scene")
    observer.start_recording()
    seen = [observer.observe()["observation.state"].tolist() for _ in range(3) if step(observer) is None]
    observer.stop_recording()
    rows = read_back(observer.session_path)[0].rows["observation.state"].tolist()
    assert seen[:2] == rows[1:]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit, GeneratorExit, lr.SettingsError])
def test_a_block_that_raises_leaves_no_row_and_fails_its_episode(
    bare: Any, read_back: Any, wall: Any, error: Any
) -> None:
    observer, _ = bare(cameras=[wall])
    observer.start_recording()
    step(observer, 2)
    raised = error("inside")
    with pytest.raises(error) as caught, observer.step():
        fail(observer, raised)
    assert caught.value is raised
    assert observer.state is BETWEEN
    step(observer, 1)
    observer.end_current_episode(True)
    observer.stop_recording()
    episodes = read_back(observer.session_path)
    assert [(e.meta["length"], e.meta["success"]) for e in episodes] == [(2, False), (1, True)]
    assert [len(e.frames["wall"]) for e in episodes] == [2, 1]


def test_the_first_block_that_raises_leaves_nothing(bare: Any, read_back: Any) -> None:
    observer, _ = bare()
    observer.start_recording()
    with pytest.raises(ZeroDivisionError), observer.step():
        raise ZeroDivisionError
    step(observer)
    observer.end_current_episode(True)
    observer.stop_recording()
    assert [(e.meta["length"], e.meta["success"]) for e in read_back(observer.session_path)] == [(1, True)]


INSIDE: dict[str, Callable[[lr.Observer], Any]] = {
    "tick": lambda o: o.tick(),
    "step": lambda o: o.step().__enter__(),
    "observe": lambda o: o.observe(),
    "end_current_episode": lambda o: o.end_current_episode(True),
    "end_current_episode_begin_next": lambda o: o.end_current_episode_begin_next(True),
    "mark_reset": lambda o: o.mark_reset(),
    "mark_event": lambda o: o.mark_event("taken over"),
    "set_current_task_index": lambda o: o.set_current_task_index(0),
}


@pytest.mark.parametrize("verb", INSIDE)
@pytest.mark.parametrize("caught", [True, False])
def test_inside_the_block_only_the_physics_moves_on(bare: Any, read_back: Any, verb: str, caught: bool) -> None:
    observer, _ = bare(tasks=["one"])
    observer.start_recording()
    refusal = pytest.raises(lr.StateError, match=rf"{verb}\(\) inside of `with observer\.step\(\):`.*leave the block")
    with ExitStack() as around:
        if not caught:
            around.enter_context(refusal)
        with observer.step(), refusal if caught else ExitStack():
            move(observer)
            INSIDE[verb](observer)
    step(observer)
    observer.end_current_episode(True)
    observer.stop_recording()
    # Who catches the error inside goes on as if nothing had been said; else it ends the episode as any other does.
    lengths = [(e.meta["length"], e.meta["success"]) for e in read_back(observer.session_path)]
    assert lengths == ([(2, True)] if caught else [(1, True)])


def test_a_look_that_was_in_vain_hides_no_block(bare: Any) -> None:
    camera = lr.Camera("wall", width=32, height=32)
    observer, _ = bare(cameras=[camera])
    observer.start_recording()
    observer.observe()
    # What was drawn is out of date: the block looks anew.
    observer.env.data.qpos[0] += 1
    with observer.step():
        move(observer)
        with pytest.raises(lr.StateError, match="inside of"):
            observer.tick()


def test_begin_episode_inside_is_refused_as_in_any_episode(bare: Any) -> None:
    observer, _ = bare()
    observer.start_recording()
    with observer.step(), pytest.raises(lr.StateError, match="begin_episode"):
        observer.begin_episode()


def test_a_session_is_not_stopped_inside(bare: Any, read_back: Any) -> None:
    observer, _ = bare()
    observer.start_recording()
    step(observer, 2)
    with observer.step():
        move(observer)
        observer.flush()
        with pytest.raises(lr.StateError, match=r"stop_recording\(\) inside of"):
            observer.stop_recording()
    observer.stop_recording()
    assert observer.state is IDLE
    assert [(e.meta["length"], e.meta["success"]) for e in read_back(observer.session_path)] == [(3, False)]


@pytest.mark.parametrize("marked", [True, False])
def test_a_reset_inside_is_an_error_whether_it_is_marked_after_or_not(bare: Any, read_back: Any, marked: bool) -> None:
    observer, _ = bare()
    observer.start_recording()
    step(observer, 2)
    with pytest.raises(lr.CaptureError, match=r"ran backwards.*inside of.*mark_reset"), observer.step():
        restart(observer)
    if marked:
        observer.mark_reset()
    step(observer)
    observer.end_current_episode(True)
    observer.stop_recording()
    episodes = read_back(observer.session_path)
    assert [(e.meta["length"], e.meta["success"]) for e in episodes] == [(2, False), (1, True)]
    assert episodes[1].rows["frame_flags"].tolist() == [3 if marked else 1]


def test_an_unstable_simulation_is_found_when_the_block_is_left(bare: Any) -> None:
    observer, _ = bare()
    observer.start_recording()
    step(observer)
    with pytest.raises(lr.CaptureError, match="unstable"), observer.step():
        explode(observer)
    assert observer.state is BETWEEN


@pytest.mark.parametrize("state", [IDLE, IN, BETWEEN])
def test_it_needs_a_session(bare: Any, state: State) -> None:
    observer, _ = bare()
    lead_to(observer, state)
    block: AbstractContextManager[None] = observer.step()
    if state is IDLE:
        with pytest.raises(lr.StateError, match=r"step\(\) needs the observer"):
            block.__enter__()
        return
    with block:
        assert observer.state is IN


def test_a_control_callback_and_tick_are_told_apart_in_the_log_once(
    bare: Any, caplog: pytest.LogCaptureFixture, request: pytest.FixtureRequest
) -> None:
    request.addfinalizer(lambda: mujoco.set_mjcb_control(None))
    observer, advance = bare()
    observer.start_recording()
    advance()
    mujoco.set_mjcb_control(lambda model, data: None)
    step(observer, 2)
    observer.end_current_episode_begin_next(True)
    assert caplog.text == ""
    for _ in range(2):
        advance(2)
        observer.end_current_episode_begin_next(True)
    observer.stop_recording()
    assert caplog.text.count("use `with observer.step()") == 1
