"""``lucky-recorder demo``: record the sample environment, and show what a session is."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lucky_recorder import cli


def demo(
    output_dir: Annotated[Path, typer.Option(metavar="DIR", help="Where DataSessions/ is made.")] = Path(),
    episodes: Annotated[int, typer.Option(metavar="N", min=1, help="Episodes to record.")] = 30,
    streams: Annotated[
        bool, typer.Option("--streams", help="Also record depth and masks of the front camera, and a lidar.")
    ] = False,
) -> None:
    """Record a scripted arm that lifts a cube, and sometimes misses; check the session and show its folder."""
    cli.demo.demo(output_dir, episodes, streams)
