"""``lucky-recorder record``: record episodes of a Gymnasium environment."""

from __future__ import annotations

import os
import re
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lucky_recorder.cli.console import stopping
from lucky_recorder.errors import SettingsError

if TYPE_CHECKING:
    from lucky_recorder.cli.recording import Plan

_CAMERA = re.compile(r"([^:]+)(?::(\d+)x(\d+))?")
_LIDAR = re.compile(r"([^:]+)(?::([\d./]+))?")
_PLAN = ("env", "episodes", "policy", "fail")
_EPISODES = 10


def record(
    env: Annotated[str | None, typer.Option(metavar="ID", help="Id of a Gymnasium environment.")] = None,
    config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="TOML file: fields of RecorderSettings, and env, episodes, policy, fail."),
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:NAME",
            help="A function of the observation, or a class made with the environment. "
            "Default: the environment's expert, else random actions.",
        ),
    ] = None,
    episodes: Annotated[
        int | None, typer.Option(metavar="N", min=1, help=f"Episodes to keep; {_EPISODES} if it is not said.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="Seed of the first reset; the next takes the next.")
    ] = None,
    camera: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME[:WxH]", help="A camera of the model, or 'render' for env.render(). Repeatable."),
    ] = None,
    render_quality: Annotated[
        str | None, typer.Option(metavar="QUALITY", help="model, or fast or fastest: cheaper shadows, for a CPU.")
    ] = None,
    depth: Annotated[
        str | None,
        typer.Option(metavar="MODE", help="Depth of every camera of the model: rgbd, separate or depth_only."),
    ] = None,
    mask: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A body or geom that every camera of the model masks. Repeatable."),
    ] = None,
    lidar: Annotated[
        list[str] | None,
        typer.Option(metavar="SITE[:RATE]", help="A lidar on a site, scans per second. Repeatable."),
    ] = None,
    video_format: Annotated[str | None, typer.Option(metavar="FORMAT", help="h264, hevc or av1.")] = None,
    mode: Annotated[str | None, typer.Option(metavar="MODE", help="robot_arm, full_scene or custom.")] = None,
    output_dir: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where DataSessions/ is made; here if it is not said.")
    ] = None,
    discard: Annotated[
        bool | None, typer.Option("--discard/--keep-failed", help="Discard failed episodes; kept if it is not said.")
    ] = None,
    task: Annotated[list[str] | None, typer.Option(metavar="TEXT", help="Description of a task. Repeatable.")] = None,
    fail: Annotated[
        float | None, typer.Option(metavar="P", help="Probability that the environment's expert is to fail.")
    ] = None,
) -> None:
    """Record episodes of a Gymnasium environment, and check the session.

    Exit status: 0 for a good session, 1 if it has faults, 2 if it cannot be recorded, 130 after Ctrl-C.
    """
    from lucky_recorder.cli.recording import record_plan

    # The user's own modules are found in the folder the command is run in, as with `python -m`.
    sys.path.insert(0, os.getcwd())
    with stopping():
        given = {
            "env": env,
            "policy": policy,
            "episodes": episodes,
            "fail": fail,
            "seed": seed,
            "render_quality": render_quality,
            "mode": mode,
            "output_dir": output_dir,
            "discard_and_retry_failed": discard,
            "tasks": task or None,
            "cameras": _cameras(camera, depth, mask),
            "record_masks": True if mask else None,
            "lidars": [_lidar(text) for text in lidar] if lidar else None,
            "video_format": video_format,
        }
        asked = {**read_config(config), **{name: value for name, value in given.items() if value is not None}}
        record_plan(_plan(asked))


def read_config(config: Path | None) -> dict[str, Any]:
    """Read a settings file; nothing where there is none."""
    if config is None:
        return {}
    try:
        return tomllib.loads(config.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError) as error:
        raise SettingsError.of("config", str(config), f"cannot be read as TOML: {error}") from error


def _plan(asked: dict[str, Any]) -> Plan:
    from lucky_recorder.cli.recording import Plan
    from lucky_recorder.settings.recorder import RecorderSettings

    settings = RecorderSettings.of({name: value for name, value in asked.items() if name not in _PLAN})
    if not asked.get("env"):
        raise SettingsError("env is missing: give --env ID, or env in the settings file")
    plan = {"episodes": _EPISODES, "settings": settings, **{name: asked[name] for name in _PLAN if name in asked}}
    return Plan(**plan)


def _cameras(named: list[str] | None, depth: str | None, masks: list[str] | None) -> list[dict[str, Any]] | None:
    """Read the cameras, with what is asked of all those that are of the model."""
    asked = {name: value for name, value in (("depth_mode", depth), ("masks", masks)) if value}
    if not named:
        if asked:
            option = "depth" if depth else "mask"
            raise SettingsError.of(option, depth or masks, "goes with the cameras that --camera names; give one")
        return None
    cameras = [read_camera(text) for text in named]
    return [camera if "source" in camera else camera | asked for camera in cameras]


def _lidar(text: str) -> dict[str, Any]:
    """Read ``SITE`` or ``SITE:RATE``."""
    match = _LIDAR.fullmatch(text)
    if match is None:
        raise SettingsError.of("lidar", text, "give SITE or SITE:RATE, such as grasp:10")
    site, rate = match.groups()
    return {"name": site, "rate": rate} if rate else {"name": site}


def read_camera(text: str) -> dict[str, Any]:
    """Read ``NAME`` or ``NAME:WIDTHxHEIGHT``."""
    match = _CAMERA.fullmatch(text)
    if match is None:
        raise SettingsError.of("camera", text, "give NAME or NAME:WIDTHxHEIGHT, such as front:320x240")
    name, width, height = match.groups()
    camera: dict[str, Any] = {"name": name}
    if name == "render":
        camera["source"] = "render"
    if width:
        camera |= {"width": int(width), "height": int(height)}
    return camera
