"""``lucky-recorder eval``: run a policy, record its rollouts, and tell how it did."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from lucky_recorder import cli
from lucky_recorder.cli.asked import read_cameras
from lucky_recorder.cli.commands.options import AllowCode, Cameras, EnvId, Mode, Seed, Workers


def evaluate(
    env: EnvId = None,
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
        Path | None,
        typer.Option(metavar="FILE", help="TOML file: fields of RecorderSettings, and env, policy, workers."),
    ] = None,
    allow_code: AllowCode = False,
    episodes: Annotated[int, typer.Option(metavar="N", min=1, help="Episodes to run.")] = 10,
    seed: Seed = None,
    workers: Workers = None,
    execute: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="How many actions of a chunk are carried out; by default all."),
    ] = None,
    camera: Cameras = None,
    mode: Mode = None,
    output_dir: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where the rollouts are written; here if it is not said.")
    ] = None,
    koyu: Annotated[
        str | None, typer.Option(metavar="NAME", help="Write the rollouts as a koyu dataset of this name.")
    ] = None,
    session: Annotated[bool, typer.Option("--session/--no-session", help="With --koyu: write a session too.")] = True,
    task: Annotated[str | None, typer.Option(metavar="TEXT", help="Description of the task.")] = None,
    task_from: Annotated[
        str | None,
        typer.Option(metavar="SOURCE", help="What says the task of each row: info:KEY, or MODULE:NAME of a function."),
    ] = None,
    device: Annotated[str, typer.Option(metavar="DEVICE", help="With --lerobot: where the policy runs.")] = "cpu",
    json: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the result as JSON.")] = None,
) -> None:
    """Run a policy in a recorded environment, show how it did, and check what was recorded.

    Exit status: 0 if it ran, whatever its success; 1 if the recording has faults, 2 if it cannot be run.
    """
    options = {
        "env": env,
        "policy": policy,
        "seed": seed,
        "workers": workers,
        "mode": mode,
        "output_dir": output_dir,
        "tasks": [task] if task else None,
        "task": task_from,
        "cameras": read_cameras(camera),
        "koyu": _bundles(koyu, policy, lerobot),
        "formats": ["koyu"] if koyu and not session else None,
    }
    agent = cli.eval.Agent(action, lerobot, device, execute)
    cli.eval.evaluate(config, options, agent, episodes, json, allow_code)


def _bundles(name: str | None, policy: str | None, checkpoint: str | None) -> dict[str, Any] | None:
    """Return the settings of the bundles: they say which policy they are of."""
    if name is None:
        return None
    told = {"policy_name": policy or checkpoint, "source_checkpoint": checkpoint}
    return {"name": name, "collection_mode": "eval", **told}
