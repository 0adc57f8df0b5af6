"""``lucky-recorder record``: record episodes of a Gymnasium environment."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lucky_recorder import cli
from lucky_recorder.cli.asked import read_cameras, read_lidars
from lucky_recorder.cli.commands.options import (
    AllowCode,
    Cameras,
    Depth,
    EnvId,
    Lidars,
    Masks,
    Mode,
    Quality,
    Seed,
    VideoFormat,
    Workers,
)

EPISODES = 10


def record(
    env: EnvId = None,
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="TOML file: fields of RecorderSettings, and env, episodes, policy, fail, workers."
        ),
    ] = None,
    allow_code: AllowCode = False,
    policy: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:NAME",
            help="A function of the observation, or a class made with the environment. "
            "Default: the environment's expert, else random actions.",
        ),
    ] = None,
    episodes: Annotated[
        int | None, typer.Option(metavar="N", min=1, help=f"Episodes to keep; {EPISODES} if it is not said.")
    ] = None,
    seed: Seed = None,
    workers: Workers = None,
    camera: Cameras = None,
    render_quality: Quality = None,
    depth: Depth = None,
    mask: Masks = None,
    lidar: Lidars = None,
    video_format: VideoFormat = None,
    mode: Mode = None,
    output_dir: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where DataSessions/ is made; here if it is not said.")
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(
            metavar="SESSION", help="A session that is gone on with, until it has as many episodes; needs its settings."
        ),
    ] = None,
    discard: Annotated[
        bool | None, typer.Option("--discard/--keep-failed", help="Discard failed episodes; kept if it is not said.")
    ] = None,
    task: Annotated[list[str] | None, typer.Option(metavar="TEXT", help="Description of a task. Repeatable.")] = None,
    task_from: Annotated[
        str | None,
        typer.Option(metavar="SOURCE", help="What says the task of each row: info:KEY, or MODULE:NAME of a function."),
    ] = None,
    keep_states: Annotated[
        bool | None,
        typer.Option("--keep-states", help="Keep the simulation's full state at every tick, under states/."),
    ] = None,
    render: Annotated[
        str | None,
        typer.Option(
            metavar="WHEN", help="live, or deferred: keep states, draw nothing; `lucky-recorder render` draws it."
        ),
    ] = None,
    fail: Annotated[
        float | None, typer.Option(metavar="P", help="Probability that the environment's expert is to fail.")
    ] = None,
) -> None:
    """Record episodes of a Gymnasium environment, and check the session.

    Exit status: 0 for a good session, 1 if it has faults, 2 if it cannot be recorded, 130 after Ctrl-C.
    """
    options = {
        "env": env,
        "policy": policy,
        "episodes": episodes,
        "fail": fail,
        "seed": seed,
        "workers": workers,
        "render_quality": render_quality,
        "mode": mode,
        "output_dir": output_dir,
        "resume": resume,
        "discard_and_retry_failed": discard,
        "tasks": task or None,
        "task": task_from,
        "cameras": read_cameras(camera, depth, mask),
        "record_masks": True if mask else None,
        "lidars": read_lidars(lidar),
        "video_format": video_format,
        "keep_states": keep_states,
        "render": render,
    }
    cli.record.record(config, options, EPISODES, allow_code)
