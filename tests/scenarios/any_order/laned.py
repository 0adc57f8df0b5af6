"""The books of the lanes of a vector environment: each lane's own, and what all of them share."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import gymnasium as gym
import numpy as np

import lucky_recorder as lr
from tests.scenarios.any_order.books import Books, Plan, Session, State, Struck, Tick
from tests.scenarios.any_order.faulty import OF_RESET, OF_STEP, Broken, Env

IDLE, IN, BETWEEN = State.IDLE, State.IN, State.BETWEEN
LATE = "came after one that had ended its episode"
# So often a lane leaves a place to one that has waited longer.
PATIENCE = 3
PER_LANE = 200


class LanedBooks(Books):
    """The books of a session that lanes share.

    Attributes:
        lanes: The books of each lane.
        is_over: Whether the session has been closed.
        gone_on_with: What is to be added to; None for a new session.
    """

    def __init__(self, plan: Plan, lengths: Sequence[int | None], gone_on_with: Session | None = None) -> None:
        super().__init__(plan)
        self.gone_on_with = gone_on_with
        self.lanes = [Books(dataclasses.replace(plan, length=n), self.sessions) for n in lengths]
        self.is_over = False
        self._waiting: list[int] = []
        self._passed: dict[int, int] = {}

    @property
    def is_open(self) -> bool:
        """Whether a session is open."""
        return bool(self.sessions) and not self.is_over

    def close(self) -> None:
        """Close the session; the open takes are failures, lane after lane."""
        for lane in self.lanes:
            lane.close()
        self.is_over = True

    def free(self, number: int, struck: Struck | None) -> int:
        """Count the places for episodes that nobody has taken, nor may take."""
        session, plan = self.session, self.plan
        assert plan.total is not None
        after = len(session.takes) if struck is None else struck.after
        gone = [
            take
            for place, take in enumerate(session.takes)
            if (place < after and not take.success) or (struck == ("encoder", take.number, after))
        ]
        others = sum(lane.take is not None for k, lane in enumerate(self.lanes) if k != number)
        return plan.total - (len(session.takes) - len(gone) * plan.discards + others)

    def may_begin(self, number: int, struck: Struck | None) -> bool:
        """Decide whether a lane's episode is recorded that begins now; the lane that has waited longest goes first."""
        if self.plan.total is None or not self.sessions:
            return True
        free, waiting = self.free(number, struck), self._waiting
        before = waiting.index(number) if number in waiting else len(waiting)
        if free > before or (free > 0 and self._passed.get(number, 0) >= PATIENCE):
            self.wait_no_more(number)
            return True
        if number not in waiting:
            waiting.append(number)
        self._passed[number] = self._passed.get(number, 0) + (free > 0)
        return False

    def wait_no_more(self, number: int) -> None:
        """Keep no place for a lane."""
        self._passed.pop(number, None)
        if number in self._waiting:
            self._waiting.remove(number)


class Driver(Protocol):
    """The machine, as its lanes know it."""

    books: LanedBooks
    is_closed: bool

    @property
    def struck(self) -> Struck | None:
        """What has failed in the open session."""

    @property
    def has_failed(self) -> bool:
        """Whether something has failed in the open session, as the recorder knows by now."""

    def hear(self, lane: Lane) -> None:
        """Note that what has failed was told of in a lane."""


