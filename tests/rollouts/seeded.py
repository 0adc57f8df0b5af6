"""An environment whose every episode is its seed's alone, and what goes wrong in it where a test wants that."""

from __future__ import annotations

import functools
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import lucky_recorder as lr
from lucky_recorder.testing import CountEnv


class Seeded(CountEnv):
    """Counts from 100 times its seed; two of three seeds succeed, after three to five steps.

    Args:
        trap: The seed at whose third step something goes wrong.
        how: What: ``kill``, ``raise`` or ``hang``.
        once: A file that says that it has gone wrong already; None: always.
    """

    def __init__(self, trap: int | None = None, how: str = "kill", once: Path | None = None, **given: Any) -> None:
        super().__init__(length=None, **given)
        self._trap, self._how, self._once = trap, how, once
        self._seed = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        assert seed is not None
        self._seed, self.episode = seed, seed - 1
        return super().reset(seed=seed)

    def step(self, action: Any) -> Any:
        if self.t == 2 and self._seed == self._trap and (self._once is None or not self._once.exists()):
            if self._once is not None:
                self._once.touch()
            self._go_wrong()
        observation, reward, *_ = super().step(action)
        return observation, reward, self.t == 3 + self._seed % 3, False, {"is_success": self._seed % 3 != 1}

    def _go_wrong(self) -> None:
        if self._how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if self._how == "hang":
            threading.Event().wait()
        raise ZeroDivisionError("of the environment")


def _make(folder: Path, env: dict[str, Any], settings: dict[str, Any]) -> lr.RecordSession:
    given = {"mode": "custom", "columns": [lr.Column("obs", "gym:obs")], "gym_columns": True, **settings}
    return lr.RecordSession(Seeded(**env), output_dir=folder, **given)


def maker(folder: Path, env: dict[str, Any] | None = None, **settings: Any) -> Callable[[], lr.RecordSession]:
    """A function that makes the environment, recorded with the settings."""
    return functools.partial(_make, folder, env or {}, settings)


def only_here() -> lr.RecordSession:
    """Makes an environment, but in no worker."""
    if multiprocessing.parent_process() is not None:
        raise ZeroDivisionError("not in a worker")
    return _make(Path(), {}, {})


class Wandering:
    """A policy of chance that is seeded with each attempt, and no function of anything else."""

    def __init__(self) -> None:
        self._rng = np.random.default_rng()

    def reset(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def __call__(self, observation: Any) -> Any:
        return self._rng.random(1).astype(np.float32)
