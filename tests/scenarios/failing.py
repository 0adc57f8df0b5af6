"""Every stream of one camera and one lidar, and how to break each."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from lucky_recorder.capture.draw.renderer import Renderer
from lucky_recorder.capture.mujoco.lidar import Caster
from lucky_recorder.video import remux
from lucky_recorder.video.encoder import VideoEncoder
from tests.scenarios.everything import EVERYTHING


def refuse(*args: Any, **named: Any) -> Any:
    raise RuntimeError("has had enough")


def at_frame_3(working: Callable[..., Any], name: str = "") -> Callable[..., Any]:
    """Raise at an encoder's fourth frame of the second attempt."""

    def broken(encoder: VideoEncoder, *args: Any, **named: Any) -> Any:
        if f"{name}-take-000001" in encoder.path.name and encoder.frames == 3:
            refuse()
        return working(encoder, *args, **named)

    return broken


def after(calls: int, working: Callable[..., Any]) -> Callable[..., Any]:
    """Raise from a certain call on."""
    count = itertools.count()
    return lambda *args, **named: refuse() if next(count) >= calls else working(*args, **named)


FRONT = "observation.images.front"
# what is broken -> how, and the streams that are gone
FAILURES: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], set[str]]] = {
    "colour encoder": (
        lambda m: m.setattr(VideoEncoder, "write", at_frame_3(VideoEncoder.write, FRONT)), {FRONT, f"{FRONT}_rgbd"}),
    "depth encoder": (
        lambda m: m.setattr(VideoEncoder, "write", at_frame_3(VideoEncoder.write, f"{FRONT}_depth")),
        {f"{FRONT}_depth", f"{FRONT}_rgbd"}),
    "mask encoder": (
        lambda m: m.setattr(VideoEncoder, "write", at_frame_3(VideoEncoder.write, "observation.masks.front")),
        {"observation.masks.front"}),
    "proxy encoder": (
        lambda m: m.setattr(VideoEncoder, "write", at_frame_3(VideoEncoder.write, "lidar-grasp")), {"lidar-grasp"}),
    "colours": (lambda m: m.setattr(Renderer, "color", after(9, Renderer.color)), {FRONT, f"{FRONT}_rgbd"}),
    "surfaces": (
        lambda m: m.setattr(Renderer, "surfaces", after(15, Renderer.surfaces)),
        {f"{FRONT}_depth", f"{FRONT}_rgbd", "observation.masks.front"}),
    "caster": (lambda m: m.setattr(Caster, "cast", after(9, Caster.cast)), {"lidar-grasp"}),
    "combination": (lambda m: m.setattr(remux, "combine", after(1, remux.combine)), {f"{FRONT}_rgbd"}),
}  # fmt: skip
ALL = {FRONT, f"{FRONT}_depth", f"{FRONT}_rgbd", "observation.masks.front", "lidar-grasp"}
ONE_CAMERA = {"cameras": EVERYTHING["cameras"][:1], "lidars": [{**EVERYTHING["lidars"][0], "rate": 50}]}
