"""Options that several commands take."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

SessionFolder = Annotated[Path, typer.Argument(help="The session's folder.", show_default=False)]
DatasetFolder = Annotated[Path, typer.Argument(help="The dataset's folder.", show_default=False)]

Decode = Annotated[bool, typer.Option(help="Decode every video frame, or only count them.")]

Deep = Annotated[bool, typer.Option("--deep", help="Also decode what no episode names, and forgive decoders nothing.")]

EnvId = Annotated[str | None, typer.Option(metavar="ID", help="Id of a Gymnasium environment.")]
Seed = Annotated[int | None, typer.Option(metavar="N", min=0, help="Seed of the first reset; the next takes the next.")]
Workers = Annotated[
    int | None, typer.Option(metavar="N", min=1, help="Processes that record at once; 1 if it is not said.")
]
Cameras = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME[:WxH]", help="A camera of the model, or 'render' for env.render(). Repeatable."),
]
AllowCode = Annotated[
    bool, typer.Option("--allow-code", help="Let the settings file name code to run, as module:function.")
]
Mode = Annotated[str | None, typer.Option(metavar="MODE", help="robot_arm, full_scene or custom.")]
Quality = Annotated[
    str | None, typer.Option(metavar="QUALITY", help="model, or fast or fastest: cheaper shadows, for a CPU.")
]
Depth = Annotated[
    str | None, typer.Option(metavar="MODE", help="Depth of every camera of the model: rgbd, separate or depth_only.")
]
Masks = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME", help="A body or geom that every camera of the model masks. Repeatable."),
]
Lidars = Annotated[
    list[str] | None,
    typer.Option(metavar="SITE[:RATE]", help="A lidar on a site, scans per second. Repeatable."),
]
VideoFormat = Annotated[str | None, typer.Option(metavar="FORMAT", help="h264, hevc or av1.")]
