"""A source: one simulation as the recorder sees it, with its columns, cameras and clock."""

from __future__ import annotations

import copy
from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from lucky_recorder.capture.channels import Channel, Column
from lucky_recorder.capture.columns import MODES, Scene, columns_of
from lucky_recorder.capture.custom import KINEMATIC_KINDS
from lucky_recorder.capture.draw.masks import Labels
from lucky_recorder.capture.draw.renderer import Painter
from lucky_recorder.capture.moment import Moment
from lucky_recorder.capture.mujoco import assets as holdings
from lucky_recorder.capture.mujoco import bounds, names, snapshot
from lucky_recorder.capture.mujoco.command import CommandMap
from lucky_recorder.capture.mujoco.lidar import Caster
from lucky_recorder.capture.mujoco.robots import Robot, find_robots
from lucky_recorder.capture.mujoco.simulation import Simulation, Sync
from lucky_recorder.capture.schedule import Clocks, clocks
from lucky_recorder.capture.streams import scans_of, streams_of
from lucky_recorder.episode.schema import Schema
from lucky_recorder.errors import SettingsError
from lucky_recorder.settings.camera import Camera
from lucky_recorder.settings.lidar import Lidar
from lucky_recorder.settings.recorder import RecorderSettings

if TYPE_CHECKING:
    import mujoco
    from numpy.typing import NDArray


