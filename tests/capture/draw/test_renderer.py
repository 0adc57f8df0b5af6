from __future__ import annotations

import copy
import gc
from typing import Any

import gymnasium as gym
import mujoco
import numpy as np
import pytest

import lucky_recorder as lr
from lucky_recorder.capture.draw import context as gl
from lucky_recorder.capture.draw.renderer import Renderer
from lucky_recorder.capture.mujoco.snapshot import ScenePool
from lucky_recorder.capture.snapshot import SceneSnapshot
from lucky_recorder.testing import CountEnv
from tests.capture.drawing import Film, reference
from tests.capture.models import contents, scene


def at(size: tuple[int, int], name: str, **fields: Any) -> lr.Camera:
    return lr.Camera(name, width=size[0], height=size[1], **fields)


SIZES = [(64, 48), (48, 64), (96, 16), (130, 74), (16, 16)]


@pytest.fixture
def moving() -> tuple[mujoco.MjModel, mujoco.MjData]:
    model = scene("joint_zoo")
    data = mujoco.MjData(model)
    data.qvel[:] = np.linspace(-2, 2, model.nv)
    mujoco.mj_step(model, data, 20)
    return model, data


@pytest.mark.parametrize("offscreen", [(128, 128), (2, 2), (640, 480)])
def test_pixels_are_mujocos_own_in_every_size_whatever_the_models_buffer(
    moving: Any, offscreen: tuple[int, int]
) -> None:
    model, data = moving
    model.vis.global_.offwidth, model.vis.global_.offheight = offscreen
    cameras = [at(size, f"c{i}", source="overview") for i, size in enumerate(SIZES)]
    with Film(model, data, cameras) as film:
        for _ in range(2):
            for size, pixels in zip(SIZES, film.frame(), strict=True):
                assert pixels.dtype == np.uint8
                np.testing.assert_array_equal(pixels, reference(model, data, "overview", *size))
            mujoco.mj_step(model, data, 30)
    assert (model.vis.global_.offwidth, model.vis.global_.offheight) == offscreen


@pytest.mark.parametrize(("shadowsize", "offsamples"), [(0, 0), (512, 0), (1024, 4), (0, 8)])
def test_pixels_are_mujocos_own_at_the_models_quality(moving: Any, shadowsize: int, offsamples: int) -> None:
    model, data = moving
    model.light_castshadow[:] = 1
    model.vis.quality.shadowsize, model.vis.quality.offsamples = shadowsize, offsamples
    with Film(model, data, [at((96, 72), "overview"), at((64, 48), "free", source=lr.FreeCamera())]) as film:
        np.testing.assert_array_equal(film.frame()[0], reference(model, data, "overview", 96, 72))


@pytest.mark.parametrize("name", ["front", "wrist"])
def test_pixels_are_mujocos_own_in_the_sample_scene(name: str) -> None:
    model = scene("pick_cube")
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, 0)
    with Film(model, data, [at((96, 72), "front"), at((96, 72), "wrist")]) as film:
        pixels = dict(zip(("front", "wrist"), film.frame(), strict=True))
    np.testing.assert_array_equal(pixels[name], reference(model, data, name, 96, 72))


def test_the_same_is_drawn_every_time(moving: Any) -> None:
    model, data = moving
    with Film(model, data, [at((64, 48), "overview")]) as film:
        first = film.frame()[0]
        assert all((film.frame()[0] == first).all() for _ in range(3))
    with Film(model, data, [at((64, 48), "overview")]) as film:
        np.testing.assert_array_equal(film.frame()[0], first)


@pytest.mark.parametrize(("quality", "shadowsize"), [("fast", 1024), ("fastest", 0)])
def test_a_lower_quality_is_our_contexts_alone(moving: Any, quality: str, shadowsize: int) -> None:
    model, data = moving
    model.light_castshadow[:] = 1
    model.vis.quality.shadowsize, model.vis.quality.offsamples = 2048, 4
    before = contents(model)
    lower = copy.copy(model)
    lower.vis.quality.shadowsize, lower.vis.quality.offsamples = shadowsize, 0
    with Film(model, data, [at((96, 72), "overview")], render_quality=quality) as film:
        np.testing.assert_array_equal(film.frame()[0], reference(lower, data, "overview", 96, 72))
        assert (film.frame()[0] != reference(model, data, "overview", 96, 72)).any()
        model.hfield_size[:] = 0
        model.vis.quality.numslices = lower.vis.quality.numslices = 7
        film.begin()
        np.testing.assert_array_equal(film.frame()[0], reference(lower, data, "overview", 96, 72))
        model.vis.quality.numslices = 28
    assert contents(model) == before


def test_fast_never_sharpens_shadows(moving: Any) -> None:
    model, data = moving
    model.vis.quality.shadowsize = 128
    lower = copy.copy(model)
    lower.vis.quality.offsamples = 0
    with Film(model, data, [at((64, 48), "overview")], render_quality="fast") as film:
        np.testing.assert_array_equal(film.frame()[0], reference(lower, data, "overview"))


