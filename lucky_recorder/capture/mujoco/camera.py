"""Cameras: a recorded camera as a view of MuJoCo's, its pose and its calibration."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from lucky_recorder.capture.depth import Frustum
from lucky_recorder.capture.intrinsics import AXES, Intrinsics
from lucky_recorder.capture.mujoco import names
from lucky_recorder.capture.mujoco.simulation import Simulation
from lucky_recorder.capture.sync import Sync
from lucky_recorder.errors import SettingsError
from lucky_recorder.settings.camera import Camera, FreeCamera

Floats = NDArray[np.float64]
# Half a turn about x: from MuJoCo's axes of a camera (x right, y up, looking along -z) to those of OpenCV.
_HALF_TURN = np.array([0.0, 1.0, 0.0, 0.0])


def view_of(model: mujoco.MjModel, camera: Camera) -> mujoco.MjvCamera:
    """Return a camera of the model, or a free one.

    Raises:
        SettingsError: If the model has no such camera.
    """
    view = mujoco.MjvCamera()
    if isinstance(camera.source, FreeCamera):
        return _free_view(model, camera.source, view)
    view.type = int(mujoco.mjtCamera.mjCAMERA_FIXED)
    view.fixedcamid = _camera_id(model, camera)
    return view


def _free_view(model: mujoco.MjModel, free: FreeCamera, view: mujoco.MjvCamera) -> mujoco.MjvCamera:
    mujoco.mjv_defaultFreeCamera(model, view)
    if free.lookat is not None:
        view.lookat[:] = free.lookat
    if free.distance is not None:
        view.distance = free.distance
    view.azimuth, view.elevation = free.azimuth, free.elevation
    return view


def _camera_id(model: mujoco.MjModel, camera: Camera) -> int:
    source = camera.name if camera.source is None else camera.source
    field = f"camera {camera.name!r}: source"
    if isinstance(source, int):
        if source >= model.ncam:
            raise SettingsError.of(field, source, f"the model has {model.ncam} cameras, ids from 0")
        return source
    return names.id_of(model, "camera", str(source), field)


def pose_reader(simulation: Simulation, camera: Camera) -> Callable[[], Floats]:
    """Return a function that gives a camera's pose in the private data, as it is when it is called.

    The pose places the camera in the world: position in metres, then orientation as a quaternion w x y z that turns
    the camera's axes, x right, y down, z forward, into the world's; float64, shape ``(7,)``.

    Raises:
        SettingsError: If the model has no such camera.
    """
    view = view_of(simulation.model, camera)
    if isinstance(camera.source, FreeCamera):
        constant = _pose(*_free_frame(view))
        return lambda: constant
    position, matrix = simulation.private.cam_xpos[view.fixedcamid], simulation.private.cam_xmat[view.fixedcamid]
    return lambda: _pose(position, matrix)


def _free_frame(view: mujoco.MjvCamera) -> tuple[Floats, Floats]:
    """Return position and axes of a free camera, axes in the columns, as MuJoCo's cameras have them."""
    azimuth, elevation = np.radians([view.azimuth, view.elevation])
    flat = np.array([np.cos(azimuth), np.sin(azimuth), 0.0])
    forward = np.cos(elevation) * flat + [0, 0, np.sin(elevation)]
    up = -np.sin(elevation) * flat + [0, 0, np.cos(elevation)]
    axes = np.stack([np.cross(forward, up), up, -forward], axis=1)
    return np.array(view.lookat) - view.distance * forward, axes.reshape(-1)


def _pose(position: Floats, matrix: Floats) -> Floats:
    orientation = np.empty(4)
    mujoco.mju_mat2Quat(orientation, matrix)
    return np.concatenate([position, _of_opencv(orientation)])


def _of_opencv(orientation: Floats) -> Floats:
    """Turn the orientation of MuJoCo's axes of a camera into that of OpenCV's."""
    turned = np.empty(4)
    mujoco.mju_mulQuat(turned, orientation, _HALF_TURN)
    # Of the two quaternions that are the same orientation, the one that does not begin with a minus.
    return -turned if turned[0] < 0 else turned


def focal_of(simulation: Simulation, camera: Camera) -> float:
    """Return a camera's horizontal focal length in pixels as it is now; 0 for parallel rays."""
    return Frustum.of(_aimed(simulation, camera), camera.width, camera.height).focal


def _aimed(simulation: Simulation, camera: Camera) -> mujoco.MjvScene:
    """Return a scene that holds nothing but a camera, as it is now."""
    # No more than kinematics: what computes forces would run the user's callbacks.
    simulation.sync(Sync.KINEMATICS)
    scene = mujoco.MjvScene(simulation.model, 1)
    mujoco.mjv_updateCamera(simulation.model, simulation.private, view_of(simulation.model, camera), scene)
    return scene


def calibration_of(simulation: Simulation, camera: Camera) -> dict[str, Any]:
    """Return what ``info`` says of a camera's projection and place, in the present state."""
    intrinsics = Intrinsics.of(_aimed(simulation, camera), camera.width, camera.height)
    extrinsics = {
        "convention": "metres; quaternion w x y z that turns the camera's axes into the world's, or the body's; "
        f"the camera's axes: {AXES}",
        **_mount(simulation.model, camera),
    }
    # Where a camera that moves happened to be is no calibration, and sessions of one set-up should say the same.
    if _stands_still(simulation.model, camera):
        pose = pose_reader(simulation, camera)()
        extrinsics |= {"position": pose[:3].tolist(), "orientation": pose[3:].tolist()}
    return {"intrinsics": intrinsics.described(camera.width, camera.height), "extrinsics": extrinsics}


def _stands_still(model: mujoco.MjModel, camera: Camera) -> bool:
    """Tell whether nothing in a simulation moves a camera."""
    if isinstance(camera.source, FreeCamera):
        return True
    index = _camera_id(model, camera)
    if int(model.cam_mode[index]) != int(mujoco.mjtCamLight.mjCAMLIGHT_FIXED):
        return False
    body = int(model.cam_bodyid[index])
    # A mocap body has no joints either, and is moved all the same.
    return int(model.body_weldid[body]) == 0 and int(model.body_mocapid[model.body_rootid[body]]) < 0


def _mount(model: mujoco.MjModel, camera: Camera) -> dict[str, Any]:
    """Return what a camera is mounted on, and where on it if it keeps its place there."""
    if isinstance(camera.source, FreeCamera):
        return {"mode": "free"}
    index = _camera_id(model, camera)
    mode = mujoco.mjtCamLight(int(model.cam_mode[index])).name.removeprefix("mjCAMLIGHT_").lower()
    mount = {"mode": mode, "body": names.name_of(model, "body", int(model.cam_bodyid[index]))}
    if mode != "fixed":
        return mount
    orientation = _of_opencv(model.cam_quat[index])
    return {
        **mount,
        "position_in_body": model.cam_pos[index].tolist(),
        "orientation_in_body": orientation.tolist(),
    }