class Source:
    """One simulation being recorded.

    Attributes:
        schema: What its rows and frames are.
        columns: The columns, each with the channel it derives from.
        channels: The channels, each once.
        moment: What callables are given: one object for the whole recording.
        clocks: The rates.
        time: An object whose ``time`` is the simulation's own, or None.
        painter: Draws its pictures in the worker, or None without cameras.
    """

    def __init__(
        self,
        settings: RecorderSettings,
        simulation: Simulation | None,
        clocks: Clocks,
        env: Any = None,
        render: Callable[[], Any] | None = None,
    ) -> None:
        self.settings = settings
        self.clocks = clocks
        self.moment = Moment(env=getattr(env, "unwrapped", env))
        self._env = env
        self._render = render
        cameras = settings.recorded_cameras
        self.needs_gl = any(c.source != "render" for c in cameras)
        self.schema = self._build(simulation)
        self._fill_moment()
        self.painter = Painter(cameras, settings.render_quality) if cameras else None

    def _build(self, simulation: Simulation | None) -> Schema:
        settings = self.settings
        self._simulation = simulation
        self.time: Any = simulation.data if simulation else None
        self.robots = find_robots(simulation.model, settings.robots) if simulation else _nobody(settings)
        self.columns = columns_of(Scene(settings, simulation, self.robots, self._env))
        self.channels = tuple({c.channel.name: c.channel for c in self.columns}.values())
        self._sync = self._level()
        self._rig = snapshot.Rig(self._eyes())
        streams = streams_of(settings, self.clocks.data, simulation.model if simulation else None)
        self._holdings = holdings.Holdings(simulation.model) if simulation and self.needs_gl else None
        mode = MODES[settings.mode]
        return Schema(
            entity_column=mode.entity_column,
            entity_label=mode.label,
            robots=tuple(r.name for r in self.robots),
            hz=self.clocks.data,
            columns=tuple(c.field for c in self.columns),
            streams=streams,
            scans=scans_of(settings, self.clocks.data),
            has_rows=settings.record_data,
        )

    def _fill_moment(self) -> None:
        if self._simulation is not None:
            self.moment.model, self.moment.data = self._simulation.model, self._simulation.look

    def _eyes(self) -> list[snapshot.Eye]:
        cameras, lidars = self.settings.recorded_cameras, self.settings.recorded_lidars
        pool = self._pool(len(cameras)) if self.needs_gl else None
        seeing = [
            snapshot.Eye(self.clocks.every(camera.frame_rate), self._look_of(camera, index, pool))
            for index, camera in enumerate(cameras)
        ]
        feeling = [
            snapshot.Eye(self.clocks.every(lidar.rate), self._scan_of(lidar, index))
            for index, lidar in enumerate(lidars)
        ]
        return seeing + feeling

    def _look_of(self, camera: Camera, index: int, pool: snapshot.ScenePool | None) -> snapshot.Look:
        if camera.source == "render":
            if self._render is None:
                raise SettingsError.of(
                    f"camera {camera.name!r}: source",
                    "render",
                    "there is no env.render() here that gives pictures; make the env with render_mode='rgb_array'",
                )
            return snapshot.through_render(self._render, camera, index)
        assert self._simulation is not None
        assert pool is not None
        has_masks = "mask" in self.settings.kinds_of(camera)
        field = f"camera {camera.name!r}: masks"
        labels = Labels(self._simulation.model, camera.masks or (), field) if has_masks else None
        return snapshot.through_model(self._simulation, camera, index, pool, labels)

    def _scan_of(self, lidar: Lidar, index: int) -> snapshot.Look:
        if self._simulation is None:
            raise SettingsError.of("lidars", lidar.name, "no MuJoCo model was found to cast rays in")
        names.id_of(self._simulation.model, "site", lidar.site, f"lidar {lidar.name!r}: site")
        return snapshot.through_state(self._simulation, index)

    def casters(self) -> list[Caster]:
        """Return what scans for each lidar, on a private copy of the model as it is now."""
        simulation = self._simulation
        assert simulation is not None
        model = copy.copy(simulation.model)
        bounds.refresh(model)
        return [Caster(lidar, model) for lidar in self.settings.recorded_lidars]

    def _pool(self, cameras: int) -> snapshot.ScenePool:
        if self._simulation is None:
            raise SettingsError.of(
                "cameras",
                tuple(c.name for c in self.settings.recorded_cameras),
                "no MuJoCo model was found; use source='render'",
            )
        return snapshot.ScenePool(self._simulation.model, cameras, self.settings.worker_timeout_s)

    def _level(self) -> Sync:
        if self._simulation is None:
            return Sync.NOTHING
        kinds = {str(c.source).partition(":")[0] for c in self.settings.columns if isinstance(c.source, str)}
        calls = any(c.is_called for c in self.settings.columns)
        if self.settings.record_data and (calls or "sensor" in kinds):
            return Sync.FORWARD
        sees = self.needs_gl
        places = self.settings.record_data and kinds & set(KINEMATIC_KINDS)
        return Sync.KINEMATICS if sees or places else Sync.NOTHING

    @property
    def entity_ids(self) -> tuple[int, ...]:
        """The robots' ids, in the order of their rows."""
        return tuple(r.entity_id for r in self.robots)

    @property
    def sync(self) -> Callable[[], None] | None:
        """The function that brings the private data to the present state; None if nothing looks through it."""
        simulation, level = self._simulation, self._sync
        if simulation is None or level is Sync.NOTHING:
            return None
        return lambda: simulation.sync(level)

    def refresh(self) -> None:
        """Bring the private data to the present state, with everything that follows from it."""
        if self._simulation is not None:
            self._simulation.sync(Sync.FORWARD)

    @property
    def instabilities(self) -> NDArray[np.int32] | None:
        """How often MuJoCo has found a bad state and reset itself, always up to date; None where it never does."""
        return self._simulation.instabilities if self._simulation else None

    @property
    def snapshot(self) -> Callable[[int], list[snapshot.Sight]] | None:
        """The function that looks through everything that is due at a tick; None without cameras and lidars."""
        return self._rig.snapshot if self.schema.streams or self.schema.scans else None

    @property
    def fingerprint(self) -> Callable[[], bytes] | None:
        """The function that tells one state of the simulation from another; None without MuJoCo."""
        return self._simulation.fingerprint if self._simulation else None

    def present(self) -> dict[str, NDArray[Any]]:
        """Return the columns that are known before a policy acts, as a row of the present state would have them.

        Returns:
            Arrays of a column's shape; with several robots, of shape ``(robots, *shape)``.
        """
        robots = len(self.robots)
        values = {c.field.name: c.derive(_reading(c.channel, self.moment), robots, None) for c in self._known_before()}
        return {name: np.array(rows if robots > 1 else rows[0]) for name, rows in values.items()}

    def _known_before(self) -> list[Column]:
        said = {c.name for c in self.settings.columns if c.source == "gym:action"} | {"gym.action"}
        return [c for c in self.columns if c.channel.phase == "before" and c.field.name not in said]

    def commands(self) -> CommandMap | None:
        """Return the mapping of the commands, with the ranges of this moment."""
        if not any(c.is_command for c in self.columns) or self._simulation is None:
            return None
        model = self._simulation.model
        return CommandMap.of(model, range(names.actuator_count(model)))

    def model_copy(self) -> mujoco.MjModel | None:
        """Return a private copy of the model for the painter, or None if nothing is drawn."""
        return copy.copy(self._simulation.model) if self._simulation and self.needs_gl else None

    def change(self) -> holdings.Change | None:
        """Return what a rendering context must be told of the model since it was last asked."""
        return self._holdings.change() if self._holdings and self.needs_gl else None

    def rebind(self, model: mujoco.MjModel, data: mujoco.MjData) -> bool:
        """Look at another model and data, if these are not the ones it looks at; returns whether the model is another.

        Raises:
            SettingsError: If the new model gives other columns: a session's rows all have one layout.
        """
        simulation = self._simulation
        if simulation is None or (simulation.model is model and simulation.data is data):
            return False
        is_other, before = simulation.model is not model, dict(vars(self))
        try:
            schema = self._build(Simulation(model, data))
            if schema != self.schema:
                raise SettingsError(
                    "the environment changed its model: its columns, robots or cameras are others than before"
                )
        except BaseException:
            vars(self).update(before)
            raise
        if not is_other:
            self._holdings = before["_holdings"]
        self._fill_moment()
        return is_other


def _reading(channel: Channel, moment: Moment) -> NDArray[Any]:
    """Return a channel's present value with an axis of one tick in front."""
    if channel.view is not None:
        return channel.view[None]
    assert channel.read is not None
    return np.asarray(channel.read(moment), channel.dtype)[None]


def _nobody(settings: RecorderSettings) -> tuple[Robot, ...]:
    """Return the one entity of a simulation that is no MuJoCo."""
    if settings.robots is not None:
        raise SettingsError.of("robots", settings.robots, "no MuJoCo model was found to look for them in")
    return (Robot("env", (), ()),)


def open_source(
    settings: RecorderSettings,
    model: mujoco.MjModel | None = None,
    data: mujoco.MjData | None = None,
    env: Any = None,
    render: Callable[[], Any] | None = None,
    control: Fraction | None = None,
    substeps: int = 1,
) -> Source:
    """Look at a simulation for the first time.

    Raises:
        SettingsError: If the settings cannot be recorded from it.
    """
    simulation = Simulation(model, data) if model is not None and data is not None else None
    return Source(settings, simulation, clocks(settings, control, substeps), env, render)
