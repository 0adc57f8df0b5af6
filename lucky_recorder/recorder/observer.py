"""The observer: the life cycle of a session, from idle through its episodes and back; no gym, no MuJoCo, no av."""

from __future__ import annotations

import contextlib
import enum
import json
import logging
import numbers
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from lucky_recorder.episode import clock
from lucky_recorder.episode.keys import DEFAULT_TASK
from lucky_recorder.episode.record import Outcome, Reason
from lucky_recorder.errors import LuckyRecorderError, SettingsError, StateError, StreamError
from lucky_recorder.recorder import exits as interrupts
from lucky_recorder.recorder import formats
from lucky_recorder.recorder.recording import Recording
from lucky_recorder.settings import validators
from lucky_recorder.settings.recorder import RecorderSettings

if TYPE_CHECKING:
    import mujoco
    from numpy.typing import NDArray

    from lucky_recorder.capture.source import Source
    from lucky_recorder.episode.schema import Schema
    from lucky_recorder.episode.sink import Sink
    from lucky_recorder.recorder.lane import Lane
    from lucky_recorder.recorder.recording import Counts


logger = logging.getLogger("lucky_recorder")


class State(enum.Enum):
    """Where an observer stands."""

    IDLE = "Idle"
    IN_EPISODE = "InEpisode"
    BETWEEN_EPISODES = "BetweenEpisodes"


