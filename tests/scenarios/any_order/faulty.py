"""An environment that goes wrong where it is told to."""

from __future__ import annotations

from typing import Any

import numpy as np

from lucky_recorder.testing import CountEnv


class Broken(Exception):
    """What an environment raises of its own."""


class Env(CountEnv):
    """Counts, and goes wrong once where it is told to. Every second episode succeeds."""

    def __init__(self, length: int | None) -> None:
        super().__init__(length, lambda n: n % 2 == 0, mujoco=True, render_mode="rgb_array", width=32, height=32)
        self.wrong = ""

    def reset(self, **options: Any) -> Any:
        if self.take("reset raises"):
            raise Broken
        result = super().reset(**options)
        if self.take("reset raises late"):
            raise Broken
        return result[0] if self.take("reset returns less") else result

    def step(self, action: Any) -> Any:
        if self.take("raises"):
            raise Broken
        if self.take("explodes"):
            self.data.qvel[0] = np.nan
        result = super().step(action)
        if self.take("raises late"):
            raise Broken
        if self.take("stands still"):
            self.data.time -= 0.01
        if self.take("reward"):
            return result[0], float("nan"), *result[2:]
        if self.take("returns less"):
            return result[:4]
        if self.take("done is no truth"):
            return *result[:2], "no", *result[3:]
        return result

    def take(self, wrong: str) -> bool:
        """Tell whether this is to go wrong now."""
        is_now = self.wrong == wrong
        if is_now:
            self.wrong = ""
        return is_now


OF_STEP = ("raises", "raises late", "explodes", "stands still", "reward", "returns less", "done is no truth")
OF_RESET = ("reset raises", "reset raises late", "reset returns less")
