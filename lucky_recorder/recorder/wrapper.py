"""RecordSession: the recorder's face for a Gymnasium environment. What gymnasium calls becomes the recorder's verbs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NoReturn, SupportsFloat, Unpack

import gymnasium as gym
from gymnasium.utils import RecordConstructorArgs

from lucky_recorder.capture.moment import Moment
from lucky_recorder.episode.record import Outcome, Reason
from lucky_recorder.episode.sink import Sink
from lucky_recorder.errors import CaptureError, SettingsError, StateError
from lucky_recorder.recorder.arrival import Arrivals, copied
from lucky_recorder.recorder.formats import own_sinks
from lucky_recorder.recorder.observer import checked_reward, observer_of
from lucky_recorder.recorder.parts import PartedSteps
from lucky_recorder.recorder.policies import Ran, without
from lucky_recorder.recorder.recorder import Recorder
from lucky_recorder.recorder.stage import Stage, Unrecorded, trigger
from lucky_recorder.recorder.subject import Subject
from lucky_recorder.recorder.success import SuccessSignal, truth
from lucky_recorder.recorder.take import FROZEN, OPEN, Take
from lucky_recorder.settings.fields import RecorderFields
from lucky_recorder.settings.recorder import RecorderSettings
from lucky_recorder.settings.validators import callable_name

KEEP_EPISODE = "keep_episode"
Result = tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]


RECORDED = Stage.RECORDED


class RecordSession(gym.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Records what a Gymnasium environment does into a session.

    It has a method for each call of gymnasium's and for each thing that a user can say, and holds no episode itself:
    that is the open `Take` of its `Recorder`, which ``env.observer`` shows too.

    Row k is the state before step k, with the command applied during step k. The environment is only read: its run is
    the same, bit for bit, with the recorder and without it. The constructor opens nothing; the first ``reset`` does.

    An episode freezes when the environment says ``terminated`` or ``truncated``; its verdict falls at the next
    ``reset``, at ``close``, or at `end_episode`.

    Args:
        env: The environment.
        settings: What to record: `RecorderSettings`, a mapping, or the path of a TOML file.
        sinks: Formats of your own that take the finished episodes, besides ``formats``; see `Sink`.
        **fields: Settings by keyword, on top of ``settings``.

    Raises:
        SettingsError: If the settings cannot be recorded.

    Example:
        ```python
        env = lr.RecordSession(gym.make("LuckyRecorder/PickCube-v0"), cameras=[lr.Camera("front")])
        ```
    """

    def __init__(
        self,
        env: gym.Env[Any, Any],
        settings: RecorderSettings | Mapping[str, Any] | str | Path | None = None,
        *,
        sinks: Iterable[Sink] = (),
        **fields: Unpack[RecorderFields],
    ) -> None:
        settled = RecorderSettings.of(settings, **fields)
        given = own_sinks(settled, sinks)
        # A spec holds plain values. It can say that there were sinks, so that nobody makes the wrapper anew without
        # them and does not notice: their names are refused where sinks belong.
        named: dict[str, Any] = {"sinks": [callable_name(type(sink)) for sink in given]} if given else {}
        RecordConstructorArgs.__init__(self, settings=settled.to_dict(), **named)
        gym.Wrapper.__init__(self, env)
        self.settings = settled
        self.recorder = Recorder(settled, given)
        self.observer = observer_of(self.recorder)
        self._success = SuccessSignal(settled, env)
        self._trigger = trigger(settled)
        self._policy_period, self._shows_success = settled.policy_period, settled.gym_columns
        self._subject = Subject(env)
        self._arrivals = Arrivals(settled, self._success)
        self._unrecorded = Unrecorded()
        self._resets = 0
        self._stage = Stage.RECORDED
        self._parts: PartedSteps | None = None
        # The open take, or one that has ended: to ask the recorder for it costs as much as to copy a row.
        self._take: Take | None = None
        self._ran: Ran = True

    # What the environment does.

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Reset the environment; the open episode gets its verdict and the next one begins.

        Args:
            seed: As for the environment.
            options: As for the environment; ``{"keep_episode": True}`` resets the robot inside the open episode, whose
                next row is then flagged ``post_reset``. Where none is open it is a reset like any other.

        Raises:
            SettingsError: At the first reset, if the environment does not fit the settings; nothing is on the disk.
        """
        keeps = bool(options and options.get(KEEP_EPISODE)) and self._goes_on()
        if options and KEEP_EPISODE in options:
            options = {key: value for key, value in options.items() if key != KEEP_EPISODE} or None
        if not keeps:
            self._end_by_itself()
        result = self.env.reset(seed=seed, options=options)
        self._arrivals.reset(result)
        if not keeps:
            self._begin(seed)
        elif self.recorder.take is not None:
            self._rebind()
            self.recorder.mark_reset(is_seeded=seed is not None)
        # Last: where warnings are errors this raises, and then the episode has begun all the same.
        self._unrecorded.tell_of_steps()
        return result

    def step(self, action: Any) -> Result:
        """Step the environment and record the step.

        Raises:
            CaptureError: If the step cannot be recorded; its episode is ended as failed, the session stays open.
            StreamError: If a stream has failed; the session is closed then.
        """
        take = self._take
        if take is None or take.state is not OPEN:
            # Another may have been begun through the other face.
            self._take = take = self.recorder.take
        if take is None or take.state is not OPEN or self._stage is not RECORDED:
            return self._step_between(action)
        moment = take.moment
        arrivals = self._arrivals
        moment.obs = arrivals.observation
        # The environment may clip it in place.
        moment.action = copied(action) if arrivals.keeps_all else action
        period = self._policy_period
        new_policy_step = (period == 1 or take.steps % period == 0) and self._ran
        # An interrupt may strike anywhere in here. Then the row of this step is not whole, and the episode ends with
        # the one before it: going on would leave a gap that nobody sees.
        result = None
        try:
            if self._parts is not None:
                result = self._step_in_parts(self._parts, take, action, new_policy_step)
            elif take.look():
                result = self._inner_step(take, moment, action)
                take.settle(new_policy_step)
        except BaseException as error:  # as said above
            take.fail(error)
            raise
        if result is None:
            return self._step_between(action)
        self._ran = True
        if arrivals.is_over and take.state is OPEN:
            self._freeze(take)
        return result

    def close(self) -> None:
        """Give the open episode its verdict, close the session, then the environment. Calling it again does nothing.

        An episode that was not done is ended as failed.

        Raises:
            LuckyRecorderError: The first thing that failed in the session; the environment is closed all the same.
        """
        take = self.recorder.take
        try:
            if take is not None and take.state is FROZEN:
                self._end_by_itself()
        finally:
            try:
                if self.recorder.is_recording:
                    self.recorder.close("close() was called")
            finally:
                if self._stage is not Stage.CLOSED:
                    self._stage = Stage.CLOSED
                    if self._parts is not None:
                        self._parts.remove()
                    self.env.close()
        self._unrecorded.tell_of_steps()

    # What the user says.

    def end_episode(self, success: bool | None = None, reward: float | None = None) -> None:
        """End the open episode now, and say its verdict; what follows is not recorded until ``reset``.

        Args:
            success: Whether it succeeded; None: as the ``success`` setting says.
            reward: The verdict as a number from 0 to 1.

        Raises:
            StateError: If no episode is open.
        """
        take = self.recorder.take
        if take is None:
            raise StateError("end_episode() needs an open episode, and there is none; call reset() first")
        said = None if success is None else truth(success, "success")
        self._end(take, said, checked_reward(reward))

    def observe(self) -> dict[str, Any]:
        """Return what the coming step will record of what a policy may see, by feature key; see `Observer.observe`.

        Raises:
            StateError: If no episode is open.
        """
        if self._stage is Stage.BEGINS:
            self._begin_by_itself()
        take = self.recorder.take
        if take is None or take.state is not OPEN:
            raise StateError("observe() needs an open episode that goes on, and there is none; call reset() first")
        take.moment.obs, take.moment.action = self._arrivals.observation, None
        return self.observer.observe()

    def set_task(self, index: int) -> None:
        """Set the task of the rows from here on, also in later episodes.

        Raises:
            StateError: If the setting ``task`` says what rows are of.
            SettingsError: If no task of that index is registered.
        """
        self.recorder.set_task(index)

    def mark_event(self, kind: str, **fields: Any) -> None:
        """Note that something happens now, before the next row, such as a person taking over.

        It stands under ``events`` in the sidecar of a koyu bundle; a session has no place for it.

        Args:
            kind: What it is.
            **fields: What else is known of it: plain JSON values.

        Raises:
            StateError: If no episode is open.
            SettingsError: If a value is no JSON.
        """
        if self._stage is Stage.BEGINS:
            self._begin_by_itself()
        self.observer.mark_event(kind, **fields)

    def hold(self, robot: str | None = None) -> None:
        """Say that the next step holds the policy's last action: its row has no ``new_policy_step``.

        Args:
            robot: The robot whose action is held; None for all of them.

        Raises:
            SettingsError: If there is no such robot; before the first ``reset`` none is known.
        """
        self._ran = without(self._ran, robot, self.recorder.robots)

    @property
    def session_path(self) -> Path | None:
        """The session's folder, or the dataset's if only bundles are written; None before the first ``reset``."""
        return self.recorder.path

    @property
    def koyu_path(self) -> Path | None:
        """The koyu dataset's folder; None before the first ``reset``, and where no bundles are written."""
        return self.observer.koyu_path

    @property
    def is_recording(self) -> bool:
        """Whether a session is open."""
        return self.recorder.is_recording

    def __getstate__(self) -> NoReturn:
        raise StateError(
            "a RecordSession holds a thread and open files and can be neither copied nor pickled; "
            "make one in each process, as gym.make_vec(..., wrappers=[...]) does, or copy the environment inside it"
        )

    # One step.

    def _inner_step(self, take: Take, moment: Moment, action: Any) -> Result:
        """Step the environment, and keep what only the step knows, for columns and for the verdict."""
        result = self.env.step(action)
        arrivals = self._arrivals
        arrivals.step(result, moment)
        # Columns of the observation that the action was chosen on have been read; what is asked now sees the next one.
        moment.obs = arrivals.observation
        is_there = self._subject.is_still_there
        if is_there is not None and not is_there():
            self._rebind_inside(take)
        is_said = False
        if moment.done:
            # Before its last row is settled: an interrupt must not let another row follow it.
            self._stage = Stage.DONE
            is_said = self._subject.says_reset(moment.info)
            arrivals.end(moment)
        if not take.led_on(moment.done, is_said):
            take.was_reset = True
            self._stage, arrivals.is_over = Stage.DONE, True
        if self._shows_success:
            moment.success = bool(self._ask(take))
        return result

    def _rebind_inside(self, take: Take) -> None:
        """Look at the model and data that a step has put in the place of others, from its command on."""
        try:
            self._rebind(in_step=True)
        except SettingsError as error:
            raise CaptureError(f"within a step: {error}") from error
        if take.state is not OPEN:
            take.lane.drop_half()

    def _step_in_parts(self, parts: PartedSteps, take: Take, action: Any, new_policy_step: Ran) -> Result:
        return parts.run(take, lambda: self._inner_step(take, take.moment, action), new_policy_step)

    def _freeze(self, take: Take) -> None:
        """Keep the rows as they are until the verdict falls."""
        if take.was_reset:
            self._stage = Stage.BEGINS
        take.freeze(lambda: self._ask(take))
        if take.was_reset and self.recorder.loses_reset_steps:
            self._unrecorded.tell_of_reset()

    def _ask(self, take: Take) -> bool | None:
        """Ask about success; a callable sees the state and the observation that the last step has led to."""
        if self._success.is_callable:
            take.refresh()
            take.moment.obs = self._arrivals.observation
        return self._success.peek(take.moment, may_ask=not take.was_reset)

    # What is not recorded.

    def _step_between(self, action: Any) -> Result:
        """Step without a row. An environment that resets itself, within a step or on the next, begins an episode."""
        if self._stage is Stage.BEGINS:
            self._begin_by_itself()
            return self.step(action)
        was_over, before = self._arrivals.is_over, self._subject.beat()
        result = self.env.step(action)
        if not self._is_awaited():
            return result
        moment = Moment()
        self._arrivals.step(result, moment)
        was_reset = self._subject.was_reset_since(before, moment.done and not was_over)
        if was_over:
            was_reset |= self._subject.resets_on_next_step
        elif moment.done:
            was_reset |= self._subject.says_reset(moment.info)
        if was_reset:
            self._stage = Stage.BEGINS
        elif was_over:
            self._unrecorded.steps += self._stage is Stage.DONE
            self._arrivals.is_over = True
        elif moment.done and self._stage is RECORDED:
            self._stage = Stage.DONE
        return result

    def _is_awaited(self) -> bool:
        """Tell whether another episode may be recorded."""
        is_over = self.recorder.recording is not None and not self.recorder.is_recording
        return self._stage is not Stage.CLOSED and not is_over

    # One episode.

    def _goes_on(self) -> bool:
        """Tell whether a reset can stay within the present episode."""
        take = self.recorder.take
        is_open = take is not None and take.state is OPEN
        return self._stage is Stage.SKIPPED or (is_open and self._stage is RECORDED)

    def _begin_by_itself(self) -> None:
        """Begin the episode that the environment has begun by itself."""
        self._end_by_itself()
        self._arrivals.is_over = False
        self._begin(None)

    def _begin(self, seed: int | None) -> None:
        """Begin an episode after a reset; the very first opens the session."""
        number, self._resets = self._resets, self._resets + 1
        self._ran = True
        if self._stage is not Stage.CLOSED:
            self._stage = Stage.RECORDED if self._trigger(number) else Stage.SKIPPED
        if not self._is_awaited():
            return
        if self._stage is not Stage.RECORDED:
            self._subject.locate()
            return
        if self.recorder.is_recording:
            self._rebind()
            self.recorder.begin(seed)
        else:
            self.recorder.start(self._subject.open_source(self.settings), seed)
        self.recorder.mark_reset()
        self._prepare(self.recorder.open_take())

    def _prepare(self, take: Take) -> None:
        self._arrivals.begin(take.moment)
        if take.ticks_per_step > 1 and self._parts is None:
            self._parts = PartedSteps(self.env, take.ticks_per_step)

    def _rebind(self, in_step: bool = False) -> None:
        """Find the simulation again: some environments make a new one at every reset, or within a step."""
        found = self._subject.locate()
        if found is not None and self.recorder.recording is not None:
            self.recorder.recording.rebind(*found, in_step)

    def _end_by_itself(self) -> None:
        """End the open episode, if there is one, with the verdict of its last step."""
        if self.recorder.take is not None:
            self._end(self.recorder.take, None, None)

    def _end(self, take: Take, said: bool | None, reward: float | None) -> None:
        """End the open episode with the verdict that was said, or else with its last step's."""
        try:
            if said is None and take.has_rows:
                # A frozen take was asked when it froze: since then the environment may have gone on.
                said = take.verdict if take.state is FROZEN else self._ask(take)
                if said is None:
                    self._success.complain()
        finally:
            # Also where asking raises: the episode is over either way.
            reason = Reason.NO_VERDICT if said is None else Reason.VERDICT
            self._take = None
            self.recorder.end(Outcome(bool(said), reason, reward))
