"""Moves that an environment is put through, and the plainest bookkeeping of what they should leave."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pytest

ZERO = np.zeros(1, np.float32)


class Expected:
    """What a session should hold after any order of calls: the plainest bookkeeping there is."""

    def __init__(self, length: int, discards: bool) -> None:
        self.length, self.discards = length, discards
        self.episodes: list[tuple[list[int], bool]] = []
        self.open: list[int] | None = None
        self.number, self.t = -1, 0

    def end(self, success: bool) -> None:
        rows, self.open = self.open, None
        if rows and (success or not self.discards):
            self.episodes.append((rows, success))

    def warned(self) -> contextlib.AbstractContextManager[Any]:
        """Steps after the last one of an episode are no rows, and told of with their number."""
        late = self.t - self.length
        if late <= 0:
            return contextlib.nullcontext()
        return pytest.warns(RuntimeWarning, match=f"^{late} steps came after one that had ended")

    def reset(self) -> None:
        self.end(success=True)
        self.number, self.t, self.open = self.number + 1, 0, []

    def step(self) -> None:
        if self.open is not None and self.t < self.length:
            self.open.append(100 * self.number + self.t)
        self.t += 1


def play(env: Any, expected: Expected, moves: list[str]) -> None:
    """Make the moves of a game of done and reset, and keep the books."""
    for move in moves:
        if move == "reset":
            with expected.warned():
                env.reset()
            expected.reset()
        elif move == "step":
            env.step(ZERO)
            expected.step()
        elif expected.open is not None:
            env.end_episode(success=move == "won")
            expected.end(move == "won")


def fill(env: Any) -> None:
    """Record until the disk is full."""
    for episode in range(500):
        env.reset(seed=episode)
        for _ in range(20):
            env.step(ZERO)
        env.end_episode(success=True)
