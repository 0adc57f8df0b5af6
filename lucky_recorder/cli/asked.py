"""What was asked for: the short forms that some options take."""

from __future__ import annotations

import re
from typing import Any

from lucky_recorder.errors import SettingsError

_CAMERA = re.compile(r"([^:]+)(?::(\d+)x(\d+))?")
_LIDAR = re.compile(r"([^:]+)(?::([\d./]+))?")


def read_cameras(
    texts: list[str] | None, depth: str | None = None, masks: list[str] | None = None
) -> list[dict[str, Any]] | None:
    """Read cameras, each ``NAME`` or ``NAME:WIDTHxHEIGHT``, with what is asked of all those that are of the model.

    Raises:
        SettingsError: If one is written otherwise, or depth or masks are asked of no camera.
    """
    asked = {name: value for name, value in (("depth_mode", depth), ("masks", masks)) if value}
    if not texts:
        if asked:
            option = "depth" if depth else "mask"
            raise SettingsError.of(option, depth or masks, "goes with the cameras that --camera names; give one")
        return None
    cameras = [_camera(text) for text in texts]
    # What env.render() draws has neither depth nor masks.
    return [camera if "source" in camera else camera | asked for camera in cameras]


def _camera(text: str) -> dict[str, Any]:
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


def read_lidars(texts: list[str] | None) -> list[dict[str, Any]] | None:
    """Read lidars, each ``SITE`` or ``SITE:RATE``.

    Raises:
        SettingsError: If one is written otherwise.
    """
    return [_lidar(text) for text in texts] if texts else None


def _lidar(text: str) -> dict[str, Any]:
    match = _LIDAR.fullmatch(text)
    if match is None:
        raise SettingsError.of("lidar", text, "give SITE or SITE:RATE, such as grasp:10")
    site, rate = match.groups()
    return {"name": site, "rate": rate} if rate else {"name": site}
