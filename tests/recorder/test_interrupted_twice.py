"""An interrupt, another while it is handled, or one where nothing of ours runs: no step is missing amid rows."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
import pytest

import lucky_recorder as lr
from lucky_recorder.recorder.lane import Lane
from lucky_recorder.recorder.take import Take
from lucky_recorder.testing import CountEnv, MemorySink
from tests.pairs import in_pairs
from tests.recorder.lines import RECORDER, AtLine, interrupt
from tests.recorder.states import BETWEEN, IN

FILES = (*RECORDER, contextlib.__file__)
NEVER = 10**9
ACTION = np.zeros(1, np.float32)


class Strikes(CountEnv):
    """Calls something at the end of its next step, once."""

    next: Callable[[], Any] | None = None

    def step(self, action: Any) -> Any:
        result = super().step(action)
        act, self.next = self.next, None
        if act is not None:
            act()
        return result


class Driven(NamedTuple):
    """A recorder with a loop of one kind: how it steps, ends an episode, begins the next and is closed."""

    env: Strikes
    step: Callable[[], Any]
    end: Callable[[], Any]
    begin: Callable[[], Any]
    close: Callable[[], Any]
    records: list[Any]


def wrapper(env: Strikes, sink: MemorySink, **settings: Any) -> Driven:
    column = lr.Column("obs", "gym:obs")
    recorded = lr.RecordSession(
        env, mode="custom", columns=[column], gym_columns=True, formats=(), sinks=[sink], output_dir=sink.root,
        success=lambda *args: True, **settings,
    )  # fmt: skip
    return Driven(
        env, lambda: recorded.step(ACTION), lambda: recorded.recorder.take and recorded.end_episode(True),
        recorded.reset, recorded.close, sink.records,
    )  # fmt: skip


def observer(env: Strikes, sink: MemorySink, way: str, **settings: Any) -> Driven:
    column = lr.Column("obs", lambda simulation: np.array([float(env.count)]), shape=(1,))
    env.reset()
    watcher = lr.Observer(
        mode="custom", columns=[column], formats=(), sinks=[sink], output_dir=sink.root, data_hz=50,
        model=env.model, data=env.data, **settings,
    )  # fmt: skip
    watcher.start_recording()

    def step() -> None:
        if way == "tick":
            watcher.tick()
            env.step(ACTION)
            return
        with watcher.step():
            env.step(ACTION)

    return Driven(
        env, step, lambda: watcher.state is IN and watcher.end_current_episode(True), env.reset,
        watcher.stop_recording, sink.records,
    )  # fmt: skip


@pytest.fixture
def drive(tmp_path: Path) -> Callable[..., Driven]:
    def make(way: str, mujoco: bool, **settings: Any) -> Driven:
        env, sink = Strikes(None, mujoco=mujoco), MemorySink(tmp_path)
        return wrapper(env, sink, **settings) if way == "wrapper" else observer(env, sink, way, **settings)

    return make


def check_each(driven: Driven, broken: Callable[[int], bool]) -> None:
    """Break the third step of episode after episode, at another line each time, until there is none left."""
    number, has_struck = 0, True
    while has_struck:
        number += 1
        driven.begin()
        driven.step()
        driven.step()
        has_struck = broken(number)
        # As in a notebook: what follows must go on, whatever became of that step, or be between two episodes.
        for _ in range(3):
            driven.step()
        driven.end()
    driven.close()
    assert number > 10
    assert len(driven.records) >= number
    for record in driven.records:
        rows = record.columns["obs"].reshape(-1)
        assert (np.diff(rows) == 1).all(), f"{rows} of which {record.outcome}"
        # Who broke the third step must not have its episode as a success that ends before it.
        assert not (record.outcome.success and rows[0] % 100 == 0 and len(rows) < 5), f"{rows}"


SIMULATIONS = {"none": (False, "refuse"), "mujoco": (True, "refuse"), "allowed": (True, "allow")}
# A tick is not around a step.
PLACES = {
    f"{way}, {where}": (way, where)
    for way, where in itertools.product(("wrapper", "step", "tick"), ("in the step", "looked", "settling"))
    if (way, where) != ("tick", "in the step")
}


@pytest.mark.parametrize(("mujoco", "uneven"), SIMULATIONS.values(), ids=SIMULATIONS)
@pytest.mark.parametrize("way", ["wrapper", "step", "tick"])
def test_an_interrupt_at_any_line_of_a_step(drive: Any, way: str, mujoco: bool, uneven: str) -> None:
    driven = drive(way, mujoco, uneven_steps=uneven)

    def broken(number: int) -> bool:
        with contextlib.suppress(KeyboardInterrupt), AtLine(number, interrupt, FILES) as line:
            driven.step()
        return line.left <= 0

    check_each(driven, broken)


@in_pairs(place=PLACES, simulation=SIMULATIONS, error=[KeyboardInterrupt, ValueError])
def test_an_interrupt_at_any_line_of_what_handles_an_error(
    drive: Any, monkeypatch: pytest.MonkeyPatch, place: tuple[str, str], simulation: tuple[bool, str], error: Any
) -> None:
    (way, where), (mujoco, uneven) = place, simulation
    driven = drive(way, mujoco, uneven_steps=uneven)
    strikes: list[Callable[[], Any]] = []
    looking, settling = Lane.look, Lane.settle

    def look(lane: Lane) -> None:
        looking(lane)
        if where == "looked" and strikes:
            strikes.pop()()

    def settle(lane: Lane, *args: Any) -> None:
        if where == "settling" and strikes:
            strikes.pop()()
        settling(lane, *args)

    monkeypatch.setattr(Lane, "look", look)
    monkeypatch.setattr(Lane, "settle", settle)

    def broken(number: int) -> bool:
        line = AtLine(NEVER, interrupt, FILES)

        def strike() -> None:
            line.left = number
            raise error

        if where == "in the step":
            driven.env.next = strike
        else:
            strikes.append(strike)
        with contextlib.suppress(KeyboardInterrupt, ValueError), line:
            driven.step()
        return line.left <= 0

    check_each(driven, broken)


def half_left(tmp_path: Path, **settings: Any) -> tuple[Any, MemorySink]:
    """Return a recorder whose third step was cut short by two interrupts, so that half a tick is left of it."""
    env, sink = Strikes(None, mujoco=True), MemorySink(tmp_path)
    recorded = lr.RecordSession(
        env, mode="custom", columns=[lr.Column("obs", "gym:obs")], formats=(), sinks=[sink], output_dir=tmp_path,
        **settings,
    )  # fmt: skip
    recorded.reset()
    recorded.step(ACTION)
    recorded.step(ACTION)
    line = AtLine(NEVER, interrupt)

    def strike() -> None:
        line.left = 1
        interrupt()

    env.next = strike
    with pytest.raises(KeyboardInterrupt), line:
        recorded.step(ACTION)
    assert recorded.recorder.take.lane.is_open
    return recorded, sink


@pytest.mark.parametrize("verb", ["reset", "reset that keeps", "observe", "the observer's observe", "close"])
@pytest.mark.parametrize("success", ["info:is_success", lambda *args: True], ids=["said", "asked"])
def test_half_a_tick_that_is_left_fails_its_episode_whatever_follows(tmp_path: Path, verb: str, success: Any) -> None:
    env, sink = half_left(tmp_path, success=success)
    if verb == "observe":
        with pytest.raises(lr.StateError, match="needs an open episode"):
            env.observe()
    else:
        {
            "reset": env.reset,
            "reset that keeps": lambda: env.reset(options={"keep_episode": True}),
            "the observer's observe": env.observer.observe,
            "close": env.close,
        }[verb]()
    if verb == "reset that keeps":
        env.step(ACTION)
        env.end_episode(True)
    env.close()
    episodes = [(r.columns["obs"].reshape(-1).tolist(), r.outcome.success) for r in sink.records]
    assert episodes == [([0, 1], False)] + [([100], True)] * (verb == "reset that keeps")


def test_a_loop_that_catches_the_interrupt_beside_its_block_goes_on(bare: Any, read_back: Any) -> None:
    """The interrupt strikes where the context manager is called to leave the block, and nothing of ours runs."""
    observer, _ = bare(mode="full_scene")
    observer.start_recording()
    # They are kept, as a notebook keeps the last one, and with them all that their frames hold.
    interrupted: list[BaseException] = []
    for t in range(6):
        line = AtLine(1, interrupt, (contextlib.__file__,))
        try:
            with observer.step():
                observer.env.step(ACTION)
                if t == 2:
                    line.__enter__()
        except KeyboardInterrupt as error:
            interrupted.append(error)
    assert len(interrupted) == 1
    observer.end_current_episode(True)
    observer.stop_recording()
    episodes = read_back(observer.session_path)
    assert [(e.rows["observation.state"][:, 0].tolist(), e.meta["success"]) for e in episodes] == [
        ([0, 1], False),
        ([3, 4, 5], True),
    ]


def test_leaving_the_observer_s_own_block_closes_what_an_interrupt_left_inside_of_a_step(
    bare: Any, read_back: Any
) -> None:
    observer, _ = bare(mode="full_scene")

    def record() -> None:
        with observer:
            observer.start_recording()
            with observer.step():
                observer.env.step(ACTION)
            line = AtLine(1, interrupt, (contextlib.__file__,))
            with observer.step():
                line.__enter__()

    with pytest.raises(KeyboardInterrupt):
        record()
    assert not observer.is_recording
    assert [(e.meta["length"], e.meta["success"]) for e in read_back(observer.session_path)] == [(1, False)]


@pytest.mark.parametrize("where", ["look", "settle"])
def test_a_tick_that_is_interrupted_ends_its_episode_at_once(
    bare: Any, read_back: Any, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    observer, advance = bare()
    observer.start_recording()
    advance(2)
    with monkeypatch.context() as patch:
        patch.setattr(Lane, where, lambda *args: interrupt())
        with pytest.raises(KeyboardInterrupt):
            observer.tick()
    assert observer.state is BETWEEN
    advance(2)
    observer.end_current_episode(True)
    observer.stop_recording()
    ends = [(e.meta["length"], e.meta["success"]) for e in read_back(observer.session_path)]
    assert ends == [(2, False), (2, True)]


def test_between_two_parts_of_a_step_the_episode_ends_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest of the physics was not stepped: rows would have no gap, but actions would begin amid them."""
    sink = MemorySink(tmp_path)
    env = lr.RecordSession(
        gym.make("LuckyRecorder/PickCube-v0"), data_hz=100, mode="robot_arm", formats=(), sinks=[sink],
        output_dir=tmp_path,
    )  # fmt: skip
    action, settling = np.zeros(env.action_space.shape, np.float32), Lane.settle
    env.reset(seed=0)
    env.step(action)

    def settle(lane: Lane, *args: Any) -> None:
        settling(lane, *args)
        interrupt()

    with monkeypatch.context() as patch:
        patch.setattr(Lane, "settle", settle)
        patch.setattr(Take, "fail", lambda *args: interrupt())
        with pytest.raises(KeyboardInterrupt):
            env.step(action)
    assert env.recorder.take.lane.ticks == 3
    env.step(action)
    env.close()
    assert [(r.rows, r.outcome.success) for r in sink.records] == [(3, False)]


def test_an_action_that_was_held_does_not_hold_the_one_after_an_interrupt(
    record: Any, read_back: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    env, settling = record(CountEnv(None)), Lane.settle
    env.reset()
    env.hold()

    def settle(lane: Lane, *args: Any) -> None:
        settling(lane, *args)
        interrupt()

    with monkeypatch.context() as patch:
        patch.setattr(Lane, "settle", settle)
        # Its handling is interrupted as well, so the episode goes on: this row is whole.
        patch.setattr(Take, "fail", lambda *args: interrupt())
        with pytest.raises(KeyboardInterrupt):
            env.step(ACTION)
    env.step(ACTION)
    env.close()
    assert [e.rows["frame_flags"].tolist() for e in read_back(env.session_path)] == [[2, 1]]
