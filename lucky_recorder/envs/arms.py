"""The desktop arm as the environments see it: where it lies in a model's arrays, and how it reaches a pose."""

from __future__ import annotations

from typing import NamedTuple

import mujoco
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]

JOINTS = ("shoulder_pan", "shoulder_lift", "elbow_flex", "wrist_flex", "wrist_roll", "gripper")

_DAMPING = 0.02
# Metres of error in position that count as much as a radian of error in rotation.
_ROTATION_WEIGHT = 0.1
# Radians: a step smaller than this changes nothing that matters.
_CLOSE_ENOUGH = 1e-5
_MAX_ITERATIONS = 200


class Arm(NamedTuple):
    """One arm of a model and the cube it is to lift, as addresses into the model's arrays."""

    base: Floats
    """Position of the arm's root body in metres, (3,)."""
    qpos: Ints
    """Addresses of the six joints in ``qpos``, in the order of ``JOINTS``."""
    dof: Ints
    """Addresses of the six joints in ``qvel``."""
    ctrl: Ints
    """Ids of the six actuators."""
    grasp: int
    """Id of the site between the finger tips."""
    jaws: frozenset[int]
    """Ids of the two finger geoms."""
    cube: int
    """Id of the cube's geom."""
    cube_qpos: slice
    """The cube's seven numbers in ``qpos``: x, y, z, then the quaternion, w first."""


def arm_named(model: mujoco.MjModel, prefix: str = "") -> Arm:
    """Find the arm whose names all begin with ``prefix``.

    Raises:
        KeyError: The model has no such arm.
    """
    joints = [model.joint(prefix + name) for name in JOINTS]
    first = int(model.joint(prefix + "cube").qposadr[0])
    return Arm(
        base=model.body(prefix + "base").pos.copy(),
        qpos=np.array([joint.qposadr[0] for joint in joints], dtype=np.intp),
        dof=np.array([joint.dofadr[0] for joint in joints], dtype=np.intp),
        ctrl=np.array([model.actuator(prefix + name).id for name in JOINTS], dtype=np.intp),
        grasp=int(model.site(prefix + "grasp").id),
        jaws=frozenset(int(model.geom(prefix + jaw).id) for jaw in ("fixed_jaw", "moving_jaw")),
        cube=int(model.geom(prefix + "cube").id),
        cube_qpos=slice(first, first + 7),
    )


def is_held(data: mujoco.MjData, arm: Arm) -> bool:
    """Say whether both fingers of ``arm`` touch its cube."""
    pairs = data.contact.geom
    touching = pairs[(pairs == arm.cube).any(axis=1)]
    return arm.jaws <= set(touching.ravel().tolist())


def pointing_down(closing_direction: float) -> Floats:
    """Give the hand's rotation (3, 3): fingers down, closing along a horizontal direction in radians."""
    c, s = np.cos(closing_direction), np.sin(closing_direction)
    return np.array([[0.0, c, s], [0.0, s, -c], [-1.0, 0.0, 0.0]])


def reach(model: mujoco.MjModel, scratch: mujoco.MjData, arm: Arm, position: Floats, rotation: Floats) -> Floats:
    """Solve, by damped least squares, for the arm joints that bring the grasp site to a pose.

    Args:
        model: The model; only read.
        scratch: A private ``MjData``: its ``qpos`` is the first guess, and is left at the solution.
        arm: The arm that reaches.
        position: Wanted site position in metres, (3,).
        rotation: Wanted site rotation, (3, 3).

    Returns:
        The angles of the five arm joints in radians, (5,), within their limits; the nearest found if the pose
        is out of reach.
    """
    # Without the gripper's joint: it does not move the site.
    qpos, dof = arm.qpos[:5], arm.dof[:5]
    low, high = _joint_limits(model, dof)
    for _ in range(_MAX_ITERATIONS):
        error, jacobian = _pose_error(model, scratch, arm, position, rotation)
        step = _damped_step(jacobian[:, dof], error)
        scratch.qpos[qpos] = np.clip(scratch.qpos[qpos] + step, low, high)
        if np.abs(step).max() < _CLOSE_ENOUGH:
            break
    angles: Floats = scratch.qpos[qpos].copy()
    return angles


def _joint_limits(model: mujoco.MjModel, dof: Ints) -> tuple[Floats, Floats]:
    low, high = model.jnt_range[model.dof_jntid[dof]].T
    return low, high


def _pose_error(
    model: mujoco.MjModel, scratch: mujoco.MjData, arm: Arm, position: Floats, rotation: Floats
) -> tuple[Floats, Floats]:
    """The weighted pose error (6,) and its Jacobian (6, nv) at the scratch state."""
    mujoco.mj_kinematics(model, scratch)
    mujoco.mj_comPos(model, scratch)
    jacobian = np.zeros((6, model.nv))
    mujoco.mj_jacSite(model, scratch, jacobian[:3], jacobian[3:], arm.grasp)
    jacobian[3:] *= _ROTATION_WEIGHT
    here = scratch.site_xmat[arm.grasp].reshape(3, 3)
    # For small angles: the rotation that is still missing, as an axis times radians.
    turn = 0.5 * np.cross(here, rotation, axis=0).sum(axis=1)
    error = np.concatenate([position - scratch.site_xpos[arm.grasp], _ROTATION_WEIGHT * turn])
    return error, jacobian


def _damped_step(jacobian: Floats, error: Floats) -> Floats:
    damped = jacobian @ jacobian.T + _DAMPING**2 * np.eye(len(error))
    return jacobian.T @ np.linalg.solve(damped, error)
