"""`shared`: a recorder for many environments, whose lanes are in one session wherever the environments are."""

from __future__ import annotations

import contextlib
import logging
import os
import weakref
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Unpack

import gymnasium as gym

from lucky_recorder.capture.source import Source
from lucky_recorder.episode.sink import Sink
from lucky_recorder.errors import LuckyRecorderError, SettingsError, StateError
from lucky_recorder.recorder import faces
from lucky_recorder.recorder.fleet import AGAIN, Fleet, Member
from lucky_recorder.recorder.recording import Recording
from lucky_recorder.recorder.wrapper import RecordLane
from lucky_recorder.settings.fields import RecorderFields
from lucky_recorder.settings.recorder import RecorderSettings
from lucky_recorder.vector import meeting as meetings
from lucky_recorder.vector.face import Workers
from lucky_recorder.vector.lane import Refused, ShardLane
from lucky_recorder.vector.meeting import Meeting, State
from lucky_recorder.vector.processes import Processes

logger = logging.getLogger("lucky_recorder")


class _Here(Fleet):
    """The lanes of the process that has called `shared`: they open no session beside that of other processes' lanes."""

    def __init__(self, processes: Processes, sinks: Iterable[Sink]) -> None:
        super().__init__(processes.settings, sinks, has_lanes=True)
        self._processes = processes

    def enter(self, member: Member, source: Source, lane: int) -> Recording:
        """Begin to record a lane; see `Fleet.enter`.

        Raises:
            StateError: If the session is that of other processes.
        """
        if self.session is None and self._processes.is_used:
            raise StateError(f"environments in other processes share a session already, and it is theirs; {AGAIN}")
        return super().enter(member, source, lane)


class Shared:
    """A wrapper for many environments, which records all of them into one session; see `shared`.

    It may be sent to other processes, and forked ones have it: what it is put around there is recorded there.

    Args:
        settings: What to record, in every lane.
        sinks: Formats of your own.
    """

    def __init__(self, settings: RecorderSettings, sinks: Iterable[Sink]) -> None:
        settled, given = settings.anchored(), tuple(sinks)
        self.processes = Processes(settled, Meeting())
        self._fleet: Fleet | None = _Here(self.processes, given)
        self._has_sinks = bool(given)
        self._home = os.getpid()
        faces.offer(self.workers)
        weakref.finalize(self, _let_go, self.processes, self._home)

    def __call__(self, env: gym.Env[Any, Any]) -> RecordLane | Refused:
        """Put a recorder around an environment: another lane of the session."""
        if self._fleet is not None and os.getpid() == self._home:
            return RecordLane(env, self.processes.settings, self._fleet)
        # What is raised here would end a vector environment's process, and nobody would hear why.
        try:
            seat = self.processes.enlist()
        except LuckyRecorderError as error:
            return Refused(env, error)
        processes = Processes(self.processes.settings, self.processes.meeting)
        try:
            self._refuse()
            return ShardLane(env, processes, seat)
        except LuckyRecorderError as error:
            return Refused(env, error, lambda: processes.leave(seat, {}))
        except BaseException:  # also an interrupt: the others would wait for this lane
            processes.leave(seat, {})
            raise

    def _refuse(self) -> None:
        if self._fleet is not None and self._fleet.session is not None:
            raise _used()
        self.processes.refuse(self._has_sinks)

    @property
    def session_path(self) -> Path | None:
        """The session's folder; None before the first ``reset``, and where nothing was recorded.

        Where the environments are in other processes it is there when all of them are closed.
        """
        session = None if self._fleet is None else self._fleet.session
        return self.processes.session if session is None else session.place

    def workers(self, env: Any) -> Workers | None:
        """Return the processes of a vector environment whose environments this records there; None of others.

        Raises:
            SettingsError: If only some of them are, or it is not gymnasium's.
        """
        inner = getattr(env, "unwrapped", env)
        workers = getattr(inner, "processes", None)
        if not self.processes.meeting.is_there or not isinstance(workers, list) or not workers:
            return None
        lanes = {process: number for number, process in self.processes.meeting.processes().items()}
        pids = [getattr(worker, "pid", -1) for worker in workers]
        numbers = [lanes[pid] for pid in pids if pid in lanes]
        if not numbers:
            return None
        if len(numbers) < len(workers) or not isinstance(env, gym.vector.VectorEnv):
            remedy = (
                "some of its environments are recorded by lucky_recorder.vector.shared() already; put it around all "
                "of them, in an AsyncVectorEnv, or leave RecordSession out: closing the environments makes the session"
            )
            raise SettingsError.of("env", env, remedy)
        self._refuse()
        return Workers(self.processes, numbers)

    def __getstate__(self) -> dict[str, Any]:
        if self._fleet is not None and self._fleet.session is not None:
            raise _used()
        return {**self.__dict__, "_fleet": None}

    def __deepcopy__(self, memo: Any) -> Shared:
        return self

    def __copy__(self) -> Shared:
        return self


def _used() -> StateError:
    return StateError(f"the environments of this process share a session already, and it is theirs; {AGAIN}")


def _let_go(processes: Processes, home: int) -> None:
    """Say what is left to do when nobody can ask for the session any more, in the process that has begun it."""
    meeting = processes.meeting
    if os.getpid() != home or not meeting.is_there:
        return
    # What is wrong with it now is nobody's any more.
    with contextlib.suppress(LuckyRecorderError):
        with meeting.held():
            if State.OPEN in meeting.lanes().values():
                # Whoever closes the last of them makes the session, and removes the meeting.
                meeting.say(meetings.LEFT)
                return
            command = processes.command()
        if command:
            logger.warning("processes ended without close(); %s", command)
    meeting.remove()


def shared(
    settings: RecorderSettings | Mapping[str, Any] | str | Path | None = None,
    *,
    sinks: Iterable[Sink] = (),
    **fields: Unpack[RecorderFields],
) -> Shared:
    """Return a wrapper for many environments, which records all of them into one session.

    Each environment that it is put around is a lane. In one process the first that is reset opens the session, and it
    is closed when the last of them is. What is raised in one lane and ends the session is raised in each of the others,
    at its next call.

    Where the environments are in processes of their own, as in an ``AsyncVectorEnv``, each records a shard, and closing
    the last of them makes one session of these. ``session_path`` of what is returned says where it is.

    Args:
        settings: What to record, in every lane; see `RecordSession`.
        sinks: Formats of your own, in one process; see `RecordSession`.
        **fields: Settings by keyword, on top of ``settings``.

    Returns:
        The wrapper: called with an environment, it puts a recorder around it.

    Raises:
        SettingsError: If the settings cannot be recorded.

    Example:
        ```python
        env = gym.make_vec(
            "LuckyRecorder/PickCube-v0", num_envs=8, vectorization_mode="sync", wrappers=[lr.vector.shared()]
        )
        ```
    """
    return Shared(RecorderSettings.of(settings, **fields), sinks)
