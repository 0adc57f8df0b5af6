"""Snapshots: what the cameras see at one tick, taken in the caller's thread and drawn elsewhere."""

from __future__ import annotations

import queue
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lucky_recorder.capture.draw.masks import Labels
from lucky_recorder.capture.mujoco import names
from lucky_recorder.capture.mujoco.simulation import Simulation
from lucky_recorder.errors import SettingsError, StreamError, WorkerStalledError
from lucky_recorder.settings.camera import Camera, FreeCamera

if TYPE_CHECKING:
    import mujoco

MOST_SCENES = 16
_SPARE_GEOMS = 1000


class Picture(NamedTuple):
    """One camera's view at one tick: a scene still to be drawn, or pixels that are there already.

    Attributes:
        camera: Index of the camera among those recorded.
        scene: The scene, with its camera in it.
        pixels: uint8, shape ``(height, width, 3)``, top row first.
        pool: Where the scene goes back to.
        labels: What its mask stream labels.
    """

    camera: int
    scene: mujoco.MjvScene | None = None
    pixels: NDArray[np.uint8] | None = None
    pool: ScenePool | None = None
    labels: Labels | None = None

    def release(self) -> None:
        """Give the scene back."""
        if self.pool is not None:
            self.pool.give_back(self.scene)


class Ping(NamedTuple):
    """The state that one lidar is to scan.

    Attributes:
        lidar: Index of the lidar among those recorded.
        state: The full integration state, float64.
    """

    lidar: int
    state: NDArray[np.float64]

    def release(self) -> None:
        """Nothing to give back."""


Sight = Picture | Ping


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


Look = Callable[[], Sight]


class Eye(NamedTuple):
    """One recorded camera or lidar: at which ticks it looks, and how."""

    every: int
    look: Look


class Rig:
    """The recorded cameras and lidars of one simulation."""

    def __init__(self, eyes: Sequence[Eye]) -> None:
        self._eyes = tuple(eyes)

    def snapshot(self, tick: int) -> list[Sight]:
        """Look through everything that is due at a tick."""
        return [eye.look() for eye in self._eyes if tick % eye.every == 0]


def through_model(simulation: Simulation, camera: Camera, index: int, pool: ScenePool, labels: Labels | None) -> Look:
    """Make the look of a model's camera, or of a free one.

    Raises:
        SettingsError: If the model has no such camera.
    """
    import mujoco

    view = view_of(simulation.model, camera)
    option = mujoco.MjvOption()
    everything = int(mujoco.mjtCatBit.mjCAT_ALL)
    model, data = simulation.model, simulation.look
    aim, update = mujoco.mjv_updateCamera, mujoco.mjv_updateScene

    def fill(scene: mujoco.MjvScene) -> None:
        # Infinite planes are laid out around the camera a scene already has: without this it would be the last user's.
        aim(model, data, view, scene)
        update(model, data, option, None, view, everything, scene)

    def look() -> Picture:
        scene = pool.take()
        fill(scene)
        while scene.ngeom >= scene.maxgeom:
            scene = pool.larger(scene)
            fill(scene)
        return Picture(index, scene, pool=pool, labels=labels)

    return look


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


def through_state(simulation: Simulation, index: int) -> Look:
    """Make the look of a lidar: it takes the state along, to be scanned elsewhere."""
    import mujoco

    everything = int(mujoco.mjtState.mjSTATE_INTEGRATION)
    model, data = simulation.model, simulation.data
    size = int(mujoco.mj_stateSize(model, everything))

    def look() -> Ping:
        state = np.empty(size)
        mujoco.mj_getState(model, data, state, everything)
        return Ping(index, state)

    return look


def through_render(render: Callable[[], Any], camera: Camera, index: int) -> Look:
    """Make the look of the environment's own ``render()``, drawn in the caller's thread."""

    def look() -> Picture:
        return Picture(index, pixels=rendered(render, camera))

    return look


def rendered(render: Callable[[], Any], camera: Camera) -> NDArray[np.uint8]:
    """Return a copy of what ``env.render()`` gives.

    Raises:
        StreamError: If it raises, or gives no picture of the camera's size.
    """
    try:
        picture = render()
    except Exception as error:  # an environment may raise anything
        raise StreamError(f"camera {camera.name!r}: env.render() failed: {type(error).__name__}: {error}") from error
    if isinstance(picture, list):
        raise StreamError(f"camera {camera.name!r}: env.render() gives a list of frames; use render_mode='rgb_array'")
    pixels = np.asarray(picture)
    expected = (camera.height, camera.width, 3)
    if pixels.dtype != np.uint8 or pixels.shape != expected:
        size = f"; set width={pixels.shape[1]}, height={pixels.shape[0]}" if pixels.ndim == 3 else ""
        raise StreamError(
            f"camera {camera.name!r}: env.render() gives {pixels.dtype} {pixels.shape}, expected uint8 {expected}{size}"
        )
    return pixels.copy()
