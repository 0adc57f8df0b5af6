"""Running a policy in a recorded environment, and telling how it did."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from lucky_recorder.cli.check import check
from lucky_recorder.cli.console import show
from lucky_recorder.cli.koyu import check as check_dataset
from lucky_recorder.cli.lines import say
from lucky_recorder.cli.recording import merge, open_session, plan_of
from lucky_recorder.errors import SettingsError
from lucky_recorder.lerobot.policy import lerobot_policy
from lucky_recorder.recorder.wrapper import RecordSession
from lucky_recorder.rollouts.evaluate import ACTIONS
from lucky_recorder.rollouts.evaluate import evaluate as run
from lucky_recorder.rollouts.policies import MakePolicy, Policy, resolve_policy
from lucky_recorder.rollouts.results import Evaluation


class Agent(NamedTuple):
    """How a policy is run.

    Attributes:
        action: Which vector it speaks: ``gym`` or ``actuators``.
        checkpoint: A LeRobot policy to run instead of a named one.
        device: Where a LeRobot policy runs.
        execute: How many actions of a chunk are carried out; None for all.
    """

    action: str | None
    checkpoint: str | None = None
    device: str = "cpu"
    execute: int | None = None


def evaluate(
    config: Path | None,
    options: Mapping[str, Any],
    agent: Agent,
    episodes: int,
    result_file: Path | None,
    allow_code: bool = False,
) -> None:
    """Run a policy in a recorded environment, show how it did, and check what was recorded.

    Args:
        config: A TOML file: fields of `RecorderSettings`, and ``env``, ``policy`` and ``workers``.
        options: The same by name; None where it was not given.
        agent: How the policy is run.
        episodes: Episodes to run.
        result_file: Where the result is written as JSON; None: nowhere.
        allow_code: Whether the file may name code.

    Raises:
        LuckyRecorderError: If it cannot be run.
        typer.Exit: If what was recorded has faults.
    """
    plan = plan_of(merge(config, options, allow_code), ("env", "policy", "workers"), episodes=episodes)
    action = _action(agent, plan.policy)
    result = run(
        functools.partial(open_session, plan),
        MakePolicy(functools.partial(_policy, named=plan.policy, agent=agent)),
        action=action,
        episodes=episodes,
        execute=agent.execute,
        name=agent.checkpoint or plan.policy,
        workers=plan.workers,
    )
    _tell(result, result_file)


def _action(agent: Agent, named: str | None) -> str:
    """Return which vector the policy speaks; refuse what says no policy, or two, before anything is opened."""
    if (named is None) == (agent.checkpoint is None):
        raise SettingsError("policy: give --policy MODULE:NAME, or --lerobot CHECKPOINT, and not both")
    if agent.action is None:
        raise SettingsError(f"action is missing: say which vector the policy speaks, --action {' or '.join(ACTIONS)}")
    return agent.action


def _policy(env: RecordSession, named: str | None, agent: Agent) -> Policy:
    if agent.checkpoint is not None:
        return lerobot_policy(agent.checkpoint, agent.device)
    return resolve_policy(env, named)


def _tell(result: Evaluation, result_file: Path | None) -> None:
    show(result.table())
    if result_file is not None:
        result.save(result_file)
    if result.path is not None:
        say(f"session: {result.path}")
        check(result.path)
    if result.koyu_path is not None:
        say(f"dataset: {result.koyu_path}")
        check_dataset(result.koyu_path)
