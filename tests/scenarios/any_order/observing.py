"""A machine that drives an `Observer` with every verb in any order."""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

import lucky_recorder as lr
from tests.scenarios.any_order.books import HZ, Plan, State, Tick
from tests.scenarios.any_order.faults import KINDS, FailingSink
from tests.scenarios.any_order.machine import MAYBE, AnyOrder, allowed, plans
from tests.scenarios.any_order.world import World

IDLE, IN, BETWEEN = State.IDLE, State.IN, State.BETWEEN
INSTANT = 1e-9
BRIGHTER = 204 / 200
INSIDE: dict[str, Callable[[lr.Observer], Any]] = {
    "tick": lambda o: o.tick(),
    "step": lambda o: o.step().__enter__(),
    "observe": lambda o: o.observe(),
    "end_current_episode": lambda o: o.end_current_episode(True),
    "end_current_episode_begin_next": lambda o: o.end_current_episode_begin_next(True),
    "mark_reset": lambda o: o.mark_reset(),
    "mark_event": lambda o: o.mark_event("said"),
    "set_current_task_index": lambda o: o.set_current_task_index(0),
    "stop_recording": lambda o: o.stop_recording(),
    "begin_episode": lambda o: o.begin_episode(),
    "start_recording": lambda o: o.start_recording(),
    "register_task": lambda o: o.register_task("never"),
}


