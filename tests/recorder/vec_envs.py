"""A vector environment of Stable-Baselines3's kind, without Stable-Baselines3."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


class FakeVecEnv:
    """As a ``DummyVecEnv`` is documented; ``hidden`` is what a ``SubprocVecEnv`` shows of its environments."""

    def __init__(self, makers: list[Callable[[], Any]], hidden: bool) -> None:
        envs = [make() for make in makers]
        self._envs = envs
        if not hidden:
            self.envs = envs
        self.hidden = hidden
        self.num_envs = len(envs)
        self.observation_space, self.action_space = envs[0].observation_space, envs[0].action_space
        self.metadata, self.render_mode = envs[0].metadata, "rgb_array"
        self._use_up()

    def _use_up(self) -> None:
        self._seeds: list[int | None] = [None] * self.num_envs
        self._options: list[dict[str, Any]] = [{}] * self.num_envs

    @property
    def at_hand(self) -> list[Any]:
        return self._envs if self.hidden else self.envs

    def seed(self, seed: int | None = None) -> list[int | None]:
        drawn = 1234 if seed is None else seed
        self._seeds = [drawn + i for i in range(self.num_envs)]
        return self._seeds

    def set_options(self, options: Any) -> None:
        self._options = options if isinstance(options, list) else [options] * self.num_envs

    def reset(self) -> Any:
        given = zip(self.at_hand, self._seeds, self._options, strict=True)
        results = [env.reset(seed=seed, **({"options": said} if said else {})) for env, seed, said in given]
        self._use_up()
        self.reset_infos = [info for _, info in results]
        return np.stack([observation for observation, _ in results])

    def step_async(self, actions: Any) -> None:
        self._actions = actions

    def step_wait(self) -> Any:
        observations, rewards, dones, infos = [], [], [], []
        for env, act in zip(self.at_hand, self._actions, strict=True):
            observation, reward, terminated, truncated, info = env.step(act)
            info = {**info, "TimeLimit.truncated": truncated and not terminated}
            if terminated or truncated:
                info["terminal_observation"] = observation
                observation, _ = env.reset()
            observations.append(observation)
            rewards.append(reward)
            dones.append(terminated or truncated)
            infos.append(info)
        return np.stack(observations), np.array(rewards), np.array(dones), infos

    def step(self, actions: Any) -> Any:
        self.step_async(actions)
        return self.step_wait()

    def get_images(self) -> list[Any]:
        return [env.render() for env in self.at_hand]

    def render(self, mode: str | None = None) -> Any:
        return np.concatenate(self.get_images(), axis=1)

    def close(self) -> None:
        for env in self.at_hand:
            env.close()

    def what_it_is(self) -> str:
        return "a VecEnv"
