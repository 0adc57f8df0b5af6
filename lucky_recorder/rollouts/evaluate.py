"""Evaluating: a policy acts in a recorded environment on exactly what is recorded, and its rollouts are filed."""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_recorder.episode.keys import IMAGES
from lucky_recorder.episode.record import Outcome, Reason
from lucky_recorder.errors import SettingsError, StateError, shown
from lucky_recorder.koyu.layout import slug
from lucky_recorder.recorder.wrapper import RecordSession
from lucky_recorder.rollouts import gather
from lucky_recorder.rollouts.pieces import Attempt
from lucky_recorder.rollouts.policies import MakePolicy, Policy, maker_of, reset_policy
from lucky_recorder.rollouts.results import Evaluation, Rollout
from lucky_recorder.rollouts.shard import Job, new_env
from lucky_recorder.settings import validators as v
from lucky_recorder.settings.recorder import RecorderSettings

Observation = dict[str, Any]
Notice = Callable[[Rollout], object]
Run = functools.partial[Generator[None, None, Rollout]]

__all__ = ["ACTIONS", "MakePolicy", "Policy", "evaluate", "seen_by_policy", "to_env"]

ACTIONS = ("gym", "actuators")
_MODES = ("eval", "intervention")


def evaluate(
    env: RecordSession | Callable[[], RecordSession] | str,
    policy: Policy | MakePolicy | str,
    *,
    action: str,
    episodes: int | None = None,
    seeds: Iterable[int] | None = None,
    execute: int | None = None,
    name: str | None = None,
    workers: int = 1,
    on_episode: Notice | None = None,
) -> Evaluation:
    """Run a policy in a recorded environment; every rollout is recorded, the failed ones too.

    The policy is given a dict with the feature keys of the recording: ``observation.state`` and every other column that
    is known before it acts, float32, as a koyu bundle has them; ``observation.images.<camera>``, uint8 of shape
    ``(height, width, 3)``, the very picture that is recorded; and ``task`` and ``task_description``. It returns an
    action, or a chunk of them, shape ``(steps, n)``, which is carried out before it is asked again: ``new_policy_step``
    is set on the first of them. A policy that has a ``reset()`` is reset before each episode; one whose ``reset`` takes
    a ``seed`` is given the episode's.

    Where koyu bundles are written their sidecars say where they come from: ``KoyuSettings(collection_mode="eval",
    policy_name=..., source_checkpoint=...)``.

    With ``workers`` each process makes an environment and a policy of its own. Where a rollout depends on its seed
    alone, the result is that of one process, but for the time that it took.

    Args:
        env: The recorded environment, which is left open: closing it closes the session. Or a function without
            arguments that makes it, or ``"module:name"`` of one: then the session is closed in the end. Workers need
            one of these.
        policy: Gives the action for an observation. Or ``"module:name"``, or a class that is made with the environment.
        action: Which vector the policy speaks: ``gym``, the environment's own action, or ``actuators``, values of the
            ``action`` column, which become commands through ``lr.commands_to_ctrl``; the environment's action must be
            the actuators' commands then.
        episodes: How many episodes; None: one per seed.
        seeds: The seed of each episode's reset; None: the settings' ``seed`` and those that follow it.
        execute: How many actions of a chunk are carried out; None: all of them.
        name: The policy's name in the result; None: ``KoyuSettings.policy_name``, or else what the policy is called.
        workers: How many processes.
        on_episode: Told of every rollout, with workers in the order in which they end.

    Returns:
        The result, in the order of the seeds. Everything that it speaks of is written.

    Raises:
        SettingsError: If an argument makes no sense, or the policy's actions do not fit.
        StateError: If the session of ``env`` has ended.
        WorkerDiedError: If workers die again and again. What was finished is a session all the same.
        LuckyRecorderError: What fails while recording.
    """
    chosen = v.one_of(action, ACTIONS, field="action")
    most = v.optional_count(execute, field="execute")
    count = v.count(workers, field="workers")
    run = functools.partial(rollout, action=chosen, execute=most)
    called = functools.partial(_called, name, policy)
    if isinstance(env, RecordSession):
        if count > 1:
            remedy = "each worker makes an environment of its own: give evaluate() a function that makes the recorder"
            raise SettingsError.of("workers", workers, remedy)
        return _evaluate_here(env, maker_of(policy), run, (episodes, seeds), called, on_episode)
    make_env, make_policy = gather.env_maker(env), maker_of(policy)
    if count > 1:
        return _evaluate_together(Job(make_env, make_policy, run), chosen, (episodes, seeds), count, called, on_episode)
    with contextlib.closing(new_env(make_env)) as made:
        return _evaluate_here(made, make_policy, run, (episodes, seeds), called, on_episode)


