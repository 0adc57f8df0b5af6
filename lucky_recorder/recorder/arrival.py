"""Arrivals: what an environment hands out, checked and copied when it arrives.

Environments fill one buffer again and again, policies normalise what they are given in place, and a wrapper may change
an info. What a row or a verdict is made of must not change with them.
"""

from __future__ import annotations

import array
import copy
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from lucky_recorder.capture.moment import Moment
from lucky_recorder.errors import CaptureError, shown
from lucky_recorder.recorder.success import GONE, SuccessSignal, truth
from lucky_recorder.recorder.tasks import TaskSignal
from lucky_recorder.settings.recorder import RecorderSettings

# By which entries of info a step that has reset the environment gives the observation that it had led to: gymnasium's
# words, those of its older versions, and Stable-Baselines3's.
FINAL_OBSERVATIONS = ("final_obs", "final_observation", "terminal_observation")
# Where gymnasium's vector environments, and those that follow them, put the info of the episode that has ended.
FINAL_INFO = "final_info"
_GYMNASIUM = "gymnasium's environments return"
_OF_A_STEP = "(observation, reward, terminated, truncated, info)"
_TRUTHS = frozenset((bool, np.bool_))
# What nobody can change.
_SETTLED = frozenset((bool, int, float, complex, str, bytes, type(None), np.bool_, np.float64, np.float32, np.int64))


class Arrivals:
    """Takes in what an environment returns.

    Attributes:
        observation: The last observation: the one that the next action is chosen on.
        is_over: Whether the last step has ended its episode.
        is_fresh: Whether no step was taken since the last reset.
        final: The observation that the last step of an episode had led to before it reset the environment.
        keeps_actions: Whether a function of the user's is shown the action once the environment has had it.

    Args:
        settings: What is recorded: no more is copied than that needs.
        success: What hears of success.
    """

    def __init__(self, settings: RecorderSettings, success: SuccessSignal) -> None:
        self.observation: Any = None
        self.is_over = False
        self.is_fresh = True
        self.final: Any = GONE
        self._first, self._hear = success.keys[0], success.hear
        columns = settings.columns if settings.record_data else ()
        self._task = None if settings.task is None else TaskSignal(settings.task)
        # What is asked at once needs no copy. A verdict may fall, and a task be asked for, before the next step only,
        # and so may what is shown the observation that the next action is chosen on.
        self._keeps_infos = success.is_callable or settings.calls_task
        self.keeps_actions = success.is_callable or any(c.is_called_after for c in columns)
        sources = [c.source for c in columns if isinstance(c.source, str)]
        shows = any(c.is_called and not c.is_called_after for c in columns)
        self._keeps_observations = self._keeps_infos or shows or any(s.startswith("gym:obs") for s in sources)
        # Where nothing but columns of parts is made of it, only those parts are kept.
        self._keys: list[Any] | None = None
        self._parts = () if self._keeps_infos or shows or "gym:obs" in sources else tuple(_parts_of(sources))

    def reset(self, result: Any) -> None:
        """Take in what a reset has returned.

        Raises:
            CaptureError: If that is no observation and info: an old environment gives the observation alone, and one
                of two values would pass for both.
        """
        if type(result) is not tuple or len(result) != 2 or not isinstance(result[1], Mapping):
            remedy = "wrap the environment so that its reset returns an info too, as an empty dict if there is nothing"
            raise CaptureError(f"env.reset returned {shown(result)}; {_GYMNASIUM} (observation, info): {remedy}")
        self._observe(result[0])
        self.is_over, self.is_fresh = False, True
        if self._task is not None:
            self._task.hear_reset(copied(dict(result[1])) if self._keeps_infos else result[1])

    def begin(self, moment: Moment) -> None:
        """Begin an episode after what has arrived last: its moment knows nothing of the steps of another."""
        moment.clear()
        if self._task is not None:
            self._task.begin(moment)

    def step(self, result: Any, moment: Moment) -> None:
        """Take in what a step has returned.

        Args:
            result: What ``env.step`` has returned.
            moment: It is told the reward, the info and how the step ended.

        Raises:
            CaptureError: If that is not what gymnasium's environments return.
            SettingsError: If ``terminated`` or ``truncated`` is no truth value.
        """
        try:
            observation, moment.reward, moment.terminated, truncated, info = result
        except (TypeError, ValueError):
            raise _wrong_step(result) from None
        if info.__class__ is not dict:
            info = _plain(info)
        if self._keeps_observations:
            self._observe(observation)
        else:
            self.observation = observation
        moment.info = info
        if self._keeps_infos:
            moment.info, moment.reward = copied(info), copied(moment.reward)
        if self._task is not None:
            self._task.hear(moment.info)
        # Most say nothing, or a plain truth value. This is done at every step, so without a call.
        said = info.get(self._first)
        moment.said = said if said is True or said is False or said.__class__ in _TRUTHS else self._hear(info)
        self.is_fresh = False
        terminated = moment.terminated
        if terminated is False and truncated is False:
            moment.done = self.is_over = False
        else:
            is_plain = terminated.__class__ in _TRUTHS and truncated.__class__ in _TRUTHS
            moment.done = self.is_over = bool(terminated or truncated) if is_plain else ends(terminated, truncated)

    def _observe(self, observation: Any) -> None:
        if not self._keeps_observations:
            self.observation = observation
        elif self._parts and isinstance(observation, dict):
            if self._keys is None:
                self._keys = [key for key in observation if self._is_part(str(key))]
            self.observation = {key: copied(observation[key]) for key in self._keys if key in observation}
        else:
            self.observation = copied(observation)

    def _is_part(self, key: str) -> bool:
        """Tell whether a column is made of an entry of the observation, or of a part of it."""
        return any(part == key or part.startswith(f"{key}.") for part in self._parts)

    def end(self, moment: Moment) -> None:
        """Take what a step says of the episode that it has ended, where that of the next one stands in its place."""
        told = (moment.info[key] for key in FINAL_OBSERVATIONS if moment.info.get(key) is not None)
        self.final = next(told, GONE)
        final = moment.info.get(FINAL_INFO)
        if isinstance(final, Mapping):
            said = self._hear(final)
            moment.said = moment.said if said is None else said
            moment.info = dict(final)


