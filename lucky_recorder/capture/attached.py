"""What a source is attached to: everything that is derived from one model and its data.

It is built as a whole and never changed, so that it can be replaced as a whole when an environment makes a new model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lucky_recorder import forks
from lucky_recorder.capture.channels import Channel, DerivedColumn
from lucky_recorder.capture.columns import Scene, columns_of
from lucky_recorder.capture.door import masks, simulator
from lucky_recorder.capture.render import capture_render
from lucky_recorder.capture.robots import Robot
from lucky_recorder.capture.schedule import Capture
from lucky_recorder.capture.snapshot import Scenes
from lucky_recorder.capture.sync import Sync, films_model, level_of, needs_gl, needs_of
from lucky_recorder.errors import SettingsError
from lucky_recorder.settings.camera import Camera
from lucky_recorder.settings.lidar import Lidar
from lucky_recorder.settings.recorder import RecorderSettings


@dataclass(frozen=True)
class Attached:
    """What is looked at of one simulation.

    Attributes:
        simulation: The model and its data; None without MuJoCo.
        robots: Whose rows there are.
        columns: The columns, each with the channel it derives from.
        level: How much of the private data is computed before each look.
        captures: What takes the snapshots: one for each recorded camera, then one for each lidar, in the order of the
            settings.
        assets: What the rendering contexts were told of the model; None where nothing is drawn.
        states: Reads the full states; None where they are not kept.
    """

    simulation: simulator.Simulation | None
    robots: tuple[Robot, ...]
    columns: tuple[DerivedColumn, ...]
    level: Sync
    captures: tuple[Capture, ...]
    assets: simulator.AssetWatch | None
    states: simulator.StateReader | None

    @property
    def channels(self) -> tuple[Channel, ...]:
        """The channels, each once."""
        # By name: columns that read the same array, such as qpos, share one channel, and it is copied once a tick.
        return tuple({c.channel.name: c.channel for c in self.columns}.values())


def attach(
    settings: RecorderSettings,
    simulation: simulator.Simulation | None,
    env: Any,
    render: Callable[[], Any] | None,
    scenes: Scenes | None = None,
) -> Attached:
    """Look at a simulation.

    Args:
        settings: What is recorded.
        simulation: The model and its data; None without MuJoCo.
        env: The environment as it is stepped, if there is one.
        render: Its ``render()``, if that gives pictures.
        scenes: What all lanes copy scenes into; None: this one is the only lane.

    Raises:
        SettingsError: If the settings cannot be recorded from it.
        ForkError: If its own pictures would be drawn in a child forked from a process that had drawn.
    """
    if simulation is not None:
        _refuse_callbacks(settings, simulation, env)
        _refuse_forked_render(settings, env)
    robots = simulator.find_robots(simulation.model, settings.robots) if simulation else _nobody(settings)
    return Attached(
        simulation,
        robots,
        columns_of(Scene(settings, simulation, robots, env)),
        level_of(settings) if simulation else Sync.NOTHING,
        (*_cameras(settings, simulation, render, scenes or Scenes()), *_lidars(settings, simulation)),
        simulator.AssetWatch(simulation.model) if simulation and needs_gl(settings) else None,
        _states(settings, simulation),
    )


def check_unrecorded_masks(settings: RecorderSettings, simulation: simulator.Simulation | None) -> None:
    """Look up what the cameras' masks would label if ``record_masks`` were on.

    Only of the first model: one that comes later need not have what nobody records.

    Raises:
        SettingsError: If the model has nothing of such a name.
    """
    if simulation is None or settings.record_masks or not settings.record_cameras:
        return
    for camera in settings.cameras:
        if camera.enabled and camera.masks and camera.record_masks:
            masks.check_names(simulation.model, camera.masks, _masks_of(camera))


def _refuse_callbacks(settings: RecorderSettings, simulation: simulator.Simulation, env: Any) -> None:
    """Refuse what would call a callback of the user's a second time; one that comes later is refused at its tick."""
    # There the error names the same settings.
    simulation.needs = tuple(needs_of(settings, env is not None))
    for need in simulation.needs:
        refusal = simulation.refusal(need.level)
        if refusal:
            raise SettingsError.of(need.field, need.value, f"{refusal}; {need.instead}")


