"""Collecting: a policy runs in a recorded environment until enough episodes are kept."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import NamedTuple, NoReturn, SupportsIndex

from lucky_recorder.edit import left, shards
from lucky_recorder.errors import SettingsError, StateError
from lucky_recorder.recorder.wrapper import RecordSession
from lucky_recorder.rollouts import gather, tried
from lucky_recorder.rollouts.pieces import Attempt
from lucky_recorder.rollouts.policies import MakePolicy, Policy, maker_of, reset_policy, resolve_policy
from lucky_recorder.rollouts.shard import Job, new_env
from lucky_recorder.settings import validators as v
from lucky_recorder.settings.recorder import RecorderSettings

__all__ = ["MakePolicy", "Policy", "Summary", "collect", "resolve_policy"]

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
        surplus: Episodes beyond those that were wanted, which workers had finished by then; they are left out.
        path: The session's folder, or the dataset's where only bundles are written; None before there is one.
    """

    kept: int = 0
    discarded: int = 0
    steps: int = 0
    seconds: float = 0.0
    bytes: int = 0
    wanted: int = 0
    surplus: int = 0
    path: Path | None = None

    @property
    def steps_per_second(self) -> float:
        """Steps per second of wall-clock time."""
        return self.steps / self.seconds if self.seconds else 0.0


Notice = Callable[[Summary], object]


def collect(
    env: RecordSession | Callable[[], RecordSession] | str,
    policy: Policy | MakePolicy | str | None = None,
    *,
    episodes: int,
    seed: SupportsIndex | None = None,
    workers: int = 1,
    on_step: Notice | None = None,
    on_episode: Notice | None = None,
) -> Summary:
    """Run a policy until ``episodes`` episodes are kept, or the session ends with ``total_episodes``.

    Every reset is seeded: with ``seed``, ``seed + 1`` and so on, one per attempt. A policy that has a ``reset()`` is
    reset with the environment; one whose ``reset`` takes a ``seed`` is given the attempt's. An attempt ends when the
    environment is done, or when ``max_episode_length_s`` has ended its episode.

    With ``workers`` each process makes an environment and a policy of its own, and records a shard. In the end the
    shards become one session, and one koyu dataset where bundles are written: of the attempts that can be kept the
    first ``episodes``, in the order of their seeds. Where an attempt depends on its seed alone, that is what one
    process records, whatever the number of workers.

    Args:
        env: The recorded environment, which is left open: closing it closes the session. Or a function without
            arguments that makes it, or ``"module:name"`` of one: then the session is closed in the end. Workers need
            one of these.
        policy: Gives the action for an observation. Or ``"module:name"``, or a class that is made with the environment;
            None: the environment's expert, or else random actions; see `resolve_policy`.
        episodes: How many episodes to keep; with ``discard_and_retry_failed`` only successful ones are. Where a session
            is gone on with (``resume``), those count that are there.
        seed: The first attempt's seed; None for the settings' ``seed``. Where a session is gone on with, None for the
            one after the last that was tried; one that does not say which were needs it.
        workers: How many processes.
        on_step: Told how it stands after every step; with workers, after every attempt.
        on_episode: Told how it stands after every attempt.

    Returns:
        What was done. Everything that it counts as kept is written.

    Raises:
        StateError: If the session of ``env`` has ended already.
        SettingsError: If ``max(100, 20 * episodes)`` attempts in a row leave nothing: success is never found. If a
            session is gone on with, and no seed is known. If several processes cannot do it.
        WorkerDiedError: If workers die again and again. What was finished is a session all the same.
        LuckyRecorderError: What fails while recording.
    """
    count, most = v.count(workers, field="workers"), v.count(episodes, field="episodes")
    # Here, and not by each environment that is made: all workers would fail at it, one after another.
    begins = None if seed is None else v.seed(seed, field="seed")
    if isinstance(env, RecordSession):
        if count > 1:
            remedy = "each worker makes an environment of its own: give collect() a function that makes the recorder"
            raise SettingsError.of(
                "workers", workers, f"{remedy}, such as lambda: lr.RecordSession(gym.make(...), ...)"
            )
        return _collect_here(env, maker_of(policy)(env), most, begins, on_step, on_episode)
    make_env, make_policy = gather.env_maker(env), maker_of(policy)
    if count > 1:
        return _Together(Job(make_env, make_policy, attempt), most, begins, on_step, on_episode).run(count)
    with contextlib.closing(new_env(make_env)) as made:
        return _collect_here(made, make_policy(made), most, begins, on_step, on_episode)


