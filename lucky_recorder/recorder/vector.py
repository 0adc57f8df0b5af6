"""VectorRecordSession: the recorder's face for a vector environment, and `shared`: many environments, one session.

A tap is put around each environment in the vector environment. So every mode in which that resets its environments is
one that the tap has seen before: it steps and resets, and what comes back is the environment's own.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn, Unpack

import gymnasium as gym

from lucky_recorder.episode.sink import Sink
from lucky_recorder.errors import SettingsError, StateError
from lucky_recorder.recorder.fleet import Fleet
from lucky_recorder.recorder.messages import Counts
from lucky_recorder.recorder.wrapper import RecordLane
from lucky_recorder.settings.fields import RecorderFields
from lucky_recorder.settings.recorder import RecorderSettings

Wrap = Callable[[gym.Env[Any, Any]], RecordLane]


class VectorRecordSession(gym.vector.VectorWrapper[Any, Any, Any, Any, Any]):
    """Records what the environments of a vector environment do into one session.

    Each environment is a lane: it is recorded as a `RecordSession` records a single one, whichever way the vector
    environment resets it. An episode gets its index when it is committed: episodes of all lanes follow each other in
    the order in which they end.

    Attributes:
        lanes: The `RecordSession` of each environment, for what is said of one of them.
        settings: What is recorded, in every lane.

    Args:
        env: The vector environment.
        settings: What to record; see `RecordSession`.
        sinks: Formats of your own; see `RecordSession`.
        **fields: Settings by keyword, on top of ``settings``.

    Raises:
        SettingsError: If the settings cannot be recorded.

    Example:
        ```python
        env = lr.RecordSession(gym.make_vec("LuckyRecorder/PickCube-v0", num_envs=8, vectorization_mode="sync"))
        ```
    """

    def __init__(
        self,
        env: gym.vector.VectorEnv[Any, Any, Any],
        settings: RecorderSettings | Mapping[str, Any] | str | Path | None = None,
        *,
        sinks: Iterable[Sink] = (),
        **fields: Unpack[RecorderFields],
    ) -> None:
        super().__init__(env)
        self.settings = RecorderSettings.of(settings, **fields)
        self._fleet = Fleet(self.settings, sinks, has_lanes=True)
        inner = env.unwrapped
        if not isinstance(inner, gym.vector.SyncVectorEnv):
            raise SettingsError.of("env", env, "is no SyncVectorEnv")
        self.lanes = tuple(RecordLane(one, self.settings, self._fleet) for one in inner.envs)
        # Not before all are made: one that is refused leaves the vector environment as it was.
        inner.envs[:] = self.lanes

    # What the environments do.

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Reset the environments, or those of a mask; their open episodes get their verdicts and the next ones begin.

        Args:
            seed: As for the vector environment.
            options: As for the vector environment: ``{"reset_mask": mask}`` resets those of a bool array of shape
                ``(num_envs,)``. ``{"keep_episode": True}`` is for every lane that is reset; see `RecordSession.reset`.

        Raises:
            SettingsError: At the first reset, if an environment does not fit the settings or the others.
        """
        with self._heard():
            return self.env.reset(seed=seed, options=options)

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step the environments and record the steps.

        Raises:
            CaptureError: If the step of a lane cannot be recorded; its episode is ended as failed, and the environments
                after it were not stepped. The session stays open.
            StreamError: If a stream of a lane has failed; the session is closed then, for all.
        """
        with self._heard():
            return self.env.step(actions)

    @contextlib.contextmanager
    def _heard(self) -> Iterator[None]:
        """Call the vector environment; what ends the session is raised once here, and not in each lane again."""
        try:
            yield
        except BaseException:
            for lane in self.lanes:
                lane.recorder.owe(None)
            raise

    def close(self, **kwargs: Any) -> None:
        """Give the open episodes their verdicts, close the session, then the environments. Again it does nothing.

        Episodes that were not done are ended as failed.

        Raises:
            LuckyRecorderError: The first thing that failed in the session; the environments are closed all the same.
        """
        raised: BaseException | None = None
        for lane in self.lanes:
            try:
                lane.close()
            except BaseException as error:  # whatever an environment raises: the others are closed all the same
                raised = raised or error
        try:
            self.env.close(**kwargs)
        finally:
            if raised is not None:
                raise raised

    # What the user says.

    def end_episode(self, lane: int, success: bool | None = None, reward: float | None = None) -> None:
        """End a lane's open episode now, and say its verdict; what follows is not recorded until that lane is reset.

        Args:
            lane: The environment's number in the vector environment.
            success: Whether it succeeded; None: as the ``success`` setting says.
            reward: The verdict as a number from 0 to 1.

        Raises:
            SettingsError: If there is no such lane.
            StateError: If it has no open episode.
        """
        self._lane(lane).end_episode(success, reward)

    def set_task(self, index: int, lane: int | None = None) -> None:
        """Set the task of the rows from here on, also in later episodes.

        Args:
            index: The task's index.
            lane: The lane whose rows are meant; None: all of them.

        Raises:
            StateError: If the setting ``task`` says what rows are of.
            SettingsError: If no task of that index is registered, or there is no such lane.
        """
        for one in self.lanes if lane is None else (self._lane(lane),):
            one.set_task(index)

    def flush(self) -> None:
        """Wait until every ended episode is committed or discarded.

        Raises:
            StateError: If no session is open.
            LuckyRecorderError: What failed in the worker; the session is closed then.
        """
        recording = next((lane for lane in self.lanes if lane.is_recording), None)
        if recording is None:
            raise StateError("flush() needs an open session, and there is none; the first reset() opens it")
        with self._heard():
            recording.observer.flush()

    def _lane(self, number: int) -> RecordLane:
        if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < len(self.lanes):
            raise SettingsError.of("lane", number, f"give 0 to {len(self.lanes) - 1}")
        return self.lanes[number]

    # How it stands.

    @property
    def counts(self) -> Counts | None:
        """What became of the episodes of all lanes, as the worker has got to them; None before the first session."""
        return None if self._fleet.session is None else self._fleet.session.counts

    @property
    def session_path(self) -> Path | None:
        """The session's folder, or the dataset's if only bundles are written; None before the first ``reset``."""
        return next((lane.session_path for lane in self.lanes if lane.session_path is not None), None)

    @property
    def koyu_path(self) -> Path | None:
        """The koyu dataset's folder; None before the first ``reset``, and where no bundles are written."""
        return next((lane.koyu_path for lane in self.lanes if lane.koyu_path is not None), None)

    @property
    def is_recording(self) -> bool:
        """Whether a session is open."""
        return any(lane.is_recording for lane in self.lanes)

    def __enter__(self) -> VectorRecordSession:
        """Open nothing; leaving the block closes all."""
        return self

    def __exit__(self, *raised: object) -> None:
        """Close the session and the environments."""
        self.close()

    def __getstate__(self) -> NoReturn:
        raise StateError("a VectorRecordSession holds a thread and open files and can be neither copied nor pickled")


def shared(
    settings: RecorderSettings | Mapping[str, Any] | str | Path | None = None,
    *,
    sinks: Iterable[Sink] = (),
    **fields: Unpack[RecorderFields],
) -> Wrap:
    """Return a wrapper for many environments of one process, which records all of them into one session.

    Each environment that it is put around is a lane. The first that is reset opens the session, and it is closed when
    the last of them is. What is raised in one lane and ends the session is raised in each of the others, at its next
    call.

    Args:
        settings: What to record, in every lane; see `RecordSession`.
        sinks: Formats of your own; see `RecordSession`.
        **fields: Settings by keyword, on top of ``settings``.

    Returns:
        The wrapper: a function of an environment.

    Raises:
        SettingsError: If the settings cannot be recorded.

    Example:
        ```python
        env = gym.make_vec(
            "LuckyRecorder/PickCube-v0", num_envs=8, vectorization_mode="sync", wrappers=[lr.vector.shared()]
        )
        ```
    """
    settled = RecorderSettings.of(settings, **fields)
    fleet = Fleet(settled, sinks, has_lanes=True)

    def wrap(env: gym.Env[Any, Any]) -> RecordLane:
        return RecordLane(env, settled, fleet)

    return wrap