def _refuse_forked_render(settings: RecorderSettings, env: Any) -> None:
    """Refuse pictures by an environment's own OpenGL where that would hang; only Gymnasium's show that they draw so."""
    through_render = any(camera.source == "render" for camera in settings.recorded_cameras)
    if through_render and hasattr(getattr(env, "unwrapped", env), "mujoco_renderer"):
        forks.refuse_to_draw()


def _masks_of(camera: Camera) -> str:
    return f"camera {camera.name!r}: masks"


def _nobody(settings: RecorderSettings) -> tuple[Robot, ...]:
    """Return the one entity of an environment without MuJoCo."""
    if settings.robots is not None:
        raise SettingsError.of("robots", settings.robots, "no MuJoCo model was found to look for them in")
    return (Robot("env", (), ()),)


def _cameras(
    settings: RecorderSettings,
    simulation: simulator.Simulation | None,
    render: Callable[[], Any] | None,
    scenes: Scenes,
) -> list[Capture]:
    cameras = settings.recorded_cameras
    pool = _pool(settings, simulation, scenes) if films_model(settings) else None
    return [
        _rendered(render, camera, index)
        if camera.source == "render"
        else _drawn(settings, simulation, camera, index, pool)
        for index, camera in enumerate(cameras)
    ]


def _pool(settings: RecorderSettings, simulation: simulator.Simulation | None, scenes: Scenes) -> simulator.ScenePool:
    cameras = settings.recorded_cameras
    if simulation is None:
        names = tuple(c.name for c in cameras)
        raise SettingsError.of("cameras", names, "no MuJoCo model was found; use source='render'")
    model, timeout_s = simulation.model, settings.worker_timeout_s
    # Of every lane a tick may be open, whose scenes wait for its step.
    most = len(cameras) * scenes.lanes
    pool = scenes.pool(simulator.scene_sizes(model), lambda: simulator.ScenePool(model, most, timeout_s))
    pool.widen(most)
    return pool


def _rendered(render: Callable[[], Any] | None, camera: Camera, index: int) -> Capture:
    if render is None:
        raise SettingsError.of(
            f"camera {camera.name!r}: source",
            "render",
            "there is no env.render() here that gives pictures; make the env with render_mode='rgb_array'",
        )
    return capture_render(render, camera, index)


def _drawn(
    settings: RecorderSettings,
    simulation: simulator.Simulation | None,
    camera: Camera,
    index: int,
    pool: simulator.ScenePool | None,
) -> Capture:
    # `_pool` has refused to draw without a model.
    assert simulation is not None
    assert pool is not None
    has_masks, field = "mask" in settings.kinds_of(camera), _masks_of(camera)
    hidden = simulator.hidden_kinds(camera) if has_masks else ()
    labels = masks.Labels(simulation.model, camera.masks or (), field, hidden) if has_masks else None
    return simulator.capture_camera(simulation, camera, index, pool, labels)


def _lidars(settings: RecorderSettings, simulation: simulator.Simulation | None) -> list[Capture]:
    return [_lidar(simulation, lidar, index) for index, lidar in enumerate(settings.recorded_lidars)]


def _lidar(simulation: simulator.Simulation | None, lidar: Lidar, index: int) -> Capture:
    if simulation is None:
        raise SettingsError.of("lidars", lidar.name, "no MuJoCo model was found to cast rays in")
    # Only to refuse an unknown site now. The caster looks it up again, but after the session's folder is made.
    simulator.site_of(simulation.model, lidar)
    return simulator.capture_state(simulation, index)


def _states(settings: RecorderSettings, simulation: simulator.Simulation | None) -> simulator.StateReader | None:
    if not settings.keep_states:
        return None
    if simulation is None:
        field, value = ("render", "deferred") if settings.is_deferred else ("keep_states", True)
        raise SettingsError.of(field, value, "no MuJoCo model was found whose states could be kept; leave it out")
    return simulator.StateReader(simulation)
