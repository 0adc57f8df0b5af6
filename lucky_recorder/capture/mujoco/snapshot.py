"""Captures: what takes the snapshots of a model's cameras and lidars, in the caller's thread.

Drawing and scanning is the worker's; all it gets is a scene or a state.
"""

from __future__ import annotations

import queue
import weakref

import mujoco
import numpy as np
from numpy.typing import NDArray

from lucky_recorder.capture.mujoco.camera import view_of
from lucky_recorder.capture.mujoco.simulation import Simulation
from lucky_recorder.capture.schedule import Capture
from lucky_recorder.capture.snapshot import Labelling, ScanSnapshot, SceneSnapshot
from lucky_recorder.episode.keys import MOST_SCENES
from lucky_recorder.errors import SettingsError, WorkerStalledError
from lucky_recorder.settings.camera import Camera
from lucky_recorder.settings.visual import RND_FLAGS, VIS_FLAGS

_SPARE_GEOMS = 1000


def scene_sizes(model: mujoco.MjModel) -> tuple[int, ...]:
    """Return what a scene is made after: models for which this is the same can be drawn from each other's scenes."""
    if model.nflex or model.nskin:
        # Of what is soft a scene holds copies of the model's own arrays.
        return (id(model),)
    return (model.ngeom, model.nsite, model.nbody, model.njnt, model.nwrap, model.ntendon, model.vis.quality.numslices)


class ScenePool:
    """At most `MOST_SCENES` scenes in flight. Taking one waits until the worker has given one back.

    Scenes are used again because making one is slow. Lanes whose models have the same sizes share a pool, and each may
    hold those of a tick until its step is over: that many there are at least, so that none waits for another lane.

    An interrupt may lose one between any two lines. So scenes are not counted: another is made for each that is gone.
    Where two threads step lanes at once, a few more may be made than are allowed.

    Attributes:
        has_flags: Whether some camera draws with other flags than a new scene has.

    Args:
        model: The model that scenes are made after.
        cameras: How many scenes may wait for steps.
        timeout_s: How long one is waited for.
    """

    def __init__(self, model: mujoco.MjModel, cameras: int, timeout_s: float) -> None:
        self._model = model
        self.has_flags = False
        self._timeout = timeout_s
        self._free: queue.SimpleQueue[mujoco.MjvScene] = queue.SimpleQueue()
        # One tick takes as many as there are cameras, and the worker gets none of them before the tick is complete.
        self._most = max(MOST_SCENES, cameras)
        self._made: list[weakref.ref[mujoco.MjvScene]] = []
        things = model.ngeom + model.nsite + model.nbody + model.njnt + model.nwrap + model.nflex + model.nskin
        # A slack tendon is drawn in as many pieces as a cylinder has sides.
        self._geoms = things + model.vis.quality.numslices * model.ntendon + _SPARE_GEOMS

    def widen(self, cameras: int) -> None:
        """Let so many scenes wait for steps, at least."""
        self._most = max(self._most, cameras)

    def borrow(self) -> mujoco.MjvScene:
        """Take a free scene.

        Raises:
            WorkerStalledError: If none came back within the worker's time.
        """
        try:
            return self._free.get_nowait()
        except queue.Empty:
            return self._another()

    def _another(self) -> mujoco.MjvScene:
        """Return a new scene, or wait for one where there are as many as there may be."""
        self._made = [made for made in self._made if made() is not None]
        if len(self._made) < self._most:
            return self._make()
        try:
            return self._free.get(timeout=self._timeout)
        except queue.Empty:
            raise WorkerStalledError(f"no picture was drawn within worker_timeout_s={self._timeout:g} s") from None

    def _make(self) -> mujoco.MjvScene:
        scene = mujoco.MjvScene(self._model, self._geoms)
        self._made.append(weakref.ref(scene))
        return scene

    def give_back(self, scene: mujoco.MjvScene) -> None:
        """Give a drawn scene back."""
        self._free.put(scene)

    def larger(self, full: mujoco.MjvScene) -> mujoco.MjvScene:
        """Return a scene with room for twice the geoms of a full one; it takes that one's place."""
        self._geoms = max(self._geoms, 2 * full.maxgeom)
        return self._make()


