"""The observer: the recorder's face for a loop of one's own. No gym, no MuJoCo, no av."""

from __future__ import annotations

import numbers
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Unpack

from lucky_recorder.capture.source import open_source
from lucky_recorder.episode.record import Outcome
from lucky_recorder.episode.sink import Sink
from lucky_recorder.errors import SettingsError, StateError
from lucky_recorder.recorder.circumstances import plain_values
from lucky_recorder.recorder.messages import Counts
from lucky_recorder.recorder.recorder import Recorder, State
from lucky_recorder.recorder.success import truth
from lucky_recorder.recorder.ticks import Ticks
from lucky_recorder.settings import validators
from lucky_recorder.settings.fields import RecorderFields
from lucky_recorder.settings.recorder import RecorderSettings

if TYPE_CHECKING:
    import mujoco
    from numpy.typing import NDArray


_FOUND = (
    "; what is only known on the way is said by the setting task, 'info:KEY' or a callable: each task is listed as "
    "soon as an episode of it is kept"
)


class Observer:
    """Records what a simulation does, one `tick` or `step` at a time.

    Nothing touches the disk, a thread or OpenGL before `start_recording`. It has a method for each thing that can be
    said of a recording, and next to no state of its own.

    Args:
        settings: What to record: settings, a mapping, or the path of a TOML file.
        model: The MuJoCo model.
        data: Its data. Only ever read.
        sinks: Formats of your own that take the finished episodes, besides ``formats``; see `Sink`.
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
        sinks: Iterable[Sink] = (),
        **fields: Unpack[RecorderFields],
    ) -> None:
        settled = RecorderSettings.of(settings, **fields)
        if (model is None) != (data is None):
            raise SettingsError("model and data: give both, or neither")
        self._recorder = Recorder(settled, sinks)
        self.settings = self._recorder.settings
        self._ticks = Ticks(self._recorder)
        self._model, self._data = model, data

    @property
    def session_path(self) -> Path | None:
        """The session's folder: the open one, or the one written last; None before the first.

        Where no session is written it is the first sink's folder: the dataset's with ``formats=("koyu",)``.
        """
        return self._recorder.path

    @property
    def koyu_path(self) -> Path | None:
        """The koyu dataset's folder; None before the first session, and where no bundles are written."""
        settings = self.settings
        if self.session_path is None or settings.koyu is None or "koyu" not in settings.written_formats:
            return None
        return settings.koyu.folder(settings.output_dir)

    @property
    def is_recording(self) -> bool:
        """Whether a session is open."""
        return self._recorder.is_recording

    @property
    def state(self) -> State:
        """Where the observer stands: idle, in an episode, or between two of them."""
        return self._recorder.state

    @property
    def counts(self) -> Counts | None:
        """What became of the episodes so far, as the worker has got to them; None before the first session."""
        recording = self._recorder.recording
        return None if recording is None else recording.counts

    # Tasks.

    @property
    def current_task(self) -> str:
        """The description of the task of the rows from here on; with the setting ``task``, what was said last.

        A callable is asked when a row is recorded, and by `observe`. Where nothing was said, it is the first task.
        """
        return self._recorder.current_task

    def register_task(self, description: str) -> int:
        """Register a task and return its index, counted from 0.

        Raises:
            StateError: While a session is open. Tasks that are found on the way are the setting ``task``'s to say.
            SettingsError: If the description is empty or registered already.
        """
        self._recorder.require("register_task", State.IDLE, instead=_FOUND)
        if self._recorder.fleet.is_open:
            raise StateError(f"register_task() is for before the session, which another lane has opened{_FOUND}")
        return self._recorder.tasks.register(description)

    def set_current_task_index(self, index: int) -> None:
        """Set the task of the rows from here on, also in later episodes.

        Raises:
            SettingsError: If no task of that index is registered.
            StateError: If the setting ``task`` says what rows are of.
        """
        self._ticks.refuse_inside("set_current_task_index")
        self._recorder.set_task(index)

    # The session.

    def start_recording(self) -> Path:
        """Open a session and its first episode; returns the session's folder.

        Raises:
            StateError: If a session is open already.
            SettingsError: If the simulation does not fit the settings; nothing is on the disk then.
            GLError: If pictures are asked for and no OpenGL context can be made; nothing is on the disk then.
        """
        with self._recorder.lock:
            self._recorder.require("start_recording", State.IDLE)
            return self._recorder.start(open_source(self.settings, self._model, self._data))

    def stop_recording(self) -> None:
        """End the open episode as failed, wait for the worker, write ``meta/``, and close the session.

        Raises:
            StateError: If no session is open, or inside of `step`.
            LuckyRecorderError: The first thing that failed in the worker.
        """
        self._ticks.refuse_inside("stop_recording")
        with self._recorder.lock:
            self._recorder.require_session("stop_recording")
            self._recorder.leave("stop_recording() was called")

    def flush(self) -> None:
        """Wait until every ended episode is committed.

        Raises:
            StateError: If no session is open.
            LuckyRecorderError: What failed in the worker; the session is closed then.
        """
        self._recorder.require_session("flush")
        self._recorder.flush()

    # Its episodes.

    def begin_episode(self, seed: int | None = None) -> None:
        """Begin an episode. `tick` does this by itself after an end.

        Args:
            seed: The seed of the reset that led here, if one was given.

        Raises:
            StateError: If no session is open, or an episode is.
            LuckyRecorderError: What failed in the worker; the session is closed then.
        """
        with self._recorder.lock:
            self._recorder.require("begin_episode", State.BETWEEN_EPISODES)
            self._recorder.begin(seed)

    def tick(self, new_policy_step: bool | Mapping[str, bool] = True) -> None:
        """Record this tick: the state as it is now with the commands as they are now, before physics moves on.

        Begins an episode if none is open. A tick past ``max_episode_length_s`` ends the open episode as failed and is
        the first of the next. Where commands are only known after the physics has moved on, use `step`.

        Args:
            new_policy_step: Whether a policy has run for this tick, rather than held its last action: for all robots,
                or by their names, such as ``{"left": True}``. A robot that is not named has held its action.

        Raises:
            StateError: If no session is open, inside of `step`, or if a column is asked after the step: that is not
                known here.
            SettingsError: If there is no robot of a name.
            CaptureError: If the tick cannot be recorded; the episode is ended as failed, the session stays open.
            StreamError: If a stream has failed; the session is closed then.
        """
        self._ticks.tick(new_policy_step)

    def step(self, new_policy_step: bool | Mapping[str, bool] = True) -> AbstractContextManager[None]:
        """Record the tick that a ``with`` block is: the state as it finds it, with the commands as it leaves them.

        For loops whose commands are only known after the step, such as those of a control callback or of a controller
        that runs at every step of the physics. Episodes and ``max_episode_length_s`` are as for `tick`. If the block
        raises, whatever it is, its half row is dropped, the episode is ended as failed, and the error goes on. Inside
        the block only the physics moves on: what is said of rows and episodes is said before or after it.

        Args:
            new_policy_step: As for `tick`.

        Raises:
            StateError: If no session is open, or inside of another `step`.
            SettingsError: If there is no robot of a name.
            CaptureError: If the tick cannot be recorded, or the simulation was reset in the block; the episode is ended
                as failed, the session stays open.
            StreamError: If a stream has failed; the session is closed then.

        Example:
            ```python
            with observer.step():
                mujoco.mj_step(model, data, 10)  # calls the control callback, which writes data.ctrl
            ```
        """
        return self._ticks.step(new_policy_step)

    def observe(self) -> dict[str, NDArray[Any]]:
        """Return what the coming tick will record of what a policy may see; waits until the pictures are drawn.

        The pictures are the very ones: nothing is drawn again when the tick is recorded. If the simulation moves on
        before that, the tick looks anew. Begins an episode if none is open.

        Returns:
            By feature key: the pictures of the cameras that are due, uint8, shape ``(height, width, 3)``, and the
            columns that do not depend on the action, ``observation.state`` among them, of a column's dtype and shape;
            with several robots, of shape ``(robots, *shape)``.

        Raises:
            StateError: If no session is open, or its pictures are drawn later.
            CaptureError: If a column's source gives what cannot be recorded.
            StreamError: If a picture cannot be drawn; the session is closed then.
        """
        self._ticks.refuse_inside("observe")
        recording = self._recorder.require_session("observe")
        recording.refuse_to_show()
        take = self._recorder.open_take()
        if take.end_if_cut():
            take = self._recorder.open_take()
        self._recorder.raise_failure()
        try:
            columns, snapshots = take.observe(recording.draw)
            return columns | recording.colors(snapshots)
        except BaseException as error:  # also an interrupt: the snapshots that it took are given back
            self._recorder.fail(error)
            raise

    def end_current_episode(self, success: bool, reward: float | None = None) -> None:
        """End the open episode with a verdict. One without a row leaves nothing.

        Args:
            success: Whether it succeeded.
            reward: The verdict as a number from 0 to 1.

        Raises:
            StateError: If no episode is open.
            CaptureError: If the simulation became unstable after the last tick, or refused its command, and this was
                called a success; the episode is ended as failed, the session stays open.
        """
        self._ticks.refuse_inside("end_current_episode")
        with self._recorder.lock:
            self._end("end_current_episode", success, reward)

    def end_current_episode_begin_next(self, success: bool, reward: float | None = None) -> None:
        """End the open episode with a verdict and begin the next, unless the session ends with it.

        Raises:
            StateError: If no episode is open.
            CaptureError: As for `end_current_episode`; no next episode is begun then.
        """
        self._ticks.refuse_inside("end_current_episode_begin_next")
        with self._recorder.lock:
            self._end("end_current_episode_begin_next", success, reward)
            if self.is_recording:
                self._recorder.begin()

    def _end(self, verb: str, success: bool, reward: float | None) -> None:
        self._recorder.require(verb, State.IN_EPISODE)
        outcome = Outcome(truth(success, "success"), reward=checked_reward(reward))
        if outcome.success and self._recorder.take is not None:
            self._recorder.take.require_sound_end()
        self._recorder.end(outcome)

    def mark_reset(self, robot: str | None = None) -> None:
        """Flag the next row as the first after a reset; within an episode, time may run backwards before it.

        Args:
            robot: The robot that was reset; None for all of them.

        Raises:
            StateError: If no session is open.
            SettingsError: If there is no such robot.
        """
        self._ticks.refuse_inside("mark_reset")
        with self._recorder.lock:
            self._recorder.require_session("mark_reset")
            self._recorder.mark_reset(robot)

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
        self._ticks.refuse_inside("mark_event")
        with self._recorder.lock:
            self._recorder.require("mark_event", State.IN_EPISODE)
            assert self._recorder.take is not None
            self._recorder.take.mark_event(
                validators.text(kind, field="kind"), plain_values(fields, reserved=("step", "type"))
            )

    def annotate(self, /, **said: Any) -> None:
        """Say something of the open episode, such as who acted, or how good it was: ``annotate(operator="Ada")``.

        It stands under ``annotations`` in ``meta/episodes``, and in the sidecar of a koyu bundle. What is said again is
        replaced, all else is kept.

        Args:
            **said: Plain JSON values.

        Raises:
            StateError: If no episode is open.
            SettingsError: If a value is no JSON, or all of them are more than 64 kB.
        """
        with self._recorder.lock:
            self._recorder.require("annotate", State.IN_EPISODE)
            assert self._recorder.take is not None
            self._recorder.take.circumstances.annotate(plain_values(said))

    def __enter__(self) -> Observer:
        """Open nothing; leaving the block stops an open session."""
        return self

    def __exit__(self, *raised: object) -> None:
        """Stop an open session."""
        with self._recorder.lock:
            if self.is_recording:
                self._recorder.leave("stop_recording() was called")

    def __getstate__(self) -> NoReturn:
        raise StateError("an Observer holds a thread and open files and cannot be pickled; make one in each process")


def observer_of(recorder: Recorder) -> Observer:
    """Return a second face of a recorder, for those who hold the first: ``env.observer`` of a `RecordSession`."""
    observer = Observer.__new__(Observer)
    observer.settings = recorder.settings
    observer._recorder = recorder
    observer._ticks = Ticks(recorder)
    observer._model = observer._data = None
    return observer


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
