"""The environment's own ``render()`` as a camera.

It is called in the caller's thread, because the environment's graphics belong to the thread that steps it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_recorder.capture.schedule import Capture
from lucky_recorder.capture.signalled import is_of_a_handler
from lucky_recorder.capture.snapshot import SceneSnapshot
from lucky_recorder.errors import SettingsError, StreamError, told
from lucky_recorder.settings.camera import LARGEST_SIDE, SMALLEST_SIDE, Camera
from lucky_recorder.settings.recorder import RecorderSettings

# Values of a pixel: grey, red green blue, and these with alpha.
_COLOURS = (1, 3, 4)


def capture_render(render: Callable[[], Any], camera: Camera, index: int) -> Capture:
    """Return the capture of the environment's own ``render()``, drawn in the caller's thread."""

    def capture() -> SceneSnapshot:
        return SceneSnapshot(index, pixels=rendered(render, camera))

    return capture


def check_rendered(settings: RecorderSettings, render: Callable[[], Any] | None) -> None:
    """Ask the environment once for its picture, before anything is on the disk.

    Raises:
        SettingsError: If it is no picture that its cameras can take.
    """
    cameras = [camera for camera in settings.recorded_cameras if camera.source == "render"]
    if render is None or not cameras:
        return
    try:
        picture = _picture(render, cameras[0])
        for camera in cameras:
            _settled(picture, camera)
    except StreamError as error:
        raise SettingsError(str(error)) from error


def rendered(render: Callable[[], Any], camera: Camera) -> NDArray[np.uint8]:
    """Return a copy of what ``env.render()`` gives, uint8, shape ``(height, width, 3)``, top row first.

    Raises:
        StreamError: If it raises, or gives no picture of the camera's size.
    """
    # An environment may draw its next picture into the same array while this one still waits in the queue.
    return _settled(_picture(render, camera), camera).copy()


def _picture(render: Callable[[], Any], camera: Camera) -> Any:
    try:
        return render()
    except Exception as error:  # an environment may raise anything
        if is_of_a_handler(error):
            raise
        raise _refused(camera, f"failed: {told(error)}") from error


def _settled(picture: Any, camera: Camera) -> NDArray[np.uint8]:
    """Return a picture at the camera's size."""
    if picture is None or isinstance(picture, list | tuple):
        what = "gives None" if picture is None else "gives a list of frames"
        raise _refused(camera, f"{what}; make the environment with render_mode='rgb_array'")
    pixels = np.asarray(picture)
    _check_kind(pixels, camera)
    return _fitted(pixels, camera)


def _check_kind(pixels: NDArray[Any], camera: Camera) -> None:
    """Refuse what is no picture of three bytes a pixel, and say what makes it one. Nothing is converted unasked."""
    # How to get from what came to a picture, in Python: each of what is wrong adds its part. The same is done to this
    # picture, since an alpha channel is no part of what its values are judged by.
    remedy, faults, seen = "self.env.render()", [], pixels
    if pixels.ndim == 3 and pixels.shape[0] in _COLOURS and pixels.shape[2] not in _COLOURS:
        faults.append("colours come first")
        remedy, seen = f"{remedy}.transpose(1, 2, 0)", seen.transpose(1, 2, 0)
    if pixels.ndim == 2:
        faults.append("there is no axis of colours")
        remedy, seen = f"{remedy}[..., None]", seen[..., None]
    gives = f"gives {pixels.dtype} {pixels.shape}"
    if seen.ndim != 3 or seen.shape[2] not in _COLOURS or pixels.dtype.kind not in "buif":
        raise _refused(camera, f"{gives}; let it give uint8 (height, width, 3), red first")
    if seen.shape[2] == 4:
        faults.append("there is an alpha channel")
        remedy, seen = f"{remedy}[..., :3]", seen[..., :3]
    elif seen.shape[2] == 1:
        faults.append("it is grey")
        remedy += ".repeat(3, axis=2)"
    if pixels.dtype != np.uint8:
        faults.append(f"values are {pixels.dtype}{_range_of(seen)}")
    if faults:
        expected = f"expected uint8 (height, width, 3): {', '.join(faults)}"
        raise _refused(camera, f"{gives}, {expected}. Let it give that, or wrap the environment: {_way(remedy, seen)}")


