"""Cameras, bound and free: what is refused when one is built, and what follows from it."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
import pytest

import lucky_recorder as lr
from tests.settings.refusals import HUGE, each_of, refused

SOURCE = "give a model camera's name or id, a FreeCamera, or 'render'"
EVEN = "video needs an even size; use 64 or 66"
TABLE = "give a table of numbers by name"
MANY = [f"g{i}" for i in range(256)]

REFUSED: list[tuple[str, Any, str]] = [
    ("name", "a b", "name='a b': use letters, digits, '_' and '-' only"),
    ("name", None, "name=None: use letters, digits, '_' and '-' only"),
    ("source", "", f"source='': {SOURCE}"),
    ("source", -1, f"source=-1: {SOURCE}"),
    ("source", True, f"source=True: {SOURCE}"),
    ("source", [0], f"source=[0]: {SOURCE}"),
    ("source", np.array([0, 1]), f"source=array([0, 1]): {SOURCE}"),
    ("source", {"distnce": 1}, "source.distnce=1: unknown field; did you mean 'distance'?"),
    ("source", {5: 5}, "source.5=5: unknown field; known: lookat, distance, azimuth, elevation"),
    ("width", 65, f"width=65: {EVEN}"),
    ("width", 14, "width=14: give a whole number from 16 to 8192"),
    ("width", 8194, "width=8194: give a whole number from 16 to 8192"),
    ("height", np.int64(65), f"height={np.int64(65)!r}: {EVEN}"),
    ("height", "480", "height='480': give a whole number from 16 to 8192"),
    ("frame_rate", -1, "frame_rate=-1: a rate must be above 0 Hz"),
    ("enabled", 1, "enabled=1: give true or false"),
    ("depth_mode", "RGBD", "depth_mode='RGBD': choose one of off, rgbd, separate, depth_only"),
    ("depth_scale", 0, "depth_scale=0: give a finite number above 0"),
    ("sensor_model", "Lidar", "sensor_model='Lidar': choose one of ActiveStereo, "),
    ("sensor_model", [], "sensor_model=[]: choose one of ActiveStereo, "),
    ("sensor_params", 5, f"sensor_params=5: {TABLE}"),
    ("sensor_params", ["noise_px"], f"sensor_params=['noise_px']: {TABLE}"),
    ("sensor_params", {5: 1.0}, "sensor_params=5: give a text"),
    (
        "sensor_params",
        {"baseline_m": 0.1},
        "sensor_params={'baseline_m': 0.1}: unknown parameter; known: none, without",
    ),
    ("debug_channel", "", "debug_channel='': give a text"),
    ("debug_channel", "shadow", "debug_channel='shadow': unknown channel; known: none, without a sensor_model"),
    ("masks", "cube", "masks='cube': give a list"),
    ("masks", [], "masks=(): name 1 to 255 bodies, geoms, flexes or skins"),
    ("masks", MANY, "masks=('g0', 'g1',"),
    ("masks", ["cube", "cube"], "masks='cube': stands twice"),
    ("masks", [5], "masks[0]=5: give a text"),
    ("record_masks", None, "record_masks=None: give true or false"),
    ("geom_groups", 3, "geom_groups=3: give a list"),
    ("geom_groups", [6], "geom_groups[0]=6: give a whole number from 0 to 5"),
    ("geom_groups", [True], "geom_groups[0]=True: give a whole number from 0 to 5"),
    ("site_groups", [1, 1], "site_groups=1: stands twice"),
    ("flags", ["shadow"], "flags=['shadow']: give a table of true and false by name"),
    ("flags", "shadow", "flags='shadow': give a table of true and false by name"),
    ("flags", {"shadows": True}, "flags={'shadows': True}: unknown flag; known: activation, actuator, "),
    ("flags", {"segment": True}, "flags={'segment': True}: unknown flag; known: "),
    ("flags", {5: True}, "flags={5: True}: unknown flag; known: "),
    ("flags", {"shadow": 0}, "flags.shadow=0: give true or false"),
    ("fit", "crop", "fit='crop': a camera that is drawn here has the size it asks for"),
    ("fit", "scale", "fit='scale': choose one of crop, pad"),
    ("record_pose", 1, "record_pose=1: give true or false"),
]


@each_of(REFUSED)
def test_a_camera_refuses(field: str, value: Any, message: str) -> None:
    given = {"name": "Front", field: value}
    refused(lambda: lr.Camera(**given), f"camera {given['name']!r}: {message}")


REFUSED_FREE: list[tuple[str, Any, str]] = [
    ("lookat", 5, "lookat=5: give a list"),
    ("lookat", [0, 0], "lookat=[0, 0]: give three numbers x, y, z in metres"),
    ("lookat", [0, 0, "0"], "lookat[2]='0': give a finite number"),
    ("lookat", {"x": 0}, "lookat={'x': 0}: give a list"),
    ("distance", 0, "distance=0: give a finite number above 0"),
    ("azimuth", "90", "azimuth='90': give a finite number"),
    ("elevation", HUGE, "elevation=<int>: give a finite number"),
]


@each_of(REFUSED_FREE)
def test_a_free_camera_refuses(field: str, value: Any, message: str) -> None:
    refused(lambda: lr.FreeCamera(**{field: value}), f"free camera: {message}")


@pytest.mark.parametrize(("kind", "table"), [(lr.Camera, REFUSED), (lr.FreeCamera, REFUSED_FREE)])
def test_every_field_is_in_the_table(kind: Any, table: list[tuple[str, Any, str]]) -> None:
    assert {field for field, _, _ in table} == {f.name for f in attrs.fields(kind)}


@pytest.mark.parametrize("fields", [{"depth_mode": "rgbd"}, {"masks": ["cube"]}])
def test_the_environments_own_pictures_have_neither_depth_nor_masks(fields: dict[str, Any]) -> None:
    message = "camera 'Front': source='render': env.render() gives colour only"
    refused(lambda: lr.Camera("Front", source="render", **fields), message)


@pytest.mark.parametrize(
    "fields", [{"geom_groups": []}, {"site_groups": [0]}, {"flags": {"shadow": True}}, {"record_pose": True}]
)
def test_the_environments_own_pictures_show_what_it_likes(fields: dict[str, Any]) -> None:
    (name,) = fields
    message = f"camera 'Front': {name}="
    refused(lambda: lr.Camera("Front", source="render", **fields), message)


@pytest.mark.parametrize(("side", "value"), [("width", 401), ("height", 301)])
def test_an_odd_size_of_the_environments_own_pictures_has_a_remedy_that_works(side: str, value: int) -> None:
    message = f"video needs an even size; use {value - 1} with fit='crop' or {value + 1} with fit='pad'"
    refused(lambda: lr.Camera("Front", source="render", **{side: value}), f"camera 'Front': {side}={value}: {message}")
    assert lr.Camera("Front", source="render", fit="crop", **{side: value - 1}).fit == "crop"
    assert lr.Camera("Front", source="render", fit="pad", **{side: value + 1}).fit == "pad"


def test_what_a_camera_shows_settles_alike_however_it_is_given() -> None:
    one = lr.Camera("Front", geom_groups=[3, 0], flags={"shadow": False, "contactpoint": np.bool_(True)})
    other = lr.Camera("Front", geom_groups=(0, np.int64(3)), flags=[("contactpoint", True), ("shadow", False)])
    assert (one.geom_groups, one.flags) == ((0, 3), (("contactpoint", True), ("shadow", False)))
    assert one == other
    assert hash(one) == hash(other)


@pytest.mark.parametrize("width", [16, 18, 640, 4096, np.int32(64)])
def test_even_sizes_are_taken(width: int) -> None:
    assert lr.Camera("Front", width=width, height=width).height == int(width)


def test_no_more_pixels_than_are_read_back() -> None:
    assert lr.Camera("Front", width=8192, height=2048).width == 8192
    with pytest.raises(lr.SettingsError, match=r"width, height=\(8192, 2050\): at most 16777216 pixels"):
        lr.Camera("Front", width=8192, height=2050)


@pytest.mark.parametrize(
    "source", ["front", "render", "an odd name/1", 0, np.int64(3), lr.FreeCamera(distance=2), None]
)
def test_sources_of_a_camera(source: Any) -> None:
    assert lr.Camera("Front", source=source).source == source


def test_a_free_camera_may_be_a_table() -> None:
    camera = lr.Camera("Front", source={"lookat": np.array([0, 0, 1]), "distance": 2})
    assert camera.source == lr.FreeCamera(lookat=(0.0, 0.0, 1.0), distance=2.0)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        (
            {"base_m": 0.1},
            "={'base_m': 0.1}: unknown parameter; known: baseline_m, subpixel_px, noise_px, min_range_m, max_range_m",
        ),
        ({"baseline_m": 0}, ".baseline_m=0.0: give a number above 0"),
        ({"noise_px": -0.1}, ".noise_px=-0.1: give 0 or more"),
        ({"noise_px": True}, ".noise_px=True: give a finite number"),
        ({"max_range_m": 0.1}, ".min_range_m=0.15: give less than max_range_m, 0.1"),
    ],
)
def test_a_calibration_that_cannot_be_is_refused(params: Any, message: str) -> None:
    given = {"depth_mode": "rgbd", "sensor_model": "ActiveStereo", "sensor_params": params}
    refused(lambda: lr.Camera("Front", **given), f"camera 'Front': sensor_params{message}")


def test_a_diagnostic_channel_is_one_of_the_models() -> None:
    message = "camera 'Front': debug_channel='infrared': unknown channel; known: disparity, shadow"
    refused(lambda: lr.Camera("Front", sensor_model="ActiveStereo", debug_channel="infrared"), message)


def test_a_calibration_is_the_models_defaults_and_what_was_set() -> None:
    stereo = lr.Camera("Front", sensor_model="ActiveStereo", sensor_params={"noise_px": 0, "baseline_m": 0.1})
    assert stereo.calibration == {
        "baseline_m": 0.1, "subpixel_px": 0.03125, "noise_px": 0.0, "min_range_m": 0.15, "max_range_m": 10.0,
    }  # fmt: skip
    assert lr.Camera("Front").calibration == {}
    assert hash(stereo) == hash(
        lr.Camera("Front", sensor_model="ActiveStereo", sensor_params={"baseline_m": 0.1, "noise_px": 0})
    )


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
    front = lr.Camera("Front", depth_mode=mode)
    assert [front.key_of(kind) for kind in front.picture_kinds] == folders
    assert front.key_of("mask") == "observation.masks.Front"
