"""Calibration: a known point, projected as info.json and the pose column say, is where the picture has it."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest

import lucky_recorder as lr
from lucky_recorder.capture.source import open_source
from lucky_recorder.testing import check_session
from tests.capture.drawing import Film
from tests.capture.models import source_of

BALL = np.array([0.25, 0.1, 1.2])
# White on black, and nothing but the ball's own light: where it is bright, there is the ball.
SCENE = """
<mujoco><visual><headlight ambient="1 1 1" diffuse="0 0 0" specular="0 0 0"/></visual><worldbody>
  <camera name="plain" pos="0.1 -2 1.4" xyaxes="1 0 0 0 .1 1" fovy="50"/>
  <camera name="rolled" pos="1.5 -1.2 1.9" xyaxes=".6 .6 .5 -.5 0 .6" fovy="70"/>
  <camera name="measured" pos="0.1 -2 1.4" xyaxes="1 0 0 0 .1 1" resolution="640 480" sensorsize="0.00576 0.00432"
    focal="0.005 0.006" principal="0.0004 0.0003"/>
  <camera name="flat" pos="0 -2 1.1" xyaxes="1 .1 0 0 0 1" projection="orthographic" fovy="1.5"/>
  <body name="arm" pos="0.2 -2 1"><joint name="turn" axis="0 .3 1"/><geom size=".02" pos=".3 0 0" rgba="0 0 0 1"/>
    <camera name="wrist" pos="0.1 0.05 0.2" euler="85 5 2" fovy="60"/>
    <camera name="follows" mode="targetbody" target="ball" pos="0.3 0 0.3"/>
    <camera name="tracks" mode="trackcom" pos="0.3 0 0.3" euler="80 0 0" fovy="60"/></body>
  <body name="ball" pos="0.25 0.1 1.2"><geom size=".05" rgba="1 1 1 1" mass="0.1"/></body>
