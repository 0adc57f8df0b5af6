"""A machine that drives a `VectorRecordSession` with every verb in any order."""

from __future__ import annotations

import contextlib
import functools
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

import lucky_recorder as lr
from tests.scenarios.any_order.books import Plan, Session, State, Struck
from tests.scenarios.any_order.faults import KINDS, FailingSink
from tests.scenarios.any_order.faulty import OF_RESET, OF_STEP, Broken, Env
from tests.scenarios.any_order.laned import LATE, PER_LANE, Lane, LanedBooks
from tests.scenarios.any_order.machine import MAYBE, OURS, AnyOrder, plans

IDLE, IN = State.IDLE, State.IN
RARELY = st.sampled_from([False, False, False, False, True])
LANE = st.integers(0, 2)
LENGTHS = st.lists(st.sampled_from([None, 2, 3, 5]), min_size=2, max_size=3)
MASK = st.lists(MAYBE, min_size=3, max_size=3)
MODES = st.sampled_from(list(AutoresetMode))


class VectorInAnyOrder(AnyOrder):
    """Every verb of a recorder of many lanes."""

    books: LanedBooks

    def __init__(self) -> None:
        super().__init__()
        self.env: Any
        self.lanes: list[Lane] = []
        # Which lanes are over, as the last step that came through has said: where nobody else does so, they are reset.
        self.done = np.zeros(0, bool)
        self.mode = AutoresetMode.DISABLED
        # Whether the next call of every lane but one raises what was told of in that one.
        self.owed_to: int | None = None
        self.is_closed = False
        # How many recorders there were.
        self.made = 0

    @property
    def counts(self) -> Any:
        return self.env.counts

    @property
    def struck(self) -> Struck | None:
        """What has failed in the open session."""
        return self.faults.struck

    @property
    def has_failed(self) -> bool:
        """Whether something has failed in the open session, as the recorder knows by now."""
        return self.books.is_open and self.counts.failure is not None

    @property
    def stands(self) -> tuple[Any, ...]:
        env = self.env
        lanes = [(lane.env.observer.state.value, lane.inner.count) for lane in self.lanes]
        return self.state(), env.is_recording, env.session_path, env.koyu_path, lanes

    def state(self) -> list[str]:
        """Where each lane stands."""
        return [lane.env.observer.state.value for lane in self.lanes]

    @initialize(plan=plans(), lengths=LENGTHS, mode=MODES, begins=st.sampled_from([True, True, False]))
    def first(self, plan: Plan, lengths: list[int | None], mode: AutoresetMode, begins: bool) -> None:
        self.another(plan, lengths, mode)
        if begins:
            self.reset_all(0, False)

    def another(
        self, plan: Plan, lengths: list[int | None], mode: AutoresetMode, gone_on_with: Session | None = None
    ) -> None:
        """Make a recorder around other environments, for a session of its own or one that it goes on with."""
        last = [lane.inner.episode for lane in self.lanes]
        self.books = LanedBooks(plan, lengths, gone_on_with)
        if gone_on_with is not None:
            # These books have all that those before them had.
            self.past.pop()
        self.past.append(self.books)
        self.faults.begin()
        self.made += 1
        vector = SyncVectorEnv([functools.partial(Env, n) for n in lengths], autoreset_mode=mode)
        fields = plan.fields(self.place, {"name": "seen", "source": "render", "width": 32, "height": 32})
        self.env = lr.RecordSession(
            vector,
            gym_columns=True,
            sinks=[FailingSink(self.place / f"own-{self.made}", self.faults)],
            resume=None if gone_on_with is None else gone_on_with.path,
            **{**fields, "tasks": ["first", "second"]},
        )
        self.lanes = [Lane(lane, k, self.books.lanes[k], self) for k, lane in enumerate(self.env.lanes)]
        vector.envs[:] = self.lanes
        for k, lane in enumerate(self.lanes):
            # What it shows tells its lane, its episode and its step, also in a session that is gone on with.
            lane.inner.episode = last[k] if k < len(last) else PER_LANE * k - 1
        self.done, self.mode = np.zeros(len(lengths), bool), mode
        self.owed_to, self.is_closed = None, False

    @rule(plan=plans(), lengths=LENGTHS, mode=MODES, now=RARELY)
    def new_settings(self, plan: Plan, lengths: list[int | None], mode: AutoresetMode, now: bool) -> None:
        if self.made < 4 and (now or self.books.is_over):
            self.close()
            self.another(plan, lengths, mode)
            self.reset_all(0, False)

    @rule(mode=MODES, now=MAYBE)
    def go_on(self, mode: AutoresetMode, now: bool) -> None:
        books = self.books
        if self.made == 4 or not books.sessions or not (now or books.is_over):
            return
        self.close()
        if books.episodes(books.session):
            self.another(books.plan, [lane.plan.length for lane in books.lanes], mode, books.session)
            self.reset_all(0, False)

    @rule(kind=st.sampled_from(KINDS))
    def arm(self, kind: str) -> None:
        if self.books.is_open and self.faults.struck is None:
            self.faults.armed = kind

    # Calls.

    def hear(self, lane: Lane) -> None:
        """Note that what has failed was told of in a lane, and the session is closed."""
        if self.owed_to is None:
            assert self.faults.struck is not None, "nothing has failed"
            self.surface()
        else:
            assert lane.number != self.owed_to, "told of twice"

    def calls(self, call: Callable[[], Any], *expected: type[Exception]) -> bool:
        """Make a call of the vector environment; returns whether it went well. What its lanes did, they have noted."""
        owed = self.owed_to
        try:
            call()
        except OURS:
            assert owed is not None or self.books.is_over
        except expected:
            pass
        else:
            assert owed is None, "what a lane was told of is to be told of here too"
            return True
        # What ends the session is raised once.
        self.owed_to = None
        return False

    # What the environments do.

    def masked(self, mask: Any, seed: int | None, **options: Any) -> None:
        """Reset some lanes."""
        went_well = self.calls(
            lambda: self.env.reset(seed=seed, options={"reset_mask": mask, **options}), Broken, lr.CaptureError
        )
        # The vector environment takes them for reset, whatever comes.
        self.done &= ~mask
        self.over(went_well)

    def reset_all(self, seed: int | None, keeps: bool) -> None:
        """Reset all lanes."""
        options = {"keep_episode": True} if keeps else None
        went_well = self.calls(lambda: self.env.reset(seed=seed, options=options), Broken, lr.CaptureError)
        self.done[:] = False
        self.over(went_well)

    def over(self, went_well: bool) -> None:
        """Nothing that was to go wrong goes wrong later."""
        for lane in self.lanes:
            lane.inner.wrong = ""

    @rule(
        seed=st.sampled_from([None, 3]),
        keeps=MAYBE,
        lane=LANE,
        wrong=st.sampled_from([None, None, None, None, *OF_RESET]),
    )
    def reset(self, seed: int | None, keeps: bool, lane: int, wrong: str | None) -> None:
        self.lane(lane).inner.wrong = wrong or ""
        self.reset_all(seed, keeps)

    @rule(mask=MASK, seed=st.sampled_from([None, 3]), keeps=RARELY, wrong=st.sampled_from([None, None, *OF_RESET]))
    def reset_some(self, mask: list[bool], seed: int | None, keeps: bool, wrong: str | None) -> None:
        chosen = np.array(mask[: len(self.lanes)])
        if not chosen.any():
            return
        self.reset_before()
        self.lanes[int(chosen.argmax())].inner.wrong = wrong or ""
        self.masked(chosen, seed, **({"keep_episode": True} if keeps else {}))

    def reset_before(self) -> None:
        """Reset all lanes once: gymnasium's cannot do anything before."""
        if not all(lane.was_reset for lane in self.lanes):
            self.reset_all(None, False)

    def lane(self, number: int) -> Lane:
        """Return a lane."""
        return self.lanes[number % len(self.lanes)]

    @rule(steps=st.integers(1, 4), command=st.integers(-3, 3))
    def step(self, steps: int, command: int) -> None:
        for k in range(steps):
            self.one_step([command + k + 10 * lane.number for lane in self.lanes])

    @rule(lane=LANE, wrong=st.sampled_from(OF_STEP), value=st.sampled_from([None, None, np.nan, np.inf]))
    def step_that_goes_wrong(self, lane: int, wrong: str, value: float | None) -> None:
        actions = [0.0] * len(self.lanes)
        if value is None:
            self.lane(lane).inner.wrong = wrong
        else:
            actions[lane % len(self.lanes)] = value
        self.one_step(actions)

    def one_step(self, actions: list[float]) -> None:
        """Step the lanes; where nobody else does so, those that are over are reset before."""
        self.reset_before()
        if self.mode is AutoresetMode.DISABLED and self.done.any():
            wrong = [lane.inner.wrong for lane in self.lanes]
            self.masked(self.done.copy(), None)
            for lane, one in zip(self.lanes, wrong, strict=True):
                lane.inner.wrong = one
        said: dict[str, Any] = {}

        def step() -> None:
            *_, terminated, truncated, _ = self.env.step(np.array(actions, np.float32)[:, None])
            said["done"] = terminated | truncated

        went_well = self.calls(step, Broken, lr.CaptureError, lr.SettingsError)
        if went_well:
            self.done = said["done"]
        self.over(went_well)

    @rule(steps=st.integers(1, 5), success=st.sampled_from([None, True, False]), lane=LANE)
    def a_whole_episode(self, steps: int, success: bool | None, lane: int) -> None:
        self.reset_all(None, False)
        self.step(steps, 0)
        self.end_episode(lane, success, None)

    # What is said.

    @rule(lane=LANE, success=st.sampled_from([None, True, True, False]), reward=st.sampled_from([None, 0.5]))
    def end_episode(self, lane: int, success: bool | None, reward: float | None) -> None:
        one = self.lane(lane)
        number, books = one.number, one.books
        if books.state is not IN:
            self.refuses(lambda: self.env.end_episode(number, success, reward))
            self.owed_to = None
            return
        assert books.take is not None
        said = bool(books.take.ticks) and one.says if success is None else success
        books.end(said)
        one.is_frozen = False
        if self.works(lambda: self.env.end_episode(number, success, reward)) and self.faults.struck is None:
            self.books.close_if_complete()

    @rule(verdict=st.sampled_from([("yes", None), (np.nan, None), (True, 2.0), (True, np.nan), (None, -1)]), lane=LANE)
    def nonsense(self, verdict: tuple[Any, Any], lane: int) -> None:
        one = self.lane(lane)
        error = lr.SettingsError if one.books.state is IN else lr.StateError
        self.refuses(lambda: self.env.end_episode(one.number, *verdict), error)
        self.owed_to = None
        for wrong in (len(self.lanes), -1, True, None):
            self.refuses(functools.partial(self.env.end_episode, wrong), lr.SettingsError)
        self.refuses(lambda: self.env.set_task(0, lane=len(self.lanes)), lr.SettingsError)
        self.refuses(lambda: self.env.set_task(2), lr.SettingsError)
        self.refuses(lambda: pickle.dumps(self.env))

    @rule(index=st.integers(0, 1), lane=st.sampled_from([None, 0, 1, 2]))
    def set_task(self, index: int, lane: int | None) -> None:
        chosen = self.lanes if lane is None else [self.lane(lane)]
        self.env.set_task(index, None if lane is None else chosen[0].number)
        for one in chosen:
            one.books.task = index

    @rule(lane=LANE)
    def hold(self, lane: int) -> None:
        one = self.lane(lane)
        one.env.hold()
        one.is_held = True

    @rule(lane=LANE)
    def mark_event(self, lane: int) -> None:
        one = self.lane(lane)
        if one.books.state is not IN:
            self.refuses(lambda: one.env.mark_event("said"))
            return
        one.env.mark_event("said")
        one.books.mark_event()

    @rule(lane=LANE)
    def observe(self, lane: int) -> None:
        one = self.lane(lane)
        if one.books.state is not IN or one.is_frozen:
            self.refuses(one.env.observe)
            return
        seen: dict[str, Any] = {}
        if self.works(lambda: seen.update(one.env.observe())):
            assert seen["observation.state"].tolist() == [one.inner.count]
        else:
            self.owed_to = one.number

    # The session.

    @rule()
    def flush(self) -> None:
        if not self.books.is_open:
            self.refuses(self.env.flush)
        elif self.works(self.env.flush, self.flushed):
            assert self.faults.struck is None, "what has failed was not told of"

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
        for lane in self.lanes:
            if lane.is_frozen:
                lane.verdict()
            lane.books.close()
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            went_well = self.works(call or self.env.close)
        if went_well:
            assert self.is_closed or not self.books.is_open or self.faults.struck is None, "nobody was told"
            late = [f"{lane.late} steps " for lane in self.lanes if lane.late]
            assert [str(w.message).partition(LATE)[0] for w in said] == late
        self.books.close()
        for lane in self.lanes:
            lane.late = 0
        self.is_closed, self.owed_to = True, None

    @invariant()
    def stands_where_the_books_say(self) -> None:
        if self.past:
            assert self.state() == [lane.books.state.value for lane in self.lanes]
            assert self.env.is_recording is any(lane.books.state is not IDLE for lane in self.lanes)

    def finish(self) -> None:
        self.close()
