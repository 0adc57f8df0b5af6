"""Lanes: the recorders of the environments in a vector environment, and what can be said of them and asked."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn, SupportsIndex

import gymnasium as gym

from lucky_recorder.errors import SettingsError, StateError
from lucky_recorder.recorder.batched import BatchedLanes, mode_of
from lucky_recorder.recorder.fleet import Fleet
from lucky_recorder.recorder.messages import Counts
from lucky_recorder.recorder.wrapper import RecordLane, Result
from lucky_recorder.settings import validators as v
from lucky_recorder.settings.recorder import RecorderSettings


class Tap(RecordLane):
    """A lane in a vector environment, which counts how often that calls it.

    Attributes:
        heard: How often it was stepped or reset.
    """

    heard = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Reset the environment; see `RecordSession.reset`."""
        self.heard += 1
        return super().reset(seed=seed, options=options)

    def step(self, action: Any) -> Result:
        """Step the environment and record the step; see `RecordSession.step`."""
        self.heard += 1
        return super().step(action)


class Lanes:
    """What can be said of the lanes of a session, and asked: the same for every kind of vector environment.

    Attributes:
        lanes: The `RecordSession` of each environment, for what is said of one of them.
        settings: What is recorded, in every lane.
    """

    lanes: tuple[RecordLane, ...]
    settings: RecorderSettings
    _fleet: Fleet
    _heard = 0

    # What the user says.

    def end_episode(self, lane: SupportsIndex, success: bool | None = None, reward: float | None = None) -> None:
        """End a lane's open episode now, and say its verdict; what follows is not recorded until that lane is reset.

        Args:
            lane: The environment's number in the vector environment.
            success: Whether it succeeded; None: as the ``success`` setting says.
            reward: The verdict as a number from 0 to 1.

        Raises:
            SettingsError: If there is no such lane.
            StateError: If it has no open episode.
            LuckyRecorderError: What failed in the worker, where this may be the last episode; the session is
                closed then.
        """
        one = self._lane(lane)
        with self.heard():
            one.end_episode(success, reward)

    def set_task(self, index: int, lane: SupportsIndex | None = None) -> None:
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
        with self.heard():
            recording.observer.flush()

    def _lane(self, number: SupportsIndex) -> RecordLane:
        which = v.index(number)
        if which is None or not 0 <= which < len(self.lanes):
            raise SettingsError.of("lane", number, f"give 0 to {len(self.lanes) - 1}")
        return self.lanes[which]

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

    def __getstate__(self) -> NoReturn:
        raise StateError(f"a {type(self).__name__} holds a thread and open files and can be neither copied nor pickled")

    # For the faces.

    @contextlib.contextmanager
    def heard(self) -> Iterator[None]:
        """Call the vector environment; what ends the session is raised once here, and not in each lane again."""
        try:
            yield
        except BaseException:
            self._owe_nothing()
            raise

    def refuse_unheard(self) -> None:
        """Refuse a step of which no lane has heard, or, at the first, not every lane: it would not be recorded.

        Raises:
            SettingsError: Says which lanes.
        """
        taps = [lane for lane in self.lanes if isinstance(lane, Tap)]
        before, self._heard = self._heard, sum(tap.heard for tap in taps)
        # Later a lane may be left out for a while: not every kind of vector environment steps what is done.
        deaf = [] if before else [number for number, tap in enumerate(taps) if not tap.heard]
        if deaf or self._heard == before:
            which = f"of lanes {', '.join(map(str, deaf))}" if 0 < len(deaf) < len(taps) else "of all lanes"
            remedy = (
                f"it steps other environments than those in its `envs`, where the recorders were put: nothing {which} "
                "would be recorded. Put a recorder around each environment before the vector environment is made of "
                "them: lucky_recorder.vector.shared()"
            )
            raise SettingsError.of("env", self, remedy)

    def _owe_nothing(self) -> None:
        for lane in self.lanes:
            lane.recorder.owe(None)

    def close_lanes(self, close: Callable[[], Any]) -> None:
        """Close every lane, and then what is given; what is raised first is raised last."""
        raised: BaseException | None = None
        for lane in self.lanes:
            try:
                lane.close()
            except BaseException as error:  # whatever an environment raises: the others are closed all the same
                raised = raised or error
        # Whoever steps a closed one is not told again.
        self._owe_nothing()
        try:
            close()
        finally:
            if raised is not None:
                raise raised


def lanes_of(
    env: Any, settings: RecorderSettings, fleet: Fleet, mode: Any = None
) -> tuple[tuple[RecordLane, ...], BatchedLanes | None]:
    """Put a recorder around each environment of a vector environment.

    Args:
        env: The vector environment.
        settings: What is recorded.
        fleet: What its lanes share.
        mode: How it resets what is done, where that is known; None: as it says.

    Returns:
        The recorders; and what gives them the parts of batches, where the environments are out of reach.

    Raises:
        SettingsError: If they are out of reach, and the settings ask for more than batches have.
    """
    inner = innermost(env)
    within = getattr(inner, "envs", None)
    if isinstance(within, list) and within and all(isinstance(one, gym.Env) for one in within):
        lanes = tuple(Tap(one, settings, fleet) for one in within)
        # Not before all are made: one that is refused leaves the vector environment as it was.
        within[:] = lanes
        return lanes, None
    if settings.mode != "custom":
        remedy = (
            f"the environments in {type(inner).__name__} are out of reach, and only what it returns can be recorded: "
            "set mode='custom', with gym_columns=True or columns of gym:obs and info:KEY; or make the environments in "
            "this process, with vectorization_mode='sync'; or, where each is in a process, record them there, with "
            "wrappers=[lucky_recorder.vector.shared(...)]"
        )
        raise SettingsError.of("mode", settings.mode, remedy)
    batched = BatchedLanes(env, env.num_envs, mode or mode_of(env), lambda one: RecordLane(one, settings, fleet))
    return batched.lanes, batched


def innermost(env: Any) -> Any:
    """Return what is in the wrappers of a vector environment."""
    inner = env.unwrapped if isinstance(env, gym.vector.VectorEnv) else env
    while not isinstance(inner, gym.vector.VectorEnv) and hasattr(inner, "venv"):
        inner = inner.venv
    return inner


def seeds_of(seed: Any, count: int) -> Sequence[int | None]:
    """Return each lane's seed, as gymnasium gives them."""
    if seed is None:
        return [None] * count
    first = v.index(seed)
    return list(seed) if first is None else [first + i for i in range(count)]
