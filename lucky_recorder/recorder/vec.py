"""VecRecordSession: the recorder's face for a vector environment of Stable-Baselines3's kind, a ``VecEnv``."""

from __future__ import annotations

import sys
from abc import ABCMeta
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Unpack

from lucky_recorder.episode.sink import Sink
from lucky_recorder.recorder.batched import SAME_STEP, Batch, BatchedLanes, flags, infos_of, parts, plain
from lucky_recorder.recorder.fleet import Fleet
from lucky_recorder.recorder.lanes import Lanes, innermost, lanes_of, seeds_of
from lucky_recorder.settings.fields import RecorderFields
from lucky_recorder.settings.recorder import RecorderSettings


class VecRecordSession(Lanes):
    """Records what the environments of a Stable-Baselines3 ``VecEnv`` do into one session; it is used as that is.

    Where the ``VecEnv`` has its environments at hand, as a ``DummyVecEnv`` has, each is recorded as any environment is;
    else, in ``custom`` mode, from what the ``VecEnv`` returns. What is not named here is the ``VecEnv``'s own.
    Stable-Baselines3 takes it for one of its own wrappers: its algorithms learn in it, and `evaluate_policy` runs it.

    Args:
        env: The ``VecEnv``.
        settings: What to record; see `RecordSession`.
        sinks: Formats of your own; see `RecordSession`.
        **fields: Settings by keyword, on top of ``settings``.

    Raises:
        SettingsError: If the settings cannot be recorded.
    """

    def __init__(
        self,
        env: Any,
        settings: RecorderSettings | Mapping[str, Any] | str | Path | None = None,
        *,
        sinks: Iterable[Sink] = (),
        **fields: Unpack[RecorderFields],
    ) -> None:
        _be_known()
        self.venv = env
        self.settings = RecorderSettings.of(settings, **fields)
        self._fleet = Fleet(self.settings, sinks, has_lanes=True)
        self.lanes, self._batched = lanes_of(env, self.settings, self._fleet, SAME_STEP)
        self._seeds: Sequence[int | None] | None = None
        self._acted: Sequence[Any] = ()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "venv":
            raise AttributeError(name)
        return getattr(self.venv, name)

    def seed(self, seed: int | None = None) -> Any:
        """Seed the next reset: the environments one after another, as the ``VecEnv`` does."""
        seeds = self.venv.seed(seed)
        # Without a seed it draws one, and says which: `reset` asks the ``VecEnv`` itself first, where that tells.
        self._seeds = self._each(seeds) or seeds_of(seed, len(self.lanes))
        return seeds

    def reset(self) -> Any:
        """Reset the environments, and return their observations; see `VectorRecordSession.reset`."""
        with self.heard():
            if self._batched is None:
                return self.venv.reset()
            every = [True] * len(self.lanes)
            # Before the reset, which uses them up: whoever has set them, and whatever was drawn for it.
            seeds, options = self._pending("_seeds") or self._seeds, self._pending("_options")
            self._seeds = None
            with self._batched.whole():
                observations = self.venv.reset()
                infos = self._infos(getattr(self.venv, "reset_infos", None) or [{} for _ in every])
                nothing = [None] * len(every)
                given = seeds or nothing, False, options or nothing
                self._batched.reset(self._parts(observations), infos, every, *given)
            return observations

    def _pending(self, name: str) -> list[Any] | None:
        """Return what the innermost ``VecEnv`` has for the next reset of each environment; None if it has nothing."""
        return self._each(getattr(innermost(self.venv), name, None))

    def _each(self, said: Any) -> list[Any] | None:
        return list(said) if isinstance(said, Sequence) and len(said) == len(self.lanes) else None

    def step(self, actions: Any) -> Any:
        """Step the environments and record the steps; see `VectorRecordSession.step`."""
        self.step_async(actions)
        return self.step_wait()

    def step_async(self, actions: Any) -> None:
        """Begin to step the environments."""
        with self.heard():
            if self._batched is not None:
                # Before the step: it may clip them in place, and the pictures are those that the actions follow.
                self._acted = parts(actions, None, len(self.lanes), is_batched=False)
                self._batched.look()
            self.venv.step_async(actions)

    def step_wait(self) -> Any:
        """Wait for the step, and record it; returns observations, rewards, which are done, and infos."""
        with self.heard():
            if self._batched is None:
                result = self.venv.step_wait()
                self.refuse_unheard()
                return result
            with self._batched.whole():
                result = self.venv.step_wait()
                self._take_in(self._batched, result)
            return result

    def _take_in(self, batched: BatchedLanes, result: Any) -> None:
        observations, rewards, dones, given = result
        infos, done = self._infos(given), flags(dones)
        cut = [is_done and bool(info.get("TimeLimit.truncated")) for is_done, info in zip(done, infos, strict=True)]
        ended = [is_done and not is_cut for is_done, is_cut in zip(done, cut, strict=True)]
        batched.step(self._acted, Batch(self._parts(observations), list(plain(rewards)), ended, cut, infos))

    def _parts(self, observations: Any) -> list[Any]:
        return parts(observations, self.venv.observation_space, len(self.lanes), is_batched=False)

    def _infos(self, infos: Any) -> list[dict[str, Any]]:
        return infos_of(infos, len(self.lanes))

    def close(self) -> None:
        """Give the open episodes their verdicts, close the session, then the environments; see `VectorRecordSession`.

        Raises:
            LuckyRecorderError: The first thing that failed in the session; the environments are closed all the same.
        """
        self.close_lanes(self.venv.close)


def _be_known() -> None:
    """Have Stable-Baselines3, where it is imported, take the recorder for a wrapper of its own.

    It asks for its own classes everywhere, and puts what is none into a ``DummyVecEnv``, as a single environment.
    """
    module = sys.modules.get("stable_baselines3.common.vec_env.base_vec_env")
    wrapper = getattr(module, "VecEnvWrapper", None)
    if isinstance(wrapper, ABCMeta):
        wrapper.register(VecRecordSession)