</worldbody></mujoco>"""
SIZES = [(128, 96), (96, 128), (160, 64)]
CAMERAS: dict[str, Any] = {
    "plain": "plain",
    "rolled": "rolled",
    "measured": "measured",
    "flat": "flat",
    "wrist": "wrist",
    "follows": "follows",
    "tracks": "tracks",
    "free": lr.FreeCamera(lookat=(0.1, 0.2, 1), distance=1.8, azimuth=70, elevation=-20),
}


def moving() -> tuple[mujoco.MjModel, mujoco.MjData]:
    model = mujoco.MjModel.from_xml_string(SCENE)
    data = mujoco.MjData(model)
    data.qvel[0] = 1.5
    return model, data


def record(tmp_path: Path, cameras: list[lr.Camera], ticks: int = 4, **settings: Any) -> lr.Session:
    model, data = moving()
    fields: dict[str, Any] = {"mode": "full_scene", "data_hz": 50, **settings}
    observer = lr.Observer(output_dir=tmp_path, model=model, data=data, cameras=cameras, **fields)
    observer.start_recording()
    for _ in range(ticks):
        observer.tick()
        mujoco.mj_step(model, data, 10)
    observer.end_current_episode(success=True)
    observer.stop_recording()
    assert observer.session_path is not None
    return check_session(observer.session_path)


def rotation(quaternion: Any) -> np.ndarray:
    matrix = np.empty(9)
    mujoco.mju_quat2Mat(matrix, np.asarray(quaternion, float))
    return matrix.reshape(3, 3)


def projected(intrinsics: dict[str, Any], position: Any, orientation: Any) -> np.ndarray:
    """The formula of the documentation."""
    x, y, z = rotation(orientation).T @ (BALL - np.asarray(position))
    (fx, _, cx), (_, fy, cy), _ = intrinsics["matrix"]
    if intrinsics["projection"] == "orthographic":
        return np.array([fx * x + cx, fy * y + cy])
    return np.array([fx * x / z + cx, fy * y / z + cy])


def seen(picture: np.ndarray) -> np.ndarray:
    """Where the ball is in a picture: the centre of its light, u and v."""
    light = picture.astype(float).mean(axis=2)
    light[light < 40] = 0
    assert light.sum() > 255 * 4, "the ball is not in the picture"
    v, u = np.indices(light.shape)
    return np.array([(u * light).sum(), (v * light).sum()]) / light.sum()


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_a_known_point_is_where_the_calibration_says(tmp_path: Path, width: int, height: int) -> None:
    cameras = [lr.Camera(n, source=s, width=width, height=height, record_pose=True) for n, s in CAMERAS.items()]
    session = record(tmp_path, cameras)
    episode = session.episode(0)
    moved = set()
    for name in CAMERAS:
        info = session.features[f"observation.images.{name}"]["info"]
        assert (info["intrinsics"]["width"], info["intrinsics"]["height"]) == (width, height)
        frames, poses = episode.frames(name), np.array(episode.rows()[f"observation.camera_pose.{name}"].to_pylist())
        for row, pose in enumerate(poses):
            point = projected(info["intrinsics"], pose[:3], pose[3:])
            assert np.abs(point - seen(frames[row])).max() < 0.25, (name, row)
        said = info["extrinsics"]
        if np.abs(poses[-1] - poses[0]).max() > 0.01:
            moved.add(name)
            assert not {"position", "orientation"} & set(said)
            stale = projected(info["intrinsics"], poses[0, :3], poses[0, 3:])
            assert np.abs(stale - seen(frames[len(poses) - 1])).max() > 1 or name != "wrist"
        else:
            assert [*said["position"], *said["orientation"]] == poses[0].tolist()
    assert moved == {"wrist", "follows", "tracks"}


def test_what_info_says_of_a_camera(tmp_path: Path) -> None:
    names = ["plain", "flat", "wrist", "tracks"]
    cameras = [lr.Camera(name, width=64, height=48, depth_mode="separate") for name in names]
    cameras.append(lr.Camera("free", source=lr.FreeCamera(), width=64, height=48))
    session = record(tmp_path, cameras, 1)
    info = {name: session.features[f"observation.images.{name}"]["info"] for name in [*names, "free"]}
    for name in names:
        depth = session.features[f"observation.images.{name}_depth"]["info"]
        assert all(depth[key] == info[name][key] for key in ("intrinsics", "extrinsics"))
    plain = info["plain"]["intrinsics"]
    focal = 24 / np.tan(np.radians(25))
    np.testing.assert_allclose(plain["matrix"], [[focal, 0, 31.5], [0, focal, 23.5], [0, 0, 1]], rtol=1e-6)
    assert (plain["projection"], plain["fovy_deg"]) == ("perspective", pytest.approx(50, abs=1e-4))
    flat = info["flat"]["intrinsics"]
    assert (flat["projection"], flat["height_m"]) == ("orthographic", pytest.approx(1.5))
    np.testing.assert_allclose(flat["matrix"], [[32, 0, 31.5], [0, 32, 23.5], [0, 0, 1]], rtol=1e-6)
    mounts = {name: (one["extrinsics"]["mode"], one["extrinsics"].get("body")) for name, one in info.items()}
    assert mounts == {
        "plain": ("fixed", "world"), "flat": ("fixed", "world"), "wrist": ("fixed", "arm"),
        "tracks": ("trackcom", "arm"), "free": ("free", None),
    }  # fmt: skip
    model, data = moving()
    mujoco.mj_forward(model, data)
    for name in ("plain", "wrist"):
        said, index = info[name]["extrinsics"], model.camera(name).id
        body = int(model.cam_bodyid[index])
        turn = data.xmat[body].reshape(3, 3)
        position = data.xpos[body] + turn @ said["position_in_body"]
        np.testing.assert_allclose(position, data.cam_xpos[index], atol=1e-12)
        axes = data.cam_xmat[index].reshape(3, 3) * [1, -1, -1]
        np.testing.assert_allclose(turn @ rotation(said["orientation_in_body"]), axes, atol=1e-12)
    assert info["plain"]["extrinsics"]["position"] == data.cam_xpos[model.camera("plain").id].tolist()
    assert all("position_in_body" not in info[name]["extrinsics"] for name in ("tracks", "free"))


@pytest.mark.parametrize(
    ("body", "stands_still"),
    [
        ("<body>{}</body>", True),
        ("<body><body>{}</body></body>", True),
        ('<body><joint type="slide"/>{}</body>', False),
        ('<body><joint type="slide"/><body>{}</body></body>', False),
        ('<body mocap="true">{}</body>', False),
        ('<body mocap="true"><body>{}</body></body>', False),
    ],
)
def test_only_of_what_stands_still_info_has_a_pose(body: str, stands_still: bool) -> None:
    inside = body.format('<geom size=".1"/><camera name="seen"/>')
    model = mujoco.MjModel.from_xml_string(
        f"<mujoco><worldbody>{inside}<body><joint/><geom size='.1'/></body></worldbody></mujoco>"
    )
    [stream] = source_of(model, "full_scene", cameras=[lr.Camera("seen")]).schema.streams
    assert ("position" in stream.calibration["extrinsics"]) is stands_still
    assert "position_in_body" in stream.calibration["extrinsics"]


def test_the_pose_is_that_of_the_state_that_the_row_shows(tmp_path: Path) -> None:
    """Also where the camera films more slowly: every row has the pose of its own state, and OpenCV's axes."""
    camera = lr.Camera("wrist", width=64, height=48, frame_rate=25, record_pose=True)
    session = record(tmp_path, [camera], 5)
    rows = session.episode(0).rows()
    poses, states = (np.array(rows[key].to_pylist()) for key in ("observation.camera_pose.wrist", "observation.state"))
    model, data = moving()
    for pose, state in zip(poses, states, strict=True):
        data.qpos[:] = state
        mujoco.mj_forward(model, data)
        index = model.camera("wrist").id
        np.testing.assert_allclose(pose[:3], data.cam_xpos[index], atol=1e-14)
        axes = data.cam_xmat[index].reshape(3, 3) * [1, -1, -1]
        np.testing.assert_allclose(rotation(pose[3:]), axes, atol=1e-12)
    feature = session.features["observation.camera_pose.wrist"]
    assert (feature["names"], feature["unit"]) == (
        ["x", "y", "z", "qw", "qx", "qy", "qz"],
        "m, quaternion w x y z",
    )
    assert len(session.episode(0).frames("wrist")) == 3


