"""Camera bindings and lidar sensors: what is refused when they are built, and what follows from them."""

from __future__ import annotations

import json
import tomllib
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import lucky_recorder as lr
from lucky_recorder.settings.lidar import ray_directions


def camera(**fields: Any) -> lr.Camera:
    return lr.Camera("Front", **fields)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"depth_mode": "rgbd", "source": "render"}, r"source='render': env\.render\(\) gives colour only"),
        ({"masks": ["cube"], "source": "render"}, r"source='render': env\.render\(\) gives colour only"),
        ({"masks": [f"g{i}" for i in range(256)]}, "masks=.*name 1 to 255 bodies or geoms"),
        ({"masks": []}, "masks=.*name 1 to 255 bodies or geoms"),
        ({"masks": ["cube", "cube"]}, "masks=.*stands twice"),
        ({"sensor_model": "Lidar"}, "sensor_model='Lidar': choose one of ActiveStereo"),
        (
            {"sensor_params": {"baseline_m": 0.1}},
            "sensor_params=.*unknown parameter; known: none, without a sensor_model",
        ),
        ({"debug_channel": "shadow"}, "debug_channel='shadow': unknown channel; known: none, without a sensor_model"),
        ({"depth_scale": 0}, "depth_scale=0: give a finite number above 0"),
        ({"depth_scale": -0.001}, "depth_scale=-0.001"),
    ],
)
def test_a_camera_that_cannot_be_is_refused(fields: dict[str, Any], why: str) -> None:
    with pytest.raises(lr.SettingsError, match=rf"^camera 'Front': {why}"):
        camera(**fields)


@pytest.mark.parametrize(
    ("params", "why"),
    [
        (
            {"base_m": 0.1},
            r"sensor_params=.*'base_m'.*known: baseline_m, subpixel_px, noise_px, min_range_m, max_range_m",
        ),
        ({"baseline_m": 0}, r"sensor_params\.baseline_m=0\.0: give a number above 0"),
        ({"baseline_m": -1}, r"sensor_params\.baseline_m=-1\.0: give a number above 0"),
        ({"noise_px": -0.1}, r"sensor_params\.noise_px=-0\.1: give 0 or more"),
        ({"noise_px": float("nan")}, r"sensor_params\.noise_px=nan: give a finite number"),
        ({"noise_px": True}, r"sensor_params\.noise_px=True: give a finite number"),
        ({"max_range_m": 0.1}, r"sensor_params\.min_range_m=0\.15: give less than max_range_m, 0\.1"),
        (5, "sensor_params=5: give a table of numbers by name"),
        (["noise_px"], "sensor_params=.*give a table of numbers by name"),
    ],
)
def test_a_calibration_that_cannot_be_is_refused(params: Any, why: str) -> None:
    with pytest.raises(lr.SettingsError, match=rf"^camera 'Front': {why}"):
        camera(depth_mode="rgbd", sensor_model="ActiveStereo", sensor_params=params)


def test_a_diagnostic_channel_is_one_of_the_models() -> None:
    with pytest.raises(lr.SettingsError, match="debug_channel='infrared': unknown channel; known: disparity, shadow"):
        camera(sensor_model="ActiveStereo", debug_channel="infrared")


def test_a_calibration_is_the_models_defaults_and_what_was_set() -> None:
    stereo = camera(sensor_model="ActiveStereo", sensor_params={"noise_px": 0, "baseline_m": 0.1})
    assert stereo.calibration == {
        "baseline_m": 0.1, "subpixel_px": 0.03125, "noise_px": 0.0, "min_range_m": 0.15, "max_range_m": 10.0,
    }  # fmt: skip
    assert camera().calibration == {}
    assert hash(stereo) == hash(camera(sensor_model="ActiveStereo", sensor_params={"baseline_m": 0.1, "noise_px": 0}))


