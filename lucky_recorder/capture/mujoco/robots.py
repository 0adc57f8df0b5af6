"""The robots of a model: which actuators and joints are whose."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import mujoco

from lucky_recorder.capture.mujoco import names
from lucky_recorder.capture.robots import Driven, Robot
from lucky_recorder.errors import SettingsError


def find_robots(model: mujoco.MjModel, roots: Sequence[str] | None) -> tuple[Robot, ...]:
    """Find the robots of a model.

    Args:
        model: The model.
        roots: Names of the robots' root bodies; None: the whole model is one robot.

    Raises:
        SettingsError: If a body is unknown, robots overlap, or they differ in their actuators or joints.
    """
    if roots is None:
        return (_robot(model, model_name(model), range(names.actuator_count(model))),)
    if not roots:
        raise SettingsError.of("robots", (), "name at least one root body, or leave it out")
    bodies = [names.id_of(model, "body", root, f"robots[{i}]") for i, root in enumerate(roots)]
    _check_apart(model, roots, bodies)
    robots = tuple(_robot(model, root, _own(model, body, bodies)) for root, body in zip(roots, bodies, strict=True))
    _check_alike(model, robots)
    _warn_of_orphans(model, robots)
    return robots


def model_name(model: mujoco.MjModel) -> str:
    """Return the name a model gives itself, or ``robot``."""
    # MuJoCo has no field for it: it comes first in the text of all names, before a zero byte.
    return bytes(model.names).split(b"\0", 1)[0].decode() or "robot"


def has_bodies(model: mujoco.MjModel, roots: Sequence[str]) -> bool:
    """Tell whether a model has bodies of all these names."""
    return {*roots} <= {*names.all_of(model, "body")}


def _own(model: mujoco.MjModel, root: int, roots: Sequence[int]) -> list[int]:
    """Return the actuators that act on a robot, and on no other."""
    everyone = range(names.actuator_count(model))
    return [a for a in everyone if _acts_on(model, a, roots) == {root}]


def _acts_on(model: mujoco.MjModel, actuator: int, roots: Sequence[int]) -> set[int]:
    bodies = names.actuator_bodies(model, actuator)
    return {root for root in roots if any(names.is_within(model, body, root) for body in bodies)}


def _robot(model: mujoco.MjModel, name: str, actuators: Sequence[int]) -> Robot:
    lowest: dict[int, int] = {}
    for actuator in actuators:
        for joint in names.driven_joints(model, actuator):
            lowest.setdefault(joint, actuator)
    driven = tuple(Driven(joint, lowest[joint]) for joint in sorted(lowest))
    return Robot(name, tuple(actuators), driven)


def _check_apart(model: mujoco.MjModel, roots: Sequence[str], bodies: Sequence[int]) -> None:
    for name, body in zip(roots, bodies, strict=True):
        inside = [r for r, b in zip(roots, bodies, strict=True) if b != body and names.is_within(model, body, b)]
        if inside:
            raise SettingsError.of("robots", name, f"lies within the robot {inside[0]!r}; robots must be apart")


def _layout(model: mujoco.MjModel, robot: Robot) -> tuple[object, ...]:
    """Describe what must be the same of all robots: the actuators' commands, the kinds of joints, what drives which."""
    order = {actuator: i for i, actuator in enumerate(robot.actuators)}
    commands = tuple(len(names.commands_of(model, a)) for a in robot.actuators)
    joints = tuple((int(model.jnt_type[d.joint]), order[d.actuator]) for d in robot.driven)
    return commands, joints


def _check_alike(model: mujoco.MjModel, robots: Sequence[Robot]) -> None:
    first = robots[0]
    for other in robots[1:]:
        if _layout(model, other) != _layout(model, first):
            raise SettingsError.of("robots", tuple(r.name for r in robots), _differs(first, other))


def _differs(first: Robot, other: Robot) -> str:
    return (
        f"{first.name!r} has {len(first.actuators)} actuators driving {len(first.driven)} joints, {other.name!r} has "
        f"{len(other.actuators)} driving {len(other.driven)}, or of other kinds; every row of a session has the same "
        "layout: record them in sessions of their own"
    )


def _warn_of_orphans(model: mujoco.MjModel, robots: Sequence[Robot]) -> None:
    owned = {a for robot in robots for a in robot.actuators}
    orphans = [name for a, name in enumerate(names.all_of(model, "actuator")) if a not in owned]
    if orphans:
        warnings.warn(f"actuators of no robot are not recorded: {', '.join(orphans)}", RuntimeWarning, stacklevel=2)
