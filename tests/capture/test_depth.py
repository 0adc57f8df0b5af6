"""Depth: codes are those of MuJoCo's own renderer, and come back from the file as they were drawn."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import mujoco
import numpy as np
import pytest

import lucky_recorder as lr
from lucky_recorder.capture.depth import Frustum, codes, metres, sensor_codes
from lucky_recorder.settings.sensors import View
from lucky_recorder.testing import CountEnv, check_session
from tests.capture.drawing import Film, free_camera
from tests.capture.models import scene, state
from tests.capture.surfaces import Mirror

WIDTH, HEIGHT = 96, 64
FLAT = """
<mujoco>
  <statistic extent="2" center="0 0 0"/>
  <visual><map znear="0.01" zfar="50"/><quality shadowsize="0" offsamples="0"/></visual>
  <worldbody>
    <light pos="0 0 3"/>
    <camera name="wide" pos="0 0 3" {camera}/>
    <geom name="board" type="box" size="0.9 0.4 0.1" pos="0 0 0"/>
    <geom name="ball" type="sphere" size="0.2" pos="0.3 0.1 0.5"/>
    <geom name="ghost" type="box" size="0.1 0.2 0.1" pos="-0.5 0 0.6" rgba="1 0 0 0.3"/>
    <geom name="mirror" type="plane" size="0.3 0.3 0.1" pos="-0.4 -0.2 0.3" material="glass"/>
    <body name="b" pos="0.6 -0.2 0.4">
      <joint type="slide" axis="0 0 1"/><geom name="rod" type="capsule" size="0.05 0.2"/></body>
  </worldbody>
</mujoco>
""".replace("<worldbody>", '<asset><material name="glass" reflectance="0.5"/></asset><worldbody>', 1)


PERSPECTIVE = 'fovy="40"'
ORTHOGRAPHIC = 'projection="orthographic" fovy="2"'
OBLONG = 'sensorsize="0.01 0.006" focal="0.008 0.012" resolution="96 64"'


def flat(camera: str = PERSPECTIVE) -> mujoco.MjModel:
    return mujoco.MjModel.from_xml_string(FLAT.format(camera=camera))


def moving(model: mujoco.MjModel) -> mujoco.MjData:
    data = mujoco.MjData(model)
    if model.nkey:
        mujoco.mj_resetDataKeyframe(model, data, 0)
    data.qvel[:] = np.linspace(-1, 1, model.nv)
    mujoco.mj_step(model, data, 10)
    return data


def camera(source: Any, **fields: Any) -> lr.Camera:
    return lr.Camera("deep", source=source, depth_mode="depth_only", **{"width": WIDTH, "height": HEIGHT, **fields})


def ant() -> mujoco.MjModel:
    env = gym.make("Ant-v5")
    model: mujoco.MjModel = env.unwrapped.model
    env.close()
    return model


MODELS: dict[str, tuple[Callable[[], mujoco.MjModel], Any]] = {
    "pick_cube": (lambda: scene("pick_cube"), "front"),
    "wrist": (lambda: scene("pick_cube"), "wrist"),
    "joint_zoo": (lambda: scene("joint_zoo"), "overview"),
    "ant": (ant, "track"),
    "glass": (flat, "wide"),
    "orthographic": (lambda: flat(ORTHOGRAPHIC), "wide"),
    "oblong": (lambda: flat(OBLONG), "wide"),
}


@pytest.mark.parametrize("samples", [0, 4, 8])
@pytest.mark.parametrize("name", MODELS)
def test_codes_are_those_of_mujocos_renderer(name: str, samples: int) -> None:
    make, source = MODELS[name]
    model = make()
    model.vis.quality.offsamples = samples
    data = moving(model)
    deep = camera(source)
    with Film(model, data, [deep]) as film, Mirror(model, WIDTH, HEIGHT) as mirror:
        for _ in range(2):
            [picture] = film.look()
            depth, _ = film.surfaces(picture)
            picture.release()
            mirror.show(state(model, data), source)
            known = mirror.depth()
            known[mirror.background()] = 0
            np.testing.assert_array_equal(depth, known)
            np.testing.assert_array_equal(codes(depth, deep.depth_scale), mirror.codes(deep.depth_scale))
            assert len(np.unique(depth)) > 20
            mujoco.mj_step(model, data, 20)


def test_a_free_camera_measures_too() -> None:
    model = flat()
    data = moving(model)
    free = lr.FreeCamera(lookat=(0, 0, 0.2), distance=2.0, azimuth=30, elevation=-60)
    with Film(model, data, [camera(free)]) as film, Mirror(model, WIDTH, HEIGHT) as mirror:
        [picture] = film.look()
        depth, _ = film.surfaces(picture)
        mirror.show(state(model, data), free_camera(model, lookat=[0, 0, 0.2], distance=2.0, azimuth=30, elevation=-60))
        np.testing.assert_array_equal(codes(depth, 0.001), mirror.codes(0.001))


def test_metres_are_planar_and_right() -> None:
    """The board's upper side is 2.9 m below the camera, all over it: not along the rays, but along the view."""
    for kind in (PERSPECTIVE, ORTHOGRAPHIC):
        model = flat(kind)
        model.geom_rgba[:, 3] = 0
        model.geom_rgba[model.geom("board").id, 3] = 1
        with Film(model, mujoco.MjData(model), [camera("wide")]) as film:
            depth, _ = film.surfaces(film.look()[0])
        hit = depth[depth > 0]
        assert hit.size > 500, kind
        assert np.abs(hit - 2.9).max() < 1e-4, kind


