"""AsyncRecordSession: the recorder's face for a vector environment whose environments are in processes of their own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, SupportsIndex

import gymnasium as gym

from lucky_recorder.errors import SettingsError, StateError
from lucky_recorder.recorder import faces
from lucky_recorder.recorder.messages import Counts
from lucky_recorder.settings import validators as v
from lucky_recorder.settings.recorder import RecorderSettings
from lucky_recorder.vector import meeting as meetings
from lucky_recorder.vector.lane import COUNTED
from lucky_recorder.vector.meeting import Meeting
from lucky_recorder.vector.processes import Processes

_GRACE_S = 15.0


class Workers(NamedTuple):
    """The processes of a vector environment.

    Attributes:
        recorded: All processes that record into the session, as this one knows them.
        numbers: The number of the lane of each environment.
    """

    recorded: Processes
    numbers: Sequence[int]

    @property
    def face(self) -> type[AsyncRecordSession]:
        """What speaks for them."""
        return AsyncRecordSession


class AsyncRecordSession(gym.vector.VectorWrapper[Any, Any, Any, Any, Any]):
    """Speaks for the recorders of an ``AsyncVectorEnv`` whose environments `lucky_recorder.vector.shared` is around.

    Each process records a shard, and `close` makes one session of them. ``reset`` and ``step`` are the vector
    environment's own; what is raised in a process comes out of them, and ends that process.

    Attributes:
        settings: What is recorded, in every lane.

    Args:
        env: The vector environment.
        *given: Nothing: `lucky_recorder.vector.shared` was given what to record.
        **settings: As above.

    Raises:
        SettingsError: If settings are given here, or its environments are not recorded.

    Example:
        ```python
        wrap = lr.vector.shared(cameras=[lr.Camera("front")])
        env = lr.RecordSession(
            gym.make_vec("LuckyRecorder/PickCube-v0", num_envs=8, vectorization_mode="async", wrappers=[wrap])
        )
        ```
    """

    def __init__(self, env: gym.vector.VectorEnv[Any, Any, Any], *given: Any, **settings: Any) -> None:
        workers = faces.known(env)
        if not isinstance(workers, Workers):
            remedy = "its environments are not recorded in processes of their own: put lucky_recorder.vector.shared()"
            raise SettingsError.of("env", env, f"{remedy} around each of them, in an AsyncVectorEnv")
        if given or settings:
            remedy = (
                "lucky_recorder.vector.shared() is around its environments and has been told what to record; say it"
            )
            raise SettingsError.of("settings", [*given, *settings], f"{remedy} there, and nothing here")
        super().__init__(env)
        self._recorded = workers.recorded
        self.settings: RecorderSettings = self._recorded.settings
        self._numbers = tuple(workers.numbers)
        self._is_over = self._is_broken = False
        self._recorded.meeting.say(meetings.WATCHED)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Reset the environments; see `VectorRecordSession.reset`."""
        with self._heard():
            return self.env.reset(seed=seed, options=options)

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step the environments; each process records its own step."""
        with self._heard():
            return self.env.step(actions)

    @contextlib.contextmanager
    def _heard(self) -> Iterator[None]:
        """Take note of a process that is gone: the system may say later that it has ended."""
        try:
            yield
        except (ConnectionError, EOFError):
            self._is_broken = True
            raise

    # What the user says.

    def end_episode(self, lane: SupportsIndex, success: bool | None = None, reward: float | None = None) -> None:
        """End a lane's open episode now, and say its verdict; see `VectorRecordSession.end_episode`.

        Raises:
            SettingsError: If there is no such lane.
            StateError: If it has no open episode.
        """
        self._say(self._lane(lane), "end_episode", success, reward)

    def set_task(self, index: int, lane: SupportsIndex | None = None) -> None:
        """Set the task of the rows from here on, of one lane or of all; see `VectorRecordSession.set_task`.

        Raises:
            StateError: If the setting ``task`` says what rows are of.
            SettingsError: If no task of that index is registered, or there is no such lane.
        """
        self._say(None if lane is None else self._lane(lane), "set_task", index)

    def annotate(self, lane: SupportsIndex, /, **said: Any) -> None:
        """Say something of the open episode of a lane; see `RecordSession.annotate`.

        Raises:
            SettingsError: If there is no such lane, or a value is no JSON.
            StateError: If it has no open episode.
        """
        self._say(self._lane(lane), "annotate", said=said)

    def flush(self) -> None:
        """Wait until every ended episode is committed or discarded, in its shard.

        Raises:
            LuckyRecorderError: What failed in the worker of a lane; its shard is closed then.
        """
        self._say(None, "flush")

    def _say(self, lane: int | None, verb: str, *args: Any, said: Mapping[str, Any] | None = None) -> None:
        if self._is_over:
            raise StateError(f"{verb}() needs an open session, and close() was called")
        for error in self.env.unwrapped.call("say", lane, verb, args, said or {}):  # type: ignore[attr-defined]
            if error is not None:
                raise error

    def _lane(self, number: SupportsIndex) -> int:
        which = v.index(number)
        if which is None or not 0 <= which < len(self._numbers):
            raise SettingsError.of("lane", number, f"give 0 to {len(self._numbers) - 1}")
        return self._numbers[which]

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Call a method of every environment, or of its recorder, in its process; what it raises ends the process."""
        called: tuple[Any, ...] = self.env.unwrapped.call(name, *args, **kwargs)  # type: ignore[attr-defined]
        return called

    # How it stands.

    @property
    def counts(self) -> Counts | None:
        """What became of the episodes of all lanes, as they have got to them; None before the first session."""
        if self._is_over:
            found = [*self._recorded.meeting.counts(), {"kept": sum(self._recorded.gone.values())}]
            return None if self._recorded.place is None else _sum(found)
        if not self.is_recording:
            return None
        asked = self.env.unwrapped.call("counts")  # type: ignore[attr-defined]
        return _sum([{name: getattr(one, name) for name in COUNTED} for one in asked if one is not None])

    @property
    def session_path(self) -> Path | None:
        """The session's folder, which is there after `close`; None before the first ``reset``."""
        return self._recorded.session

    @property
    def is_recording(self) -> bool:
        """Whether a session is open."""
        return not self._is_over and self._recorded.place is not None

    def __getstate__(self) -> NoReturn:
        raise StateError(f"a {type(self).__name__} holds processes and can be neither copied nor pickled")

    # Its end.

    def close(self, **kwargs: Any) -> None:
        """Give the open episodes their verdicts, close the environments, and make the session. Again it does nothing.

        Episodes that were not done are ended as failed. Where a process was killed, what it had finished is in the
        session, and the log says so.

        Args:
            **kwargs: As for the vector environment. Where a step is under way that does not end, it is broken off after
                ``timeout`` seconds, 15 by default.

        Raises:
            LuckyRecorderError: The first thing that failed in a lane while it was closed. Or the session cannot be
                made; the shards stay then, and the error says how it is made.
        """
        if self._is_over:
            return
        inner: Any = self.env.unwrapped
        try:
            # Where one was killed, the vector environment would wait for its answer for good: they are ended below.
            if not self._is_broken and not _has_killed(inner):
                self.env.close(**{"timeout": _GRACE_S, **kwargs})
        except (OSError, EOFError):
            if not _has_killed(inner):
                raise
        finally:
            _end(inner, self._recorded.meeting)
            inner.closed = True
            self._is_over = True
            self._recorded.finish()
        self._recorded.tell_of_gone()
        for failure in self._recorded.failures():
            raise failure

    def __enter__(self) -> AsyncRecordSession:
        """Open nothing; leaving the block closes all."""
        return self

    def __exit__(self, *raised: object) -> None:
        """Make the session, and close the environments."""
        self.close()


def _sum(counted: Sequence[dict[str, Any]]) -> Counts:
    counts = Counts()
    for one in counted:
        for name in COUNTED:
            setattr(counts, name, getattr(counts, name) + one.get(name, 0))
    return counts


def _has_killed(env: Any) -> bool:
    return any(process.exitcode not in (0, None) for process in env.processes)


def _end(env: Any, meeting: Meeting) -> None:
    """End what runs still of a vector environment that could not be closed; who makes the session is waited for."""
    for process in env.processes:
        if process.is_alive():
            process.terminate()
    for process in env.processes:
        process.join(_GRACE_S)
        while process.is_alive() and meeting.is_busy:
            process.join(_GRACE_S)
        if process.is_alive():
            process.kill()
            process.join()
