"""RecordSession: turns the calls of a Gymnasium environment into the observer's events."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, SupportsFloat, TypeVar

import gymnasium as gym
from gymnasium.utils import RecordConstructorArgs

from lucky_recorder.capture import find as resolve
from lucky_recorder.capture.find import most_parts
from lucky_recorder.capture.mujoco.substeps import Substeps
from lucky_recorder.capture.source import Source, open_source
from lucky_recorder.episode import clock
from lucky_recorder.episode.record import Outcome, Reason
from lucky_recorder.errors import CaptureError, StateError
from lucky_recorder.recorder.observer import Observer, checked_reward, verdict
from lucky_recorder.recorder.success import SuccessSignal
from lucky_recorder.settings.recorder import RecorderSettings
from lucky_recorder.settings.validators import load_callable

if TYPE_CHECKING:
    from lucky_recorder.capture.moment import Moment
    from lucky_recorder.recorder.lane import Lane

KEEP_EPISODE = "keep_episode"
Answer = TypeVar("Answer")


class RecordSession(gym.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Records what a Gymnasium environment does into a session.

    Row k is the state before step k, with the command applied during step k. The environment is only read: its run is
    the same, bit for bit, with the recorder and without it. The constructor opens nothing; the first ``reset`` does.

    An episode freezes when the environment says ``terminated`` or ``truncated``; its verdict falls at the next
    ``reset``, at ``close``, or at `end_episode`.

    Args:
        env: The environment.
        settings: What to record: `RecorderSettings`, a mapping, or the path of a TOML file.
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
        **fields: Any,
    ) -> None:
        settled = RecorderSettings.of(settings, **fields)
        RecordConstructorArgs.__init__(self, settings=settled.to_dict())
        gym.Wrapper.__init__(self, env)
        self.settings = settled
        self.observer = Observer(settled)
        self._success = SuccessSignal(settled, env)
        self._trigger = _trigger(settled)
        self._resets_itself = _has_autoreset(env)
        self._resets = 0
        self._lane: Lane | None = None
        self._moment: Moment
        self._observation: Any = None
        self._verdict: bool | None = None
        self._ticks_per_step = 1
        self._substeps: Substeps | None = None
        self._is_new_due = False
        self._steps = 0
        self._is_done = False
        self._is_held = False
        self._is_skipped = False
        self._is_measuring = False
        self._seed: int | None = None
        self._is_closed = False

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
        keeps = bool(options and options.get(KEEP_EPISODE)) and (self._is_skipped or self._open_lane() is not None)
        if options and KEEP_EPISODE in options:
            options = {key: value for key, value in options.items() if key != KEEP_EPISODE} or None
        if not keeps:
            self._end_by_itself()
        self._observation, info = result = self.env.reset(seed=seed, options=options)
        del info
        if not keeps:
            self._begin(seed)
        elif self._lane is not None:
            self._rebind()
            self.observer.mark_reset(is_seeded=seed is not None)
        return result

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Step the environment and record the step.

        Raises:
            CaptureError: If the step cannot be recorded; its episode is ended as failed, the session stays open.
            StreamError: If a stream has failed; the session is closed then.
        """
        if self._open_lane() is None:
            return self._measuring_step(action) if self._is_measuring else self._unrecorded_step(action)
        self._moment.obs, self._moment.action = self._observation, action
        if self._substeps is not None:
            return self._divided_step(action, self._substeps)
        if not self._look():
            return self._unrecorded_step(action)
        result = self._inner_step(action)
        self._settle(self._is_new())
        self._after_step(result)
        return result

    def close(self) -> None:
        """Give the open episode its verdict, close the session, then the environment. Calling it again does nothing.

        An episode that was not done is ended as failed.

        Raises:
            LuckyRecorderError: The first thing that failed in the session; the environment is closed all the same.
        """
        self._lane = None
        try:
            if self._is_done:
                self._end_by_itself()
        finally:
            try:
                if self.observer.is_recording:
                    self.observer.stop_recording()
            finally:
                if not self._is_closed:
                    self._is_closed = True
                    if self._substeps is not None:
                        self._substeps.remove()
                    self.env.close()

    # What the user says.

    def end_episode(self, success: bool | None = None, reward: float | None = None) -> None:
        """End the open episode now, and say its verdict; what follows is not recorded until ``reset``.

        Args:
            success: Whether it succeeded; None: as the ``success`` setting says.
            reward: The verdict as a number from 0 to 1.

        Raises:
            StateError: If no episode is open.
        """
        if self.observer.lane is None:
            raise StateError("end_episode() needs an open episode, and there is none; call reset() first")
        said = None if success is None else verdict(success)
        self._end(said, checked_reward(reward))

    def observe(self) -> dict[str, Any]:
        """Return what the coming step will record of what a policy may see, by feature key; see `Observer.observe`.

        Raises:
            StateError: If no episode is open.
        """
        if self._open_lane() is None:
            raise StateError("observe() needs an open episode that goes on, and there is none; call reset() first")
        self._moment.obs, self._moment.action = self._observation, None
        return self.observer.observe()

    def set_task(self, index: int) -> None:
        """Set the task of the rows from here on, also in later episodes.

        Raises:
            SettingsError: If no task of that index is registered.
        """
        self.observer.set_current_task_index(index)

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
        self.observer.mark_event(kind, **fields)

    def hold(self) -> None:
        """Say that the next step holds the policy's last action: its row has no ``new_policy_step``."""
        self._is_held = True

    @property
    def session_path(self) -> Path | None:
        """The session's folder, or the dataset's if only bundles are written; None before the first ``reset``."""
        return self.observer.session_path

    @property
    def koyu_path(self) -> Path | None:
        """The koyu dataset's folder; None before the first ``reset``, and where no bundles are written."""
        return self.observer.koyu_path

    @property
    def is_recording(self) -> bool:
        """Whether a session is open."""
        return self.observer.is_recording

    def __getstate__(self) -> NoReturn:
        raise StateError(
            "a RecordSession holds a thread and open files and can be neither copied nor pickled; "
            "make one in each process, as gym.make_vec(..., wrappers=[...]) does, or copy the environment inside it"
        )

    # One step.

    def _open_lane(self) -> Lane | None:
        """Return the lane to record into; what was ended or begun through ``env.observer`` meanwhile counts."""
        lane = self.observer.lane
        if self._lane is not None and self._lane is not lane:
            self._lane, self._steps = lane, 0
        return self._lane

    def _look(self) -> bool:
        """Look before the step; False, and no more rows until ``reset``, where the episode has reached its longest."""
        try:
            is_row = self.observer.look()
        except BaseException:
            self._lane = None
            raise
        if not is_row:
            self._lane = None
        return is_row

    def _see(self, result: tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]) -> None:
        """Keep what only the step knows, for columns and for the verdict."""
        moment = self._moment
        self._observation, moment.reward, moment.terminated, truncated, moment.info = result
        moment.done = bool(moment.terminated or truncated)
        if self.settings.gym_columns:
            moment.success = self._ask(self._success.of_step)

    def _ask(self, question: Callable[[Moment], Answer]) -> Answer:
        """Ask about success; a callable sees the state and the observation that the last step has led to."""
        if self._success.is_callable:
            assert self.observer.source is not None
            self.observer.source.refresh()
            self._moment.obs = self._observation
        return question(self._moment)

    def _is_new(self) -> bool:
        return not self._is_held and self._steps % self.settings.policy_period == 0

    def _settle(self, is_new: bool) -> None:
        try:
            self.observer.settle(is_new)
        except BaseException:
            self._lane = None
            raise

    def _inner_step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        try:
            result = self.env.step(action)
            self._see(result)
        except BaseException as error:
            self._lane = None
            self.observer.fail(error)
            raise
        return result

    def _after_step(self, result: tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]) -> None:
        self._steps += 1
        self._is_held = False
        if result[2] or result[3]:
            self._freeze()

    def _divided_step(self, action: Any, substeps: Substeps) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Step with ticks inside the step; what only the whole step knows belongs to its last tick."""
        self._moment.clear_step()
        self._is_new_due = self._is_new()
        before, substeps.is_recording = substeps.steps, True
        try:
            result = self._inner_step(action)
        finally:
            substeps.is_recording = False
        if self._lane is None:
            if self._resets_itself:
                self._is_done = bool(result[2] or result[3])
            return result
        if substeps.steps != before + 1:
            error = CaptureError(
                f"the environment stepped its physics {substeps.steps - before} times in a step, not once, so ticks "
                "inside of it cannot be told; keep data_hz and every frame_rate at or below the control rate"
            )
            self._lane = None
            self.observer.fail(error)
            raise error
        self._settle_part()
        self._after_step(result)
        return result

    def _before_part(self, part: int) -> None:
        """Look before a part of a step; the part before it is over."""
        if part and self._lane is not None:
            self._settle_part()
        if self._lane is not None:
            self._look()

    def _settle_part(self) -> None:
        """Settle a tick inside a step; only the first row of an action says that a policy has run."""
        assert self._lane is not None
        rows = self._lane.rows
        self._settle(self._is_new_due)
        if self._lane is not None and self._lane.rows > rows:
            self._is_new_due = False

    def _unrecorded_step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Step without a row; where a wrapper inside resets by itself, a step may begin the next episode."""
        if self._is_done and self._resets_itself:
            self._end_by_itself()
            result = self.env.step(action)
            self._observation = result[0]
            self._begin(None)
            return result
        result = self.env.step(action)
        if self._resets_itself:
            self._is_done = bool(result[2] or result[3])
        return result

    def _freeze(self) -> None:
        """Keep the rows as they are until the verdict; what the last step says of success is read now."""
        self._lane = None
        self._is_done = True
        try:
            self._verdict = self._ask(self._success.peek)
        except BaseException as error:
            self.observer.fail(error)
            raise

    # One episode.

    def _begin(self, seed: int | None) -> None:
        """Begin an episode after a reset; the very first opens the session."""
        number, self._resets = self._resets, self._resets + 1
        self._steps, self._is_done, self._is_held, self._verdict = 0, False, False, None
        has_ended = self._is_closed or (self.observer.source is not None and not self.observer.is_recording)
        self._is_measuring = False
        self._is_skipped = not self._trigger(number)
        if has_ended or self._is_skipped:
            return
        self._seed = seed
        if self.observer.is_recording:
            self._rebind()
            self.observer.begin_episode(seed)
        else:
            found, rate = resolve.find_simulation(self.env), self._stated_rate()
            self._is_measuring = self._can_measure(found is not None, rate)
            if self._is_measuring:
                return
            self.observer.start_on(self._open_source(found, rate, most_parts(self.env)), seed)
        self.observer.mark_reset()
        self._attach()

    def _attach(self) -> None:
        source = self.observer.source
        assert source is not None
        self._lane = self.observer.lane
        self._moment = source.moment
        self._moment.clear()
        self._ticks_per_step = source.clocks.ticks_per_step
        if self._ticks_per_step > 1 and self._substeps is None:
            self._substeps = Substeps(self.env, self._ticks_per_step, self._before_part)

    def _stated_rate(self) -> Fraction | None:
        """Return the control rate that the environment states."""
        rate = resolve.control_rate(self.env)
        return resolve.frame_rate(self.env) if rate is None and resolve.find_simulation(self.env) is None else rate

    def _can_measure(self, has_simulation: bool, rate: Fraction | None) -> bool:
        """Tell whether the first step may show how long a step is.

        Its row is taken once it is over, from copies of what was before. Of what ``render()`` drew, or a callable would
        have read from the environment, there is no copy.
        """
        if not has_simulation or rate is not None or self.settings.data_hz is not None:
            return False
        through_render = any(c.source == "render" for c in self.settings.recorded_cameras)
        asks = any(column.is_called for column in self.settings.columns)
        return not (through_render or asks)

    def _open_source(self, found: resolve.Found | None, rate: Fraction | None, parts: int = 1) -> Source:
        model, data = found or (None, None)
        render = self.env.render if self.env.render_mode == "rgb_array" else None
        return open_source(self.settings, model, data, self.env, render, rate, parts)

    def _measuring_step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Open the session with the first step, which shows how long a step is; its row looks at a copy of what was."""
        found = resolve.find_simulation(self.env)
        assert found is not None
        before = resolve.Found(copy.copy(found.model), copy.copy(found.data))
        held, given = copy.deepcopy((self._observation, action))
        result = self.env.step(action)
        self._is_measuring = False
        rate = clock.rate_of_step(found.data.time - before.data.time)
        self.observer.start_on(self._open_source(before, rate), self._seed)
        self.observer.mark_reset()
        self._attach()
        self._moment.obs, self._moment.action = held, given
        if self._look():
            before.data.ctrl[:] = found.data.ctrl
            self._see(result)
            self._settle(self._is_new())
            self._rebind()
            self._after_step(result)
        return result

    def _rebind(self) -> None:
        """Find the simulation again: some environments make a new one at every reset."""
        found = resolve.find_simulation(self.env)
        if found is not None:
            self.observer.rebind(*found)

    def _end_by_itself(self) -> None:
        """End the open episode, if there is one, with the verdict of its last step."""
        if self.observer.lane is not None:
            self._end(None, None)

    def _end(self, said: bool | None, reward: float | None) -> None:
        """End the open episode with the verdict that was said, or else with its last step's."""
        self._lane, self._is_done = None, False
        has_rows = self.observer.lane is not None and self.observer.lane.ticks > 0
        try:
            if said is None and has_rows:
                said = self._verdict if self._verdict is not None else self._ask(self._success.verdict)
        finally:
            reason = Reason.NO_VERDICT if said is None else Reason.VERDICT
            self.observer.end_with(Outcome(bool(said), reason, reward))


def _trigger(settings: RecorderSettings) -> Callable[[int], bool]:
    """Return which episodes are recorded, by their number from 0."""
    trigger = settings.episode_trigger
    if trigger is None:
        return lambda number: True
    if isinstance(trigger, str):
        trigger = load_callable("episode_trigger", trigger)
    return trigger


def _has_autoreset(env: Any) -> bool:
    """Tell whether a wrapper inside resets by itself, on the step after an episode's last."""
    while isinstance(env, gym.Wrapper):
        if isinstance(env, gym.wrappers.Autoreset):
            return True
        env = env.env
    return False
