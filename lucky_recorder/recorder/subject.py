"""The subject: the environment that is recorded, as far as it must be known from outside.

Where its simulation is, and whether it has been reset: by whoever called `reset`, or by itself, inside a step or on the
step after one that was the last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from lucky_recorder.capture import find, rates
from lucky_recorder.capture.door import simulator
from lucky_recorder.capture.pulse import Beat, Pulse, is_reset
from lucky_recorder.capture.snapshot import Scenes
from lucky_recorder.capture.source import Source, open_source
from lucky_recorder.errors import SettingsError
from lucky_recorder.recorder.arrival import FINAL_INFO, FINAL_OBSERVATIONS
from lucky_recorder.recorder.recording import Recording
from lucky_recorder.settings.recorder import RecorderSettings

# By which entries of a step's info environments say that they have reset themselves inside of it.
_SAID = (*FINAL_OBSERVATIONS, FINAL_INFO)
_MODE = "autoreset_mode"


class Subject:
    """What is known of an environment from outside.

    Attributes:
        env: The environment.
        is_still_there: Returns whether its simulation is the one that was found last; None where there is none.
        resets_on_next_step: Whether it says that the step after an episode's last one resets it.

    Args:
        env: As above.
    """

    def __init__(self, env: Any) -> None:
        self.env = env
        self.is_still_there: Callable[[], bool] | None = None
        modes = {str(getattr(mode, "name", mode)).upper().replace("_", "") for mode in _modes(env)}
        self.resets_on_next_step = "NEXTSTEP" in modes
        self._resets_in_step = "SAMESTEP" in modes
        self._pulse: Pulse | None = None
        self._fresh: Beat | None = None

    def locate(self) -> find.Found | None:
        """Find the simulation, again if it was found before; None if there is none."""
        located = find.locate_simulation(self.env)
        self.is_still_there = located.is_still_there if located else None
        self._pulse = simulator.pulse_of(located.found.data) if located else None
        return located.found if located else None

    def open_source(self, settings: RecorderSettings, scenes: Scenes) -> Source:
        """Look at the environment for the first time.

        Args:
            settings: What is recorded.
            scenes: What all lanes of the recording copy scenes into.

        Raises:
            SettingsError: If it cannot be recorded so.
        """
        _check_acts(self.env)
        found = self.locate()
        model, data = found or (None, None)
        render = self.env.render if self.env.render_mode == "rgb_array" else None
        clocks = rates.opening(settings, self.env, found is not None)
        return open_source(settings, model, data, self.env, render, clocks, scenes)

    def follow(self, recording: Recording | None, in_step: bool = False) -> None:
        """Find the simulation again and have it recorded: some environments make a new one, at any time.

        Args:
            recording: The open session.
            in_step: Whether a step is under way that has replaced it.

        Raises:
            SettingsError: If there is none any more, or its rows would have another layout.
        """
        found = self.locate()
        if recording is None:
            return
        if found is not None:
            recording.rebind(*found, in_step)
        elif recording.source.pulse is not None:
            raise SettingsError(
                "the MuJoCo model and data that were recorded are no longer in the environment, and no others are "
                "found there: keep them in the same attributes, such as env.model and env.data"
            )

    def says_reset(self, info: Mapping[str, Any], observation: Any) -> bool:
        """Tell whether the last step of an episode says that the environment has reset itself inside of it.

        Args:
            info: The step's.
            observation: What it returned. Where that is the episode's last one, it is not of the next episode yet.
        """
        if self._resets_in_step or isinstance(info.get(FINAL_INFO), Mapping):
            return True
        final = next((info[key] for key in FINAL_OBSERVATIONS if info.get(key) is not None), None)
        return final is not None and not _are_same(final, observation)

    def beat(self) -> Beat | None:
        """Return how its simulation stands; None where there is none."""
        return None if self._pulse is None else self._pulse.beat()

    def was_reset_since(self, before: Beat | None, is_done: bool, is_first: bool) -> bool:
        """Tell whether its simulation was reset in the step since then, or made anew.

        Args:
            before: How it stood before the step.
            is_done: Whether the environment has said that its episode is over, in this step or before it.
            is_first: Whether the step was the first since a reset.
        """
        if before is None or self.is_still_there is None:
            return False
        is_other = not self.is_still_there()
        if is_other:
            self.locate()
        now = self.beat()
        if now is None or is_other:
            # An object may be spawned within an episode; time goes on then.
            return is_done or now is None or now.time < before.time
        return is_reset(before, now, None, is_done, is_first)

    def note_reset(self) -> None:
        """Remember how the simulation stands after a reset."""
        self._fresh = self.beat()

    def has_stepped_on(self, recording: Recording | None) -> bool:
        """Tell whether it stands as if, in the step that has reset it, it went on by a whole step."""
        period, now = None if recording is None else recording.source.period, self.beat()
        if not period or now is None or self._fresh is None:
            return False
        return abs(now.time - self._fresh.time - period) <= 1e-5 * period


def _are_same(one: Any, other: Any) -> bool:
    """Tell whether two observations are the same; where that cannot be told, they are not."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_are_same(one[key], other[key]) for key in one)
    if isinstance(one, tuple | list) and isinstance(other, tuple | list):
        return len(one) == len(other) and all(map(_are_same, one, other))
    try:
        return bool(np.array_equal(one, other))
    except Exception:  # whatever the objects of an environment raise when they are compared
        return False