def capture_camera(
    simulation: Simulation, camera: Camera, index: int, pool: ScenePool, labels: Labelling | None
) -> Capture:
    """Return the capture of a model's camera, or of a free one.

    Raises:
        SettingsError: If the model has no such camera.
    """
    view = view_of(simulation.model, camera)
    option, rendering = _option_of(camera), _rendering_of(camera)
    pool.has_flags |= bool((rendering != mujoco.MjvScene().flags).any())
    everything = int(mujoco.mjtCatBit.mjCAT_ALL)
    model, data = simulation.model, simulation.private
    aim, update = mujoco.mjv_updateCamera, mujoco.mjv_updateScene

    def fill(scene: mujoco.MjvScene) -> None:
        # MuJoCo lays out an infinite plane as a large one around the camera that the scene holds when it is updated. A
        # scene from the pool still holds the camera of its last use: without `aim`, that would change the picture.
        aim(model, data, view, scene)
        update(model, data, option, None, view, everything, scene)
        # Each time: another camera's flags may have been in this scene before.
        if pool.has_flags:
            scene.flags[:] = rendering

    def capture() -> SceneSnapshot:
        scene = pool.borrow()
        fill(scene)
        # A full scene may lack some geoms, and MuJoCo raises nothing. How many a state needs is not known before.
        while scene.ngeom >= scene.maxgeom:
            scene = pool.larger(scene)
            fill(scene)
        return SceneSnapshot(index, scene, pool=pool, labels=labels)

    return capture


def hidden_kinds(camera: Camera) -> frozenset[str]:
    """Return what is soft and never seen by a camera, by its flags: ``flex``, ``skin``, both or none."""
    what, flags = mujoco.mjtVisFlag, _option_of(camera).flags
    # Each of a flex's flags draws it in a way of its own.
    shown_by = {
        "flex": (what.mjVIS_FLEXVERT, what.mjVIS_FLEXEDGE, what.mjVIS_FLEXFACE, what.mjVIS_FLEXSKIN),
        "skin": (what.mjVIS_SKIN,),
    }
    return frozenset(kind for kind, ways in shown_by.items() if not any(flags[int(way)] for way in ways))


def _option_of(camera: Camera) -> mujoco.MjvOption:
    option = mujoco.MjvOption()
    for shown, groups in ((option.geomgroup, camera.geom_groups), (option.sitegroup, camera.site_groups)):
        if groups is not None:
            shown[:] = [group in groups for group in range(len(shown))]
    for name, is_on in camera.flags:
        if name in VIS_FLAGS:
            option.flags[_flag(camera, "mjtVisFlag.mjVIS", name)] = is_on
    return option


def _rendering_of(camera: Camera) -> NDArray[np.uint8]:
    # What MuJoCo sets in a new scene.
    flags: NDArray[np.uint8] = mujoco.MjvScene().flags.copy()
    for name, is_on in camera.flags:
        if name in RND_FLAGS:
            flags[_flag(camera, "mjtRndFlag.mjRND", name)] = is_on
    return flags


def _flag(camera: Camera, prefix: str, name: str) -> int:
    """Return MuJoCo's number of a flag.

    Raises:
        SettingsError: If the installed MuJoCo has no such flag.
    """
    enum, _, start = prefix.partition(".")
    found = getattr(getattr(mujoco, enum), f"{start}_{name.upper()}", None)
    if found is None:
        remedy = f"MuJoCo {mujoco.__version__} has no such flag; leave it out, or install a newer one"
        raise SettingsError.of(f"camera {camera.name!r}: flags", name, remedy)
    return int(found)


def capture_state(simulation: Simulation, index: int) -> Capture:
    """Return the capture of a lidar: it copies the state, for the worker to scan."""
    # From the user's own data: the private data may not have been brought to this state, if nothing else needs it.
    everything = int(mujoco.mjtState.mjSTATE_INTEGRATION)
    model, data = simulation.model, simulation.data
    size = int(mujoco.mj_stateSize(model, everything))

    def capture() -> ScanSnapshot:
        state = np.empty(size)
        mujoco.mj_getState(model, data, state, everything)
        return ScanSnapshot(index, state)

    return capture