_Asked = tuple[int | None, Iterable[int] | None]


def _evaluate_here(
    env: RecordSession,
    make_policy: Callable[[RecordSession], Policy],
    run: Run,
    asked: _Asked,
    called: Callable[[RecorderSettings], str],
    on_episode: Notice | None,
) -> Evaluation:
    _refuse_settings(env.settings)
    seeds, policy, rollouts = _seeds(env.settings, *asked), make_policy(env), []
    for seed in seeds:
        rollouts.append(_last(run(env, policy, seed)))
        if on_episode is not None:
            on_episode(rollouts[-1])
    if env.is_recording:
        env.observer.flush()
    has_session = "session" in env.settings.written_formats
    path = env.session_path if has_session else None
    return Evaluation(tuple(rollouts), called(env.settings), run.keywords["action"], path, env.koyu_path)


def _last(run: Generator[None, None, Rollout | None]) -> Rollout:
    while True:
        try:
            next(run)
        except StopIteration as end:
            result: Rollout = end.value
            return result


def _evaluate_together(
    job: Job,
    action: str,
    asked: _Asked,
    workers: int,
    called: Callable[[RecorderSettings], str],
    on_episode: Notice | None,
) -> Evaluation:
    settings = gather.settings_of(job.make_env)
    _refuse_settings(settings)
    seeds = _seeds(settings, *asked)

    def note(attempt: Attempt) -> None:
        if on_episode is not None and attempt.rollout is not None:
            on_episode(attempt.rollout)

    wanted = gather.Wanted(
        seed_of=lambda number: seeds[number],
        episodes=len(seeds),
        is_picky=False,
        patience=len(seeds) + 1,
        give_up=lambda kept, fruitless: StateError("a rollout left nothing"),
        notice=note,
    )
    gathered = gather.gather(job, settings, wanted, workers)
    rollouts = tuple(one.rollout for one in gathered.attempts if one.rollout is not None)
    made = gathered.made
    path = made.path if made is not None and "session" in settings.written_formats else None
    return Evaluation(rollouts, called(settings), action, path, made and made.koyu_path)


def _refuse_settings(settings: RecorderSettings) -> None:
    """Refuse a recording whose episodes would not be the evaluation's."""
    koyu = settings.koyu
    if settings.discard_and_retry_failed:
        remedy = "an evaluation keeps its failures; switch it off"
        raise SettingsError.of("discard_and_retry_failed", True, remedy)
    if koyu is not None and koyu.collection_mode not in _MODES:
        raise SettingsError.of("koyu.collection_mode", koyu.collection_mode, f"choose one of {', '.join(_MODES)}")
    if settings.resume is not None:
        remedy = "an evaluation has a session of its own; leave it out"
        raise SettingsError.of("resume", str(settings.resume), remedy)
    if not settings.record_data:
        raise SettingsError.of("record_data", False, "a policy acts on rows; record them")


def _seeds(settings: RecorderSettings, episodes: int | None, seeds: Iterable[int] | None) -> list[int]:
    count = v.optional_count(episodes, field="episodes")
    if seeds is None:
        if count is None:
            raise SettingsError("episodes and seeds: give one of them, or both")
        return list(range(settings.seed, settings.seed + count))
    given = list(v.several(seeds, v.seed, field="seeds", unique=False))
    if not given or count not in (None, len(given)):
        raise SettingsError.of("seeds", given, f"give one for each of the {count or 'episodes'}")
    return given


def _called(name: str | None, policy: Policy | MakePolicy | str, settings: RecorderSettings) -> str:
    said = settings.koyu.policy_name if settings.koyu is not None else None
    own = policy if isinstance(policy, str) else getattr(policy, "__name__", None) or type(policy).__name__
    return name or said or own


# One rollout.


def rollout(
    env: RecordSession, policy: Policy, seed: int, *, action: str, execute: int | None
) -> Generator[None, None, Rollout]:
    """Run one rollout; yields after every step, and returns what it was."""
    began = time.perf_counter()
    reset_policy(policy, seed)
    env.reset(seed=seed)
    if env.recorder.take is None:
        why = "has ended" if not env.is_recording else "does not record this episode (episode_trigger)"
        raise StateError(f"the session {env.session_path} {why}; make another RecordSession to evaluate in")
    total, length, decisions = 0.0, 0, 0
    for step, new_policy_step in _actions(env, policy, action, execute):
        if not new_policy_step:
            env.hold()
        _, reward, terminated, truncated, _ = env.step(step)
        total, length, decisions = total + float(reward), length + 1, decisions + new_policy_step
        yield
        if terminated or truncated:
            break
    if env.recorder.take is not None:
        env.end_episode()
    outcome = env.recorder.last_outcome
    assert outcome is not None
    seconds = time.perf_counter() - began
    return Rollout(seed, _said(outcome), outcome.reason, length, total, _reward(outcome), decisions, seconds)