def test_where_there_is_nothing_the_code_is_0() -> None:
    model = flat()
    with Film(model, moving(model), [camera("wide")]) as film:
        depth, _ = film.surfaces(film.look()[0])
    assert (depth == 0).any()
    assert codes(depth, 0.001)[depth == 0].max() == 0
    assert codes(depth, 0.001)[depth > 0].min() > 0


def test_codes_never_saturate() -> None:
    depth = np.array(
        [[0, 0.00004, 0.00005001, 0.0001, 6.5535, 6.55354, 6.55356, 6.6, 1e30, -1, np.inf, np.nan]], np.float32
    )
    assert codes(depth, 0.0001).tolist() == [[0, 0, 1, 1, 65535, 65535, 0, 0, 0, 0, 0, 0]]
    assert codes(depth, 1e-300).max() == 0


def test_far_surfaces_are_0_where_their_codes_do_not_fit() -> None:
    model = flat()
    deep = camera("wide", depth_scale=0.00004)  # up to 2.6214 m
    with Film(model, moving(model), [deep]) as film:
        depth, _ = film.surfaces(film.look()[0])
    drawn = sensor_codes(deep, View(depth, 1.0, np.random.default_rng(0)))
    fits = (depth > 0) & (np.rint(depth.astype(float) / 0.00004) <= 65535)
    assert fits.any()
    assert (depth > 2.7).any()
    assert ((drawn > 0) == fits).all()
    assert np.array_equal(drawn[fits], np.rint(depth[fits].astype(float) / 0.00004))


def test_codes_are_rounded_to_the_nearest() -> None:
    depth = np.linspace(0.001, 3, 5000, dtype=np.float32)[None]
    for scale in (0.001, 0.0003, 0.125):
        back = codes(depth, scale) * scale
        assert np.abs(back - depth).max() <= scale * 0.500001


def test_a_frustum_is_what_a_pixel_subtends() -> None:
    model = scene("pick_cube")
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    frame = mujoco.MjvScene(model, 100)

    def frustum(model: mujoco.MjModel, name: str, width: int = 96, height: int = 64) -> Frustum:
        view = mujoco.MjvCamera()
        view.type, view.fixedcamid = int(mujoco.mjtCamera.mjCAMERA_FIXED), model.camera(name).id
        data = mujoco.MjData(model)
        mujoco.mj_forward(model, data)
        mujoco.mjv_updateCamera(model, data, view, frame)
        return Frustum.of(frame, width, height)

    assert frustum(model, "front").focal == pytest.approx(32 / np.tan(np.radians(19)), rel=1e-5)
    assert frustum(flat(ORTHOGRAPHIC), "wide").focal == 0
    # 8 mm in front of a sensor 10 mm wide: 96 pixels times 0.8.
    stretched = flat(OBLONG)
    assert frustum(stretched, "wide").focal == pytest.approx(96 * 0.8, rel=1e-5)
    near, far = frustum(model, "front")[:2]
    assert (near, far) == (
        pytest.approx(model.vis.map.znear * model.stat.extent, rel=1e-6),
        pytest.approx(model.vis.map.zfar * model.stat.extent, rel=1e-6),
    )


def test_a_z_buffer_of_zeros_is_nothing() -> None:
    z = np.zeros((2, 2), np.float32)
    for is_orthographic in (False, True):
        assert not metres(z, Frustum(np.float32(0.1), np.float32(10), 1.0, is_orthographic)).any()


# In the file.