class Observer:
    """Records what a simulation does, one `tick` at a time.

    Nothing touches the disk, a thread or OpenGL before `start_recording`.

    Args:
        settings: What to record: settings, a mapping, or the path of a TOML file.
        model: The MuJoCo model.
        data: Its data. Only ever read.
        **fields: Settings by keyword, on top of ``settings``.

    Raises:
        SettingsError: If the settings cannot be recorded.

    Example:
        ```python
        observer = lr.Observer(output_dir=".", data_hz=50, model=model, data=data)
        observer.start_recording()
        for _ in range(100):
            data.ctrl[:] = policy(data)
            observer.tick()
            mujoco.mj_step(model, data, 10)
        observer.end_current_episode(success=True)
        observer.stop_recording()
        ```
    """

    def __init__(
        self,
        settings: RecorderSettings | Mapping[str, Any] | str | Path | None = None,
        *,
        model: mujoco.MjModel | None = None,
        data: mujoco.MjData | None = None,
        **fields: Any,
    ) -> None:
        self.settings = RecorderSettings.of(settings, **fields)
        if (model is None) != (data is None):
            raise SettingsError("model and data: give both, or neither")
        self._model, self._data = model, data
        self._tasks = list(self.settings.tasks)
        self._task = 0
        self._state = State.IDLE
        self._why_idle = "start_recording() was not called yet"
        self._kept = 0
        self._most_ticks = -1
        self._path: Path | None = None
        self._source: Source | None = None
        self._recording: Recording | None = None
        self._lane: Lane | None = None
        self._resets_due: list[int | None] = []
        self._outcome: Outcome | None = None

    @property
    def session_path(self) -> Path | None:
        """The session's folder: the open one, or the one written last; None before the first.

        Where only koyu bundles are written (``formats=("koyu",)``) it is the dataset's folder.
        """
        return self._path

    @property
    def koyu_path(self) -> Path | None:
        """The koyu dataset's folder; None before the first session, and where no bundles are written."""
        settings = self.settings
        if self._path is None or settings.koyu is None or "koyu" not in settings.written_formats:
            return None
        return settings.koyu.folder(settings.output_dir)

    @property
    def is_recording(self) -> bool:
        """Whether a session is open."""
        return self._state is not State.IDLE

    @property
    def state(self) -> State:
        """Where the observer stands."""
        return self._state

    @property
    def counts(self) -> Counts | None:
        """What became of the episodes so far, as the worker has got to them; None before the first session."""
        return self._recording.counts if self._recording else None

    @property
    def lane(self) -> Lane | None:
        """The lane that fills the open episode; None outside of one."""
        return self._lane

    @property
    def source(self) -> Source | None:
        """What is being looked at; None before the first session."""
        return self._source

    @property
    def last_outcome(self) -> Outcome | None:
        """How the episode ended that ended last; None before the first."""
        return self._outcome

    # Tasks.

    @property
    def current_task(self) -> str:
        """The description of the task of the rows from here on."""
        return (self._tasks or [DEFAULT_TASK])[self._task]

    def register_task(self, description: str) -> int:
        """Register a task and return its index, counted from 0.

        Raises:
            StateError: While a session is open: its task list is settled.
            SettingsError: If the description is empty or registered already.
        """
        self._require("register_task", State.IDLE)
        if not isinstance(description, str) or not description.strip():
            raise SettingsError.of("task", description, "give a description that is not empty")
        if description in self._tasks:
            raise SettingsError.of("task", description, f"is registered already, as {self._tasks.index(description)}")
        self._tasks.append(description)
        return len(self._tasks) - 1

    def set_current_task_index(self, index: int) -> None:
        """Set the task of the rows from here on, also in later episodes.

        Raises:
            SettingsError: If no task of that index is registered.
        """
        count = max(1, len(self._tasks))
        number = validators.index(index)
        if number is None or not 0 <= number < count:
            raise SettingsError.of("task index", index, f"give 0 to {count - 1}, or register the task before recording")
        self._task = number
        if self._lane is not None:
            self._lane.buffer.set_task(number)

    # The session.

    def start_recording(self) -> Path:
        """Open a session and its first episode; returns the session's folder.

        Raises:
            StateError: If a session is open already.
            SettingsError: If the simulation does not fit the settings; nothing is on the disk then.
            GLError: If pictures are asked for and no OpenGL context can be made; nothing is on the disk then.
        """
        self._require("start_recording", State.IDLE)
        from lucky_recorder.capture.source import open_source

        return self.start_on(open_source(self.settings, self._model, self._data))

    def start_on(self, source: Source, seed: int | None = None) -> Path:
        """Open a session, and its first episode, on a source that was made already."""
        self._require("start_recording", State.IDLE)
        formats.refuse(self.settings, source.schema)
        recording = Recording(self.settings, source)
        path = recording.open(self._make_sinks)
        self._source, self._recording, self._path = source, recording, path
        self._kept = 0
        limit = self.settings.max_episode_length_s
        self._most_ticks = -1 if limit is None else clock.ticks_within(limit, source.clocks.base)
        self._state = State.BETWEEN_EPISODES
        weakref.finalize(self, _forget, recording).atexit = False
        interrupts.guard(id(recording), lambda: _forget(recording))
        self.begin_episode(seed)
        return path

    def _make_sinks(self, schema: Schema) -> Sequence[Sink]:
        return formats.make_sinks(self.settings, schema, self._tasks)

    def stop_recording(self) -> None:
        """End the open episode as failed, wait for the worker, write ``meta/``, and close the session.

        Raises:
            StateError: If no session is open.
            LuckyRecorderError: The first thing that failed in the worker.
        """
        self._require("stop_recording", State.IN_EPISODE, State.BETWEEN_EPISODES)
        self._close("stop_recording() was called")

    def _close(self, why: str) -> None:
        recording = self._recording
        assert recording is not None
        self._state, self._why_idle, self._lane = State.IDLE, why, None
        self._resets_due.clear()
        try:
            recording.close()
        finally:
            if recording.is_closed:
                interrupts.release(id(recording))

    @contextlib.contextmanager
    def _stopping(self) -> Iterator[None]:
        """Close the session if the worker hangs."""
        try:
            yield
        except StreamError as error:
            self.fail(error)
            raise

    def flush(self) -> None:
        """Wait until every ended episode is committed.

        Raises:
            LuckyRecorderError: What failed in the worker; the session is closed then.
        """
        self._require("flush", State.IN_EPISODE, State.BETWEEN_EPISODES)
        assert self._recording is not None
        with self._stopping():
            self._recording.flush()
        if self._recording.failure is not None:
            self._surface()

    def _surface(self) -> NoReturn:
        """Close the session because of what failed in the worker, and raise it."""
        assert self._recording is not None
        failure = self._recording.failure
        self._close(f"the session stopped by itself: {failure}")
        raise StateError(f"closing after a failure raised nothing: {failure}")

    # Its episodes.

    def begin_episode(self, seed: int | None = None) -> None:
        """Begin an episode. `tick` does this by itself after an end.

        Args:
            seed: The seed of the reset that led here, if one was given.

        Raises:
            StateError: If no session is open, or an episode is.
            LuckyRecorderError: What failed in the worker; the session is closed then.
        """
        self._require("begin_episode", State.BETWEEN_EPISODES)
        recording = self._recording
        assert recording is not None
        if recording.failure is not None:
            self._surface()
        with self._stopping():
            self._lane = recording.begin(seed, self._task)
        self._state = State.IN_EPISODE
        for robot in self._resets_due:
            self._lane.mark_reset(robot)
        self._resets_due.clear()

    def rebind(self, model: mujoco.MjModel, data: mujoco.MjData) -> None:
        """Look at another model and data from here on, if these are others: some environments replace theirs.

        Raises:
            SettingsError: If their rows would have another layout.
        """
        if self._source is None or self._recording is None:
            return
        if self._source.rebind(model, data):
            self._recording.replace_model()
        if self._lane is not None:
            self._lane.attach()

    def tick(self, new_policy_step: bool = True) -> None:
        """Record this tick: the state as it is now with the commands as they are now, before physics moves on.

        Begins an episode if none is open. A tick past ``max_episode_length_s`` ends the open episode as failed and is
        the first of the next.

        Args:
            new_policy_step: Whether a policy has run for this tick, rather than held its last action.

        Raises:
            StateError: If no session is open.
            CaptureError: If the tick cannot be recorded; the episode is ended as failed, the session stays open.
            StreamError: If a stream has failed; the session is closed then.
        """
        self._require("tick", State.IN_EPISODE, State.BETWEEN_EPISODES)
        if self._state is State.BETWEEN_EPISODES:
            self.begin_episode()
        if not self.look():
            if not self.is_recording:
                return
            self.begin_episode()
            self.look()
        self.settle(new_policy_step)

    def observe(self) -> dict[str, NDArray[Any]]:
        """Return what the coming tick will record of what a policy may see; waits until the pictures are drawn.

        The pictures are the very ones: nothing is drawn again when the tick is recorded. If the simulation moves on
        before that, the tick looks anew. Begins an episode if none is open.

        Returns:
            By feature key: the pictures of the cameras that are due, uint8, shape ``(height, width, 3)``, and the
            columns that do not depend on the action, ``observation.state`` among them, of a column's dtype and shape;
            with several robots, of shape ``(robots, *shape)``.

        Raises:
            StateError: If no session is open.
            CaptureError: If a column's source gives what cannot be recorded.
            StreamError: If a picture cannot be drawn; the session is closed then.
        """
        self._require("observe", State.IN_EPISODE, State.BETWEEN_EPISODES)
        if self._state is State.BETWEEN_EPISODES:
            self.begin_episode()
        recording, source = self._recording, self._source
        assert recording is not None
        assert source is not None
        if recording.failure is not None:
            self._surface()
        try:
            pictures = recording.observe()
            return source.present() | pictures
        except BaseException as error:
            self.fail(error)
            raise

    def look(self) -> bool:
        """Take the half of a tick before the step.

        Returns:
            Whether there is a row to settle: False once ``max_episode_length_s`` is reached, which ends the episode.
        """
        lane, recording = self._lane, self._recording
        assert lane is not None
        assert recording is not None
        if recording.failure is not None:
            self._surface()
        if self.end_if_due():
            return False
        try:
            lane.look()
        except BaseException as error:
            self.fail(error)
            raise
        return True

    def end_if_due(self) -> bool:
        """End the open episode if it has reached ``max_episode_length_s``; returns whether it has."""
        assert self._lane is not None
        if self._lane.ticks != self._most_ticks:
            return False
        self.end_with(Outcome(False, Reason.TIME_LIMIT))
        return True

    def settle(self, new_policy_step: bool = True) -> None:
        """Take the half of a tick after the step: the row is finished."""
        assert self._lane is not None
        try:
            self._lane.settle(new_policy_step)
        except BaseException as error:
            self.fail(error)
            raise

    def fail(self, error: BaseException) -> None:
        """End the open episode as failed, because of an error that the caller is about to raise."""
        if isinstance(error, StreamError):
            with contextlib.suppress(LuckyRecorderError):
                self._close(f"the session stopped by itself: {error}")
        elif self._lane is not None:
            self.end_with(Outcome(False, Reason.ERROR))

    def end_current_episode(self, success: bool, reward: float | None = None) -> None:
        """End the open episode with a verdict. One without a row leaves nothing.

        Args:
            success: Whether it succeeded.
            reward: The verdict as a number from 0 to 1.

        Raises:
            StateError: If no episode is open.
        """
        self._require("end_current_episode", State.IN_EPISODE)
        self.end_with(Outcome(verdict(success), reward=checked_reward(reward)))

    def end_current_episode_begin_next(self, success: bool, reward: float | None = None) -> None:
        """End the open episode with a verdict and begin the next, unless the session ends with it.

        Raises:
            StateError: If no episode is open.
        """
        self._require("end_current_episode_begin_next", State.IN_EPISODE)
        self.end_with(Outcome(verdict(success), reward=checked_reward(reward)))
        if self._state is State.BETWEEN_EPISODES:
            self.begin_episode()

    def end_with(self, outcome: Outcome) -> None:
        """End the open episode; after ``total_episodes`` kept ones the session is closed."""
        recording = self._recording
        assert recording is not None
        self._lane, self._state, self._outcome = None, State.BETWEEN_EPISODES, outcome
        with self._stopping():
            self._kept += recording.end(outcome)
        if self._kept == self.settings.total_episodes:
            self._close(f"the session ended by itself after total_episodes={self._kept}")
            logger.warning("total_episodes=%d reached: %s is complete", self._kept, self._path)

    def mark_reset(self, robot: str | None = None, is_seeded: bool = False) -> None:
        """Flag the next row as the first after a reset; within an episode, time may run backwards before it.

        Args:
            robot: The robot that was reset; None for all of them.
            is_seeded: Whether a reset within an episode was given a seed.

        Raises:
            StateError: If no session is open.
            SettingsError: If there is no such robot.
        """
        self._require("mark_reset", State.IN_EPISODE, State.BETWEEN_EPISODES)
        assert self._source is not None
        robots = self._source.schema.robots
        if robot is not None and robot not in robots:
            raise SettingsError.of("robot", robot, f"is not recorded; known: {', '.join(robots)}")
        index = None if robot is None else robots.index(robot)
        if self._lane is None:
            self._resets_due.append(index)
            return
        self._lane.mark_reset(index)
        if self._lane.ticks and not is_seeded:
            assert self._recording is not None
            self._recording.mark_unseeded()

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
        self._require("mark_event", State.IN_EPISODE)
        assert self._lane is not None
        self._lane.buffer.mark(validators.text("kind", kind), checked_fields(fields))

    def _require(self, verb: str, *states: State) -> None:
        if self._state in states:
            return
        why = f": {self._why_idle}" if self._state is State.IDLE else ""
        allowed = " or ".join(s.value for s in states)
        raise StateError(f"{verb}() needs the observer to be {allowed}, but it is {self._state.value}{why}")

    def __enter__(self) -> Observer:
        """Open nothing; leaving the block stops an open session."""
        return self

    def __exit__(self, *raised: object) -> None:
        """Stop an open session."""
        if self.is_recording:
            self.stop_recording()

    def __getstate__(self) -> NoReturn:
        raise StateError("an Observer holds a thread and open files and cannot be pickled; make one in each process")


