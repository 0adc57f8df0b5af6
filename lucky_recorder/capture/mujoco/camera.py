"""Cameras: a recorded camera as a view of MuJoCo's, and its focal length."""

from __future__ import annotations

import mujoco

from lucky_recorder.capture.depth import Frustum
from lucky_recorder.capture.mujoco import names
from lucky_recorder.capture.mujoco.simulation import kinematics
from lucky_recorder.errors import SettingsError
from lucky_recorder.settings.camera import Camera, FreeCamera


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


def focal_of(model: mujoco.MjModel, camera: Camera) -> float:
    """Return a camera's horizontal focal length in pixels as it is now; 0 for parallel rays."""
    scene, data = mujoco.MjvScene(model, 1), mujoco.MjData(model)
    for stage in kinematics(model):  # and not mj_forward, which calls callbacks of the user's
        stage(model, data)
    mujoco.mjv_updateCamera(model, data, view_of(model, camera), scene)
    return Frustum.of(scene, camera.width, camera.height).focal