@pytest.mark.parametrize("scale", [0.001, 0.00005])
def test_the_file_holds_the_codes_that_were_drawn_bit_for_bit(record: Any, scale: float) -> None:
    """Frame by frame, against a renderer of its own that is shown the recorded state."""
    size = {"width": 64, "height": 48}
    cameras = [
        lr.Camera("front", depth_mode="rgbd", depth_scale=scale, **size),
        lr.Camera("wrist", depth_mode="depth_only", depth_scale=scale, frame_rate=25, **size),
    ]
    env = record(gym.make("LuckyRecorder/PickCube-v0"), mode="full_scene", cameras=cameras)
    expert = env.unwrapped.expert(seed=0)
    states = []
    observation, _ = env.reset(seed=3)
    for _ in range(9):
        states.append(state(env.unwrapped.model, env.unwrapped.data))
        observation, *_ = env.step(expert(observation))
    model = env.unwrapped.model
    env.close()
    episode = check_session(env.session_path).episode(0)
    front, wrist = episode.depth("front"), episode.depth("wrist")
    assert (len(front), len(wrist)) == (9, 5)
    with Mirror(model, 64, 48) as mirror:
        for k, known in enumerate(states):
            for name, frames, every in (("front", front, 1), ("wrist", wrist, 2)):
                if k % every == 0:
                    mirror.show(known, name)
                    np.testing.assert_array_equal(frames.codes[k // every], mirror.codes(scale))
    metric = front[3]
    assert metric.dtype == np.float32
    assert np.array_equal(metric, (front.codes[3] * scale).astype(np.float32))
    for frames in (front, wrist):
        frames.close()


def test_a_ramp_of_every_code_survives(record: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """All 65536 codes, through the whole recorder."""
    ramp = np.arange(65536, dtype=np.uint16).reshape(256, 256)

    frames = itertools.count()

    def drawn(camera: Any, view: Any) -> np.ndarray:
        return np.roll(ramp, next(frames), axis=0)

    monkeypatch.setattr("lucky_recorder.recorder.tracks.sensor_codes", drawn)

    env = record(
        CountEnv(3, mujoco=True), mode="robot_arm",
        cameras=[lr.Camera("wall", depth_mode="depth_only", width=256, height=256)],
    )  # fmt: skip
    env.reset()
    for _ in range(3):
        env.step([0.0])
    env.close()
    depth = lr.Session(env.session_path).episode(0).depth("wall")
    for k, frame in enumerate(depth.codes):
        assert frame.dtype == np.uint16
        np.testing.assert_array_equal(frame, np.roll(ramp, k, axis=0))
    assert len(depth) == 3
    depth.close()


PLAIN = """
<mujoco>
  <visual><quality offsamples="{samples}"/></visual>
  <asset>
    {sky}
    <material name="stuff" rgba="0.8 0.2 0.2 {alpha}" reflectance="{reflectance}"/>
  </asset>
  <worldbody>
    <light pos="0 0 3"/>
    <camera name="eye" pos="0 -2 1.2" xyaxes="1 0 0 0 0.5 1"/>
    <geom type="plane" size="3 3 .1" rgba=".7 .7 .6 1"/>
    <geom type="box" size=".2 .3 .2" pos="0 0 .2" material="stuff"/>
    <geom type="sphere" size=".2" pos=".5 .3 .2" rgba="0 0 1 1"/>
  </worldbody>
</mujoco>
"""
SKY = '<texture type="skybox" builtin="gradient" rgb1=".5 .7 .9" rgb2="1 1 1" width="32" height="32"/>'


@pytest.mark.parametrize(
    ("fields", "passes"),
    [
        ({}, 1),
        ({"alpha": 0.4}, 2),
        ({"reflectance": 0.5}, 2),
        ({"samples": 4}, 2),
        ({"sky": SKY}, 2),
    ],
    ids=["plain", "translucent", "mirror", "multisampled", "skybox"],
)
def test_depth_comes_with_the_colours_only_where_that_is_exact(
    monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any], passes: int
) -> None:
    words = {"alpha": 1, "reflectance": 0, "samples": 0, "sky": "", **fields}
    model = mujoco.MjModel.from_xml_string(PLAIN.format(**words))
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    eye = lr.Camera("eye", width=96, height=64, depth_mode="separate")
    position = lr.Column("origin", "xpos:world", shape=(3,))
    drawn: list[Any] = []
    render = mujoco.mjr_render
    with Film(model, data, [eye], mode="custom", columns=[position]) as film:
        monkeypatch.setattr(mujoco, "mjr_render", lambda *args: (drawn.append(args), render(*args))[1])
        [picture] = film.look()
        film.in_worker(film.source.renderer.color, picture)
        seen = film.surfaces(picture)[0]
        picture.release()
    assert len(drawn) == passes
    mirror = Mirror(model, 96, 64)
    mirror.show(state(model, data), "eye")
    np.testing.assert_array_equal(codes(seen, 0.001), mirror.codes(0.001))
    mirror.close()
