"""The columns of the recorder modes that look at a MuJoCo model: ``action`` and ``observation.state``."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import mujoco
import numpy as np

from lucky_recorder.capture.channels import Channel, DerivedColumn, Phase
from lucky_recorder.capture.mujoco import names
from lucky_recorder.capture.mujoco.simulation import Simulation
from lucky_recorder.capture.robots import Robot
from lucky_recorder.episode.keys import ACTION, STATE
from lucky_recorder.episode.schema import Field
from lucky_recorder.errors import SettingsError


def arm_columns(simulation: Simulation, robots: Sequence[Robot]) -> list[DerivedColumn]:
    """Return the columns of the mode ``robot_arm``: the commands and the actuated joints of every robot.

    Raises:
        SettingsError: If a robot has no actuator, no actuated joint, or takes no command.
    """
    # The first stands for all: robots that differ were refused when they were found.
    missing = _missing(simulation.model, robots[0])
    if missing:
        remedy = f"the robot {robots[0].name!r} has {missing}; use mode='full_scene' or mode='custom'"
        raise SettingsError.of("mode", "robot_arm", remedy)
    return [_action(simulation, robots), _state(simulation, robots, [[d.joint for d in r.driven] for r in robots])]


def _missing(model: mujoco.MjModel, robot: Robot) -> str:
    """Say what a robot lacks to be recorded as an arm; empty if nothing."""
    if not robot.actuators:
        return "no actuator"
    if not robot.driven:
        return "no actuated joint"
    return "" if any(names.commands_of(model, a) for a in robot.actuators) else "no actuator that takes a command"


def scene_columns(simulation: Simulation, robots: Sequence[Robot]) -> list[DerivedColumn]:
    """Return the columns of the mode ``full_scene``: the commands, and every joint there is.

    Raises:
        SettingsError: If the model has no joint.
    """
    joints = range(simulation.model.njnt)
    if not joints:
        raise SettingsError.of("mode", "full_scene", "the model has no joint; use mode='custom'")
    return [_action(simulation, robots), _state(simulation, robots, [joints for _ in robots])]


def _action(simulation: Simulation, robots: Sequence[Robot]) -> DerivedColumn:
    model = simulation.model
    select = [[c for a in r.actuators for c in names.commands_of(model, a)] for r in robots]
    labels = tuple(label for r in robots for a in r.actuators for label in names.command_names(model, a))
    field = Field(ACTION, "float64", (len(select[0]),), names=labels, has_stats=True)
    # Read after the step, because a controller inside the environment may set the commands during it.
    return DerivedColumn(field, _vector(simulation, "ctrl", "after"), np.array(select, np.intp), is_command=True)


def _state(simulation: Simulation, robots: Sequence[Robot], joints: Sequence[Sequence[int]]) -> DerivedColumn:
    model = simulation.model
    drivers = {d.joint: d.actuator for robot in robots for d in robot.driven}

    def of_joint(joint: int) -> str:
        return names.name_of(model, "joint", joint)

    def of_driver(joint: int) -> str:
        return names.name_of(model, "actuator", drivers[joint]) if joint in drivers else of_joint(joint)

    select = [[a for j in mine for a in names.joint_addresses(model, j)] for mine in joints]
    field = Field(
        STATE,
        "float64",
        (len(select[0]),),
        names=_value_names(model, joints, of_driver),
        lucky_names=_value_names(model, joints, of_joint),
        has_stats=True,
    )
    return DerivedColumn(field, _vector(simulation, "qpos", "before"), np.array(select, np.intp))


def _value_names(
    model: mujoco.MjModel, joints: Sequence[Sequence[int]], called: Callable[[int], str]
) -> tuple[str, ...]:
    return tuple(called(j) + suffix for mine in joints for j in mine for suffix in names.joint_suffixes(model, j))


def _vector(simulation: Simulation, name: str, phase: Phase) -> Channel:
    # Named after the array, so that the user's own columns of the same array share the channel.
    view = getattr(simulation.data, name)
    return Channel(name, phase, view.shape, "float64", view=view)
