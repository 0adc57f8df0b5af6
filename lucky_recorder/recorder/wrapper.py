"""RecordSession: the recorder's face for a Gymnasium environment. What gymnasium calls becomes the recorder's verbs."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NoReturn, SupportsFloat, Unpack, cast

import gymnasium as gym
from gymnasium.utils import RecordConstructorArgs

from lucky_recorder.capture.moment import Moment
from lucky_recorder.episode.sink import Sink
from lucky_recorder.errors import SettingsError, StateError
from lucky_recorder.lazy import lazy
from lucky_recorder.notices import held
from lucky_recorder.recorder.arrival import copied
from lucky_recorder.recorder.circumstances import plain_options
from lucky_recorder.recorder.course import RECORDED, Course
from lucky_recorder.recorder.exits import leave_if_ending
from lucky_recorder.recorder.fleet import Fleet
from lucky_recorder.recorder.formats import own_sinks
from lucky_recorder.recorder.observer import checked_reward, observer_of
from lucky_recorder.recorder.policies import Ran, without
from lucky_recorder.recorder.recorder import Recorder
from lucky_recorder.recorder.stage import Stage
from lucky_recorder.recorder.subject import check_environment, is_vector
from lucky_recorder.recorder.success import truth
from lucky_recorder.recorder.take import FROZEN, OPEN, Take
from lucky_recorder.settings.fields import RecorderFields
from lucky_recorder.settings.recorder import RecorderSettings
from lucky_recorder.settings.validators import callable_name

# Only used, and never imported here: it makes a session of this kind for each environment in a vector environment.
vector: Any = lazy("lucky_recorder.recorder.vector")

KEEP_EPISODE = "keep_episode"
Result = tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]


class RecordSession(gym.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Records what a Gymnasium environment does into a session.

    It has a method for each call of gymnasium's and for each thing that a user can say, and holds no episode itself:
    that is the open `Take` of its `Recorder`, which ``env.observer`` shows too.

    Row k is the state before step k, with the command applied during step k. The environment is only read: its run is
    the same, bit for bit, with the recorder and without it. The constructor opens nothing; the first ``reset`` does.

    An episode freezes when the environment says ``terminated`` or ``truncated``; its verdict falls at the next
    ``reset``, at ``close``, or at `end_episode`.

    A vector environment is handed over: what is made then is a `lucky_recorder.vector.VectorRecordSession`, which is no
    `RecordSession`; each of its ``lanes`` is one.

    Args:
        env: The environment, or a vector environment.
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

    def __new__(cls, env: Any = None, *args: Any, **fields: Any) -> Any:
        """Hand a vector environment over to what records it."""
        if cls is RecordSession and is_vector(env):
            return vector.of(env)(env, *args, **fields)
        return super().__new__(cls)

    def __init__(
        self,
        env: gym.Env[Any, Any] | gym.vector.VectorEnv[Any, Any, Any],
        settings: RecorderSettings | Mapping[str, Any] | str | Path | None = None,
        *,
        sinks: Iterable[Sink] = (),
        **fields: Unpack[RecorderFields],
    ) -> None:
        check_environment(env)
        settled = RecorderSettings.of(settings, **fields).anchored()
        given = own_sinks(settled, sinks)
        # A spec holds plain values. It can say that there were sinks, so that nobody makes the wrapper anew without
        # them and does not notice: their names are refused where sinks belong.
        named: dict[str, Any] = {"sinks": [callable_name(type(sink)) for sink in given]} if given else {}
        RecordConstructorArgs.__init__(self, settings=settled.to_dict(), **named)
        # What is none has been handed over, or refused.
        gym.Wrapper.__init__(self, cast("gym.Env[Any, Any]", env))
        self._record(Recorder(settled, given))

    def _record(self, recorder: Recorder) -> None:
        """Take a recorder, whose face this is."""
        self.settings = recorder.settings
        self.recorder = recorder
        self.observer = observer_of(recorder)
        self._course = Course(recorder, self.env)
        self._policy_period = recorder.settings.policy_period
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
        self.recorder.refuse_if_left()
        course = self._course
        self.recorder.raise_owed()
        course.end_if_cut()
        keeps = bool(options and options.get(KEEP_EPISODE)) and course.goes_on
        if options and KEEP_EPISODE in options:
            options = {key: value for key, value in options.items() if key != KEEP_EPISODE} or None
        # Where warnings are errors, one of them must not leave a reset half done.
        with held():
            if not keeps:
                course.end_by_itself()
            # The environment may change them.
            said = plain_options(options)
            try:
                result = self.env.reset(seed=seed, options=options)
                course.arrivals.reset(result)
                if keeps:
                    course.keep(is_seeded=seed is not None)
            except BaseException as error:  # also an interrupt: nobody knows how the environment stands now
                course.lose(error)
                raise
            if not keeps:
                course.begin(seed, said)
                course.subject.note_reset()
                self._ran = True
            course.unrecorded.tell_of_steps()
        return result

    def step(self, action: Any) -> Result:
        """Step the environment and record the step.

        Raises:
            CaptureError: If the step cannot be recorded; its episode is ended as failed, the session stays open.
            StreamError: If a stream has failed; the session is closed then.
        """
        course, take = self._course, self._take
        if take is None or take.state is not OPEN:
            # Another may have been begun, through the other face too.
            self._take = take = self.recorder.take
        if take is None or take.state is not OPEN or course.stage is not RECORDED:
            return self._step_between(action)
        moment, arrivals = take.moment, course.arrivals
        moment.obs = arrivals.observation
        # The environment may clip it in place.
        moment.action = copied(action) if arrivals.keeps_actions or course.parts is not None else action
        period = self._policy_period
        new_policy_step = (period == 1 or take.steps % period == 0) and self._ran
        # An interrupt may strike anywhere in here. Then the row of this step is not whole, and the episode ends with
        # the one before it: going on would leave a gap that nobody sees.
        result = None
        try:
            # Now, and not when the row is finished: an interrupt in between would have the next row held, too.
            self._ran = True
            is_there = course.subject.is_still_there
            if is_there is not None and not is_there():
                course.rebind_at("between two steps", take)
            if course.parts is not None:
                if not course.end_if_cut():
                    # No lambda: what it would hold on to takes longer to look up, at every step.
                    step = functools.partial(self._inner_step, take, moment, action)
                    result = course.parts.run(take, step, new_policy_step)
            elif take.look():
                result = self.env.step(action)
                course.take_in(take, result, moment)
                take.settle(new_policy_step)
        except BaseException as error:  # as said above
            self._take = None
            take.fail(error)
            raise
        if result is None:
            return self._step_between(action)
        if arrivals.is_over and take.state is OPEN:
            course.freeze(take)
        return result

    def close(self) -> None:
        """Give the open episode its verdict, close the session, then the environment. Calling it again does nothing.

        An episode that was not done is ended as failed.

        Raises:
            LuckyRecorderError: The first thing that failed in the session; the environment is closed all the same.
        """
        course, take = self._course, self.recorder.take
        self._take = None
        try:
            if take is not None and take.state is FROZEN:
                course.end_by_itself()
        finally:
            try:
                self.recorder.leave("close() was called")
            finally:
                if course.stage is not Stage.CLOSED:
                    course.stage = Stage.CLOSED
                    if course.parts is not None:
                        course.parts.remove()
                    self.env.close()
        course.unrecorded.tell_of_steps()

    # What the user says.

    def end_episode(self, success: bool | None = None, reward: float | None = None) -> None:
        """End the open episode now, and say its verdict; what follows is not recorded until ``reset``.

        Args:
            success: Whether it succeeded; None: as the ``success`` setting says.
            reward: The verdict as a number from 0 to 1.

        Raises:
            StateError: If no episode is open.
        """
        self.recorder.refuse_if_left()
        take = self.recorder.take
        if take is None:
            raise StateError("end_episode() needs an open episode, and there is none; call reset() first")
        said = None if success is None else truth(success, "success")
        self._course.end(take, said, checked_reward(reward))

    def observe(self) -> dict[str, Any]:
        """Return what the coming step will record of what a policy may see, by feature key; see `Observer.observe`.

        Raises:
            StateError: If no episode is open.
        """
        self.recorder.refuse_if_left()
        self._course.begin_if_due()
        self._course.end_if_cut()
        take = self.recorder.take
        if take is None or take.state is not OPEN:
            raise StateError(
                "observe() needs an open episode that goes on, and there is none; call reset(), or step, first"
            )
        take.moment.obs, take.moment.action = self._course.arrivals.observation, None
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
        self.recorder.refuse_if_left()
        self._course.begin_if_due()
        self.observer.mark_event(kind, **fields)

    def annotate(self, /, **said: Any) -> None:
        """Say something of the open episode, such as who acted, or how good it was: ``annotate(operator="Ada")``.

        It stands under ``annotations`` in ``meta/episodes``, and in the sidecar of a koyu bundle. What is said again is
        replaced, all else is kept. Where the environment is done, it is said of that episode until its verdict falls.

        Args:
            **said: Plain JSON values.

        Raises:
            StateError: If no episode is open.
            SettingsError: If a value is no JSON, or all of them are more than 64 kB.
        """
        if self.recorder.take is None:
            self._course.begin_if_due()
        self.observer.annotate(**said)

    def hold(self, robot: str | None = None) -> None:
        """Say that the next step holds the policy's last action: its row has no ``new_policy_step``.

        Args:
            robot: The robot whose action is held; None for all of them.

        Raises:
            SettingsError: If there is no such robot; before the first ``reset`` none is known.
        """
        self.recorder.refuse_if_left()
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
        self._course.take_in(take, result, moment)
        return result

    def _step_between(self, action: Any) -> Result:
        """Step without a row, unless the environment has begun an episode by itself."""
        # A daemon thread that goes on while Python takes everything down would crash in the simulator.
        leave_if_ending()
        self.recorder.refuse_if_left()
        self.recorder.raise_owed()
        if self._course.begin_if_due():
            return self.step(action)
        before = self._course.subject.beat()
        result = self.env.step(action)
        self._ran = True
        self._course.take_in_unrecorded(result, before)
        return result


class RecordLane(RecordSession):
    """Records one of many environments into the session that they share: one of its lanes.

    Args:
        env: The environment.
        settings: What is recorded, the same in every lane.
        fleet: What the lanes share.

    Raises:
        SettingsError: If it is no single environment.
        StateError: If the session of the others has ended, or is another process's.
    """

    def __init__(self, env: gym.Env[Any, Any], settings: RecorderSettings, fleet: Fleet) -> None:
        check_environment(env)
        if not isinstance(fleet, Fleet):
            # What a spec says of it: an environment that is made anew from that has no others beside it.
            remedy = "a lane has others beside it; make all of them anew, with lucky_recorder.vector.shared()"
            raise SettingsError.of("fleet", fleet, remedy)
        RecordConstructorArgs.__init__(self, settings=settings.to_dict(), fleet="the lanes of a session")
        gym.Wrapper.__init__(self, env)
        self._record(Recorder(settings, fleet=fleet))

    @property
    def lane(self) -> int:
        """Its number, from 0."""
        return self.recorder.lane

    def lose(self, error: BaseException) -> None:
        """End the open episode as failed, since a step or a reset was not taken in; nothing is recorded before a reset.

        Args:
            error: Why it was not.
        """
        self._take = None
        self._course.lose(error)
