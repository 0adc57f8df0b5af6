"""Models of depth sensors: what a stereo pair measures, and what it cannot see."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import lucky_recorder as lr
from lucky_recorder.capture.depth import sensor_codes
from lucky_recorder.settings import sensors
from lucky_recorder.settings.sensors import DEPTH_SENSORS, View, active_stereo, depth_sensor, disparity, stereo_shadow

PARAMS = DEPTH_SENSORS["ActiveStereo"].defaults
FOCAL = 60.0


def wall(metres: float, shape: tuple[int, int] = (48, 64)) -> np.ndarray:
    return np.full(shape, metres, np.float32)


def view(depth: np.ndarray, frame: int = 0, focal: float = FOCAL) -> View:
    return View(depth, focal, sensors.noise(7, "seed 0", "observation.images.front_depth", frame))


def stereo(depth: np.ndarray, focal: float = FOCAL, **params: float) -> np.ndarray:
    return active_stereo(view(depth, focal=focal), {**PARAMS, **params})


def seen(depth: np.ndarray) -> np.ndarray:
    """The part of a wall's picture that the second eye sees too."""
    return depth[:, 40:]


def test_without_a_model_depth_is_what_is_there() -> None:
    depth = np.random.default_rng(0).uniform(0, 70, (48, 64)).astype(np.float32)
    assert DEPTH_SENSORS[None].measure(view(depth), {}) is depth
    assert not DEPTH_SENSORS[None].defaults


@pytest.mark.parametrize("metres", [0.5, 1.0, 2.0, 4.0])
def test_noise_grows_with_the_square_of_the_distance(metres: float) -> None:
    """Of z = f b / d the standard deviation is z**2 / (f b) times that of d."""
    fine = stereo(wall(metres, (96, 640)), focal=600.0, subpixel_px=0.0, noise_px=0.05)[:, 100:]
    assert (fine > 0).all()
    expected = metres**2 / (600.0 * PARAMS["baseline_m"]) * 0.05
    assert np.std(fine, dtype=np.float64) == pytest.approx(expected, rel=0.03)
    assert np.mean(fine, dtype=np.float64) == pytest.approx(metres, rel=1e-3)


@pytest.mark.parametrize("step", [0.03125, 0.25])
def test_without_noise_depths_are_those_of_whole_steps_of_disparity(step: float) -> None:
    ramp = np.tile(np.linspace(1.6, 2.0, 640, dtype=np.float32), (4, 1))
    measured = stereo(ramp, focal=600.0, noise_px=0.0, subpixel_px=step)
    hits = measured[measured > 0].astype(np.float64)
    assert len(hits) > 1000
    steps = 600.0 * PARAMS["baseline_m"] / hits / step
    assert np.abs(steps - np.rint(steps)).max() < 1e-3
    # Neighbouring steps lie z**2 / (f b) * step apart.
    levels = np.unique(hits)
    gaps = np.diff(levels)
    assert np.allclose(gaps, levels[:-1] * levels[1:] / 30.0 * step, rtol=1e-3)


def test_noise_and_quantisation_can_both_be_left_out() -> None:
    measured = stereo(wall(2.0), noise_px=0.0, subpixel_px=0.0)
    assert np.allclose(seen(measured), 2.0, rtol=1e-6)


def test_what_only_one_eye_sees_is_not_measured() -> None:
    """The second eye is to the right: it does not see a strip beside the left edge of a near plane before a far one."""
    depth = wall(4.0)
    depth[:, 30:] = 1.0
    near, far = FOCAL * 0.2 / 1.0, FOCAL * 0.2 / 4.0  # 12 and 3 pixels
    hidden = stereo_shadow(disparity(view(depth), {"baseline_m": 0.2}))
    measured = stereo(depth, baseline_m=0.2, noise_px=0.0)
    assert (measured[hidden] == 0).all()
    assert (measured[~hidden] > 0).all()
    strip = int(near - far)
    assert (hidden == hidden[0]).all()
    assert hidden[0].nonzero()[0].tolist() == [*range(3), *range(30 - strip, 30)]
    # At the near one's right edge nothing is hidden: there the second eye sees more, not less.
    mirrored = stereo_shadow(disparity(view(depth[:, ::-1].copy()), {"baseline_m": 0.2}))
    assert mirrored[0].nonzero()[0].tolist() == [*range(12)]


