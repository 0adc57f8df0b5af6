"""Snapshots: what the cameras see at one tick, taken in the caller's thread and drawn elsewhere."""

from __future__ import annotations

import queue
from typing import TYPE_CHECKING

import numpy as np

from lucky_recorder.capture.mujoco import names
from lucky_recorder.capture.mujoco.simulation import Simulation
from lucky_recorder.capture.schedule import Capture
from lucky_recorder.capture.snapshot import Labelling, ScanSnapshot, SceneSnapshot
from lucky_recorder.episode.keys import MOST_SCENES
from lucky_recorder.errors import SettingsError, WorkerStalledError
from lucky_recorder.settings.bindings import Camera, FreeCamera

if TYPE_CHECKING:
    import mujoco

_SPARE_GEOMS = 1000


class ScenePool:
    """At most `MOST_SCENES` scenes in flight. Taking one waits until the worker has given one back."""

    def __init__(self, model: mujoco.MjModel, cameras: int, timeout_s: float) -> None:
        self._model = model
        self._timeout = timeout_s
        self._free: queue.SimpleQueue[mujoco.MjvScene] = queue.SimpleQueue()
        self._unborn = max(MOST_SCENES, cameras)
        things = model.ngeom + model.nsite + model.nbody + model.njnt + model.nwrap + model.nflex + model.nskin
        # A slack tendon hangs in as many pieces as a cylinder has sides.
        self._geoms = things + model.vis.quality.numslices * model.ntendon + _SPARE_GEOMS

    def take(self) -> mujoco.MjvScene:
        """Take a free scene.

        Raises:
            WorkerStalledError: If none came back within the worker's time.
        """
        import mujoco

        try:
            return self._free.get_nowait()
        except queue.Empty:
            if self._unborn:
                self._unborn -= 1
                return mujoco.MjvScene(self._model, self._geoms)
        try:
            return self._free.get(timeout=self._timeout)
        except queue.Empty:
            raise WorkerStalledError(f"no picture was drawn within worker_timeout_s={self._timeout:g} s") from None

    def give_back(self, scene: mujoco.MjvScene) -> None:
        """Give a drawn scene back."""
        self._free.put(scene)

    def larger(self, full: mujoco.MjvScene) -> mujoco.MjvScene:
        """Return a scene with room for twice the geoms of a full one; it takes that one's place."""
        import mujoco

        self._geoms = max(self._geoms, 2 * full.maxgeom)
        return mujoco.MjvScene(self._model, self._geoms)


def capture_camera(
    simulation: Simulation, camera: Camera, index: int, pool: ScenePool, labels: Labelling | None
) -> Capture:
    """Return the capture of a model's camera, or of a free one.

    Raises:
        SettingsError: If the model has no such camera.
    """
    import mujoco

    view = view_of(simulation.model, camera)
    option = mujoco.MjvOption()
    everything = int(mujoco.mjtCatBit.mjCAT_ALL)
    model, data = simulation.model, simulation.private
    aim, update = mujoco.mjv_updateCamera, mujoco.mjv_updateScene

    def fill(scene: mujoco.MjvScene) -> None:
        # Infinite planes are laid out around the camera a scene already has: without this it would be the last user's.
        aim(model, data, view, scene)
        update(model, data, option, None, view, everything, scene)

    def capture() -> SceneSnapshot:
        scene = pool.take()
        fill(scene)
        while scene.ngeom >= scene.maxgeom:
            scene = pool.larger(scene)
            fill(scene)
        return SceneSnapshot(index, scene, pool=pool, labels=labels)

    return capture


def view_of(model: mujoco.MjModel, camera: Camera) -> mujoco.MjvCamera:
    """Return a camera of the model, or a free one, as MuJoCo's own views have it.

    Raises:
        SettingsError: If the model has no such camera.
    """
    import mujoco

    view = mujoco.MjvCamera()
    if isinstance(camera.source, FreeCamera):
        return _free_view(model, camera.source, view)
    view.type = int(mujoco.mjtCamera.mjCAMERA_FIXED)
    view.fixedcamid = _camera_id(model, camera)
    return view


def _free_view(model: mujoco.MjModel, free: FreeCamera, view: mujoco.MjvCamera) -> mujoco.MjvCamera:
    import mujoco

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


def capture_state(simulation: Simulation, index: int) -> Capture:
    """Return the capture of a lidar: it takes the state along, to be scanned elsewhere."""
    import mujoco

    everything = int(mujoco.mjtState.mjSTATE_INTEGRATION)
    model, data = simulation.model, simulation.data
    size = int(mujoco.mj_stateSize(model, everything))

    def capture() -> ScanSnapshot:
        state = np.empty(size)
        mujoco.mj_getState(model, data, state, everything)
        return ScanSnapshot(index, state)

    return capture
