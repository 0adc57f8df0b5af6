"""The recorder modes: lists of columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lucky_recorder.capture.channels import Channel, DerivedColumn, Merge, Phase, Read, exactly
from lucky_recorder.capture.custom import custom_column, space_layout
from lucky_recorder.capture.mujoco import names
from lucky_recorder.capture.mujoco.simulation import Simulation
from lucky_recorder.capture.robots import Robot
from lucky_recorder.episode.schema import Field
from lucky_recorder.errors import SettingsError
from lucky_recorder.settings.recorder import RecorderSettings

if TYPE_CHECKING:
    import mujoco


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
    simulation: Simulation | None
    robots: tuple[Robot, ...]
    env: Any = None

    @property
    def model(self) -> mujoco.MjModel:
        """The MuJoCo model.

        Raises:
            SettingsError: If there is none.
        """
        if self.simulation is None:
            mode = self.settings.mode
            raise SettingsError.of(
                "mode", mode, "needs a MuJoCo model and none was found; use mode='custom' with columns"
            )
        return self.simulation.model


def _robot_arm(scene: Scene) -> list[DerivedColumn]:
    missing = _missing(scene.model, scene.robots[0])
    if missing:
        name = scene.robots[0].name
        raise SettingsError.of(
            "mode", "robot_arm", f"the robot {name!r} has {missing}; use mode='full_scene' or mode='custom'"
        )
    return [_action(scene), _state(scene, [[d.joint for d in r.driven] for r in scene.robots])]


def _missing(model: mujoco.MjModel, robot: Robot) -> str:
    """Say what a robot lacks to be recorded as an arm; empty if nothing."""
    if not robot.actuators:
        return "no actuator"
    if not robot.driven:
        return "no actuated joint"
    return "" if any(names.commands_of(model, a) for a in robot.actuators) else "no actuator that takes a command"


def _full_scene(scene: Scene) -> list[DerivedColumn]:
    model = scene.model
    if not model.njnt:
        raise SettingsError.of("mode", "full_scene", "the model has no joint; use mode='custom'")
    return [_action(scene), _state(scene, [list(range(model.njnt)) for _ in scene.robots])]


def _custom(scene: Scene) -> list[DerivedColumn]:
    return []


_COLUMNS_OF_MODE: dict[str, Callable[[Scene], list[DerivedColumn]]] = {
    "robot_arm": _robot_arm,
    "full_scene": _full_scene,
    "custom": _custom,
}


def columns_of(scene: Scene) -> tuple[DerivedColumn, ...]:
    """Return every column that follows ``frame_flags``: the mode's, the gym's, and the user's own.

    Raises:
        SettingsError: If a column cannot be recorded from this scene.
    """
    settings = scene.settings
    if not settings.record_data:
        return ()
    mode = _COLUMNS_OF_MODE[settings.mode](scene)
    gym = _gym_columns(scene) if settings.gym_columns else []
    robots = tuple(r.name for r in scene.robots)
    own = [custom_column(c, scene.simulation, robots, scene.env) for c in settings.columns]
    return (*mode, *gym, *own)


def _action(scene: Scene) -> DerivedColumn:
    model = scene.model
    select = [[c for a in r.actuators for c in names.commands_of(model, a)] for r in scene.robots]
    labels = tuple(label for r in scene.robots for a in r.actuators for label in names.command_names(model, a))
    field = Field("action", "float64", (len(select[0]),), names=labels, has_stats=True)
    return DerivedColumn(field, _vector(scene, "ctrl", "after"), select=np.array(select, np.intp), is_command=True)


def _state(scene: Scene, joints: Sequence[Sequence[int]]) -> DerivedColumn:
    model = scene.model
    drivers = {d.joint: d.actuator for robot in scene.robots for d in robot.driven}

    def readable(joint: int) -> str:
        return (
            names.name_of(model, "actuator", drivers[joint])
            if joint in drivers
            else names.name_of(model, "joint", joint)
        )

    select = [[a for j in mine for a in names.joint_addresses(model, j)] for mine in joints]
    field = Field(
        "observation.state",
        "float64",
        (len(select[0]),),
        names=_value_names(model, joints, readable),
        lucky_names=_value_names(model, joints, lambda j: names.name_of(model, "joint", j)),
        has_stats=True,
    )
    return DerivedColumn(field, _vector(scene, "qpos", "before"), select=np.array(select, np.intp))


def _value_names(
    model: mujoco.MjModel, joints: Iterable[Iterable[int]], called: Callable[[int], str]
) -> tuple[str, ...]:
    return tuple(called(j) + suffix for mine in joints for j in mine for suffix in names.joint_suffixes(model, j))


def _vector(scene: Scene, name: str, phase: Any) -> Channel:
    assert scene.simulation is not None
    view = getattr(scene.simulation.data, name)
    return Channel(name, phase, view.shape, "float64", view=view)


def _gym_columns(scene: Scene) -> list[DerivedColumn]:
    if scene.env is None:
        raise SettingsError.of("gym_columns", True, "there is no Gymnasium environment; leave it off on a bare model")
    shape, dtype = space_layout(scene.env.action_space, "gym_columns")
    size = int(np.prod(shape, dtype=np.int64))
    listed = shape if size > 1 else ()

    def column(
        name: str, phase: Phase, shape: Shape, kind: str, read: Read, merge: Merge | None = None
    ) -> DerivedColumn:
        settle = exactly(name, shape, kind, False)
        channel = Channel(name, phase, shape, kind, read=lambda moment: settle(read(moment)), merge=merge)
        return DerivedColumn(Field(name, kind, shape, has_stats=True), channel)

    return [
        column("gym.action", "before", listed, dtype, lambda m: m.action),
        column("next.reward", "after", (), "float64", lambda m: m.reward, "sum"),
        column("next.done", "after", (), "bool", lambda m: m.done, "or"),
        column("next.success", "after", (), "bool", lambda m: m.success, "or"),
    ]
