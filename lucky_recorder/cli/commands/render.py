"""``lucky-recorder render``: draw a session of the states that it kept."""

from __future__ import annotations

from typing import Annotated

import typer

from lucky_recorder import cli
from lucky_recorder.cli.asked import read_cameras, read_lidars
from lucky_recorder.cli.commands.options import Depth, Lidars, Masks, Quality, SessionFolder, VideoFormat
from lucky_recorder.cli.commands.shape import DryRun, Output


def render(
    session: SessionFolder,
    output: Output,
    camera: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[:WxH]", help="A camera of the model, in place of what the session says. Repeatable."
        ),
    ] = None,
    render_quality: Quality = None,
    depth: Depth = None,
    mask: Masks = None,
    lidar: Lidars = None,
    video_format: VideoFormat = None,
    workers: Annotated[int, typer.Option(metavar="N", min=1, help="Processes that draw at once.")] = 1,
    allow_inexact: Annotated[
        bool,
        typer.Option("--allow-inexact", help="Draw also episodes in which the model was changed, as it was first."),
    ] = False,
    dry_run: DryRun = False,
) -> None:
    """Draw pictures and scans of a session's states, and write them with its data as a new session.

    For sessions that keep states (record --render deferred, or --keep-states). What is interrupted, the same command
    goes on with. The models are the session's own: draw those of people whom you trust.

    Exit status: 0 if it was made, 2 if not, 130 after Ctrl-C.
    """
    fields = {
        "cameras": read_cameras(camera, depth, mask),
        "record_masks": True if mask else None,
        "render_quality": render_quality,
        "lidars": read_lidars(lidar),
        "video_format": video_format,
    }
    asked = {name: value for name, value in fields.items() if value is not None}
    cli.render.render(session, output, workers, allow_inexact, dry_run, asked)