def test_a_new_model_is_drawn_after_the_old_one(moving: Any) -> None:
    model, data = moving
    with Film(model, data, [at((64, 48), "overview")]) as film:
        film.frame()
        other = scene("joint_zoo")
        other.geom_rgba[:] = 0.2, 0.9, 0.2, 1
        other_data = mujoco.MjData(other)
        assert film.source.rebind(other, other_data)
        film.open()
        assert film.begin() is None
        np.testing.assert_array_equal(film.frame()[0], reference(other, other_data, "overview"))


def test_what_draws_is_known_once_opened(moving: Any) -> None:
    model, data = moving
    film = Film(model, data, [at((64, 48), "overview")])
    renderer = film.source.renderer
    assert renderer is not None
    assert renderer.device
    assert renderer.is_software == any(
        word in renderer.device.lower() for word in ("llvmpipe", "softpipe", "swrast", "software")
    )
    film.close()
    assert renderer.device == ""
    assert not renderer.is_software
    renderer.close()


def test_a_scene_is_given_back_even_if_it_cannot_be_drawn(moving: Any, monkeypatch: Any) -> None:
    model, data = moving
    with Film(model, data, [at((64, 48), "overview")]) as film:
        [picture] = film.look()
        released: list[Any] = []
        monkeypatch.setattr(ScenePool, "give_back", lambda pool, scene: released.append(scene))
        monkeypatch.setattr(mujoco, "mjr_render", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            film.draw([picture])
        assert released == [picture.scene]


def test_pixels_that_are_there_already_pass_through() -> None:
    pixels = np.arange(64 * 48 * 3, dtype=np.uint8).reshape(48, 64, 3)
    drawn, bottom_up = Renderer([at((64, 48), "seen", source="render")], "model").color(SceneSnapshot(0, pixels=pixels))
    assert drawn is pixels
    assert not bottom_up


# Beside an environment that renders itself.


def rendered_run(record: Any = None, **settings: Any) -> list[np.ndarray]:
    """Run an environment that renders itself, with or without a recorder around it; returns what it rendered."""
    # A viewer that gymnasium has closed deletes its buffers when it is collected, from whatever context is current.
    gc.collect()
    env = gym.make("LuckyRecorder/PickCube-v0", render_mode="rgb_array", width=64, height=48)
    recorder = env if record is None else record(env, **settings)
    recorder.reset(seed=3)
    frames = []
    for step in range(4):
        frames.append(env.render())
        recorder.step(env.action_space.low * (step % 2))
        frames.append(recorder.render())
    recorder.reset(seed=4)
    frames.append(recorder.render())
    if record is not None:
        recorder.observer.stop_recording()
    frames.append(env.render())
    env.reset(seed=5)
    frames.append(env.render())
    recorder.close()
    return frames


@pytest.mark.parametrize("also_rendered", [False, True])
def test_the_environments_own_rendering_stays_bit_identical(record: Any, also_rendered: bool) -> None:
    cameras = [at((64, 48), "front"), at((32, 32), "wrist")]
    if also_rendered:
        cameras.append(at((64, 48), "seen", source="render"))
    alone = rendered_run()
    beside = rendered_run(record, mode="robot_arm", cameras=cameras)
    assert alone[0].shape == (48, 64, 3)
    assert any((a != alone[0]).any() for a in alone)
    for i, (a, b) in enumerate(zip(alone, beside, strict=True)):
        np.testing.assert_array_equal(a, b, err_msg=f"rendering {i}")


def test_our_picture_is_the_one_that_the_environment_renders_of_the_same_state(record: Any, read_back: Any) -> None:
    """Both through the same lossy video: equal pixels in are equal pixels out."""
    env = gym.make("LuckyRecorder/PickCube-v0", render_mode="rgb_array", width=64, height=48)
    recorder = record(env, mode="robot_arm", cameras=[at((64, 48), "front"), at((64, 48), "seen", source="render")])
    recorder.reset(seed=0)
    recorder.step(env.action_space.low * 0)
    recorder.close()
    [episode] = read_back(recorder.session_path)
    np.testing.assert_array_equal(episode.frames["front"], episode.frames["seen"])


def test_frame_i_is_the_picture_of_row_i(record: Any, read_back: Any, counts: Any, run: Any) -> None:
    recorder = record(
        CountEnv(length=7, mujoco=True),
        mode="robot_arm",
        cameras=[at((64, 48), "wall")],
        columns=[lr.Column("obs", "gym:obs")],
    )
    run(recorder, episodes=2)
    recorder.close()
    first, second = read_back(recorder.session_path)
    assert counts(first)["wall"] == counts(first)["state"] == counts(first)["rows"] == list(range(7))
    assert counts(second)["wall"] == counts(second)["rows"] == list(range(100, 107))


def test_without_gl_there_is_an_error_that_says_what_to_install(record: Any, monkeypatch: Any, tmp_path: Any) -> None:
    monkeypatch.setattr(gl, "_has_egl", lambda: False)
    monkeypatch.setattr(gl, "_has_osmesa", lambda: False)
    monkeypatch.delenv("PYOPENGL_PLATFORM", raising=False)
    recorder = record(CountEnv(mujoco=True), mode="robot_arm", cameras=[at((64, 48), "wall")])
    with pytest.raises(lr.GLError, match="apt-get install libegl1 libgl1-mesa-dri libopengl0"):
        recorder.reset()
    assert list(tmp_path.iterdir()) == []
