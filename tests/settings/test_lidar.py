"""Lidar sensors: what is refused when one is built, and the rays that follow from it."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np

import lucky_recorder as lr
from lucky_recorder.settings.lidar import ray_directions
from tests.settings.refusals import each_of, refused

REFUSED: list[tuple[str, Any, str]] = [
    ("name", "a/b", "name='a/b': use letters, digits"),
    ("site", " ", "site=' ': give a text that is not empty"),
    ("site", None, "site=None: give a text that is not empty"),
    ("pattern", "rotating", "pattern='rotating': choose one of spinning, solid_state"),
    ("azimuth", (-10, 10), "azimuth=(-10, 10): give first and last angle in degrees and a whole number of rays"),
    ("azimuth", (-10, 10, 0), "azimuth=(-10, 10, 0): give first and last angle"),
    ("azimuth", "0 9 9", "azimuth='0 9 9': give a list"),
    ("elevation", (-10, 10, 2.5), "elevation=(-10, 10, 2.5): give first and last angle"),
    ("elevation", (-10, float("nan"), 2), "elevation[1]=nan: give a finite number"),
    ("min_range_m", -1, "min_range_m=-1.0: give 0 or more, and less than max_range_m"),
    ("min_range_m", 100, "min_range_m=100.0: give 0 or more, and less than max_range_m"),
    ("max_range_m", float("inf"), "max_range_m=inf: give a finite number above 0"),
    ("rate", 0, "rate=0: a rate must be above 0 Hz"),
    ("noise_m", -0.1, "noise_m=-0.1: a standard deviation is 0 or more"),
    ("enabled", 1, "enabled=1: give true or false"),
    ("record_video_proxy", None, "record_video_proxy=None: give true or false"),
]


@each_of(REFUSED)
def test_a_lidar_that_cannot_be_is_refused(field: str, value: Any, message: str) -> None:
    given = {"name": "Top", field: value}
    refused(lambda: lr.Lidar(**given), f"lidar {given['name']!r}: {message}")


def test_every_field_is_in_the_table() -> None:
    assert {field for field, _, _ in REFUSED} == {f.name for f in attrs.fields(lr.Lidar)}


def test_too_many_rays_are_refused() -> None:
    many = {"azimuth": (0, 360, 10_000), "elevation": (0, 1, 101)}
    refused(lambda: lr.Lidar("Top", **many), "lidar 'Top': azimuth=(0.0, 360.0, 10000): at most 1000000 rays a scan")
    wide = {"azimuth": (0, 360, 4097), "record_video_proxy": True}
    refused(lambda: lr.Lidar("Top", **wide), "lidar 'Top': record_video_proxy=True: a video shows at most 4096")


def test_what_is_not_said_follows_from_the_name_and_the_pattern() -> None:
    spinning = lr.Lidar("Top")
    assert (spinning.site, spinning.azimuth, spinning.elevation) == ("Top", (-180, 180, 360), (-15, 15, 16))
    assert spinning == lr.Lidar("Top", "", "spinning", None, None) == attrs.evolve(spinning)
    solid = lr.Lidar("Top", site="tip", pattern="solid_state", elevation=(0, 10, 3))
    assert (solid.site, solid.azimuth, solid.elevation) == ("tip", (-60, 60, 120), (0, 10, 3))
    assert (spinning.rays, solid.rays) == (360 * 16, 120 * 3)


def test_a_spinning_lidar_goes_once_around_and_a_solid_one_reaches_both_ends() -> None:
    spinning = lr.Lidar("Top", azimuth=(-180, 180, 4), elevation=(-10, 10, 3))
    assert spinning.azimuths.tolist() == [-180, -90, 0, 90]
    assert spinning.elevations.tolist() == [-10, 0, 10]
    solid = lr.Lidar("Top", pattern="solid_state", azimuth=(-30, 30, 4), elevation=(5, 5, 1))
    assert solid.azimuths.tolist() == [-30, -10, 10, 30]
    assert (spinning.rays, solid.rays) == (12, 4)


def test_rays_point_forward_left_and_up() -> None:
    rays = ray_directions(np.array([0.0, 90.0]), np.array([0.0, 90.0]))
    assert np.allclose(rays, [(1, 0, 0), (0, 1, 0), (0, 0, 1), (0, 0, 1)], atol=1e-15)
    grid = lr.Lidar("Top").directions()
    assert grid.shape == (5760, 3)
    assert np.allclose(np.linalg.norm(grid, axis=1), 1, atol=1e-15)
    # Elevation by elevation: the first 360 rays share the lowest one.
    assert np.allclose(grid[:360, 2], np.sin(np.radians(-15)))
