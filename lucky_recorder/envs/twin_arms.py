"""``LuckyRecorder/TwinArms-v0``: two desktop arms in one model, each lifts a cube of its own."""

from __future__ import annotations

from typing import Any

from gymnasium.utils import EzPickle

from lucky_recorder.envs.lifting import LiftingEnv


class TwinArmsEnv(LiftingEnv, EzPickle):
    """Two identical arms with the root bodies ``left_base`` and ``right_base``; see ``LiftingEnv``.

    Cameras: ``front``, ``left_wrist`` and ``right_wrist``.
    """

    def __init__(self, **kwargs: Any) -> None:
        """Make the environment; keyword arguments are those of rendering in ``LiftingEnv``."""
        EzPickle.__init__(self, **kwargs)
        super().__init__("twin_arms", ("left_", "right_"), cube_azimuth=0.4, **kwargs)
