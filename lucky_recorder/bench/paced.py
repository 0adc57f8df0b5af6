"""The sample arm, with a watch on its steps."""

from __future__ import annotations

import time
from typing import Any

import gymnasium as gym


class Timed(gym.Wrapper[Any, Any, Any, Any]):
    """Keeps how long the last step of the environment inside took, in seconds."""

    last_s = 0.0

    def __init__(self) -> None:
        super().__init__(gym.make("LuckyRecorder/PickCube-v0").unwrapped)

    def step(self, action: Any) -> Any:
        """Step, and look at the time."""
        began = time.perf_counter()
        result = self.env.step(action)
        self.last_s = time.perf_counter() - began
        return result
