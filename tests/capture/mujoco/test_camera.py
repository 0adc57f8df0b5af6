"""Which camera of a model is looked through: by name, by id, or a free one."""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np
import pytest

import lucky_recorder as lr
from lucky_recorder.errors import SettingsError
from tests.capture.drawing import HEIGHT, WIDTH, Film, free_camera, reference
from tests.capture.models import moving, scene, source_of


def camera(name: str = "overview", **fields: Any) -> lr.Camera:
    return lr.Camera(name, **{"width": WIDTH, "height": HEIGHT, **fields})


def test_cameras_by_name_by_id_and_free_ones() -> None:
    model, data = moving()
    views = {
        "overview": camera(),
        "by_name": camera("by_name", source="overview"),
        "by_id": camera("by_id", source=0),
        "free": camera("free", source=lr.FreeCamera()),
        "placed": camera("placed", source=lr.FreeCamera(lookat=(0, 0, 0.4), distance=1.5, azimuth=30, elevation=-10)),
    }
    with Film(model, data, list(views.values())) as film:
        pixels = dict(zip(views, film.frame(), strict=True))
    for name in ("overview", "by_name", "by_id"):
        np.testing.assert_array_equal(pixels[name], reference(model, data, "overview"))
    default = free_camera(model, azimuth=90.0, elevation=-45.0)
    np.testing.assert_array_equal(pixels["free"], reference(model, data, default))
    placed = free_camera(model, lookat=np.array([0, 0, 0.4]), distance=1.5, azimuth=30, elevation=-10)
    np.testing.assert_array_equal(pixels["placed"], reference(model, data, placed))
    assert (pixels["free"] != pixels["placed"]).any()


@pytest.mark.parametrize(
    ("source", "why"), [("overveiw", "it has: overview"), (1, "has 1 cameras, ids from 0"), (None, "it has: overview")]
)
def test_a_camera_that_is_not_there_is_refused_naming_those_that_are(source: Any, why: str) -> None:
    with pytest.raises(SettingsError, match=f"camera 'front': source=.*{why}"):
        source_of(scene("joint_zoo"), cameras=[camera("front", source=source)])


def test_a_free_camera_needs_no_camera_in_the_model() -> None:
    model = mujoco.MjModel.from_xml_string(
        "<mujoco><worldbody><body><joint/><geom size='0.1'/></body></worldbody></mujoco>"
    )
    data = mujoco.MjData(model)
    with Film(model, data, [camera("free", source=lr.FreeCamera())]) as film:
        np.testing.assert_array_equal(
            film.frame()[0], reference(model, data, free_camera(model, azimuth=90.0, elevation=-45.0))
        )