def _said(outcome: Outcome) -> bool | None:
    return None if outcome.reason == Reason.NO_VERDICT else outcome.success


def _reward(outcome: Outcome) -> float | None:
    if outcome.reward is not None:
        return outcome.reward
    said = _said(outcome)
    return None if said is None else float(said)


def _actions(env: RecordSession, policy: Policy, action: str, execute: int | None) -> Iterator[tuple[Any, bool]]:
    """Ask the policy while the episode is open; yields each action, and whether the policy was asked for it."""
    turn = to_env(env, action)
    while _has_time(env):
        chunk = turn(policy(seen_by_policy(env)))
        for number, one in enumerate(chunk[:execute]):
            # For the first of a chunk it was asked above, before the policy was.
            if number and not _has_time(env):
                return
            yield one, number == 0


def _has_time(env: RecordSession) -> bool:
    """Tell whether the coming step will be recorded. At the time limit it is not: the episode is ended here."""
    take = env.recorder.take
    return take is not None and not take.end_if_due()


def seen_by_policy(env: RecordSession) -> Observation:
    """Return what the coming step will record of what a policy may see, as `evaluate` gives it to a policy.

    That is what a bundle would hold of it: columns of texts are left out.
    """
    looked = {key: x for key, x in env.observe().items() if x.dtype.kind in "biuf"}
    seen = {key: x if key.startswith(IMAGES) else _as_float32(x) for key, x in looked.items()}
    description = env.observer.current_task
    return {**seen, "task": slug(description), "task_description": description}


def _as_float32(value: NDArray[Any]) -> NDArray[Any]:
    """Return a column's value as a bundle has it: a single value is a vector of one."""
    return np.atleast_1d(value).astype(np.float32)


# The policy's vector and the environment's.


def to_env(env: RecordSession, action: str) -> Callable[[Any], list[Any]]:
    """Return the function that turns what a policy says into actions of the environment, one or more."""
    space: Any = env.action_space
    if action == "gym" and space.shape is None:
        return lambda said: [said]
    shape, dtype = space.shape, space.dtype
    # Asked for in every episode: the commands' ranges are read anew when one begins.
    to_ctrl = _commands(env) if action == "actuators" else None

    def turn(said: Any) -> list[Any]:
        chunk = _chunk(said, shape)
        if to_ctrl is not None:
            chunk = np.clip(to_ctrl(chunk), space.low, space.high)
        if np.dtype(dtype).kind in "iu" and not np.array_equal(chunk, np.rint(chunk)):
            raise SettingsError.of("policy", said, f"the environment's actions are whole numbers ({dtype})")
        return [one.astype(dtype) for one in chunk]

    return turn


def _chunk(said: Any, shape: tuple[int, ...]) -> NDArray[Any]:
    """Return what a policy says as a chunk of actions.

    Raises:
        SettingsError: If it is neither an action nor a chunk of them, or not finite.
    """
    try:
        given = np.asarray(said, np.float64)
    except (TypeError, ValueError) as error:
        raise SettingsError.of("policy", said, f"returned what is no action ({error})") from None
    chunk = given[None] if given.shape == shape else given
    if chunk.shape[1:] != shape or chunk.ndim != len(shape) + 1 or not len(chunk):
        expected = f"an action, shape {shape}, or a chunk of them, with an axis of steps in front"
        raise SettingsError(f"the policy returned shape {given.shape}; expected {expected}")
    if not np.isfinite(chunk).all():
        raise SettingsError(f"the policy returned {shown(said)}: it is not finite")
    return chunk


def _commands(env: RecordSession) -> Callable[[NDArray[Any]], NDArray[Any]]:
    """Return the way from the ``action`` column to the environment's action.

    Raises:
        SettingsError: If that is not known to be the actuators' commands.
    """
    recording, space = env.recorder.recording, env.action_space
    take = env.recorder.take
    commands = take.commands if take is not None else None
    if commands is None:
        raise SettingsError.of("action", "actuators", "there is no action column here; use action='gym'")
    assert recording is not None
    if len(recording.source.robots) > 1:
        raise SettingsError.of("action", "actuators", "several robots have an action each; use action='gym'")
    low, high = getattr(space, "low", None), getattr(space, "high", None)
    if low is None or high is None or not commands.fits(low, high):
        remedy = "the environment's action space is not the actuators' control ranges; use action='gym'"
        raise SettingsError.of("action", "actuators", remedy)
    return commands.to_ctrl
