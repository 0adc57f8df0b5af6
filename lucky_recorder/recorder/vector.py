"""VectorRecordSession: the recorder's face for a vector environment whose environments are in this process.

A tap is put around each environment in the vector environment. So every mode in which that resets its environments is
one that the tap has seen before: it steps and resets, and what comes back is the environment's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Unpack

import gymnasium as gym

from lucky_recorder.episode.sink import Sink
from lucky_recorder.recorder import faces
from lucky_recorder.recorder.batched import AsVector, Batch, BatchedLanes, flags, infos_of, parts, plain
from lucky_recorder.recorder.fleet import Fleet
from lucky_recorder.recorder.lanes import Lanes, lanes_of, seeds_of
from lucky_recorder.recorder.vec import VecRecordSession
from lucky_recorder.recorder.wrapper import KEEP_EPISODE
from lucky_recorder.settings.fields import RecorderFields
from lucky_recorder.settings.recorder import RecorderSettings


class VectorRecordSession(Lanes, gym.vector.VectorWrapper[Any, Any, Any, Any, Any]):
    """Records what the environments of a vector environment do into one session.

    Each environment is a lane: it is recorded as a `RecordSession` records a single one, whichever way the vector
    environment resets it. An episode gets its index when it is committed: episodes of all lanes follow each other in
    the order in which they end.

    Attributes:
        lanes: The `RecordSession` of each environment, for what is said of one of them.
        settings: What is recorded, in every lane.

    Args:
        env: The vector environment, or one that has ``num_envs`` in it behind the face of one.
        settings: What to record; see `RecordSession`.
        sinks: Formats of your own; see `RecordSession`.
        **fields: Settings by keyword, on top of ``settings``.

    Raises:
        SettingsError: If the settings cannot be recorded.

    Example:
        ```python
        env = lr.RecordSession(gym.make_vec("LuckyRecorder/PickCube-v0", num_envs=8, vectorization_mode="sync"))
        ```
    """

    def __init__(
        self,
        env: gym.vector.VectorEnv[Any, Any, Any],
        settings: RecorderSettings | Mapping[str, Any] | str | Path | None = None,
        *,
        sinks: Iterable[Sink] = (),
        **fields: Unpack[RecorderFields],
    ) -> None:
        super().__init__(env if isinstance(env, gym.vector.VectorEnv) else AsVector(env))
        self.settings = RecorderSettings.of(settings, **fields)
        self._fleet = Fleet(self.settings, sinks, has_lanes=True)
        self.lanes, self._batched = lanes_of(self.env, self.settings, self._fleet)

    # What the environments do.

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Reset the environments, or those of a mask; their open episodes get their verdicts and the next ones begin.

        Args:
            seed: As for the vector environment.
            options: As for the vector environment: ``{"reset_mask": mask}`` resets those of a bool array of shape
                ``(num_envs,)``. ``{"keep_episode": True}`` is for every lane that is reset; see `RecordSession.reset`.

        Raises:
            SettingsError: At the first reset, if an environment does not fit the settings or the others.
        """
        with self.heard():
            if self._batched is not None:
                return self._reset_batched(self._batched, seed, dict(options or {}))
            return self.env.reset(seed=seed, options=options)

    def _reset_batched(self, batched: BatchedLanes, seed: Any, options: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        keeps, mask, count = bool(options.pop(KEEP_EPISODE, False)), options.get("reset_mask"), len(self.lanes)
        # As each lane was given them.
        said = {key: value for key, value in options.items() if key != "reset_mask"}
        which = [True] * count if mask is None else flags(mask)
        with batched.whole():
            result = self.env.reset(seed=seed, options=options or None)
            observations = parts(result[0], self.env.observation_space, count)
            batched.reset(observations, infos_of(result[1], count), which, seeds_of(seed, count), keeps, [said] * count)
        return result

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step the environments and record the steps.

        Raises:
            SettingsError: If the vector environment steps others than those in its ``envs``.
            CaptureError: If the step of a lane cannot be recorded; its episode is ended as failed, and the environments
                after it were not stepped. The session stays open.
            StreamError: If a stream of a lane has failed; the session is closed then, for all.
        """
        with self.heard():
            if self._batched is not None:
                return self._step_batched(self._batched, actions)
            result = self.env.step(actions)
            self.refuse_unheard()
            return result

    def _step_batched(self, batched: BatchedLanes, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        count = len(self.lanes)
        # Before the step: it may clip them in place.
        acted = parts(actions, self.env.action_space, count)
        batched.look()
        with batched.whole():
            result = self.env.step(actions)
            observations, rewards, terminated, truncated, infos = result
            batch = Batch(
                parts(observations, self.env.observation_space, count),
                list(plain(rewards)),
                flags(terminated),
                flags(truncated),
                infos_of(infos, count),
            )
            batched.step(acted, batch)
        return result

    def close(self, **kwargs: Any) -> None:
        """Give the open episodes their verdicts, close the session, then the environments. Again it does nothing.

        Episodes that were not done are ended as failed.

        Raises:
            LuckyRecorderError: The first thing that failed in the session; the environments are closed all the same.
        """
        self.close_lanes(lambda: self.env.close(**kwargs))

    def __enter__(self) -> VectorRecordSession:
        """Open nothing; leaving the block closes all."""
        return self

    def __exit__(self, *raised: object) -> None:
        """Close the session and the environments."""
        self.close()


def of(env: Any) -> Callable[..., Any]:
    """Return what makes the face of a vector environment: of gymnasium's kind, or of Stable-Baselines3's.

    Raises:
        SettingsError: If some of its environments are recorded already, and others are not.
    """
    known = faces.known(env)
    if known is not None:
        return known.face
    return VectorRecordSession if isinstance(env, gym.vector.VectorEnv | gym.Env) else VecRecordSession