def _range_of(seen: NDArray[Any]) -> str:
    if seen.dtype == bool or not seen.size:
        return ""
    if seen.dtype.kind == "f" and np.isnan(seen).any():
        return ", some of them NaN"
    return f" from {seen.min():g} to {seen.max():g}"


def _way(remedy: str, seen: NDArray[Any]) -> str:
    """Return the wrapper that makes a picture of every one that comes, or what it must do where one does not tell.

    A picture in which the wrapper does not find the values that it is made for, it hands on as it is: so that one is
    refused as well, and never turned into a wrong one.
    """
    if seen.dtype == np.uint8:
        return f"class Rgb(gym.Wrapper): render = lambda self: {remedy}"
    if seen.dtype == bool:
        made, is_known = 'p.astype("uint8") * 255', f"(p := {remedy}).dtype == bool"
    elif _is_unit(seen):
        made = '(255 * p).round().astype("uint8")'
        is_known = f'(p := {remedy}).dtype.kind == "f" and p.min() >= 0 and p.max() <= 1'
    else:
        return (
            "what value is black, and what is full brightness, one picture does not tell. In a gym.Wrapper, let "
            f"render() take {remedy}, bring black to 0 and full brightness to 255, alike in every picture, round that "
            "to uint8, and raise an error for a value that lies outside"
        )
    return f"class Rgb(gym.Wrapper): render = lambda self: {made} if {is_known} else p"


def _is_unit(seen: NDArray[Any]) -> bool:
    """Tell whether a picture shows that its floats run from 0 to 1: one that is all black may be of any range."""
    return seen.dtype.kind == "f" and bool(seen.size) and bool(seen.min() >= 0 and 0 < seen.max() <= 1)


def _fitted(pixels: NDArray[np.uint8], camera: Camera) -> NDArray[np.uint8]:
    """Cut a picture, or fill it up with black, at the right and at the bottom: pixels keep their coordinates."""
    height, width = pixels.shape[:2]
    wanted = camera.height, camera.width
    if (height, width) == wanted:
        return pixels
    if camera.fit == "crop" and height >= camera.height and width >= camera.width:
        return pixels[: camera.height, : camera.width]
    if camera.fit == "pad" and height <= camera.height and width <= camera.width:
        padded = np.zeros((*wanted, 3), np.uint8)
        padded[:height, :width] = pixels
        return padded
    asked = f"the camera is {camera.width}x{camera.height}" + (f" with fit={camera.fit!r}" if camera.fit else "")
    raise _refused(camera, f"gives {width}x{height} pixels, and {asked}; {_sizes(width, height)}")


def _sizes(width: int, height: int) -> str:
    """Say which settings take pictures of a size: even sides, as video needs, within what encoders take."""
    less = [min(side - side % 2, LARGEST_SIDE) for side in (width, height)]
    more = [max(side + side % 2, SMALLEST_SIDE) for side in (width, height)]
    if less == more == [width, height]:
        return f"set width={width}, height={height}"
    ways = []
    if min(less) >= SMALLEST_SIDE:
        ways.append(f"set width={less[0]}, height={less[1]}, fit='crop'")
    if max(more) <= LARGEST_SIDE:
        ways.append(f"set width={more[0]}, height={more[1]}, fit='pad'")
    reason = f"video needs even sides of {SMALLEST_SIDE} to {LARGEST_SIDE} pixels"
    return f"{reason}: {' or '.join(ways) or 'let render() give another size'}"


def _refused(camera: Camera, why: str) -> StreamError:
    return StreamError(f"camera {camera.name!r}: env.render() {why}")