def _collect_here(
    env: RecordSession,
    policy: Policy,
    episodes: int,
    seed: int | None,
    on_step: Notice | None,
    on_episode: Notice | None,
) -> Summary:
    left.tell_of_left(env.settings)
    first = _first_seed(env.settings) if seed is None else seed
    tally = _Tally(env, episodes)
    while not tally.is_enough():
        for _ in attempt(env, policy, first + tally.attempts):
            tally.steps += 1
            if on_step is not None:
                on_step(tally.summary())
        tally.end_attempt()
        if on_episode is not None:
            on_episode(tally.summary())
    return tally.summary()


def _first_seed(settings: RecorderSettings) -> int:
    if settings.resume is None:
        return settings.seed
    last = tried.largest_seed(settings.resume)
    if last is None:
        remedy = "where a session is gone on with that does not say which seeds were tried, say the first that was not"
        raise SettingsError.of("seed", None, remedy)
    return last + 1


def attempt(env: RecordSession, policy: Policy, seed: int) -> Generator[None, None, None]:
    """Make one attempt, and yield after every step."""
    reset_policy(policy, seed)
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


def _give_up(settings: RecorderSettings, kept: int, episodes: int, fruitless: int) -> SettingsError:
    return SettingsError.of(
        "success",
        settings.success,
        f"{kept} of {episodes} episodes were kept, none in the last {fruitless} attempts; check the policy, this "
        f"setting, discard_and_retry_failed={settings.discard_and_retry_failed} and episode_trigger",
    )


def _patience(episodes: int) -> int:
    return max(_PATIENCE, _PATIENCE_PER_EPISODE * episodes)


class _Together:
    """A collection by several processes."""

    def __init__(
        self, job: Job, episodes: int, seed: int | None, on_step: Notice | None, on_episode: Notice | None
    ) -> None:
        self._job = job
        self._episodes = episodes
        self._seed = seed
        self._notices = [notice for notice in (on_step, on_episode) if notice is not None]
        self._missing = episodes
        self._summary = Summary(wanted=episodes)
        self._began = time.perf_counter()

    def run(self, workers: int) -> Summary:
        """Collect with so many processes."""
        settings = gather.settings_of(self._job.make_env)
        total = settings.total_episodes
        there = 0 if settings.resume is None else shards.episodes(settings.resume)
        missing = max(0, self._episodes - there)
        episodes = missing if total is None else min(missing, total)
        if not episodes:
            return Summary(path=settings.resume)
        left.tell_of_left(settings)
        first = _first_seed(settings) if self._seed is None else self._seed
        self._summary, self._missing = Summary(wanted=missing), missing
        wanted = gather.Wanted(
            seed_of=lambda number: first + number,
            episodes=episodes,
            is_picky=settings.discard_and_retry_failed,
            patience=_patience(episodes),
            give_up=lambda kept, fruitless: _give_up(settings, kept, episodes, fruitless),
            notice=self._note,
        )
        gathered = gather.gather(self._job, settings, wanted, workers)
        kept = sum(one.episode is not None for one in gathered.attempts)
        return Summary(
            kept=kept,
            discarded=len(gathered.attempts) - kept,
            steps=sum(one.steps for one in gathered.attempts),
            seconds=time.perf_counter() - self._began,
            bytes=0 if gathered.made is None else gathered.made.bytes,
            wanted=max(0, missing - kept),
            surplus=gathered.surplus,
            path=settings.resume if gathered.made is None else gathered.made.path,
        )

    def _note(self, attempt: Attempt) -> None:
        is_kept = attempt.episode is not None
        # What is beyond that is surplus.
        kept = min(self._missing, self._summary.kept + is_kept)
        self._summary = self._summary._replace(
            kept=kept,
            discarded=self._summary.discarded + (not is_kept),
            steps=self._summary.steps + attempt.steps,
            seconds=time.perf_counter() - self._began,
            wanted=max(0, self._missing - kept),
        )
        for notice in self._notices:
            notice(self._summary)


class _Tally:
    """Counts what became of the attempts, without what the session held at the start."""

    def __init__(self, env: RecordSession, episodes: int) -> None:
        self._env = env
        if self._has_ended:
            raise StateError(f"the session {env.session_path} has ended; make another RecordSession to collect more")
        # What the caller recorded before is ended and written first, so that it is not counted as collected here.
        if env.recorder.take is not None:
            env.end_episode()
        if env.is_recording:
            env.observer.flush()
        resumed = env.settings.resume
        self._episodes = episodes if resumed is None else episodes - shards.episodes(resumed)
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
        seconds = time.perf_counter() - self._began
        # Where nothing is missing of a session that is gone on with, it is not opened.
        path = self._env.session_path or self._env.settings.resume
        return Summary(kept, discarded, self.steps, seconds, size, wanted, path=path)

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
        patience = _patience(self._episodes)
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
        fruitless = self.attempts - self._last_fruitful
        raise _give_up(self._env.settings, self._kept, self._episodes, fruitless)
