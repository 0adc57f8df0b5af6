"""The environment's own pictures: copied as they come, cut or filled up if asked, else refused with what helps."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import lucky_recorder as lr
from lucky_recorder.capture.render import check_rendered, rendered
from lucky_recorder.capture.snapshot import SceneSnapshot
from lucky_recorder.errors import SettingsError, StreamError
from lucky_recorder.testing import check_session
from tests.capture.drawing import HEIGHT, WIDTH
from tests.capture.models import scene, source_of


def camera(name: str, **fields: Any) -> lr.Camera:
    return lr.Camera(name, **{"width": WIDTH, "height": HEIGHT, **fields})


def film_of(render: Any, **fields: Any) -> np.ndarray:
    return rendered(render, camera("seen", source="render", **fields))


def shades(height: int, width: int) -> np.ndarray:
    """A picture with no two pixels alike, none of them black."""
    v, u = np.indices((height, width))
    return np.stack([1 + u % 250, 1 + v % 250, 1 + u // 250 + 2 * (v // 250)], axis=-1).astype(np.uint8)


class Pictures(gym.Env[Any, Any]):
    """An environment whose pictures are what they are."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 20}  # noqa: RUF012
    render_mode = "rgb_array"
    observation_space = action_space = gym.spaces.Box(-1, 1, (2,))

    def __init__(self, picture: Any) -> None:
        self.picture = picture
        self.asked = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> Any:
        return np.zeros(2, np.float32), 0.0, False, False, {"success": True}

    def render(self) -> Any:
        self.asked += 1
        return self.picture


def record(tmp_path: Path, env: Any, steps: int = 2, **fields: Any) -> Any:
    cameras = [lr.Camera("seen", source="render", **fields)]
    session = lr.RecordSession(env, output_dir=tmp_path, mode="custom", gym_columns=True, cameras=cameras)
    session.reset()
    for _ in range(steps):
        session.step(np.zeros(2))
    session.close()
    return check_session(session.session_path).episode(0).frames("seen")


def test_a_rendered_picture_is_copied() -> None:
    kept = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
    picture = film_of(lambda: kept)
    kept[:] = 9
    assert picture.max() == 0


# Every way in which pictures come that are none and show what makes them one, and what the message must say of it.
COLOUR = shades(HEIGHT, WIDTH)
ALPHA = np.concatenate([COLOUR, np.full((HEIGHT, WIDTH, 1), 255, np.uint8)], axis=2)
KINDS: dict[str, tuple[Any, str]] = {
    "rgba": (ALPHA, "there is an alpha channel"),
    "chw": (COLOUR.transpose(2, 0, 1), "colours come first"),
    "chw rgba": (ALPHA.transpose(2, 0, 1), "colours come first, there is an alpha channel"),
    "float to 1": (COLOUR / 255, "values are float64 from 0.00"),
    "float32 to 1": ((COLOUR / 255).astype(np.float32), "values are float32 from 0.00"),
    "bool": (COLOUR > 30, "values are bool"),
    "grey": (COLOUR[..., 0], "there is no axis of colours, it is grey"),
    "grey with an axis": (COLOUR[..., :1], "it is grey"),
    "float chw rgba": ((ALPHA / 255).transpose(2, 0, 1), "colours come first, there is an alpha channel, values are"),
    "chw grey": (COLOUR[None, ..., 0], "colours come first, it is grey"),
}


def wrapper_in(message: str) -> Any:
    """Run the line that a message hands out, as it stands."""
    (line,) = re.findall(r"class Rgb\(gym.Wrapper\): .*", message)
    names: dict[str, Any] = {"gym": gym}
    exec(line, names)
    return names["Rgb"]


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_picture_is_refused_with_a_wrapper_that_makes_it_one(kind: str, tmp_path: Path) -> None:
    picture, fault = KINDS[kind]
    env = Pictures(picture)
    with pytest.raises(SettingsError, match=f"camera 'seen': env.render.*{fault}.*class Rgb") as caught:
        record(tmp_path, env, width=WIDTH, height=HEIGHT)
    assert list(tmp_path.iterdir()) == []
    wrapped = wrapper_in(str(caught.value))(env)
    frames = record(tmp_path, wrapped, width=WIDTH, height=HEIGHT)
    assert len(frames) == 2
    made = film_of(wrapped.render)
    if kind == "bool":
        expected = (COLOUR > 30) * np.uint8(255)
    elif "grey" in kind:
        expected = COLOUR[..., :1].repeat(3, axis=2)
    else:
        expected = COLOUR
    np.testing.assert_array_equal(made, expected)