def _parts_of(sources: Iterable[str]) -> Iterator[str]:
    return (source.removeprefix("gym:obs.") for source in sources if source.startswith("gym:obs."))


def _plain(info: Any) -> dict[str, Any]:
    if not isinstance(info, Mapping):
        remedy = "return an empty one where there is nothing to say"
        raise CaptureError(f"env.step returned info={shown(info)}; {_GYMNASIUM} a dict: {remedy}")
    return dict(info)


def _wrong_step(result: Any) -> CaptureError:
    what = f"{len(result)} values" if isinstance(result, tuple | list) else shown(result)
    remedy = "wrap an environment of the old gym, whose done is terminated here, or truncated by a time limit"
    return CaptureError(f"env.step returned {what}; {_GYMNASIUM} {_OF_A_STEP}: {remedy}")


def ends(terminated: Any, truncated: Any) -> bool:
    """Tell whether a step ends an episode.

    Raises:
        SettingsError: If one of the two is no truth value.
    """
    return truth(terminated, "terminated") | truth(truncated, "truncated")


def copied(value: Any) -> Any:
    """Return a value that nobody else can change: containers, arrays and what can become an array are copied.

    Any other object stays as it is: it may be a whole simulation, and no column could hold it.
    """
    if value.__class__ in _SETTLED:
        return value
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, Mapping):
        return {key: copied(one) for key, one in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(copied, value))
    if isinstance(value, list | tuple):
        return list(map(copied, value)) if isinstance(value, list) else tuple(map(copied, value))
    return _copied_array(value) if _is_array(value) else value


def _is_array(value: Any) -> bool:
    """Tell whether numpy makes an array of an object: a tensor of another library's, or a buffer."""
    return hasattr(value, "__array__") or isinstance(value, memoryview | bytearray | array.array)


def _copied_array(value: Any) -> Any:
    try:
        return copy.deepcopy(value)
    except Exception:  # not all of them can be copied as what they are
        return np.array(value)
