"""Stepping a Gymnasium MuJoCo environment's physics in parts, so that more than one tick fits into a step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mujoco

from lucky_recorder.capture.find import PHYSICS_STEP
from lucky_recorder.errors import CaptureError


class Substeps:
    """Takes the place of an environment's physics step while a recording needs ticks inside of it.

    The physics is the same, bit for bit: a step of n frames is taken as parts of n / parts frames, one after another.
    A copy of the environment, and one that is pickled, has its own step and nothing of this.

    Args:
        env: The environment.
        parts: Into how many parts each step is taken.
        before_part: Called before each part, with its number from 0.
    """

    # By this it is known as what it is; see `find.is_taken_in_parts`.
    takes_parts = True

    def __init__(self, env: Any, parts: int, before_part: Callable[[int], None]) -> None:
        self._env = env.unwrapped
        self._whole = getattr(self._env, PHYSICS_STEP)
        self._parts = parts
        self._before = before_part
        self.is_recording = False
        self.steps = 0
        # On the object and not on its class: other environments of the class keep their own step.
        setattr(self._env, PHYSICS_STEP, self)

    def __call__(self, ctrl: Any, n_frames: int) -> None:
        """Step the physics; the environment calls it as its own method."""
        env = self._env
        # A reset may step the physics too; that is no tick.
        if not self.is_recording:
            self._whole(ctrl, n_frames)
            return
        if n_frames != env.frame_skip:
            raise CaptureError(
                f"the environment stepped {n_frames} frames at once, but its frame_skip is {env.frame_skip}: ticks "
                "inside of a step would be mislabelled; keep data_hz and every frame_rate at or below the control rate"
            )
        env.data.ctrl[:] = ctrl
        for part in range(self._parts):
            self._before(part)
            # Without remainder: the rates are settled so that the parts divide the frames of a step.
            mujoco.mj_step(env.model, env.data, nstep=n_frames // self._parts)
        self.steps += 1
        # Gymnasium's own step ends with this. Without it, forces on bodies such as cfrc_ext would not be computed.
        mujoco.mj_rnePostConstraint(env.model, env.data)

    def __reduce__(self) -> tuple[Any, ...]:
        # Asked for by the copy, which has nothing in this place yet: so it finds the method of its class.
        return getattr, (self._env, PHYSICS_STEP)

    def remove(self) -> None:
        """Give the environment its own step back."""
        self._env.__dict__.pop(PHYSICS_STEP, None)
