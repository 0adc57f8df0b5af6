"""Arrivals: what an environment hands out, checked and copied when it arrives.

Environments fill one buffer again and again, policies normalise what they are given in place, and a wrapper may change
an info. What a row or a verdict is made of must not change with them.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
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
# Whether a step ends an episode, by what it returns; numpy's truth values are equal to these, and so found.
_ENDS = {(one, other): one or other for one in (False, True) for other in (False, True)}
_PLAIN = (bool, int, float, complex, str, bytes, type(None), np.generic)


class Arrivals:
    """Takes in what an environment returns.

    Attributes:
        observation: The last observation: the one that the next action is chosen on.
        is_over: Whether the last step has ended its episode.
        is_fresh: Whether no step was taken since the last reset.
        final: The observation that the last step of an episode had led to before it reset the environment.
        keeps_all: Whether functions of the user's may look at anything, so that everything must be kept as it arrives.

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
        # A function of the user's may look at anything.
        self.keeps_all = success.is_callable or settings.calls_task or any(c.is_called for c in columns)
        self._task = None if settings.task is None else TaskSignal(settings.task)
        sources = [c.source for c in columns if isinstance(c.source, str)]
        self._keeps_observations = self.keeps_all or any(source.startswith("gym:obs") for source in sources)

    def reset(self, result: Any) -> None:
        """Take in what a reset has returned.

        Raises:
            CaptureError: If that is no observation and info: an old environment gives the observation alone, and one
                of two values would pass for both.
        """
        if type(result) is not tuple or len(result) != 2 or not isinstance(result[1], Mapping):
            remedy = "wrap the environment so that its reset returns an info too, as an empty dict if there is nothing"
            raise CaptureError(f"env.reset returned {shown(result)}; {_GYMNASIUM} (observation, info): {remedy}")
        self.observation = copied(result[0]) if self._keeps_observations else result[0]
        self.is_over, self.is_fresh = False, True
        if self._task is not None:
            self._task.hear_reset(copied(dict(result[1])) if self.keeps_all else result[1])

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
        self.observation = copied(observation) if self._keeps_observations else observation
        moment.info = copied(info) if self.keeps_all else info
        if self._task is not None:
            self._task.hear(moment.info)
        # Most say nothing, or a plain truth value. This is done at every step, so without a call.
        said = info.get(self._first)
        moment.said = said if said.__class__ is bool else self._hear(info)
        self.is_fresh = False
        is_over = (moment.terminated is not False or truncated is not False) and ends(moment.terminated, truncated)
        moment.done = self.is_over = is_over

    def end(self, moment: Moment) -> None:
        """Take what a step says of the episode that it has ended, where that of the next one stands in its place."""
        told = (moment.info[key] for key in FINAL_OBSERVATIONS if moment.info.get(key) is not None)
        self.final = next(told, GONE)
        final = moment.info.get(FINAL_INFO)
        if isinstance(final, Mapping):
            said = self._hear(final)
            moment.said = moment.said if said is None else said
            moment.info = dict(final)


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
    try:
        return _ENDS[terminated, truncated]
    except (KeyError, TypeError):  # an array of one cannot be looked up
        return truth(terminated, "terminated") | truth(truncated, "truncated")


def copied(value: Any) -> Any:
    """Return a value that nobody else can change: containers and arrays in it are copied, plain values stay."""
    if type(value) is np.ndarray and value.dtype != object:
        return value.copy()
    if isinstance(value, _PLAIN):
        return value
    if type(value) is dict:
        return {key: copied(one) for key, one in value.items()}
    if type(value) in (list, tuple):
        return type(value)(copied(one) for one in value)
    try:
        return copy.deepcopy(value)
    except Exception:  # an object of the environment's own may refuse, and then it is nothing that a column could hold
        return value
