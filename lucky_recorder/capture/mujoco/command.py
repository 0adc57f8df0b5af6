"""The ``action`` column: commands on the joints' scale, and the way back (spec: What each recorder mode records).

A command is clamped to its control range and mapped linearly onto the range of the joint, where both are limited and
the actuator drives a single hinge or slide joint: directly, or through a fixed tendon over that joint alone. The lower
end of the one range is the lower end of the other, whatever the signs of the gear and of the tendon's coefficient.
Every other command is recorded as it is, and so are those of an actuator that takes several (a position and a velocity,
say): not all of them are on a joint's scale.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import mujoco
import numpy as np
from numpy.typing import ArrayLike, NDArray

from lucky_recorder.capture.mujoco import names

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class CommandMap:
    """The mapping of ``n`` commands, as the ranges were when it was made.

    Attributes:
        mapped: bool, shape ``(n,)``: whether a command is mapped at all.
        ctrl_low: Lower end of the control range, shape ``(n,)``.
        ctrl_high: Upper end of the control range.
        joint_low: Lower end of the joint's range.
        joint_high: Upper end of the joint's range.
    """

    mapped: NDArray[np.bool_]
    ctrl_low: Floats
    ctrl_high: Floats
    joint_low: Floats
    joint_high: Floats

    @classmethod
    def of(cls, model: mujoco.MjModel, actuators: Sequence[int]) -> CommandMap:
        """Read the ranges of some actuators' commands from a model, actuator by actuator."""
        commands = [c for a in actuators for c in names.commands_of(model, a)]
        joints = np.array([_mapped_joint(model, a) for a in actuators for _ in names.commands_of(model, a)], np.intp)
        mapped = joints >= 0
        ctrl = np.array(model.actuator_ctrlrange[np.array(commands, np.intp)], np.float64)
        joint = np.zeros_like(ctrl)
        joint[mapped] = model.jnt_range[joints[mapped]]
        return cls(mapped, ctrl[:, 0], ctrl[:, 1], joint[:, 0], joint[:, 1])

    @classmethod
    def of_all(cls, model: mujoco.MjModel) -> CommandMap:
        """Read the ranges of every command of a model."""
        return cls.of(model, range(names.actuator_count(model)))

    def to_action(self, ctrl: ArrayLike) -> Floats:
        """Map commands, shape ``(…, n)``, to the values of the ``action`` column."""
        raw = np.asarray(ctrl, np.float64)
        # Ranges of commands that are not mapped may mean nothing; what they give is not taken.
        clamped = np.clip(raw, self.ctrl_low, self.ctrl_high)
        return np.where(self.mapped, self._between(clamped, self._ctrl, self._joint), raw)

    def to_ctrl(self, action: ArrayLike) -> Floats:
        """Map values of the ``action`` column, shape ``(…, n)``, back to commands."""
        values = np.asarray(action, np.float64)
        return np.where(self.mapped, self._between(values, self._joint, self._ctrl), values)

    def fits(self, low: ArrayLike, high: ArrayLike) -> bool:
        """Tell whether bounds are those of the commands; a bound that is infinite bounds nothing, and fits."""
        bounds = [np.asarray(bound, np.float64) for bound in (low, high)]
        if any(bound.shape != self.ctrl_low.shape for bound in bounds):
            return False
        # Nearly equal: Gymnasium's environments give their bounds as float32.
        pairs = zip(bounds, self._ctrl, strict=True)
        return all(bool((np.isclose(bound, ctrl, rtol=1e-6) | np.isinf(bound)).all()) for bound, ctrl in pairs)

    @property
    def _ctrl(self) -> tuple[Floats, Floats]:
        return self.ctrl_low, self.ctrl_high

    @property
    def _joint(self) -> tuple[Floats, Floats]:
        return self.joint_low, self.joint_high

    @staticmethod
    def _between(values: Floats, source: tuple[Floats, Floats], target: tuple[Floats, Floats]) -> Floats:
        """Map linearly from one range onto another; exact at both ends, and where both ranges are the same."""
        # By the arithmetic alone, rounding would move the upper end, and values between two equal ranges.
        width = source[1] - source[0]
        share = np.divide(values - source[0], width, out=np.zeros_like(values), where=width > 0)
        moved = target[0] + share * (target[1] - target[0])
        same = (source[0] == target[0]) & (source[1] == target[1])
        ends = np.where(values == source[1], target[1], moved)
        return np.where(same, values, ends)


def _mapped_joint(model: mujoco.MjModel, actuator: int) -> int:
    """Return the joint whose range an actuator's command is mapped onto, or -1."""
    commands = names.commands_of(model, actuator)
    if len(commands) != 1 or not model.actuator_ctrllimited[commands[0]]:
        return -1
    joints = names.driven_joints(model, actuator)
    if len(joints) != 1:
        return -1
    [joint] = joints
    single = int(model.jnt_type[joint]) in (int(mujoco.mjtJoint.mjJNT_HINGE), int(mujoco.mjtJoint.mjJNT_SLIDE))
    return joint if single and model.jnt_limited[joint] else -1
