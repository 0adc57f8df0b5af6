"""``LuckyRecorder/PickCube-v0``: one desktop arm lifts one cube."""

from __future__ import annotations

from typing import Any

from gymnasium.utils import EzPickle

from lucky_recorder.envs.lifting import LiftingEnv


class PickCubeEnv(LiftingEnv, EzPickle):
    """A six-actuator arm and a loose cube, seen by the cameras ``front`` and ``wrist``; see ``LiftingEnv``."""

    def __init__(self, **kwargs: Any) -> None:
        """Make the environment; keyword arguments are those of rendering in ``LiftingEnv``."""
        EzPickle.__init__(self, **kwargs)
        super().__init__("pick_cube", ("",), cube_azimuth=0.6, **kwargs)
