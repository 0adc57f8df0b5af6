"""``lucky-recorder demo``: record the sample environment, and show what a session is."""

from __future__ import annotations

import sys
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import attrs
import typer

from lucky_recorder.cli.console import printable, say, stopping

if TYPE_CHECKING:
    from rich.tree import Tree

    from lucky_recorder.settings.recorder import RecorderSettings

_SHOWN = 4


def demo(
    output_dir: Annotated[Path, typer.Option(metavar="DIR", help="Where DataSessions/ is made.")] = Path(),
    episodes: Annotated[int, typer.Option(metavar="N", min=1, help="Episodes to record.")] = 30,
    streams: Annotated[
        bool, typer.Option("--streams", help="Also record depth and masks of the front camera, and a lidar.")
    ] = False,
) -> None:
    """Record a scripted arm that lifts a cube, and sometimes misses; check the session and show its folder."""
    from rich.console import Console

    from lucky_recorder.cli.recording import Plan, record_plan
    from lucky_recorder.settings.camera import Camera
    from lucky_recorder.settings.recorder import RecorderSettings

    with stopping():
        settings = RecorderSettings(
            output_dir=output_dir,
            cameras=(Camera("front", width=320, height=240), Camera("wrist", width=320, height=240)),
            tasks=("Pick up the cube",),
            max_episode_length_s=1.5,
        )
        settings = _every_stream(settings) if streams else settings
        path = record_plan(Plan("LuckyRecorder/PickCube-v0", settings, episodes, fail=0.2))
    Console(highlight=False).print(tree(path))
    say(f"Look at it with: {sys.argv[0]} info {path}")


def _every_stream(settings: RecorderSettings) -> RecorderSettings:
    """Add depth and masks to the first camera, and a lidar between the fingers."""
    from lucky_recorder.settings.lidar import Lidar

    front, *others = settings.cameras
    seeing = attrs.evolve(front, depth_mode="rgbd", masks=("cube", "hand"))
    lidar = Lidar("grasp", rate=Fraction(10), pattern="solid_state", max_range_m=5.0)
    return attrs.evolve(settings, cameras=(seeing, *others), record_masks=True, lidars=(lidar,))


def tree(folder: Path) -> Tree:
    """Draw a folder and what it holds; of many files, the first few."""
    from rich.text import Text
    from rich.tree import Tree

    drawn = Tree(Text(f"{printable(folder.name)}/"))
    entries = sorted(folder.iterdir(), key=lambda entry: (entry.is_file(), entry.name))
    for entry in entries[:_SHOWN]:
        drawn.add(tree(entry) if entry.is_dir() else Text(f"{printable(entry.name)}  {_size(entry)}"))
    if len(entries) > _SHOWN:
        drawn.add(f"… {len(entries) - _SHOWN} more")
    return drawn


def _size(file: Path) -> str:
    return f"{file.stat().st_size / 1e3:.1f} kB"
