"""The columns of a recording: those of its recorder mode, of gymnasium, and of the user."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from lucky_recorder.capture.channels import Channel, DerivedColumn, Merge, Phase, Read, exactly
from lucky_recorder.capture.custom import custom_column, space_layout
from lucky_recorder.capture.door import simulator
from lucky_recorder.capture.robots import Robot
from lucky_recorder.episode.keys import DONE, GYM_ACTION, REWARD, SUCCESS
from lucky_recorder.episode.schema import Field
from lucky_recorder.errors import SettingsError
from lucky_recorder.settings.recorder import RecorderSettings

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Scene:
    """All that columns are made from.

    Attributes:
        settings: What the user asked for.
        simulation: The MuJoCo simulation, if there is one.
        robots: Its robots.
        env: The environment as it is stepped, if there is one: wrappers may change its spaces.
    """

    settings: RecorderSettings
    simulation: simulator.Simulation | None
    robots: tuple[Robot, ...]
    env: Any = None

    @property
    def mujoco(self) -> simulator.Simulation:
        """The MuJoCo simulation.

        Raises:
            SettingsError: If there is none.
        """
        if self.simulation is None:
            mode = self.settings.mode
            raise SettingsError.of(
                "mode", mode, "needs a MuJoCo model and none was found; use mode='custom' with columns"
            )
        return self.simulation


_OF_MODE: dict[str, Callable[[Scene], list[DerivedColumn]]] = {
    "robot_arm": lambda scene: simulator.arm_columns(scene.mujoco, scene.robots),
    "full_scene": lambda scene: simulator.scene_columns(scene.mujoco, scene.robots),
    "custom": lambda scene: [],
}


def columns_of(scene: Scene) -> tuple[DerivedColumn, ...]:
    """Return every column that follows ``frame_flags``: the mode's, the gym's, and the user's own.

    Raises:
        SettingsError: If a column cannot be recorded from this scene.
    """
    settings = scene.settings
    if not settings.record_data:
        return ()
    mode = _OF_MODE[settings.mode](scene)
    gym = _gym_columns(scene) if settings.gym_columns else []
    robots = tuple(r.name for r in scene.robots)
    poses = simulator.pose_columns(scene.mujoco, settings.posed_cameras) if settings.posed_cameras else []
    own = [custom_column(c, scene.simulation, robots, scene.env) for c in settings.columns]
    return (*mode, *gym, *poses, *own)


def _gym_columns(scene: Scene) -> list[DerivedColumn]:
    if scene.env is None:
        raise SettingsError.of("gym_columns", True, "there is no Gymnasium environment; leave it off on a bare model")
    shape, dtype = space_layout(scene.env.action_space, "gym_columns")
    size = int(np.prod(shape, dtype=np.int64))
    # A single value is a scalar column: LeRobot takes the feature shape [1] for a scalar, not for a list of one.
    listed = shape if size > 1 else ()

    def column(
        name: str, phase: Phase, shape: Shape, kind: str, read: Read, merge: Merge | None = None
    ) -> DerivedColumn:
        settle = exactly(name, shape, kind, False)
        channel = Channel(name, phase, shape, kind, read=lambda moment: settle(read(moment)), merge=merge)
        return DerivedColumn(Field(name, kind, shape, has_stats=True), channel)

    return [
        column(GYM_ACTION, "before", listed, dtype, lambda m: m.action),
        column(REWARD, "after", (), "float64", lambda m: m.reward, "sum"),
        column(DONE, "after", (), "bool", lambda m: m.done, "or"),
        column(SUCCESS, "after", (), "bool", lambda m: m.success, "or"),
    ]