class Lane(gym.Wrapper[Any, Any, Any, Any]):
    """Stands around the recorder of a lane, and keeps its books: whoever steps or resets the lane comes by here.

    So nothing needs to be known of when a vector environment does so.

    Attributes:
        env: The recorder.
        number: The lane's number.
        inner: The environment.
        books: Its books.
        says: Whether the last row's step has succeeded.
        is_over: Whether the last step has ended its episode.
        is_recorded: Whether steps are rows, where an episode is open: not after the last one of an episode.
        is_skipped: Whether the present episode is left out.
        is_frozen: Whether an episode is open whose last step was taken.
        is_held: Whether the next step holds the last action.
        late: Steps that came after the last one of an episode, and that nobody was told of.
        has_rate: Whether it has had a row.
        was_reset: Whether a reset has come through.
    """

    def __init__(self, env: Any, number: int, books: Books, driver: Driver) -> None:
        super().__init__(env)
        self.env: Any = env
        self.number = number
        self.inner: Env = env.unwrapped
        self.books = books
        self._driver = driver
        self.says = self.is_over = self.is_frozen = self.is_held = self.is_skipped = False
        self.has_rate = self.was_reset = False
        self.is_recorded = True
        self.late = 0
        self._may_complete = False

    @property
    def is_awaited(self) -> bool:
        """Whether another episode may be recorded."""
        return not self._driver.is_closed and not self._driver.books.is_over

    @property
    def is_row(self) -> bool:
        """Whether the next step is a row, or would be if its episode were not long enough."""
        return self.books.state is IN and not self.is_frozen and self.is_recorded

    def told(self, call: Callable[[], Any]) -> Any:
        """Make a call that warns of steps that came late; what has failed in the worker may come out."""
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            try:
                result = call()
            except (lr.StreamError, lr.StorageError):
                self._driver.hear(self)
                self._may_complete = False
                raise
            except Exception:
                self._completed()
                raise
        self._completed()
        assert [str(w.message).partition(LATE)[0] for w in said] == [f"{self.late} steps "] * bool(self.late)
        self.late = 0
        return result

    def ended(self, success: bool) -> None:
        """Note the end of the open episode, which may have been the last of all."""
        self._ends_now(success)
        self._completed()

    def _ends_now(self, success: bool) -> None:
        """Note that the call which is made next ends the open episode: it may fail in it, and is not the last then."""
        self.books.end(success)
        self.is_frozen = False
        self._may_complete = True

    def _completed(self) -> None:
        """Note that the session is over, if the episode that has ended was the last of all."""
        if self._may_complete and self._driver.struck is None:
            self._driver.books.close_if_complete()
        self._may_complete = False

    def verdict(self) -> None:
        """Note that the next call ends the open episode, with the verdict of its last step."""
        if self.books.take is not None:
            self._ends_now(bool(self.books.take.ticks) and self.says)
        self.is_frozen = False

    # What the vector environment does.

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """Reset the lane."""
        driver, inner = self._driver, self.inner
        keeps = bool(options and options.get("keep_episode")) and (self.is_row or self.is_skipped)
        if not keeps:
            self.verdict()
        inner.wrong = inner.wrong if inner.wrong in OF_RESET else ""
        was_wrong, has_failed = bool(inner.wrong), driver.has_failed
        try:
            result = self.told(lambda: self.env.reset(seed=seed, options=options))
        except (Broken, lr.CaptureError):
            assert was_wrong, "nothing was wrong"
            if self.books.take is not None:
                self.ended(False)
            self.is_recorded = self.is_skipped = False
            raise
        assert not was_wrong, "a reset that raises was not noticed"
        self.is_over, self.was_reset = False, True
        if keeps:
            self.books.reset_due = self.books.state is IN
            return result
        self.is_recorded, self.is_skipped, self.is_held = True, False, False
        if self.is_awaited:
            assert not has_failed, "what has failed was not told of"
            self.is_skipped = not driver.books.may_begin(self.number, driver.struck)
            if not self.is_skipped:
                self.begin()
        return result

    def begin(self) -> None:
        """Note that an episode has begun."""
        shared = self._driver.books
        if shared.sessions:
            self.books.begin()
        else:
            self.books.start(self.env.session_path, shared.gone_on_with)
        self.books.reset_due = True

    def step(self, action: Any) -> Any:
        """Step the lane."""
        inner, books = self.inner, self.books
        is_row = self.is_row
        if is_row and books.is_at_limit:
            self._ends_now(False)
            is_row = False
        wrong = self.wrong_of(action) if is_row else ""
        if not wrong:
            action, inner.wrong = np.nan_to_num(action, nan=0, posinf=0, neginf=0), ""
        has_failed = is_row and self._driver.has_failed
        number, reward, command = inner.count, float(inner.t), float(action[0])
        try:
            result = self.told_of_step(lambda: self.env.step(action))
        except (Broken, lr.CaptureError, lr.SettingsError):
            assert wrong, "nothing was wrong"
            self.went_wrong(wrong)
            raise
        assert not wrong, f"{wrong} was not noticed"
        assert not has_failed, "what has failed was not told of"
        done = inner.t == books.plan.length
        if is_row:
            self.has_rate = True
            books.tick(Tick(number, command, 0, not self.is_held, reward=reward, done=done))
        self.is_held = False
        self.heard(is_row, done)
        return result

    def told_of_step(self, call: Callable[[], Any]) -> Any:
        """Make a call that warns of nothing."""
        late, self.late = self.late, 0
        result = self.told(call)
        self.late = late
        return result

    def wrong_of(self, action: Any) -> str:
        """Say what will go wrong in a step."""
        if not np.isfinite(action).all():
            self.inner.wrong = ""
            return "action"
        wrong = self.inner.wrong if self.inner.wrong in OF_STEP else ""
        # The very first step of a lane would show another rate, and the session be refused. The last one of an episode
        # may be shorter: a simulation may stop, or be reset, within it.
        is_last = self.inner.t + 1 == self.books.plan.length
        return "" if wrong == "stands still" and (is_last or not self.has_rate) else wrong

    def heard(self, is_row: bool, done: bool) -> None:
        """Note what a step has returned."""
        was_over = self.is_over
        if is_row:
            self.says, self.is_over, self.is_frozen = self.inner.episode % 2 == 0, done, done
            self.is_recorded = not done
        elif self.is_awaited:
            self.is_over = done or was_over
            if was_over:
                self.late += not (self.is_recorded or self.is_skipped)
            elif done and not self.is_skipped:
                self.is_recorded = False

    def went_wrong(self, wrong: str) -> None:
        """Note a step that was refused: its episode has failed, and may have been over with it."""
        if wrong in ("reward", "stands still", "explodes", "done is no truth", "action"):
            if wrong != "done is no truth":
                self.is_over = self.inner.t == self.books.plan.length
            if self.is_over:
                self.is_recorded = False
        self.ended(False)