def verdict(success: object) -> bool:
    """Return a verdict as a bool; anything but a truth value is a mistake.

    Raises:
        SettingsError: If ``success`` is no bool, numpy bool, 0 or 1.
    """
    plain = success.item() if hasattr(success, "item") and getattr(success, "size", 0) == 1 else success
    if not isinstance(plain, int | float) or plain not in (0, 1):
        raise SettingsError.of("success", success, "give True or False")
    return bool(plain)


def checked_reward(reward: float | None) -> float | None:
    """Return a verdict's number, or None.

    Raises:
        SettingsError: If it is not from 0 to 1.
    """
    if reward is None:
        return None
    if not isinstance(reward, numbers.Real) or not 0.0 <= reward <= 1.0:
        raise SettingsError.of("reward", reward, "give a number from 0 to 1")
    return float(reward)


def checked_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return an event's fields as JSON has them.

    Raises:
        SettingsError: If one is no JSON, or has a name that every event has.
    """
    for name, value in fields.items():
        if name in ("step", "type"):
            raise SettingsError.of(name, value, "every event has a field of this name; choose another")
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise SettingsError.of(name, value, f"give plain JSON values ({error})") from None
    settled: dict[str, Any] = json.loads(json.dumps(fields))
    return settled


def _forget(recording: Recording) -> None:
    """Close a recording whose observer is gone, or whose process ends."""
    if recording.is_closed:
        return
    if recording.is_in_worker:
        # The garbage collector may run in any thread, and this one cannot wait for itself.
        threading.Thread(target=_forget, args=(recording,)).start()
        return
    interrupts.release(id(recording))
    failure = None
    try:
        recording.close()
    except LuckyRecorderError as error:
        failure = error
    # Last: where warnings are errors, this raises.
    interrupts.warn_forgotten(recording.place, failure)
