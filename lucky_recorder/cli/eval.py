"""``lucky-recorder eval``: run a policy, record its rollouts, and tell how it did."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lucky_recorder.cli.console import say, stopping
from lucky_recorder.errors import SettingsError

if TYPE_CHECKING:
    from lucky_recorder.recorder.wrapper import RecordSession
    from lucky_recorder.rollouts.evaluate import Policy
    from lucky_recorder.rollouts.results import Evaluation


def evaluate(
    env: Annotated[str | None, typer.Option(metavar="ID", help="Id of a Gymnasium environment.")] = None,
    policy: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:NAME",
            help="A function of the observation, a dict by feature keys; or a class made with the environment.",
        ),
    ] = None,
    lerobot: Annotated[
        str | None, typer.Option(metavar="CHECKPOINT", help="Run this LeRobot policy instead; lerobot must be there.")
    ] = None,
    action: Annotated[
        str | None,
        typer.Option(metavar="KIND", help="What the policy speaks: gym, the environment's action, or actuators."),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="TOML file: fields of RecorderSettings, and env and policy.")
    ] = None,
    episodes: Annotated[int, typer.Option(metavar="N", min=1, help="Episodes to run.")] = 10,
    seed: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="Seed of the first reset; the next takes the next.")
    ] = None,
    execute: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="How many actions of a chunk are carried out; by default all."),
    ] = None,
    camera: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME[:WxH]", help="A camera of the model, or 'render' for env.render(). Repeatable."),
    ] = None,
    mode: Annotated[str | None, typer.Option(metavar="MODE", help="robot_arm, full_scene or custom.")] = None,
    output_dir: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where the rollouts are written; here if it is not said.")
    ] = None,
    koyu: Annotated[
        str | None, typer.Option(metavar="NAME", help="Write the rollouts as a koyu dataset of this name.")
    ] = None,
    session: Annotated[bool, typer.Option("--session/--no-session", help="With --koyu: write a session too.")] = True,
    task: Annotated[str | None, typer.Option(metavar="TEXT", help="Description of the task.")] = None,
    device: Annotated[str, typer.Option(metavar="DEVICE", help="With --lerobot: where the policy runs.")] = "cpu",
    json: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the result as JSON.")] = None,
) -> None:
    """Run a policy in a recorded environment, show how it did, and check what was recorded.

    Exit status: 0 if it ran, whatever its success; 1 if the recording has faults, 2 if it cannot be run.
    """
    # The user's own modules are found in the folder the command is run in, as with `python -m`.
    sys.path.insert(0, os.getcwd())
    with stopping():
        given = {
            "seed": seed,
            "mode": mode,
            "output_dir": output_dir,
            "tasks": [task] if task else None,
            "cameras": _cameras(camera),
            "koyu": _koyu(koyu, policy, lerobot),
            "formats": ["koyu"] if koyu and not session else None,
        }
        asked = _asked(config, given, env, policy)
        named = asked.pop("policy", None)
        recorded = _record(asked)
        with recorded:
            acting = _policy(recorded, named, lerobot, device)
            result = _run(recorded, acting, action, episodes, execute, lerobot or named)
    _show(result, json)


def _cameras(camera: list[str] | None) -> list[dict[str, Any]] | None:
    from lucky_recorder.cli.record import read_camera

    return [read_camera(text) for text in camera] if camera else None


def _koyu(name: str | None, policy: str | None, checkpoint: str | None) -> dict[str, Any] | None:
    """Return the settings of the bundles: they say which policy they are of."""
    if name is None:
        return None
    told = {"policy_name": policy or checkpoint, "source_checkpoint": checkpoint}
    return {"name": name, "collection_mode": "eval", **told}


def _asked(config: Path | None, given: dict[str, Any], env: str | None, policy: str | None) -> dict[str, Any]:
    from lucky_recorder.cli.record import read_config

    options = {**given, "env": env, "policy": policy}
    asked = {**read_config(config), **{name: value for name, value in options.items() if value is not None}}
    if not asked.get("env"):
        raise SettingsError("env is missing: give --env ID, or env in the settings file")
    return asked


def _record(asked: dict[str, Any]) -> RecordSession:
    from lucky_recorder.cli.recording import Plan, make_env
    from lucky_recorder.recorder.wrapper import RecordSession
    from lucky_recorder.settings.recorder import RecorderSettings

    name = asked.pop("env")
    settings = RecorderSettings.of(asked)
    return RecordSession(make_env(Plan(name, settings, 1)), settings)


def _policy(env: RecordSession, named: str | None, checkpoint: str | None, device: str) -> Policy:
    if (named is None) == (checkpoint is None):
        raise SettingsError("policy: give --policy MODULE:NAME, or --lerobot CHECKPOINT, and not both")
    if checkpoint is not None:
        from lucky_recorder.lerobot.policy import lerobot_policy

        return lerobot_policy(checkpoint, device)
    from lucky_recorder.rollouts.collect import resolve_policy

    return resolve_policy(env, named)


def _run(
    env: RecordSession, policy: Policy, action: str | None, episodes: int, execute: int | None, name: str | None
) -> Evaluation:
    from lucky_recorder.rollouts.evaluate import ACTIONS
    from lucky_recorder.rollouts.evaluate import evaluate as run

    if action is None:
        raise SettingsError(f"action is missing: say which vector the policy speaks, --action {' or '.join(ACTIONS)}")
    return run(env, policy, action=action, episodes=episodes, execute=execute, name=name)


def _show(result: Evaluation, json: Path | None) -> None:
    from rich.console import Console

    from lucky_recorder.cli.check import check
    from lucky_recorder.cli.koyu import check as check_dataset

    Console(markup=False, highlight=False).print(result.table())
    with stopping():
        if json is not None:
            result.save(json)
        if result.path is not None:
            say(f"session: {result.path}")
            check(result.path)
        if result.koyu_path is not None:
            say(f"dataset: {result.koyu_path}")
            check_dataset(result.koyu_path)
