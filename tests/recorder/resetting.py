"""Environments that reset themselves, and the plainest bookkeeping of which of their steps are rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import gymnasium as gym
import mujoco
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers import Autoreset

from lucky_recorder import Column
from lucky_recorder.testing import CountEnv, _load_room

ROBOT = {"mode": "robot_arm", "gym_columns": True, "columns": [Column("obs", "gym:obs")]}
FINAL = {"final_obs": None, "final_observation": None, "terminal_observation": None}


class SameStep(gym.Wrapper[Any, Any, Any, Any]):
    """Resets inside the step that ends an episode; ``says`` is the entry of info that tells of it."""

    def __init__(self, env: gym.Env[Any, Any], says: str | None = None) -> None:
        super().__init__(env)
        self.says = says

    def step(self, action: Any) -> Any:
        final, reward, terminated, truncated, info = self.env.step(action)
        if not (terminated or truncated):
            return final, reward, terminated, truncated, info
        observation, fresh = self.env.reset()
        if self.says == "final_info":
            info = {**fresh, "final_info": info, "is_success": "this is the next episode's"}
        elif self.says in FINAL:
            info = {**info, self.says: final}
        return observation, reward, terminated, truncated, info


class Declared(gym.Wrapper[Any, Any, Any, Any]):
    """Says by its metadata how it resets itself."""

    def __init__(self, env: gym.Env[Any, Any], mode: Any) -> None:
        super().__init__(env)
        self.metadata = {**env.metadata, "autoreset_mode": mode}


class NextStep(gym.Wrapper[Any, Any, Any, Any]):
    """Resets in the step after the one that ends an episode, and does nothing else in it."""

    is_over = False

    def reset(self, **options: Any) -> Any:
        self.is_over = False
        return super().reset(**options)

    def step(self, action: Any) -> Any:
        if self.is_over:
            observation, info = self.reset()
            return observation, 0.0, False, False, info
        result = super().step(action)
        self.is_over = result[2] or result[3]
        return result


class Hard(CountEnv):
    """Makes a model and data of its own at every reset, as some environments do."""

    def reset(self, **options: Any) -> Any:
        self.model, self.data = _load_room()
        return super().reset(**options)


class WarmsUp(CountEnv):
    """Lets the world settle at every reset, so that time does not begin at 0."""

    def reset(self, **options: Any) -> Any:
        result = super().reset(**options)
        mujoco.mj_step(self.model, self.data, 25)
        self._show()
        return result


KINDS: dict[str, Callable[[CountEnv], gym.Env[Any, Any]]] = {
    "plain": lambda env: env,
    "same step, undeclared": SameStep,
    "same step, final_obs": lambda env: SameStep(env, "final_obs"),
    "same step, final_observation": lambda env: SameStep(env, "final_observation"),
    "same step, terminal_observation": lambda env: SameStep(env, "terminal_observation"),
    "same step, final_info": lambda env: SameStep(env, "final_info"),
    "same step, metadata": lambda env: Declared(SameStep(env), AutoresetMode.SAME_STEP),
    "same step, metadata as text": lambda env: Declared(SameStep(env), "same_step"),
    "next step, undeclared": NextStep,
    "next step, gymnasium's wrapper": Autoreset,
    "next step, metadata": lambda env: Declared(NextStep(env), AutoresetMode.NEXT_STEP),
    "next step, metadata as text": lambda env: Declared(NextStep(env), "NextStep"),
}


class Row(NamedTuple):
    """A row as it should be: the count before the step, the command during it, and how it ended."""

    count: int
    action: float
    is_done: bool


class Books:
    """Drives an environment and keeps the books of its rows.

    Args:
        env: What is driven, recorded or not.
        inner: The counting environment in it: its count is the truth.
        keeps_last: Whether the step that resets is a row all the same.
    """

    def __init__(self, env: Any, inner: CountEnv, keeps_last: bool = False) -> None:
        self.env, self.inner, self.keeps_last = env, inner, keeps_last
        self.episodes: list[list[Row]] = []
        self.is_over = True
        self.late = 0

    def reset(self, seed: int | None = None) -> None:
        self.env.reset(seed=seed)
        self._begin()

    def _begin(self) -> None:
        self.episodes.append([])
        self.is_over = False

    def step(self, action: float) -> bool:
        """Step with an action; returns whether the environment said that the episode is over."""
        before = self.inner.count
        _, _, terminated, truncated, _ = self.env.step(np.array([action], np.float32))
        was_reset, done = self.inner.count != before + 1, terminated or truncated
        if self.is_over:
            self.late += not was_reset
            if was_reset:
                self._begin()
            return done
        if not was_reset or self.keeps_last:
            self.episodes[-1].append(Row(before, action, done))
        if was_reset:
            self._begin()
        else:
            self.is_over = done
        return done

    def recorded(self) -> list[list[Row]]:
        """The episodes that have rows."""
        return [rows for rows in self.episodes if rows]


def drive(books: Books, steps: int, calls_reset: bool) -> None:
    """Step on, with actions that are all different; reset after done if the loop is one that does."""
    books.reset(seed=0)
    for t in range(steps):
        done = books.step(t + 0.5)
        if done and calls_reset:
            books.reset(seed=t)