@pytest.mark.parametrize(
    ("metres", "is_in_range"), [(0.1, False), (0.16, True), (9.0, True), (12.0, False), (0.0, False)]
)
def test_what_is_out_of_range_is_not_measured(metres: float, is_in_range: bool) -> None:
    measured = seen(stereo(wall(metres), noise_px=0.0, subpixel_px=0.0))
    assert ((measured > 0) == is_in_range).all()


def test_nothing_stays_nothing() -> None:
    assert not stereo(wall(0)).any()
    assert not DEPTH_SENSORS["ActiveStereo"].diagnostics["disparity"].show(view(wall(0)), PARAMS).any()


def test_noise_is_the_frames_own() -> None:
    def drawn(*key: Any) -> bytes:
        return sensors.noise(*key).standard_normal(8).tobytes()

    keys: list[tuple[Any, ...]] = [
        *itertools.product(
            [0, 1, 2**32, 2**63 - 1], ["seed 1", "seed 11", "attempt 1"], ["a", "b", "1a"], [0, 1, 2**32]
        ),
        (0, "seed 1a", "", 0),
    ]
    words = [(seed, episode, stream, frame) for seed, episode, stream, frame in keys]
    numbers = {drawn(*one) for one in words}
    assert len(numbers) == len(words)
    assert drawn(*words[5]) == drawn(*words[5])


def codes_of(depth: np.ndarray, frame: int = 0, **fields: Any) -> np.ndarray:
    camera = lr.Camera("front", depth_mode="depth_only", sensor_model="ActiveStereo", **fields)
    return sensor_codes(camera, view(depth, frame))


def test_a_frame_measured_again_is_the_same_and_another_is_not() -> None:
    first, again, other = codes_of(wall(2.0)), codes_of(wall(2.0)), codes_of(wall(2.0), frame=1)
    assert first.dtype == np.uint16
    assert first.tobytes() == again.tobytes()
    assert (seen(first) != seen(other)).mean() > 0.5


def test_diagnostic_channels_show_what_the_model_sees() -> None:
    depth = wall(4.0)
    depth[:, 30:] = 1.0
    shown = codes_of(depth, debug_channel="disparity", sensor_params={"baseline_m": 0.2})
    assert np.unique(shown).tolist() == [3 * 64, 12 * 64]
    shadow = codes_of(depth, debug_channel="shadow", sensor_params={"baseline_m": 0.2})
    assert shadow[0].nonzero()[0].tolist() == [*range(3), *range(21, 30)]
    assert codes_of(wall(1e-6), debug_channel="disparity").max() == 65535


@pytest.fixture
def foggy() -> Iterator[str]:
    """A third model, declared for a test."""

    @depth_sensor("Foggy", zero_means="nothing, or fog before it", sight_m=3.0)
    def fog(view: View, params: Any) -> np.ndarray:
        return np.where(view.depth < params["sight_m"], view.depth, np.float32(0))

    yield "Foggy"
    del DEPTH_SENSORS["Foggy"]


def test_another_model_is_another_function(foggy: str) -> None:
    camera = lr.Camera("front", sensor_model=foggy, sensor_params={"sight_m": 2.5}, depth_mode="depth_only")
    assert camera.calibration == {"sight_m": 2.5}
    assert sensor_codes(camera, view(wall(2.0))).tolist() == np.full((48, 64), 2000).tolist()
    assert not sensor_codes(camera, view(wall(2.6))).any()
    with pytest.raises(lr.SettingsError, match="sensor_model='Fogy': choose one of ActiveStereo, Foggy"):
        lr.Camera("front", sensor_model="Fogy")