# Pictures that do not show which range they are of: the next one may be brighter, or darker.
FLAT = np.ones((HEIGHT, WIDTH, 3))
UNCERTAIN: dict[str, tuple[Any, str]] = {
    "float, black": (0 * FLAT, "float64 from 0 to 0"),
    "float32, black": ((0 * FLAT).astype(np.float32), "float32 from 0 to 0"),
    "float, black under alpha": (np.concatenate([0 * FLAT, FLAT[..., :1]], axis=2), "float64 from 0 to 0"),
    "float to 255": (COLOUR.astype(np.float32), "float32 from 1 to 64"),
    "float from -1": (COLOUR / 127.5 - 1, "float64 from -0.992157 to -0.498039"),
    "float below 0": (0.5 - COLOUR / 100, "float64 from -0.14 to 0.49"),
    "NaN": (np.nan * FLAT, "float64, some of them NaN"),
    "NaN among others": (np.where(COLOUR > 30, np.nan, COLOUR / 255), "float64, some of them NaN"),
    "infinity": (np.inf * FLAT, "float64 from inf to inf"),
    "int64": (COLOUR.astype(np.int64), "int64 from 1 to 64"),
    "int8": (-COLOUR.astype(np.int8), "int8 from -64 to -1"),
    "uint16": (COLOUR.astype(np.uint16) * 257, "uint16 from 257 to 16448"),
    "uint16, chw": (COLOUR.astype(np.uint16).transpose(2, 0, 1), "uint16 from 1 to 64"),
}


@pytest.mark.parametrize("kind", UNCERTAIN)
def test_where_a_picture_does_not_tell_its_range_the_choice_is_named(kind: str, tmp_path: Path) -> None:
    picture, values = UNCERTAIN[kind]
    with pytest.raises(SettingsError, match=f"values are {re.escape(values)}[.]") as caught:
        record(tmp_path, Pictures(picture), width=WIDTH, height=HEIGHT)
    assert list(tmp_path.iterdir()) == []
    assert "class Rgb" not in str(caught.value)
    assert "bring black to 0 and full brightness to 255, alike in every picture" in str(caught.value)
    assert ("take self.env.render().transpose(1, 2, 0)," in str(caught.value)) == ("chw" in kind)


@pytest.mark.parametrize(
    "later",
    [
        255 * FLAT,
        1.01 * FLAT,
        -0.01 * FLAT,
        np.nan * FLAT,
        np.where(COLOUR > 30, np.nan, 0.5),
        np.ones((HEIGHT, WIDTH, 3), np.int64),
        np.ones((HEIGHT, WIDTH, 3), bool),
    ],
)
@pytest.mark.parametrize("first", [COLOUR / 255, COLOUR > 30])
def test_the_wrapper_makes_no_wrong_picture_of_another_kind_that_comes_later(first: Any, later: Any) -> None:
    env = Pictures(first)
    with pytest.raises(StreamError, match="class Rgb") as caught:
        film_of(env.render)
    wrapped = wrapper_in(str(caught.value))(env)
    film_of(wrapped.render)
    env.picture = np.zeros_like(first)
    assert film_of(wrapped.render).max() == 0
    env.picture = later
    if later.dtype == first.dtype == bool:
        assert film_of(wrapped.render).min() == 255
        return
    with pytest.raises(StreamError, match=f"camera 'seen': env.render.*values are {later.dtype}"):
        film_of(wrapped.render)


@pytest.mark.parametrize(
    ("picture", "why"),
    [
        (None, "gives None; make the environment with render_mode='rgb_array'"),
        ([COLOUR], "gives a list of frames; make the environment with render_mode='rgb_array'"),
        (np.zeros((4, HEIGHT, WIDTH, 3), np.uint8), r"gives uint8 \(4, 48, 64, 3\); let it give uint8"),
        (np.zeros((HEIGHT, WIDTH, 2), np.uint8), r"gives uint8 \(48, 64, 2\); let it give uint8"),
        (np.zeros(3, np.uint8), r"gives uint8 \(3,\); let it give uint8"),
        ("a drawing in text", r"gives <U17 \(\); let it give uint8"),
        (np.zeros((HEIGHT, WIDTH, 3), complex), r"gives complex128 \(48, 64, 3\); let it give uint8"),
    ],
)
def test_what_no_wrapper_makes_a_picture_is_refused(picture: Any, why: str) -> None:
    with pytest.raises(StreamError, match=f"camera 'seen': env.render.*{why}"):
        film_of(lambda: picture)


