"""The environment's own pictures: copied as they come, and refused where they are no pictures of the camera's size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lucky_recorder as lr
from lucky_recorder.capture.render import rendered
from lucky_recorder.capture.snapshot import SceneSnapshot
from lucky_recorder.errors import SettingsError, StreamError
from tests.capture.drawing import HEIGHT, WIDTH
from tests.capture.models import scene, source_of


def camera(name: str, **fields: Any) -> lr.Camera:
    return lr.Camera(name, **{"width": WIDTH, "height": HEIGHT, **fields})


def film_of(render: Any, **fields: Any) -> np.ndarray:
    return rendered(render, camera("seen", source="render", **fields))


def test_a_rendered_picture_is_copied() -> None:
    kept = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
    picture = film_of(lambda: kept)
    kept[:] = 9
    assert picture.max() == 0


@pytest.mark.parametrize(
    ("picture", "why"),
    [
        (
            np.zeros((32, 40, 3), np.uint8),
            r"uint8 \(32, 40, 3\), expected uint8 \(48, 64, 3\); set width=40, height=32",
        ),
        (np.zeros((HEIGHT, WIDTH, 4), np.uint8), r"\(48, 64, 4\)"),
        (np.zeros((HEIGHT, WIDTH), np.uint8), r"gives uint8 \(48, 64\)"),
        (np.zeros((HEIGHT, WIDTH, 3)), "gives float64"),
        (None, "gives object"),
        ([np.zeros((HEIGHT, WIDTH, 3), np.uint8)], "a list of frames; use render_mode='rgb_array'"),
    ],
)
def test_what_is_no_picture_of_the_cameras_size_is_refused_naming_the_camera(picture: Any, why: str) -> None:
    with pytest.raises(StreamError, match=f"camera 'seen'.*{why}"):
        film_of(lambda: picture)


def test_a_render_that_raises_names_the_camera_and_the_error() -> None:
    def broken() -> None:
        raise ZeroDivisionError("no GPU today")

    with pytest.raises(
        StreamError, match=r"camera 'seen': env.render\(\) failed: ZeroDivisionError: no GPU today"
    ) as caught:
        film_of(broken)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_a_picture_without_a_scene_has_nothing_to_give_back() -> None:
    SceneSnapshot(0, pixels=np.zeros((2, 2, 3), np.uint8)).release()


def test_a_source_without_rendering_refuses_a_rendered_camera() -> None:
    with pytest.raises(SettingsError, match=r"camera 'seen': source='render'.*render_mode='rgb_array'"):
        source_of(scene("joint_zoo"), cameras=[camera("seen", source="render")])