@pytest.mark.parametrize(("azimuth", "elevation"), list(itertools.product((0, 33, 90, 200), (-90, -45, 0, 80))))
def test_a_free_cameras_pose_is_that_of_the_scene(azimuth: float, elevation: float) -> None:
    model, data = moving()
    free = lr.FreeCamera(lookat=(0.3, -0.2, 0.7), distance=1.3, azimuth=azimuth, elevation=elevation)
    source = source_of(model, "full_scene", data, cameras=[lr.Camera("free", source=free, record_pose=True)])
    [pose] = [c for c in source.columns if c.field.name == "observation.camera_pose.free"]
    value = np.asarray(pose.channel.read(source.moment))  # type: ignore[misc]
    scene, view = mujoco.MjvScene(model, 10), mujoco.MjvCamera()
    view.lookat[:], view.distance, view.azimuth, view.elevation = free.lookat, free.distance, azimuth, elevation
    mujoco.mjv_updateCamera(model, data, view, scene)
    drawn = scene.camera
    np.testing.assert_allclose(value[:3], (drawn[0].pos + drawn[1].pos) / 2, atol=1e-6)
    np.testing.assert_allclose(rotation(value[3:])[:, 2], drawn[0].forward, atol=1e-6)
    np.testing.assert_allclose(rotation(value[3:])[:, 1], -drawn[0].up, atol=1e-6)


def test_another_model_with_its_camera_elsewhere_is_the_same_recording() -> None:
    model, data = moving()
    source = source_of(model, "full_scene", data, cameras=[lr.Camera("plain", record_pose=True)])
    other = mujoco.MjModel.from_xml_string(SCENE.replace('pos="0.1 -2 1.4"', 'pos="0.2 -2.2 1.5"'))
    assert source.rebind(other, mujoco.MjData(other))
    source.refresh()
    assert source.present()["observation.camera_pose.plain"][:3].tolist() == [0.2, -2.2, 1.5]


def test_intrinsics_that_change_are_told_once(caplog: pytest.LogCaptureFixture) -> None:
    model, data = moving()
    with Film(model, data, [lr.Camera("plain", width=64, height=48)]) as film:
        film.frame()
        assert not caplog.records
        for fovy in (40.0, 30.0):
            model.cam_fovy[model.camera("plain").id] = fovy
            film.frame()
    [record] = caplog.records
    assert "camera 'plain': it projects otherwise than when the session began" in record.getMessage()


def test_no_calibration_of_pictures_that_the_environment_draws() -> None:
    model, data = moving()
    camera = lr.Camera("seen", source="render", width=64, height=48)
    settings = lr.RecorderSettings(mode="full_scene", data_hz=50, cameras=[camera])
    source = open_source(settings, model, data, render=lambda: np.zeros((48, 64, 3), np.uint8))
    assert [stream.calibration for stream in source.schema.streams] == [{}]


def test_a_pose_without_rows_is_refused_and_its_name_is_taken() -> None:
    camera = lr.Camera("plain", record_pose=True)
    with pytest.raises(lr.SettingsError, match="camera 'plain': record_pose=True: a pose stands in the rows"):
        lr.RecorderSettings(record_data=False, cameras=[camera])
    off = lr.Camera("plain", record_pose=True, enabled=False)
    assert lr.RecorderSettings(record_data=False, cameras=[off, lr.Camera("x")]).posed_cameras == ()
    column = lr.Column("observation.camera_pose.plain", "sensor:x")
    lr.RecorderSettings(columns=[column])
    with pytest.raises(lr.SettingsError, match=r"columns='observation.camera_pose.plain': stands twice"):
        lr.RecorderSettings(columns=[column], cameras=[camera])