class ObserverInAnyOrder(AnyOrder):
    """Every verb of an observer."""

    camera = "wall"

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.observer: lr.Observer
        # Whether what happened to the simulation since the last tick of the open episode makes the next one wrong.
        self.is_off = False
        # What could be seen of the simulation at the last tick of the open episode.
        self.seen = self.world.seen

    @property
    def counts(self) -> Any:
        return self.observer.counts

    @property
    def stands(self) -> tuple[Any, ...]:
        o = self.observer
        return o.state.value, o.is_recording, o.session_path, o.koyu_path, o.current_task, self.world.data.time

    def read_frame(self, picture: Any, count: int) -> int:
        red, green, blue = picture.reshape(-1, 3).mean(0)
        is_odd, within = count // 100 % 2, count % 100
        # The light makes it a little brighter than the model says.
        is_it = int(blue > red) == is_odd and abs(green - BRIGHTER * 8 * within) < 4
        return count if is_it else -1

    @initialize(plan=plans(), begins=st.sampled_from([True, True, False]))
    def first(self, plan: Plan, begins: bool) -> None:
        self.another(plan)
        if begins:
            self.start_recording()

    def another(self, plan: Plan) -> None:
        """Make an observer."""
        self.begin_books(plan)
        self.faults.begin()
        self.observer = lr.Observer(
            model=self.world.model,
            data=self.world.data,
            sinks=[FailingSink(self.place / "own", self.faults)],
            **plan.fields(self.place, {"name": "wall", "width": 32, "height": 32}),
        )

    # No rule has a precondition: when a failure in the worker is told of is a matter of time, and which rules there are
    # to choose from must not be.
    @rule(plan=plans())
    def new_settings(self, plan: Plan) -> None:
        if self.books.state is IDLE and len(self.past) < 3:
            self.another(plan)

    @rule(kind=st.sampled_from(KINDS))
    def arm(self, kind: str) -> None:
        if self.books.state is not IDLE and self.faults.struck is None:
            self.faults.armed = kind

    # Ticks.

    def can_tick(self) -> bool:
        """Whether the next tick is whole; the simulation is as it should be after this call, in the books."""
        take = self.books.take
        # A reset that was marked lets the simulation be anywhere at the next tick.
        is_off = self.is_off and not self.books.reset_due
        return not (is_off and take is not None and take.ticks and not self.books.is_at_limit)

    def opened(self) -> bool:
        """Note that a tick begins an episode where it must; returns False if the session has ended instead."""
        books = self.books
        if books.is_at_limit:
            self.ended(False)
            self.is_off = False
        if books.state is BETWEEN:
            books.begin()
        return books.state is IN

    def recorded(self, command: float, is_new: bool) -> None:
        """Note a tick that went well."""
        if self.opened():
            self.books.tick(Tick(self.world.count, command, 0, is_new))
        self.is_off, self.seen = False, self.world.seen
        self.world.move()

    def failed(self) -> None:
        """Note a tick that was refused: its episode has failed."""
        if self.opened():
            self.ended(False)
        self.is_off = False

    @rule(command=st.integers(-3, 3), is_new=MAYBE)
    def tick(self, command: int, is_new: bool) -> None:
        self.world.data.ctrl[:] = command
        if not allowed(self.books, IN, BETWEEN):
            self.refuses(self.observer.tick)
        elif self.can_tick():
            self.works(lambda: self.observer.tick(is_new), lambda: self.recorded(command, is_new))
        else:
            self.is_refused(self.observer.tick)

    def is_refused(self, call: Callable[[], Any]) -> None:
        """Make a call that cannot be recorded."""
        try:
            self.works(call)
        except lr.CaptureError:
            self.failed()
        else:
            assert self.books.state is IDLE, "a tick that is no row was recorded"

    @rule(ticks=st.integers(2, 4))
    def ticks(self, ticks: int) -> None:
        for command in range(ticks):
            self.tick(command, True)

    @rule(ticks=st.integers(1, 4), success=st.sampled_from([True, True, False]), then=MAYBE)
    def a_whole_episode(self, ticks: int, success: bool, then: bool) -> None:
        self.start_recording()
        for command in range(ticks):
            self.tick(command, True)
        self.end_current_episode(success, None, then)

    @rule(array=st.sampled_from(["qpos", "ctrl"]), value=st.sampled_from([np.nan, np.inf, -np.inf]))
    def tick_that_is_not_finite(self, array: str, value: float) -> None:
        if self.books.state is IDLE or self.is_off:
            return
        data = self.world.data
        data.ctrl[:] = 0
        getattr(data, array)[0] = value
        # One that is past the longest episode is the first of the next.
        self.is_refused(self.observer.tick)
        data.ctrl[:] = 0
        self.world.show(self.world.number)

    @rule(command=st.integers(-3, 3), inside=st.sampled_from([None, *INSIDE]), raises=MAYBE)
    def step(self, command: int, inside: str | None, raises: bool) -> None:
        if not allowed(self.books, IN, BETWEEN):
            self.refuses(lambda: self.observer.step().__enter__())
            return
        if not self.can_tick():
            self.is_refused(lambda: self.observer.step().__enter__())
            return
        number = self.world.count

        def block() -> None:
            with self.observer.step():
                self.world.data.ctrl[:] = command
                self.world.move()
                if self.observer.is_recording and inside is not None:
                    self.refuses(lambda: INSIDE[inside](self.observer))
                if raises:
                    raise ZeroDivisionError("in the block")

        try:
            went_well = self.works(block)
        except ZeroDivisionError:
            self.failed()
            return
        if went_well and self.opened():
            self.books.tick(Tick(number, command, 0))
        self.is_off, self.seen = False, self.world.seen

    @rule()
    def observe(self) -> None:
        if not allowed(self.books, IN, BETWEEN):
            self.refuses(self.observer.observe)
            return
        seen: dict[str, Any] = {}
        went_well = self.works(lambda: seen.update(self.observer.observe()))
        if went_well:
            if self.books.state is BETWEEN:
                self.books.begin()
            assert seen["observation.state"].tolist() == [self.world.count]
            for key in seen.keys() & {"observation.images.wall"}:
                assert self.read_frame(seen[key], self.world.count) == self.world.count

    @rule(how=st.sampled_from(["move", "restart", "explode"]))
    def move_the_simulation(self, how: str) -> None:
        getattr(self.world, how)()
        lasted = self.world.seen.time - self.seen.time
        if abs(lasted) < INSTANT or abs(lasted - 1 / HZ) < INSTANT:
            # Where a tick would find it that has not moved yet, or has gone on: nothing can tell it from that.
            self.world.nudge()
        self.is_off = True

    # Episodes.

    @rule()
    def begin_episode(self) -> None:
        if not allowed(self.books, BETWEEN):
            self.refuses(self.observer.begin_episode)
        elif self.works(self.observer.begin_episode, self.books.begin):
            self.is_off = False

    @rule(success=MAYBE, reward=st.sampled_from([None, 0.25]), then=MAYBE)
    def end_current_episode(self, success: bool, reward: float | None, then: bool) -> None:
        verb = self.observer.end_current_episode_begin_next if then else self.observer.end_current_episode
        if not allowed(self.books, IN):
            self.refuses(lambda: verb(success, reward))
            return
        self.ends(lambda: verb(success, reward), success, then)

    def ends(self, call: Callable[[], Any], success: bool, then: bool) -> None:
        """Make a call that ends an episode, whatever comes out of the worker."""
        books, has_rows = self.books, self.books.take is not None and bool(self.books.take.ticks)
        # What MuJoCo has made of the last command is no success.
        is_wrong = success and self.shows_explosion() and has_rows and not books.reset_due
        books.end(success and not is_wrong)

        def end() -> None:
            with pytest.raises(lr.CaptureError) if is_wrong else contextlib.nullcontext():
                call()

        if self.works(end) and not (self.faults.struck is None and books.close_if_complete()) and then and not is_wrong:
            books.begin()
        self.is_off = False

    def shows_explosion(self) -> bool:
        """Tell whether it shows, without a tick, that MuJoCo has reset the simulation since the last one.

        Its count of that begins at 0 again as well, so it does not where as much time has passed since.
        """
        before, now = self.seen, self.world.seen
        was_reset = now.time < before.time and now.steps < before.steps
        return now.resets > (0 if was_reset else before.resets)

    @rule(
        verdict=st.sampled_from([("yes", None), (float("nan"), None), (True, 2.0), (True, float("nan")), (True, "x")])
    )
    def end_with_nonsense(self, verdict: tuple[Any, Any]) -> None:
        if allowed(self.books, IN):
            self.refuses(lambda: self.observer.end_current_episode(*verdict), lr.SettingsError)
            self.refuses(lambda: self.observer.end_current_episode_begin_next(*verdict), lr.SettingsError)
        else:
            self.refuses(lambda: self.observer.end_current_episode(*verdict))
        self.refuses(lambda: pickle.dumps(self.observer))

    @rule()
    def mark_reset(self) -> None:
        if not allowed(self.books, IN, BETWEEN):
            self.refuses(self.observer.mark_reset)
            return
        self.observer.mark_reset()
        self.books.reset_due, self.is_off = True, False
        self.refuses(lambda: self.observer.mark_reset("nobody"), lr.SettingsError)

    @rule()
    def mark_event(self) -> None:
        if not allowed(self.books, IN):
            self.refuses(lambda: self.observer.mark_event("said"))
            return
        self.refuses(lambda: self.observer.mark_event("said", value=float("nan")), lr.SettingsError)
        self.observer.mark_event("said")
        self.books.mark_event()

    # The session.

    @rule(index=st.integers(-1, 3))
    def set_current_task_index(self, index: int) -> None:
        if 0 <= index < len(self.books.tasks):
            self.observer.set_current_task_index(index)
            self.books.task = index
        else:
            self.refuses(lambda: self.observer.set_current_task_index(index), lr.SettingsError)

    @rule()
    def register_task(self) -> None:
        name = f"task {len(self.books.tasks)}"
        if not allowed(self.books, IDLE):
            self.refuses(lambda: self.observer.register_task(name))
        elif len(self.books.tasks) < 3:
            assert self.observer.register_task(name) == len(self.books.tasks)
            self.books.tasks.append(name)
            self.refuses(lambda: self.observer.register_task(name), lr.SettingsError)

    @rule()
    def start_recording(self) -> None:
        if not allowed(self.books, IDLE):
            self.refuses(self.observer.start_recording)
        elif len(self.books.sessions) < 3:
            self.faults.begin()
            self.books.start(self.observer.start_recording())
            self.is_off = False

    @rule()
    def stop_recording(self) -> None:
        if allowed(self.books, IN, BETWEEN):
            self.works(self.observer.stop_recording, self.stopped)
        else:
            self.refuses(self.observer.stop_recording)

    def stopped(self) -> None:
        assert self.faults.struck is None, "what has failed was not told of"
        self.books.close()

    @rule(raises=MAYBE)
    def leave_a_block(self, raises: bool) -> None:
        def leave() -> None:
            with contextlib.suppress(ZeroDivisionError), self.observer as entered:
                assert entered is self.observer
                if raises:
                    raise ZeroDivisionError

        if allowed(self.books, IDLE):
            leave()
        else:
            self.works(leave, self.stopped)

    @rule()
    def flush(self) -> None:
        if not allowed(self.books, IN, BETWEEN):
            self.refuses(self.observer.flush)
        elif self.works(self.observer.flush, self.flushed):
            assert self.faults.struck is None, "what has failed was not told of"

    @invariant()
    def stands_where_the_books_say(self) -> None:
        if self.past:
            self.agrees()
            assert self.observer.is_recording is (self.books.state is not IDLE)
            assert self.observer.current_task == self.books.tasks[self.books.task]

    def finish(self) -> None:
        if self.books.state is not IDLE:
            self.works(self.observer.stop_recording, self.stopped)
