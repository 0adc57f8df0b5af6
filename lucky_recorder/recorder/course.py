"""The course of an environment: which of its episodes begins when, whether it is recorded, and how it ends.

Gymnasium's calls are not enough to tell. An environment may begin an episode by itself, within a step or on the step
after, and the verdict of one that is over may be said later. `RecordSession` steps; what a step means for the episodes
is decided here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lucky_recorder.capture.moment import Moment
from lucky_recorder.episode.record import Outcome, Reason
from lucky_recorder.errors import CaptureError, SettingsError, StateError
from lucky_recorder.recorder.arrival import Arrivals
from lucky_recorder.recorder.parts import PartedSteps
from lucky_recorder.recorder.recorder import Recorder
from lucky_recorder.recorder.stage import Stage, Unrecorded, trigger
from lucky_recorder.recorder.subject import Subject
from lucky_recorder.recorder.success import SuccessSignal
from lucky_recorder.recorder.take import FROZEN, OPEN, Take

RECORDED = Stage.RECORDED


class Course:
    """The episodes of one environment.

    Attributes:
        stage: What becomes of the present one.
        subject: The environment.
        arrivals: What it has returned.
        parts: Takes its steps in parts; None where they are whole.
        unrecorded: What is told of steps that are no rows.

    Args:
        recorder: What records it.
        env: The environment.
    """

    def __init__(self, recorder: Recorder, env: Any) -> None:
        self.stage = Stage.RECORDED
        self.subject = Subject(env)
        self.parts: PartedSteps | None = None
        self.unrecorded = Unrecorded()
        self._recorder = recorder
        self._success = SuccessSignal(recorder.settings, env)
        self.arrivals = Arrivals(recorder.settings, self._success)
        self._trigger = trigger(recorder.settings)
        self._shows_success = recorder.settings.gym_columns
        # Most infos say it by a plain truth value, and nobody has to be asked.
        self._is_heard = self._success.is_heard
        self._resets = 0

    @property
    def goes_on(self) -> bool:
        """Whether a reset can stay within the present episode."""
        take = self._recorder.take
        is_open = take is not None and take.state is OPEN
        return self.stage is Stage.SKIPPED or (is_open and self.stage is RECORDED)

    @property
    def is_awaited(self) -> bool:
        """Whether another episode may be recorded."""
        return self.stage is not Stage.CLOSED and not self._recorder.has_ended

    # Its beginning.

    def begin_if_due(self) -> bool:
        """Begin the episode that the environment has begun by itself; returns whether it had."""
        if self.stage is not Stage.BEGINS:
            return False
        self.end_by_itself()
        self.arrivals.is_over, self.arrivals.is_fresh = False, True
        self.begin(None)
        return True

    def begin(self, seed: int | None, options: Mapping[str, Any] | None = None) -> None:
        """Begin an episode after a reset, with its seed and its plain options; the very first opens the session."""
        number, self._resets = self._resets, self._resets + 1
        if self.stage is not Stage.CLOSED:
            self.stage = RECORDED if self._trigger(number) else Stage.SKIPPED
        if not self.is_awaited:
            return
        if self.stage is RECORDED and not self._recorder.may_begin():
            self.stage = Stage.SKIPPED
        if self.stage is not RECORDED:
            self.subject.locate()
            return
        recorder = self._recorder
        if recorder.is_recording:
            self.rebind()
            recorder.begin(seed)
        else:
            recorder.start(self.subject.open_source(recorder.settings, recorder.fleet.scenes), seed)
        recorder.mark_reset()
        take = recorder.open_take()
        take.circumstances.options = options
        self.arrivals.begin(take.moment)
        if take.ticks_per_step > 1 and self.parts is None:
            self.parts = PartedSteps(self.subject.env, take.ticks_per_step, self._follow_inside)

    def keep(self, is_seeded: bool) -> None:
        """Go on with the open episode after a reset inside of it.

        Args:
            is_seeded: Whether that reset was given a seed.

        Raises:
            SettingsError: If there is another simulation now, whose rows would have another layout.
        """
        if self._recorder.take is not None:
            self.rebind()
            self._recorder.mark_reset(is_seeded=is_seeded)

    def lose(self, error: BaseException) -> None:
        """End the open episode as failed, since a reset has raised; nothing is recorded before one that does not.

        Args:
            error: What it has raised.
        """
        if self.stage is not Stage.CLOSED:
            self.stage = Stage.DONE
        if self._recorder.take is not None:
            self._recorder.take.fail(error)

    def rebind(self, in_step: bool = False) -> None:
        """Find the simulation again: some environments make a new one at every reset, or within a step.

        Raises:
            SettingsError: If there is none any more, or its rows would have another layout.
        """
        self.subject.follow(self._recorder.recording, in_step)

    # Its steps.

    def take_in(self, take: Take, result: Any, moment: Moment) -> None:
        """Take in what a step of the open take has returned, and see what it did to the simulation."""
        arrivals = self.arrivals
        arrivals.step(result, moment)
        # Columns of the observation that the action was chosen on have been read; what is asked now sees the next one.
        moment.obs = arrivals.observation
        is_there = self.subject.is_still_there
        if is_there is not None and not is_there():
            self.rebind_at("within a step", take)
        if moment.done or not take.is_on_time():
            self._look_closer(take, moment)
        if self._shows_success:
            said = moment.said
            moment.success = said if said.__class__ is bool and self._is_heard else bool(self.ask(take))

    def _look_closer(self, take: Take, moment: Moment) -> None:
        """See what has become of the simulation in a step that is the first, the last, or unlike the others."""
        arrivals, is_said = self.arrivals, False
        if moment.done:
            # Before its last row is settled: an interrupt must not let another row follow it.
            self.stage = Stage.DONE
            # Time and MuJoCo's count do not show it where an environment writes nothing but positions.
            is_back = take.state is OPEN and take.lane.is_back_at_start()
            is_said = is_back or self.subject.says_reset(moment.info, arrivals.observation)
            arrivals.end(moment)
        if take.state is OPEN and not take.led_on(moment.done, is_said):
            take.was_reset = True
            self.stage, arrivals.is_over = Stage.BEGINS, True
        take.lost_last = take.lane.watch.is_idle

    def _follow_inside(self, take: Take) -> None:
        """Find the simulation that a step has put in the place of the recorded one, if it has."""
        is_there = self.subject.is_still_there
        if is_there is not None and not is_there():
            self.rebind_at("within a step", take)

    def rebind_at(self, when: str, take: Take) -> None:
        """Look at the model and data that were put in the place of others; where a step did it, from its command on.

        Raises:
            CaptureError: If there are none any more, or their rows would have another layout.
        """
        try:
            self.rebind(in_step=take.lane.is_open)
        except SettingsError as error:
            raise CaptureError(f"{when}: {error}") from error
        if take.state is not OPEN:
            take.lane.drop_half()

    def take_in_unrecorded(self, result: Any, before: Any) -> None:
        """Take in what a step that is no row has returned: it may have begun another episode.

        Args:
            result: What ``env.step`` has returned.
            before: How the simulation stood before it: `Subject.beat`.
        """
        if not self.is_awaited:
            return
        was_over, is_first, moment = self.arrivals.is_over, self.arrivals.is_fresh, Moment()
        self.arrivals.step(result, moment)
        was_reset = self.subject.was_reset_since(before, was_over or moment.done, is_first)
        if was_over:
            was_reset |= self.subject.resets_on_next_step
        elif moment.done:
            was_reset |= self.subject.says_reset(moment.info, self.arrivals.observation)
        if was_reset:
            self.stage = Stage.BEGINS
            if was_over and self.subject.has_stepped_on(self._recorder.recording):
                self.unrecorded.tell_of_first()
        elif was_over:
            self.unrecorded.steps += self.stage is Stage.DONE
            self.arrivals.is_over = True
        elif moment.done and self.stage is RECORDED:
            self.stage = Stage.DONE

    # Its end.

    def ask(self, take: Take) -> bool | None:
        """Ask about success; a callable sees the state and the observation that the last step has led to."""
        if self._success.is_callable:
            take.moment.obs = self.arrivals.final if take.was_reset else self.arrivals.observation
            if not take.was_reset:
                take.refresh()
        return self._success.peek(take.moment, may_ask=not take.was_reset)

    def freeze(self, take: Take) -> None:
        """Keep the rows of a take as they are until its verdict falls."""
        take.freeze(lambda: self.ask(take))
        if take.was_reset and self._recorder.loses_reset_steps:
            self.unrecorded.tell_of_reset()
        elif take.lost_last and self._recorder.loses_reset_steps:
            self.unrecorded.tell_of_last()

    def end_if_cut(self) -> bool:
        """End the open episode as failed if a step of it was cut short: see `Take.end_if_cut`; returns whether."""
        take = self._recorder.take
        if take is None or take.state is not OPEN:
            return False
        if self.parts is not None and take.lane.ticks % take.ticks_per_step:
            # Between two parts of a step no half is open.
            self._recorder.end(Outcome(False, Reason.ERROR), take)
            return True
        return take.end_if_cut()

    def end_by_itself(self) -> None:
        """End the open episode, if there is one, with the verdict of its last step."""
        if not self.end_if_cut() and self._recorder.take is not None:
            self.end(self._recorder.take, None, None)

    def end(self, take: Take, said: bool | None, reward: float | None) -> None:
        """End the open episode with the verdict that was said, or else with its last step's.

        Raises:
            StateError: If a callable were to be asked while a step is under way, in another thread or around this call.
        """
        if said is None and take.lane.is_open and self._success.is_callable:
            raise StateError(
                "end_episode() while a step is under way: the success callable would look at a simulation that is "
                "moving; say success=True or success=False, or call it after the step"
            )
        try:
            if said is None and take.has_rows:
                # A frozen take was asked when it froze: since then the environment may have gone on.
                said = take.verdict if take.state is FROZEN else self.ask(take)
                if said is None:
                    self._success.complain()
        finally:
            # Also where asking raises: the episode is over either way.
            reason = Reason.NO_VERDICT if said is None else Reason.VERDICT
            self._recorder.end(Outcome(bool(said), reason, reward), take)
