"""A lane in a process of its own: it records a shard, and closing the last of them makes the session."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import attrs
import gymnasium as gym

from lucky_recorder.edit.shards import MOST_FILES
from lucky_recorder.errors import LuckyRecorderError
from lucky_recorder.recorder import formats
from lucky_recorder.recorder.fleet import Fleet
from lucky_recorder.recorder.messages import Counts
from lucky_recorder.recorder.wrapper import RecordLane
from lucky_recorder.session import resumed
from lucky_recorder.vector.meeting import Seat
from lucky_recorder.vector.processes import Processes

COUNTED = ("kept", "discarded", "rows", "bytes", "failed", "dropped")


class ShardLane(RecordLane):
    """Records one of many environments, each in a process of its own, into the session that they share.

    Args:
        env: The environment.
        processes: All of these processes, as this one knows them.
        seat: Its place among them.
    """

    def __init__(self, env: gym.Env[Any, Any], processes: Processes, seat: Seat) -> None:
        fleet = Fleet(processes.settings, has_lanes=True, first_lane=seat.number)
        super().__init__(env, processes.settings, fleet)
        self._processes = processes
        self._seat = seat
        self._has_begun = self._is_compared = self._has_left = False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Reset the environment; see `RecordSession.reset`.

        Raises:
            SettingsError: At the first reset, if the environment does not fit the settings or the others.
            StateError: At the first reset, if the session of the others has been made already.
        """
        if not self._has_begun and not self._has_left:
            self._begin()
        result = super().reset(seed=seed, options=options)
        self._compare()
        return result

    def step(self, action: Any) -> Any:
        """Step the environment and record the step; see `RecordSession.step`."""
        result = super().step(action)
        if not self._is_compared:
            self._compare()
        return result

    def _begin(self) -> None:
        """Find where the shard goes. Nobody could know before: whoever resets first makes the folder."""
        shards, settings = self._processes.claim(), self.settings
        if settings.resume is not None:
            self.recorder.fleet.first_take = resumed.takes(settings.resume)
        self.recorder.settings = attrs.evolve(
            settings,
            output_dir=shards.folder / f"{self.lane:03d}",
            resume=None,
            files_per_chunk=MOST_FILES,
            episodes_per_file=1,
        )
        self._has_begun = True

    def _compare(self) -> None:
        """Refuse early, as soon as it is known what the rows are, what could not be made into one session later."""
        recording = self.recorder.recording
        if self._is_compared or recording is None or not recording.source.has_rates:
            return
        self._is_compared = True
        schema = recording.source.schema
        formats.refuse(self.settings, schema, self.recorder.fleet.tasks)
        self._processes.refuse_unlike(self.lane, schema)

    def close(self) -> None:
        """Give the open episode its verdict and close the shard, then the environment; the last lane makes the session.

        Raises:
            LuckyRecorderError: The first thing that failed in this lane, if nobody else is to raise it.
        """
        failure: LuckyRecorderError | None = None
        try:
            super().close()
        except LuckyRecorderError as error:
            failure = error
            if not self._processes.is_watched:
                raise
        finally:
            if not self._has_left:
                self._has_left = True
                counts = self.counts or Counts()
                told = {"failure": str(failure), "kind": type(failure).__name__} if failure is not None else {}
                self._processes.leave(self._seat, {name: getattr(counts, name) for name in COUNTED} | told)

    # What the process asks that has started this one.

    @property
    def session_path(self) -> Path | None:
        """The session's folder, which is there when all lanes are closed; None before the first ``reset`` of any."""
        return self._processes.session

    @property
    def counts(self) -> Counts | None:
        """What became of the episodes of this lane, as the worker has got to them; None before the first session."""
        session = self.recorder.fleet.session
        return None if session is None else session.counts

    def flush(self) -> None:
        """Wait until every ended episode of this lane is committed or discarded.

        Raises:
            LuckyRecorderError: What failed in the worker; the shard is closed then.
        """
        if self.is_recording:
            self.observer.flush()

    def say(
        self, lane: int | None, verb: str, args: Sequence[Any], said: Mapping[str, Any]
    ) -> LuckyRecorderError | None:
        """Do what a verb says, if this lane is meant, and return the error that it raises.

        What is raised here would end the process.

        Args:
            lane: The number of the lane that is meant; None for all.
            verb: The name of the method.
            args: What it is given.
            said: What it is given by keyword: any name, also those of parameters on the way.
        """
        if lane not in (None, self.lane):
            return None
        try:
            getattr(self, verb)(*args, **said)
        except LuckyRecorderError as error:
            return error
        return None


class Refused(gym.Wrapper[Any, Any, Any, Any]):
    """An environment that cannot be recorded: its reset says why.

    In a vector environment's process only what its reset raises gets to the user.

    Args:
        env: The environment.
        error: What is raised.
        leave: Called when it is closed.
    """

    def __init__(
        self, env: gym.Env[Any, Any], error: LuckyRecorderError, leave: Callable[[], None] = lambda: None
    ) -> None:
        super().__init__(env)
        self._error = error
        self._leave: Callable[[], None] | None = leave

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> NoReturn:
        """Raise the error."""
        raise self._error

    def close(self) -> None:
        """Close the environment."""
        leave, self._leave = self._leave, None
        try:
            super().close()
        finally:
            if leave is not None:
                leave()