def _modes(env: Any) -> Iterator[Any]:
    """Walk through all that says how an environment resets itself: a wrapper of gymnasium's, and metadata."""
    metadata = getattr(env, "metadata", None)
    if isinstance(metadata, Mapping) and metadata.get(_MODE) is not None:
        yield metadata[_MODE]
    while "Wrapper" in _gymnasiums(env):
        if "Autoreset" in _gymnasiums(env):
            yield "next_step"
        env = env.env


def _gymnasiums(env: Any) -> set[str]:
    """Return the names of gymnasium's classes that something is of; it is not imported to ask."""
    return {kind.__name__ for kind in type(env).__mro__ if kind.__module__.partition(".")[0] == "gymnasium"}


def is_vector(env: Any) -> bool:
    """Tell whether something is many environments in one, by gymnasium's words or by Stable-Baselines3's."""
    kinds = _gymnasiums(env)
    is_vec_env = hasattr(env, "num_envs") and hasattr(env, "step_async")
    return "VectorEnv" in kinds or is_vec_env or ("Env" in kinds and _count(env) > 1)


def _count(env: Any) -> int:
    # Gymnasium's wrappers do not hand it through.
    count = getattr(env, "num_envs", getattr(getattr(env, "unwrapped", None), "num_envs", 1))
    return count if isinstance(count, int) else 1


def check_environment(env: Any) -> None:
    """Refuse what is no single Gymnasium environment.

    Raises:
        SettingsError: If it is not; says how it can be recorded.
    """
    if is_vector(env):
        remedy = (
            f"has {_count(env)} environments in it, and a lane is one: put a recorder around it, or around each "
            "environment in it, as gym.make_vec(..., wrappers=[lucky_recorder.vector.shared(...)]) does"
        )
        raise SettingsError.of("env", env, remedy)
    if "Env" not in _gymnasiums(env):
        remedy = (
            "is no gymnasium.Env: wrap one of another library (the package shimmy does, for gym and dm_control), or "
            "record a bare MuJoCo model with lucky_recorder.Observer"
        )
        raise SettingsError.of("env", env, remedy)


def _check_acts(env: Any) -> None:
    """Refuse an environment that takes no action: whoever made it has misconfigured its controller."""
    space = getattr(env, "action_space", None)
    if 0 in (getattr(space, "shape", None) or ()):
        remedy = "the environment takes no action; give it one, or record its model with lucky_recorder.Observer"
        raise SettingsError.of("action_space", space, remedy)
