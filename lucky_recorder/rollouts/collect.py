"""Collecting: a policy runs in a recorded environment until enough episodes are kept."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from lucky_recorder.errors import SettingsError, StateError
from lucky_recorder.settings.validators import load_callable

if TYPE_CHECKING:
    from lucky_recorder.recorder.wrapper import RecordSession

Policy = Callable[[Any], Any]

_PATIENCE = 100
_PATIENCE_PER_EPISODE = 20


class Summary(NamedTuple):
    """What a collection has come to so far.

    Attributes:
        kept: Episodes kept and written.
        discarded: Attempts discarded.
        steps: Steps taken.
        seconds: Wall-clock time.
        bytes: Bytes of video written.
        wanted: Episodes that are still to be kept.
    """

    kept: int = 0
    discarded: int = 0
    steps: int = 0
    seconds: float = 0.0
    bytes: int = 0
    wanted: int = 0

    @property
    def steps_per_second(self) -> float:
        """Steps per second of wall-clock time."""
        return self.steps / self.seconds if self.seconds else 0.0


Notice = Callable[[Summary], object]


def collect(
    env: RecordSession,
    policy: Policy,
    *,
    episodes: int,
    seed: int | None = None,
    on_step: Notice | None = None,
    on_episode: Notice | None = None,
) -> Summary:
    """Run a policy until ``episodes`` more episodes are kept, or the session ends with ``total_episodes``.

    Every reset is seeded: with ``seed``, ``seed + 1`` and so on, one per attempt. A policy that has a ``reset()`` is
    reset with the environment. An attempt ends when the environment is done, or when ``max_episode_length_s`` has
    ended its episode. The environment is left open: closing it closes the session.

    Args:
        env: The recorded environment.
        policy: Gives the action for an observation.
        episodes: How many episodes to keep; with ``discard_and_retry_failed`` only successful ones are.
        seed: The first attempt's seed; None for the settings' ``seed``, but where a session is gone on with: which
            seeds its attempts have had is not written in it, and the same one would record the same episode again.
        on_step: Told how it stands after every step.
        on_episode: Told how it stands after every attempt.

    Returns:
        What was done. Everything that it counts as kept is written.

    Raises:
        StateError: If the session of ``env`` has ended already.
        SettingsError: If ``max(100, 20 * episodes)`` attempts in a row leave nothing: success is never found. If a
            session is gone on with, and no seed is given.
        LuckyRecorderError: What fails while recording.
    """
    first = _first_seed(env) if seed is None else seed
    tally = _Tally(env, episodes)
    while not tally.is_enough():
        for _ in _attempt(env, policy, first + tally.attempts):
            tally.steps += 1
            if on_step is not None:
                on_step(tally.summary())
        tally.end_attempt()
        if on_episode is not None:
            on_episode(tally.summary())
    return tally.summary()


def _first_seed(env: RecordSession) -> int:
    if env.settings.resume is not None:
        remedy = "where a session is gone on with, say the first seed that none of its attempts has had"
        raise SettingsError.of("seed", None, remedy)
    return env.settings.seed


def _attempt(env: RecordSession, policy: Policy, seed: int) -> Iterator[None]:
    """Run one attempt, and yield after every step."""
    begin = getattr(policy, "reset", None)
    if callable(begin):
        begin()
    observation, _ = env.reset(seed=seed)
    # `episode_trigger` may leave an attempt out. That one runs until the environment is done; a recorded one also ends
    # where its take does, at the time limit.
    is_recorded = env.recorder.take is not None
    is_done = False
    while not is_done and (env.recorder.take is not None or not is_recorded):
        observation, _, terminated, truncated, _ = env.step(policy(observation))
        is_done = bool(terminated or truncated)
        yield
    # Not left to the next reset: the verdict is counted before it is decided whether there is a next attempt.
    if env.recorder.take is not None:
        env.end_episode()


class _Tally:
    """Counts what became of the attempts, without what the session held at the start."""

    def __init__(self, env: RecordSession, episodes: int) -> None:
        self._env = env
        self._episodes = episodes
        if self._has_ended:
            raise StateError(f"the session {env.session_path} has ended; make another RecordSession to collect more")
        # What the caller recorded before is ended and written first, so that it is not counted as collected here.
        if env.recorder.take is not None:
            env.end_episode()
        if env.is_recording:
            env.observer.flush()
        self.attempts = 0
        self.steps = 0
        self._kept = 0
        self._last_fruitful = 0
        self._began = time.perf_counter()
        self._before = self._counts

    @property
    def _has_ended(self) -> bool:
        return self._env.session_path is not None and not self._env.is_recording

    @property
    def _counts(self) -> tuple[int, int, int]:
        recording = self._env.recorder.recording
        if recording is None:
            return 0, 0, 0
        counts = recording.counts
        return counts.kept, counts.discarded, counts.bytes

    def summary(self) -> Summary:
        kept, discarded, size = (now - then for now, then in zip(self._counts, self._before, strict=True))
        wanted = max(0, self._episodes - kept)
        return Summary(kept, discarded, self.steps, time.perf_counter() - self._began, size, wanted)

    def is_enough(self) -> bool:
        """Tell whether all episodes are kept that are wanted.

        The worker counts what is kept, later than attempts end. It is waited for only when there might be enough:
        otherwise drawing and encoding would not run beside the next attempt.
        """
        if self._has_ended:
            return True
        if self.attempts - self.summary().discarded < self._episodes:
            return False
        return self._written() >= self._episodes

    def end_attempt(self) -> None:
        """Count an attempt; too many in a row that leave nothing are an error."""
        self.attempts += 1
        self._note(self.summary().kept)
        patience = max(_PATIENCE, _PATIENCE_PER_EPISODE * self._episodes)
        if self.attempts - self._last_fruitful < patience:
            return
        # The worker may be behind with what was counted so far.
        self._note(self._written())
        if self.attempts - self._last_fruitful >= patience:
            self._give_up()

    def _note(self, kept: int) -> None:
        if kept > self._kept:
            self._kept, self._last_fruitful = kept, self.attempts

    def _written(self) -> int:
        if self._env.is_recording:
            self._env.observer.flush()
        return self.summary().kept

    def _give_up(self) -> NoReturn:
        settings, fruitless = self._env.settings, self.attempts - self._last_fruitful
        raise SettingsError.of(
            "success",
            settings.success,
            f"{self._kept} of {self._episodes} episodes were kept, none in the last {fruitless} attempts; check the "
            f"policy, this setting, discard_and_retry_failed={settings.discard_and_retry_failed} and episode_trigger",
        )


def resolve_policy(env: RecordSession, name: str | None = None, *, fail: float = 0.0) -> Policy:
    """Find the policy that a name stands for.

    Args:
        env: The environment it is for.
        name: ``"module:name"`` of a function of the observation, or of a class, which is made with ``env`` and then
            called with each observation. None: the environment's own ``unwrapped.expert()`` if it has one, else random
            actions, seeded by the settings' ``seed``.
        fail: Probability, per episode, that the environment's expert is to fail.

    Raises:
        SettingsError: If there is no such policy, or none that can be made to fail.
    """
    expert = getattr(env.unwrapped, "expert", None)
    if name is None and callable(expert):
        return _expert(expert, fail, env.settings.seed)
    if fail:
        raise SettingsError.of("fail", fail, "only an environment's own expert can be made to fail; leave it out")
    return _random(env) if name is None else _named(env, name)


def _named(env: RecordSession, name: str) -> Policy:
    named: Any = load_callable("policy", name)
    is_class = inspect.isclass(named)
    policy: Policy = named(env) if is_class else named
    if not callable(policy):
        raise SettingsError.of("policy", name, "makes objects that cannot be called with an observation")
    return policy


def _expert(expert: Callable[..., Policy], fail: float, seed: int) -> Policy:
    if not fail:
        return expert()
    if "fail" not in inspect.signature(expert).parameters:
        raise SettingsError.of("fail", fail, "this environment's expert cannot be made to fail; leave it out")
    return expert(fail=fail, seed=seed)


def _random(env: RecordSession) -> Policy:
    env.action_space.seed(env.settings.seed)
    return lambda observation: env.action_space.sample()
