"""What is given of many episodes, side by side: arrays, lists, and whatever can be gone through once.

Arrays may be numpy's, or of any library whose arrays share their memory (DLPack: torch, jax).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_recorder.errors import SettingsError, shown

# Stands for an episode that there is none of.
_OVER = object()


class _Input:
    """One thing that is given of each episode."""

    count: int | None = None

    def take(self, number: int) -> Any:
        """Return it of an episode; they are asked for in order. Where there are no more, `_OVER`."""
        raise NotImplementedError


class _Constant(_Input):
    """The same for all."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def take(self, number: int) -> Any:
        return self._value


class _Listed(_Input):
    """One by one, as often as anybody asks."""

    def __init__(self, values: Any, count: int) -> None:
        self._values = values
        self.count = count

    def take(self, number: int) -> Any:
        return self._values[number] if number < len(self._values) else _OVER


class _Passing(_Input):
    """One by one, and once."""

    def __init__(self, values: Iterator[Any]) -> None:
        self._values = values

    def take(self, number: int) -> Any:
        return next(self._values, _OVER)


class Episodes:
    """What is given of each episode, by name.

    Attributes:
        count: How many episodes there are; None where only going through them shows it.

    Args:
        of_each: What is another for each episode: an array with an axis of episodes in front, a list, or an iterable.
        of_all: What may also be one value for all of them.

    Raises:
        SettingsError: If one of them is nothing of that kind, or they are of different numbers of episodes.
    """

    def __init__(self, of_each: Mapping[str, Any], of_all: Mapping[str, Any]) -> None:
        self._inputs: dict[str, _Input] = {name: _input(name, value) for name, value in of_each.items()}
        for name, value in of_all.items():
            self._inputs[name] = _Constant(value) if _is_one(value) else _input(name, value)
        self._varying = [name for name, one in self._inputs.items() if not isinstance(one, _Constant)]
        counts = {name: self._inputs[name].count for name in self._varying}
        self.count = None if None in counts.values() else next(iter(counts.values()))
        known = {name: count for name, count in counts.items() if count is not None}
        if len({*known.values()}) > 1:
            (first, many), (other, others) = next(
                (one, two) for one in known.items() for two in known.items() if one[1] != two[1]
            )
            raise SettingsError(f"{other}: is of {others} episodes, and {first} of {many}; give as many of each")

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Go through the episodes.

        Raises:
            SettingsError: If there is more of one thing than of another.
        """
        for number in itertools.count():
            found = {name: one.take(number) for name, one in self._inputs.items()}
            over = [name for name in self._varying if found[name] is _OVER]
            if over:
                if more := [name for name in self._varying if found[name] is not _OVER]:
                    raise SettingsError(
                        f"{over[0]}: is of {number} episodes, and {more[0]} of more; give as many of each"
                    )
                return
            yield found


def _is_one(value: Any) -> bool:
    """Tell whether something is one value, for all episodes."""
    return value is None or callable(value) or isinstance(value, str) or not hasattr(value, "__iter__") or _is_0d(value)


def _is_0d(value: Any) -> bool:
    return getattr(value, "ndim", None) == 0


def _input(name: str, value: Any) -> _Input:
    if isinstance(value, str | bytes | Mapping | set | frozenset):
        raise SettingsError.of(
            name, value, "give an array with an axis of episodes in front, or a list of one for each"
        )
    given = numbers(value, name) if isinstance(value, np.ndarray) or hasattr(value, "__dlpack__") else value
    if hasattr(given, "__len__") and hasattr(given, "__getitem__"):
        if not len(given):
            raise SettingsError.of(name, value, "there is no episode in it")
        return _Listed(given, len(given))
    if hasattr(given, "__iter__"):
        return _Passing(iter(given))
    raise SettingsError.of(name, value, "give an array with an axis of episodes in front, or a list of one for each")


def numbers(value: Any, field: str) -> NDArray[Any]:
    """Return an array of anybody's as one of numpy's; memory is shared where it can be.

    Raises:
        SettingsError: If it is none, or is elsewhere than in the memory of this machine.
    """
    if isinstance(value, np.ndarray):
        found = value
    elif hasattr(value, "__dlpack__"):
        found = _shared(value, field)
    else:
        try:
            found = np.asarray(value)
        except Exception as error:  # whatever it raises when it is looked at
            raise SettingsError.of(field, value, f"it cannot be made an array ({error})") from error
    if np.ma.is_masked(found):
        raise SettingsError(f"{field}: some of its values are masked; give values that there are")
    return found


def _shared(value: Any, field: str) -> NDArray[Any]:
    try:
        return np.from_dlpack(value)
    except Exception as error:  # each library has errors of its own
        remedy = "give a copy in this machine's memory: torch's x.detach().cpu(), jax's jax.device_get(x)"
        raise SettingsError(f"{field}: its memory cannot be read ({shown(str(error))}); {remedy}") from error


def table(value: Any, field: str, width: Callable[[int], str], flat: bool = False) -> NDArray[Any]:
    """Return what is given of an episode's ticks as an array of shape ``(ticks, n)``.

    Args:
        value: The array.
        field: What it is called, for the error.
        width: Says of a number of values why a tick cannot have so many; empty where it can.
        flat: Whether what a tick has may be an array itself, whose values are taken in a row.

    Raises:
        SettingsError: If it is of another shape or holds no real numbers.
    """
    found = numbers(value, field)
    if flat and found.ndim > 2:
        found = found.reshape(len(found), -1)
    if found.ndim != 2:
        one = "put one episode into a list" if found.ndim == 1 else "give one axis less"
        raise SettingsError(f"{field}: is of shape {found.shape}, and not of (ticks, values); {one}")
    if found.dtype.kind not in "fiub" or found.dtype.itemsize > 8:
        raise SettingsError(f"{field}: holds {found.dtype}; give float64, or other real numbers that it can hold")
    if why := width(found.shape[1]):
        raise SettingsError(f"{field}: {found.shape[1]} values a tick; {why}")
    if not len(found):
        raise SettingsError(f"{field}: has no tick; leave the episode out")
    return found
