"""Recording the sample environment, and showing the folder that came of it."""

from __future__ import annotations

import sys
from fractions import Fraction
from pathlib import Path

from lucky_recorder.cli.console import show, tree
from lucky_recorder.cli.lines import say
from lucky_recorder.cli.recording import Plan, record_plan
from lucky_recorder.settings.camera import Camera
from lucky_recorder.settings.lidar import Lidar
from lucky_recorder.settings.recorder import RecorderSettings


def demo(output_dir: Path, episodes: int, streams: bool) -> None:
    """Record a scripted arm that lifts a cube, and sometimes misses; check the session and show its folder.

    Raises:
        LuckyRecorderError: If it cannot be recorded.
        typer.Exit: If it was interrupted, or the session has faults.
    """
    settings = RecorderSettings(
        output_dir=output_dir,
        cameras=(_front(streams), Camera("wrist", width=320, height=240)),
        tasks=("Pick up the cube",),
        max_episode_length_s=1.5,
        record_masks=streams,
        lidars=(_between_the_fingers(),) if streams else (),
    )
    path = record_plan(Plan("LuckyRecorder/PickCube-v0", settings, episodes, fail=0.2))
    show(tree(path))
    say(f"Look at it with: {sys.argv[0]} info {path}")


def _front(streams: bool) -> Camera:
    if streams:
        return Camera("front", width=320, height=240, depth_mode="rgbd", masks=("cube", "hand"))
    return Camera("front", width=320, height=240)


def _between_the_fingers() -> Lidar:
    return Lidar("grasp", rate=Fraction(10), pattern="solid_state", max_range_m=5.0)