@pytest.mark.parametrize("size", [(401, 301), (400, 301), (401, 300), (15, 15), (8193, 20), (17, 401), (120, 90)])
def test_another_size_is_refused_with_settings_that_take_it(size: tuple[int, int], tmp_path: Path) -> None:
    width, height = size
    picture = shades(height, width)
    with pytest.raises(SettingsError, match=f"gives {width}x{height} pixels, and the camera is 64x48; ") as caught:
        record(tmp_path, Pictures(picture), width=64, height=48)
    assert list(tmp_path.iterdir()) == []
    ways = re.findall(r"width=(\d+), height=(\d+)(?:, fit='(\w+)')?", str(caught.value))
    assert ways
    for w, h, fit in ways:
        asked = lr.Camera("seen", source="render", width=int(w), height=int(h), fit=fit or None)
        made = rendered(lambda: picture, asked)
        assert made.shape == (int(h), int(w), 3)
        rows, columns = min(height, int(h)), min(width, int(w))
        # What is kept is where it was; what is added is black.
        np.testing.assert_array_equal(made[:rows, :columns], picture[:rows, :columns])
        assert made[rows:].max(initial=0) == made[:, columns:].max(initial=0) == 0
        assert {"crop": made.size <= picture.size, "pad": made.size >= picture.size, "": True}[fit]


@pytest.mark.parametrize(("width", "height", "fit"), [(400, 300, "crop"), (402, 302, "pad"), (64, 48, "crop")])
def test_cut_and_filled_up_pictures_are_in_the_video(tmp_path: Path, width: int, height: int, fit: str) -> None:
    picture = np.zeros((301, 401, 3), np.uint8)
    picture[:20, :20], picture[-20:, -20:] = (255, 255, 255), (200, 200, 200)
    frames = record(tmp_path, Pictures(picture), width=width, height=height, fit=fit)
    assert len(frames) == 2
    expected = np.zeros((height, width, 3), np.uint8)
    rows, columns = min(301, height), min(401, width)
    expected[:rows, :columns] = picture[:rows, :columns]
    assert np.abs(frames[0].astype(int) - expected).mean() < 1
    assert frames[0][:16, :16].mean() > 245


@pytest.mark.parametrize(
    ("fit", "size"), [("crop", (40, 200)), ("pad", (40, 200)), ("crop", (40, 40)), ("pad", (80, 50))]
)
def test_what_does_not_fit_the_way_that_was_chosen_is_refused(fit: str, size: tuple[int, int]) -> None:
    width, height = size
    with pytest.raises(StreamError, match=f"gives {width}x{height} pixels, and the camera is 64x48 with fit='{fit}'"):
        film_of(lambda: shades(height, width), fit=fit)


def test_the_picture_is_asked_for_once_before_anything_is_on_the_disk(tmp_path: Path) -> None:
    env = Pictures(COLOUR)
    record(tmp_path, env, steps=3, width=WIDTH, height=HEIGHT)
    assert env.asked == 1 + 3
    other = lr.RecorderSettings(mode="custom", gym_columns=True)
    check_rendered(other, env.render)
    assert env.asked == 4


def test_pictures_that_change_their_size_fail_their_episode(tmp_path: Path) -> None:
    env = Pictures(COLOUR)
    cameras = [lr.Camera("seen", source="render", width=WIDTH, height=HEIGHT)]
    session = lr.RecordSession(env, output_dir=tmp_path, mode="custom", gym_columns=True, cameras=cameras)
    session.reset()
    session.step(np.zeros(2))
    env.picture = shades(HEIGHT, WIDTH + 2)
    with pytest.raises(StreamError, match="gives 66x48 pixels, and the camera is 64x48; set width=66, height=48"):
        session.step(np.zeros(2))
    session.close()
    [episode] = check_session(session.session_path)
    assert episode.success is False


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
