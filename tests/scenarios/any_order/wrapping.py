"""A machine that drives a `RecordSession`, and the observer behind it, with every verb in any order."""

from __future__ import annotations

import contextlib
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

import lucky_recorder as lr
from tests.scenarios.any_order.books import Plan, State, Tick
from tests.scenarios.any_order.faults import KINDS, FailingSink
from tests.scenarios.any_order.faulty import OF_RESET, OF_STEP, Broken, Env
from tests.scenarios.any_order.machine import MAYBE, AnyOrder, allowed, plans

IDLE, IN, BETWEEN = State.IDLE, State.IN, State.BETWEEN
RARELY = st.sampled_from([False, False, False, False, True])
LATE = "came after one that had ended its episode"


class WrapperInAnyOrder(AnyOrder):
    """Every verb of a wrapper."""

    def __init__(self) -> None:
        super().__init__()
        self.inner: Env
        self.env: lr.RecordSession
        # What the environment has said last: whether its episode is over, and whether that has succeeded.
        self.is_over = self.says = False
        # Whether steps are rows, and how many are not, since the last one of an episode.
        self.is_recorded = True
        self.late = 0
        self.is_held = False
        self.is_frozen = False
        self.is_closed = False

    @property
    def counts(self) -> Any:
        return self.env.observer.counts

    @property
    def stands(self) -> tuple[Any, ...]:
        env = self.env
        return env.observer.state.value, env.is_recording, env.session_path, env.koyu_path, self.inner.count

    @initialize(plan=plans(length=True), begins=st.sampled_from([True, True, False]))
    def first(self, plan: Plan, begins: bool) -> None:
        self.another(plan)
        if begins:
            self.reset(0, False, None)

    def another(self, plan: Plan) -> None:
        """Make a recorder around another environment."""
        self.begin_books(plan)
        self.faults.begin()
        self.inner = Env(plan.length)
        self.env = lr.RecordSession(
            self.inner,
            gym_columns=True,
            sinks=[FailingSink(self.place / "own", self.faults)],
            **plan.fields(self.place, {"name": "seen", "source": "render", "width": 32, "height": 32}),
        )
        self.is_over = self.says = self.is_held = self.is_frozen = self.is_closed = False
        self.is_recorded, self.late = True, 0

    @rule(plan=plans(length=True), now=RARELY)
    def new_settings(self, plan: Plan, now: bool) -> None:
        if len(self.past) < 3 and (now or self.books.state is IDLE):
            self.close()
            self.another(plan)
            self.reset(0, False, None)

    @rule(kind=st.sampled_from(KINDS))
    def arm(self, kind: str) -> None:
        if self.books.state is not IDLE and self.faults.struck is None:
            self.faults.armed = kind

    # What the environment does.

    @property
    def is_awaited(self) -> bool:
        """Whether another episode may be recorded."""
        return not self.is_closed and (self.books.state is not IDLE or not self.books.sessions)

    def told(self, call: Callable[[], Any], then: Callable[[], Any] = lambda: None) -> bool:
        """Make a call that warns of steps after the last one of an episode, with their number; see `works`."""
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            went_well = self.works(call, then)
        # Where it has raised, that has to wait.
        late = self.late if went_well else 0
        assert [str(w.message).partition(LATE)[0] for w in said] == [f"{late} steps "] * bool(late)
        self.late -= late
        return went_well

    def verdict(self) -> None:
        """Note that the next call ends the open episode, with the verdict of its last step."""
        if self.books.take is not None:
            self.ends_now(bool(self.books.take.ticks) and self.says)
        self.is_frozen = False

    @rule(seed=st.sampled_from([None, 3]), keeps=MAYBE, wrong=st.sampled_from([None, None, None, *OF_RESET]))
    def reset(self, seed: int | None, keeps: bool, wrong: str | None) -> None:
        options = {"keep_episode": True} if keeps else None
        stays = keeps and self.books.take is not None and not self.is_frozen and self.is_recorded
        if not stays:
            self.verdict()
        self.inner.wrong = wrong or ""
        if wrong is not None:
            self.is_reset_wrong(lambda: self.env.reset(seed=seed, options=options), stays)
            return
        self.is_over = self.is_over and stays
        went_well = self.told(lambda: self.env.reset(seed=seed, options=options))
        self.is_over = False
        if not went_well:
            self.is_recorded = self.is_recorded if stays else True
            return
        if stays:
            self.books.reset_due = True
            return
        self.is_recorded, self.is_held = True, False
        if self.is_awaited:
            if self.books.state is IDLE:
                self.books.start(self.env.session_path)
            else:
                self.books.begin()
            self.books.reset_due = True

    def is_reset_wrong(self, call: Callable[[], Any], stays: bool) -> None:
        """Make a reset that raises: the open episode is over, and nothing is recorded before one that does not."""
        try:
            self.works(call)
        except (Broken, lr.CaptureError):
            if stays:
                self.ended(False)
            self.is_recorded = False
        else:
            assert self.books.state is IDLE, "a reset that raises was not noticed"
            self.is_recorded = False
        self.inner.wrong = ""

    @rule(steps=st.integers(1, 3), command=st.integers(-3, 3))
    def step(self, steps: int, command: int) -> None:
        for k in range(steps):
            self.one_step(command + k)

    @rule(steps=st.integers(1, 5), success=st.sampled_from([None, True, False]))
    def a_whole_episode(self, steps: int, success: bool | None) -> None:
        self.reset(1, False, None)
        self.step(steps, 0)
        self.end_episode(success, None)

    def one_step(self, command: float) -> None:
        """Step the environment, and note what it did."""
        inner, books = self.inner, self.books
        number, reward = inner.count, float(inner.t)
        is_row = books.state is IN and not self.is_frozen and self.is_recorded
        if is_row and books.is_at_limit:
            self.ends_now(False)
            is_row = False
        if not self.works(lambda: self.env.step(np.array([command], np.float32))):
            # It may have come out before the environment was stepped.
            if inner.count != number:
                self.heard(is_row=False)
            return
        done = inner.t == books.plan.length
        if is_row:
            books.tick(Tick(number, command, 0, not self.is_held, reward=reward, done=done))
        self.is_held = False
        self.heard(is_row)

    def heard(self, is_row: bool) -> None:
        """Note what a step has returned."""
        inner = self.inner
        done, was_over = inner.t == self.books.plan.length, self.is_over
        if is_row:
            self.says, self.is_over = inner.episode % 2 == 0, done
            self.is_frozen = done
            if done:
                self.is_recorded = False
        elif self.is_awaited:
            self.is_over = done or was_over
            if was_over:
                self.late += not self.is_recorded
            elif done:
                self.is_recorded = False

    @rule(wrong=st.sampled_from(OF_STEP), value=st.sampled_from([None, np.nan, np.inf]))
    def step_that_goes_wrong(self, wrong: str, value: float | None) -> None:
        inner, books = self.inner, self.books
        if books.state is not IN or self.is_frozen or not self.is_recorded or books.is_at_limit:
            return
        has_rate = bool(books.session.takes or (books.take and books.take.ticks))
        if wrong == "stands still" and (not has_rate or inner.t + 1 == books.plan.length):
            # The very first step of a session would show another rate, and the session be refused. The last one of an
            # episode may be shorter.
            return
        inner.wrong = "" if value is not None else wrong
        action = np.array([0.0 if value is None else value], np.float32)
        number = inner.count
        expected = (Broken,) if value is None and wrong.startswith("raises") else (lr.CaptureError, lr.SettingsError)
        try:
            self.works(lambda: self.env.step(action))
        except expected:
            if value is not None or wrong in ("reward", "stands still", "explodes", "done is no truth"):
                self.gone_wrong(wrong if value is None else "")
            self.ended(False)
        else:
            assert books.state is IDLE, f"{wrong} was not noticed"
            if inner.count != number and inner.wrong == "" and self.is_awaited:
                self.is_over = False
        inner.wrong = ""

    def gone_wrong(self, wrong: str) -> None:
        """Note what a step has said that could not be recorded: it may have been the last of its episode."""
        if wrong != "done is no truth":
            self.is_over = self.inner.t == self.books.plan.length
        if self.is_over:
            self.is_recorded = False

    @rule()
    def observe(self) -> None:
        if self.books.state is not IN or self.is_frozen:
            self.refuses(self.env.observe)
            return
        seen: dict[str, Any] = {}
        if self.works(lambda: seen.update(self.env.observe())):
            assert seen["observation.state"].tolist() == [self.inner.count]

    # What is said.

    @rule(success=st.sampled_from([None, True, True, False]), reward=st.sampled_from([None, 0.5]))
    def end_episode(self, success: bool | None, reward: float | None) -> None:
        if self.books.state is not IN:
            self.refuses(lambda: self.env.end_episode(success, reward))
            return
        assert self.books.take is not None
        said = bool(self.books.take.ticks) and self.says if success is None else success
        self.ends(lambda: self.env.end_episode(success, reward), said)

    @rule(success=MAYBE, then=MAYBE)
    def end_through_the_observer(self, success: bool, then: bool) -> None:
        observer = self.env.observer
        verb = observer.end_current_episode_begin_next if then else observer.end_current_episode
        if self.books.state is not IN:
            self.refuses(lambda: verb(success))
            return
        self.ends(lambda: verb(success), success, then)

    def ends(self, call: Callable[[], Any], success: bool, then: bool = False) -> None:
        """Make a call that ends an episode, whatever comes out of the worker."""
        self.books.end(success)
        self.is_frozen = False
        if self.works(call) and not (self.faults.struck is None and self.books.close_if_complete()) and then:
            self.books.begin()

    @rule(verdict=st.sampled_from([("yes", None), (np.nan, None), (True, 2.0), (True, np.nan), (None, -1)]))
    def end_with_nonsense(self, verdict: tuple[Any, Any]) -> None:
        error = lr.SettingsError if self.books.state is IN else lr.StateError
        self.refuses(lambda: self.env.end_episode(*verdict), error)
        self.refuses(lambda: pickle.dumps(self.env))

    @rule()
    def begin_through_the_observer(self) -> None:
        begin = self.env.observer.begin_episode
        if not allowed(self.books, BETWEEN):
            self.refuses(begin)
        else:
            self.works(begin, self.books.begin)

    @rule(index=st.integers(-1, 1))
    def set_task(self, index: int) -> None:
        if index == 0:
            self.env.set_task(index)
        else:
            self.refuses(lambda: self.env.set_task(index), lr.SettingsError)

    @rule()
    def hold(self) -> None:
        self.env.hold()
        self.is_held = True
        self.refuses(lambda: self.env.hold("nobody"), lr.SettingsError)

    @rule()
    def mark_event(self) -> None:
        if not allowed(self.books, IN):
            self.refuses(lambda: self.env.mark_event("said"))
            return
        self.refuses(lambda: self.env.mark_event("said", value=float("inf")), lr.SettingsError)
        self.env.mark_event("said")
        self.books.mark_event()

    @rule()
    def mark_reset(self) -> None:
        if not allowed(self.books, IN, BETWEEN):
            self.refuses(self.env.observer.mark_reset)
            return
        self.env.observer.mark_reset()
        self.books.reset_due = True

    # The session.

    @rule()
    def flush(self) -> None:
        if not allowed(self.books, IN, BETWEEN):
            self.refuses(self.env.observer.flush)
        elif self.works(self.env.observer.flush, self.flushed):
            assert self.faults.struck is None, "what has failed was not told of"

    @rule(now=RARELY)
    def stop_through_the_observer(self, now: bool) -> None:
        if not now:
            return
        if not allowed(self.books, IN, BETWEEN):
            self.refuses(self.env.observer.stop_recording)
        else:
            self.works(self.env.observer.stop_recording, self.stopped)
            self.is_frozen = False

    def stopped(self) -> None:
        assert self.faults.struck is None, "what has failed was not told of"
        self.books.close()

    @rule(block=MAYBE, now=RARELY)
    def leave(self, block: bool, now: bool) -> None:
        if not now:
            return
        if not block:
            self.close()
            return

        def leave() -> None:
            with contextlib.suppress(ZeroDivisionError), self.env as entered:
                assert entered is self.env
                raise ZeroDivisionError

        self.close(leave)

    def close(self, call: Callable[[], Any] | None = None) -> None:
        """Close the recorder; what is done gets its verdict, what is not has failed."""
        if self.is_frozen:
            self.verdict()
        self.told(call or self.env.close, lambda: self.books.state is IDLE or self.stopped())
        self.is_closed, self.is_frozen = True, False

    @invariant()
    def stands_where_the_books_say(self) -> None:
        if self.past:
            self.agrees()
            assert self.env.is_recording is (self.books.state is not IDLE)

    def finish(self) -> None:
        self.close()
