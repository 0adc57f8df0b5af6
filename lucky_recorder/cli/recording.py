"""What the recording commands share: make the environment, collect with a progress bar, check what was written."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import attrs
import gymnasium as gym
import typer

from lucky_recorder.cli.check import check
from lucky_recorder.cli.console import Bar
from lucky_recorder.cli.exits import INTERRUPTED
from lucky_recorder.cli.koyu import check as check_dataset
from lucky_recorder.cli.lines import say
from lucky_recorder.errors import GLError, SettingsError, StateError
from lucky_recorder.koyu.layout import GOOD_REWARD
from lucky_recorder.koyu.manifest import is_reward
from lucky_recorder.koyu.reader import Dataset
from lucky_recorder.recorder.wrapper import RecordSession
from lucky_recorder.rollouts.collect import Summary, collect
from lucky_recorder.rollouts.policies import MakePolicy, resolve_policy
from lucky_recorder.session.reader import Session
from lucky_recorder.settings import validators as v
from lucky_recorder.settings.code import named_code, refuse_code
from lucky_recorder.settings.declare import instance, told
from lucky_recorder.settings.recorder import RecorderSettings
from lucky_recorder.settings.toml import read_toml


def _settings(value: RecorderSettings | Mapping[str, Any], *, field: str = "settings") -> RecorderSettings:
    return instance(value, RecorderSettings, field=field)


@attrs.frozen(field_transformer=told())
class Plan:
    """What is to be recorded.

    Attributes:
        env: Id of a Gymnasium environment.
        settings: The recorder's settings.
        episodes: Episodes to keep.
        policy: ``"module:name"``, or None for the environment's expert, or else random actions.
        fail: Probability that the expert is to fail.
        workers: How many processes record.
        seed: The first seed; None for the settings' own, or where a session is gone on with, the next.
    """

    env: str = attrs.field(converter=v.text)
    settings: RecorderSettings = attrs.field(converter=_settings)
    episodes: int = attrs.field(converter=v.count)
    policy: str | None = attrs.field(default=None, converter=v.optional_text)
    fail: float = attrs.field(default=0.0, converter=v.number)
    workers: int = attrs.field(default=1, converter=v.count)
    seed: int | None = None


def merge(config: Path | None, options: Mapping[str, Any], allow_code: bool = False) -> dict[str, Any]:
    """Read a settings file and put the options that were given, those that are not None, on top of it.

    Args:
        config: The file; None if there is none.
        options: The options by name.
        allow_code: Whether the file may name code. Options always may: whoever runs the command has written them.

    Raises:
        SettingsError: If the file cannot be read as TOML, or names code that it may not.
    """
    given = {name: value for name, value in options.items() if value is not None}
    read = {} if config is None else read_toml(config, allow_code=True, field="config")
    left = {name: value for name, value in read.items() if name not in given}
    if not allow_code:
        refuse_code(left)
    return {**left, **given}


def plan_of(asked: Mapping[str, Any], names: Iterable[str], **fields: Any) -> Plan:
    """Make a plan of what was asked for.

    Where something names code, the folder that the command is run in joins the path of modules, as with ``python -m``:
    that is where the user's own policies and columns are. Otherwise it does not: a file of somebody else's that lies
    there might have the name of a module that is about to be imported.

    Args:
        asked: Fields of `RecorderSettings`, and of the plan.
        names: Which of them are the plan's.
        fields: Fields of the plan that are not asked for.

    Raises:
        SettingsError: If something asked for cannot be recorded, or no environment is named.
    """
    if any(named_code(asked)):
        sys.path.insert(0, os.getcwd())
    own = {name: asked[name] for name in names if name in asked}
    settings = RecorderSettings.of({name: value for name, value in asked.items() if name not in own})
    if not asked.get("env"):
        raise SettingsError("env is missing: give --env ID, or env in the settings file")
    # A session that is gone on with has had that one, as a rule.
    seed = settings.seed if settings.resume is None or "seed" in asked else None
    return Plan(settings=settings, seed=seed, **own, **fields)


def record_plan(plan: Plan) -> Path:
    """Record, and check what was recorded; without OpenGL, without pictures.

    Returns:
        The session's folder, or the dataset's where only bundles are written.

    Raises:
        LuckyRecorderError: If it cannot be recorded.
        typer.Exit: If it was interrupted, or the session has faults.
    """
    try:
        path, summary = _record(plan)
    except GLError as error:
        # Without cameras and without rows there may be nothing left to record.
        if not plan.settings.record_data:
            raise
        say(
            f"no pictures will be recorded: {error}; --render deferred keeps what they are drawn of elsewhere",
            error=True,
        )
        blind = attrs.evolve(plan.settings, record_cameras=False)
        path, summary = _record(attrs.evolve(plan, settings=blind))
    # What both formats have is the same: the bundles' rows come from the session's, and their videos are its own.
    (check if _what(plan) == "session" else check_dataset)(path)
    say(_told(plan, path, summary))
    return path


def _what(plan: Plan) -> str:
    """Return what the first format that is written makes."""
    return "session" if "session" in plan.settings.written_formats else "dataset"


def _record(plan: Plan) -> tuple[Path, Summary]:
    path, summary = _record_together(plan) if plan.workers > 1 else _record_here(plan)
    if path is None:
        raise StateError(f"no episode was kept, so there is no {_what(plan)}")
    return path, summary


def _record_together(plan: Plan) -> tuple[Path | None, Summary]:
    make_env = functools.partial(open_session, plan)
    policy = MakePolicy(functools.partial(resolve_policy, name=plan.policy, fail=plan.fail))
    with Bar(plan.episodes, Summary(wanted=plan.episodes)) as bar:
        summary = collect(
            make_env, policy, episodes=plan.episodes, seed=plan.seed, workers=plan.workers, on_episode=bar.show
        )
        bar.show(summary)
    say(f"{_what(plan)}: {summary.path}")
    return summary.path, summary


def _record_here(plan: Plan) -> tuple[Path | None, Summary]:
    env = open_session(plan)
    try:
        with Bar(plan.episodes, Summary(wanted=plan.episodes)) as bar, env:
            policy = resolve_policy(env, plan.policy, fail=plan.fail)
            summary = collect(env, policy, episodes=plan.episodes, seed=plan.seed, on_step=bar.show)
            bar.show(summary)
    except KeyboardInterrupt:
        say(f"interrupted: {_left_behind(env)}", error=True)
        raise typer.Exit(INTERRUPTED) from None
    finally:  # also after an error: what was recorded until then is on the disk
        if env.session_path is not None:
            say(f"{_what(plan)}: {env.session_path}")
    # Where as many are there already, none was recorded.
    return env.session_path or plan.settings.resume, summary


def _left_behind(env: RecordSession) -> str:
    """Say what an interrupt has made of the open episode of a recorder, which is closed by now."""
    counts = env.observer.counts
    if env.session_path is None:
        return "no step was recorded yet, and nothing is on the disk"
    if counts is None or not counts.kept + counts.discarded + counts.failed + counts.dropped:
        return "no step was recorded yet"
    return "the open episode was ended as failed"


def open_session(plan: Plan) -> RecordSession:
    """Make the environment, and the recorder around it; nothing is written yet.

    Raises:
        SettingsError: If gymnasium does not know the environment, or cannot make it here.
    """
    return RecordSession(_make_env(plan), plan.settings)


def _make_env(plan: Plan) -> Any:
    options: dict[str, Any] = {}
    if any(camera.source == "render" for camera in plan.settings.recorded_cameras):
        options["render_mode"] = "rgb_array"
        # Gymnasium's MuJoCo renderer opens a window unless it is told otherwise.
        if not os.environ.get("DISPLAY"):
            os.environ.setdefault("MUJOCO_GL", "egl")
    try:
        return gym.make(plan.env, **options)
    except (gym.error.Error, ImportError) as error:
        raise SettingsError.of("env", plan.env, f"gymnasium cannot make it: {error}") from error


def _told(plan: Plan, path: Path, summary: Summary) -> str:
    what = _what(plan)
    episodes = [e.success for e in Session(path)] if what == "session" else _verdicts(path)
    # What was gone on with, or added to, has more of them.
    before = len(episodes) - summary.kept
    succeeded = sum(episodes[before:])
    return (
        f"{summary.kept} episodes kept, {succeeded} succeeded, {summary.discarded} discarded; "
        f"{summary.steps} steps in {summary.seconds:.1f} s, {summary.steps_per_second:.0f} a second"
        + (f"; {summary.wanted} still wanted" if summary.wanted else "")
        + (f"; {summary.surplus} more were finished and left out" if summary.surplus else "")
        + (f"; the {what} has {len(episodes)} episodes" if before else "")
    )


def _verdicts(dataset: Path) -> list[bool]:
    """Return whether each episode of a dataset has succeeded; of one with several robots, each robot's bundle has."""
    listed = Dataset(dataset).manifest["episodes"]
    return [is_reward(one.get("reward")) and one["reward"] >= GOOD_REWARD for one in listed]
