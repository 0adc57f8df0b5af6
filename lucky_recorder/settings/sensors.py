"""Models of depth sensors. Another one is another function: declare it with `depth_sensor`, and its name is a setting.

A model is a function of a `View` and its calibration that returns metres, 0 where it measures nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Codes = NDArray[np.uint16]
MOST_CODES = 65535
_WORD = 0xFFFFFFFF


class View(NamedTuple):
    """What a sensor model is given.

    Attributes:
        depth: Planar metres, float32, shape ``(height, width)``, top row first; 0 where there is no surface.
        focal: Horizontal focal length in pixels; 0 for an orthographic camera.
        noise: Its source of randomness, keyed to session, episode, stream and frame.
    """

    depth: Floats
    focal: float
    noise: np.random.Generator


Measure = Callable[[View, Mapping[str, float]], Floats]


class Diagnostic(NamedTuple):
    """A channel that shows something else than depth.

    Attributes:
        note: What its codes mean.
        show: Returns the codes, uint16, shape ``(height, width)``.
        zero_means: What a code of 0 means.
    """

    note: str
    show: Callable[[View, Mapping[str, float]], Codes]
    zero_means: str = "a value of 0 of what NOTE says, and not that there is no surface"


class DepthSensor(NamedTuple):
    """A depth sensor's model.

    Attributes:
        measure: Returns metres, 0 where nothing is measured.
        defaults: Its calibration, with units in the names.
        zero_means: What a depth code of 0 means.
        diagnostics: What it can show instead of depth, by the channel's name.
        may_be_zero: The parameters that may be 0; the others are above it.
        needs_perspective: Whether it makes no sense of an orthographic camera.
    """

    measure: Measure
    defaults: Mapping[str, float]
    zero_means: str
    diagnostics: Mapping[str, Diagnostic]
    may_be_zero: Collection[str] = ()
    needs_perspective: bool = False


DEPTH_SENSORS: dict[str | None, DepthSensor] = {}


def depth_sensor(
    name: str | None,
    zero_means: str,
    diagnostics: Mapping[str, Diagnostic] | None = None,
    may_be_zero: Collection[str] = (),
    needs_perspective: bool = False,
    **defaults: float,
) -> Callable[[Measure], Measure]:
    """Declare a function as the model of a depth sensor; see `DepthSensor`.

    Example:
        ```python
        @depth_sensor("Foggy", zero_means="nothing, or fog before it", sight_m=3.0)
        def foggy(view, params):
            return np.where(view.depth < params["sight_m"], view.depth, np.float32(0))
        ```
    """

    def declare(measure: Measure) -> Measure:
        DEPTH_SENSORS[name] = DepthSensor(
            measure, defaults, zero_means, diagnostics or {}, may_be_zero, needs_perspective
        )
        return measure

    return declare


@depth_sensor(None, zero_means="no surface, or a distance whose code does not fit 16 bits")
def ideal(view: View, params: Mapping[str, float]) -> Floats:
    """Measure what is there."""
    return view.depth


def disparity(view: View, params: Mapping[str, float]) -> Floats:
    """Return the disparity of a stereo pair in pixels, 0 where there is no surface."""
    pixels = np.zeros_like(view.depth)
    np.divide(np.float32(view.focal * params["baseline_m"]), view.depth, out=pixels, where=view.depth > 0)
    return pixels


def stereo_shadow(pixels: Floats) -> NDArray[np.bool_]:
    """Find the pixels that the second eye does not see: behind something, or beside its picture.

    Args:
        pixels: Disparity in pixels, float32, shape ``(height, width)``.

    Returns:
        bool, of the same shape.
    """
    # The second eye sees a pixel as much farther left as its disparity. What is nearer moves more: where a pixel from
    # further right lands on the same place, or beyond it, it is in front of this one.
    seen_at = np.arange(pixels.shape[1], dtype=np.float32) - pixels
    nearest = np.minimum.accumulate(seen_at[:, ::-1], axis=1)[:, ::-1]
    hidden = seen_at < 0
    hidden[:, :-1] |= seen_at[:, :-1] >= nearest[:, 1:]
    return hidden


def _show_disparity(view: View, params: Mapping[str, float]) -> Codes:
    return np.clip(np.rint(disparity(view, params) * 64), 0, MOST_CODES).astype(np.uint16)


def _show_shadow(view: View, params: Mapping[str, float]) -> Codes:
    return stereo_shadow(disparity(view, params)).astype(np.uint16)


@depth_sensor(
    "ActiveStereo",
    zero_means="not measured: no surface, out of range, or seen by one eye only",
    diagnostics={
        "disparity": Diagnostic(
            "the values are not depth: disparity in 1/64 pixel, without noise",
            _show_disparity,
            "no surface, or a disparity below 1/128 pixel",
        ),
        "shadow": Diagnostic(
            "the values are not depth: 1 where only one eye sees, else 0",
            _show_shadow,
            "not in the shadow: both eyes see there, or there is no surface",
        ),
    },
    may_be_zero=("subpixel_px", "noise_px", "min_range_m"),
    needs_perspective=True,
    baseline_m=0.05,
    subpixel_px=0.03125,
    noise_px=0.05,
    min_range_m=0.15,
    max_range_m=10.0,
)
def active_stereo(view: View, params: Mapping[str, float]) -> Floats:
    """Measure as a stereo pair does: in steps of disparity, with noise, and not where only one eye sees.

    The disparity is focal length times baseline over depth, so its step and its noise grow with depth squared.
    """
    true = disparity(view, params)
    step = np.float32(params["subpixel_px"])
    noisy = true + np.float32(params["noise_px"]) * view.noise.standard_normal(true.shape, np.float32)
    measured = np.rint(noisy / step) * step if step else noisy
    depth = np.zeros_like(view.depth)
    is_seen = (measured > 0) & (true > 0) & ~stereo_shadow(true)
    np.divide(np.float32(view.focal * params["baseline_m"]), measured, out=depth, where=is_seen)
    depth[(depth < params["min_range_m"]) | (depth > params["max_range_m"])] = 0
    return depth


def noise(seed: int, episode_key: str, stream: str, frame: int) -> np.random.Generator:
    """Return the randomness of one frame: the same for the same session seed, episode, stream and frame."""
    # No two frames may have the same words. Seed and frame take two words of 32 bits each; 256, which no byte is,
    # stands between the two texts.
    words = [seed & _WORD, seed >> 32, frame & _WORD, frame >> 32, *episode_key.encode(), 256, *stream.encode()]
    return np.random.Generator(np.random.Philox(np.random.SeedSequence(words)))
