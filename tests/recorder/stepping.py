"""Environments that are stepped by hand: some steps, a reset that only rewinds, a rate that nobody states."""

from __future__ import annotations

from typing import Any

import numpy as np

from lucky_recorder.testing import CountEnv


def steps(env: Any, count: int, action: float = 0.0) -> None:
    for _ in range(count):
        env.step(np.array([action], np.float32))


class Restarts(CountEnv):
    """A reset with an option starts the count again, but not the episode; remembers the options it was given."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.options = options
        self.episode -= bool(self.t) and options is not None
        return super().reset(seed=seed, options=options)


def without_a_rate(**fields: Any) -> CountEnv:
    env = CountEnv(4, mujoco=True, **fields)
    env.metadata = {"render_modes": ["rgb_array"]}
    del env.dt
    return env