@pytest.mark.parametrize(
    ("mode", "folders"),
    [
        ("off", ["observation.images.Front"]),
        ("rgbd", ["observation.images.Front", "observation.images.Front_depth", "observation.images.Front_rgbd"]),
        ("separate", ["observation.images.Front", "observation.images.Front_depth"]),
        ("depth_only", ["observation.images.Front_depth"]),
    ],
)
def test_which_streams_a_depth_mode_asks_for(mode: str, folders: list[str]) -> None:
    front = camera(depth_mode=mode)
    assert [front.key_of(kind) for kind in front.picture_kinds] == folders
    assert front.key_of("mask") == "observation.masks.Front"


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"min_range_m": -1}, r"min_range_m=-1\.0: give 0 or more, and less than max_range_m"),
        ({"min_range_m": 5, "max_range_m": 5}, r"min_range_m=5\.0"),
        ({"max_range_m": 0}, "max_range_m=0: give a finite number above 0"),
        ({"max_range_m": float("inf")}, "max_range_m=inf"),
        ({"noise_m": -0.1}, r"noise_m=-0\.1: a standard deviation is 0 or more"),
        ({"pattern": "rotating"}, "pattern='rotating': choose one of spinning, solid_state"),
        ({"azimuth": (-10, 10)}, "azimuth=.*give first and last angle in degrees and a whole number of rays"),
        ({"azimuth": (-10, 10, 0)}, "azimuth=.*a whole number of rays"),
        ({"elevation": (-10, 10, 2.5)}, "elevation=.*a whole number of rays"),
        ({"elevation": (-10, float("nan"), 2)}, "elevation"),
        ({"azimuth": (0, 360, 10_000), "elevation": (0, 1, 101)}, "azimuth=.*at most 1000000 rays a scan"),
        (
            {"azimuth": (0, 360, 4097), "record_video_proxy": True},
            "record_video_proxy=True: a video shows at most 4096",
        ),
        ({"rate": 0}, "rate=0"),
        ({"site": " "}, "site=' '"),
        ({"site": 3}, "site=3"),
        ({"enabled": 1}, "enabled=1: give true or false"),
    ],
)
def test_a_lidar_that_cannot_be_is_refused(fields: dict[str, Any], why: str) -> None:
    with pytest.raises(lr.SettingsError, match=rf"^lidar 'Top': {why}"):
        lr.Lidar("Top", **fields)


@pytest.mark.parametrize("name", ["", "a b", "a/b", "..", None, 5])
def test_a_lidars_name_is_a_part_of_file_names(name: Any) -> None:
    with pytest.raises(lr.SettingsError, match="name="):
        lr.Lidar(name)


def test_two_lidars_of_one_name_are_refused() -> None:
    with pytest.raises(lr.SettingsError, match="lidars='Top': stands twice"):
        lr.RecorderSettings(lidars=[{"name": "Top"}, {"name": "Top", "site": "tip"}])


def test_a_spinning_lidar_goes_once_around_and_a_solid_one_reaches_both_ends() -> None:
    spinning = lr.Lidar("Top", azimuth=(-180, 180, 4), elevation=(-10, 10, 3))
    assert spinning.site == "Top"
    assert spinning.azimuths.tolist() == [-180, -90, 0, 90]
    assert spinning.elevations.tolist() == [-10, 0, 10]
    solid = lr.Lidar("Top", pattern="solid_state", azimuth=(-30, 30, 4), elevation=(5, 5, 1))
    assert solid.azimuths.tolist() == [-30, -10, 10, 30]
    assert (spinning.rays, solid.rays) == (12, 4)
    assert lr.Lidar("Top").rays == 360 * 16
    assert lr.Lidar("Top", pattern="solid_state").rays == 120 * 32


def test_rays_point_forward_left_and_up() -> None:
    rays = ray_directions(np.array([0.0, 90.0]), np.array([0.0, 90.0]))
    assert np.allclose(rays, [(1, 0, 0), (0, 1, 0), (0, 0, 1), (0, 0, 1)], atol=1e-15)
    grid = lr.Lidar("Top").directions()
    assert grid.shape == (5760, 3)
    assert np.allclose(np.linalg.norm(grid, axis=1), 1, atol=1e-15)
    # Elevation by elevation: the first 360 rays share the lowest one.
    assert np.allclose(grid[:360, 2], np.sin(np.radians(-15)))


SETTINGS = lr.RecorderSettings(
    record_masks=True,
    hardware_encoder=True,
    video_format="hevc",
    cameras=[
        lr.Camera(
            "Front", depth_mode="rgbd", depth_scale=0.0005, sensor_model="ActiveStereo", masks=["cube", "hand"],
            sensor_params={"noise_px": 0.1}, debug_channel="disparity", frame_rate=Fraction(100, 3),
        ),
    ],
    lidars=[lr.Lidar("Top", site="tip", azimuth=(-90, 90, 5), rate=10, noise_m=0.01, record_video_proxy=True)],
)  # fmt: skip


def test_bindings_survive_json_and_toml() -> None:
    assert lr.RecorderSettings.of(json.loads(json.dumps(SETTINGS.to_dict()))) == SETTINGS
    assert lr.RecorderSettings.of(tomllib.loads(SETTINGS.to_toml())) == SETTINGS


def test_only_what_writes_a_stream_is_recorded() -> None:
    masked = lr.Camera("a", masks=["cube"])
    off = lr.Camera("b", enabled=False, masks=["cube"])
    blind = lr.Camera("c", masks=["cube"], record_masks=False)
    settings = lr.RecorderSettings(
        cameras=[masked, off, blind], record_color_video=False, record_masks=True, lidars=[lr.Lidar("x", enabled=False)]
    )
    assert settings.recorded_cameras == (masked,)
    assert settings.kinds_of(masked) == ("mask",)
    assert settings.recorded_lidars == ()
