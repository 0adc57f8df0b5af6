"""Circumstances: what is known of a take besides its rows, gathered from the reset to the verdict."""

from __future__ import annotations

import json
import operator
import time
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import numpy as np

from lucky_recorder.capture.moment import Moment
from lucky_recorder.episode.keys import LONGEST_TEXT
from lucky_recorder.episode.record import About, Reason
from lucky_recorder.errors import SettingsError, shown, text_of
from lucky_recorder.storage.untrusted import parsed

# Beside a reset's options: the types of the arrays that stand there as lists, and what is no JSON, as its repr.
_NUMBERS = frozenset(np.dtype(kind).newbyteorder(order).str for kind in "?bBhHiIlLqQefd" for order in ("<", ">"))
ARRAYS, NOT_JSON = "lucky_recorder.arrays", "lucky_recorder.not_json"
_TYPE, _SHAPE = "dtype", "shape"
# What is raised where a value is no JSON, or none that is read.
_NO_JSON = (TypeError, ValueError, RecursionError, MemoryError)


class Circumstances:
    """What is known of one take besides its rows.

    Args:
        seed: The seed of the reset that began it, if one was given.
    """

    def __init__(self, seed: int | None) -> None:
        self.options: Mapping[str, Any] | None = None
        self._seed = _digits(seed)
        self._began = time.perf_counter()
        self._lasted: float | None = None
        self._ended_by: str | None = None
        self._annotations: dict[str, Any] = {}

    def annotate(self, said: Mapping[str, Any]) -> None:
        """Take what the user says of the episode, on top of what was said before.

        Raises:
            SettingsError: If all of it together is longer than a text of a row may be.
        """
        joined = {**self._annotations, **said}
        length = len(json.dumps(joined, ensure_ascii=False).encode())
        if length > LONGEST_TEXT:
            remedy = f"an episode's annotations are {length} bytes of JSON; at most {LONGEST_TEXT} are kept"
            raise SettingsError.of("annotations", said, remedy)
        # Another thread may be ending the take: what it has got must not change.
        self._annotations = joined

    def freeze(self, last: Moment) -> None:
        """Note how the environment has ended the episode, and when; its verdict may come much later."""
        self._lasted = time.perf_counter() - self._began
        if last.done:
            self._ended_by = Reason.TERMINATED if bool(last.terminated) else Reason.TRUNCATED

    def told(self) -> About:
        """Return all of it, at the take's end."""
        if self._lasted is None:
            self._lasted = time.perf_counter() - self._began
        return About(
            seed=self._seed,
            options=self.options,
            duration_s=self._lasted,
            ended_by=self._ended_by,
            annotations=self._annotations,
        )


def _digits(seed: int | None) -> str | None:
    try:
        return None if seed is None else str(operator.index(seed))
    except (TypeError, ValueError):  # whatever the environment has made of it
        return None


def plain_options(options: Mapping[Any, Any] | None) -> dict[str, Any] | None:
    """Return a reset's options as plain JSON values; None where there are none. It never raises.

    Arrays of numbers become lists, and numbers of numpy's become plain ones: their types stand beside them, under
    `ARRAYS`, and the shape too where the list does not say it. What is no JSON, or would be read back as something
    else, stands there as its ``repr``, cut short, under `NOT_JSON`.
    """
    if not options:
        return None
    plain, arrays, rest = {}, {}, {}
    try:
        for key, value in options.items():
            is_named = isinstance(key, str) and key not in (ARRAYS, NOT_JSON)
            if is_named and _is_array(value) and _is_json(value.tolist()):
                plain[key], arrays[key] = value.tolist(), _kind(value)
            elif is_named and _is_json(value):
                plain[key] = read_back(value)
            else:
                rest[str(key)] = shown(value)
        said = plain | dict(_beside(arrays, rest))
        if len(json.dumps(said, ensure_ascii=False).encode()) <= LONGEST_TEXT:
            return said
    except Exception:  # an object of the user's may raise anything when it is looked at
        pass
    return {NOT_JSON: {"options": shown(options)}}


def _is_array(value: Any) -> bool:
    """Tell whether a value is an array of numbers or a number of numpy's: no masked array, which is more than that."""
    return (type(value) is np.ndarray or isinstance(value, np.generic)) and value.dtype.str in _NUMBERS


def _kind(value: Any) -> str | dict[str, Any]:
    """Return what a list, or a number, does not say of the array that it was."""
    is_told = isinstance(value, np.generic) or (value.ndim > 0 and value.size > 0)
    return str(value.dtype.str) if is_told else {_TYPE: value.dtype.str, _SHAPE: list(value.shape)}


def _beside(arrays: Mapping[str, Any], rest: Mapping[str, str]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    return ((name, said) for name, said in ((ARRAYS, arrays), (NOT_JSON, rest)) if said)


def _is_json(value: Any) -> bool:
    """Tell whether JSON holds a value as it is: no tuple, which would be read back as a list."""
    try:
        return bool(read_back(value) == value)
    except _NO_JSON:
        return False


def given_options(plain: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the options that `plain_options` has written; None where they were not all JSON."""
    arrays = plain.get(ARRAYS, {})
    if NOT_JSON in plain or not isinstance(arrays, Mapping):
        return None
    given = {key: value for key, value in plain.items() if key != ARRAYS}
    try:
        return given | {key: _array(given[key], kind) for key, kind in arrays.items()}
    except (KeyError, TypeError, ValueError, OverflowError):  # whoever has written them
        return None


def _array(value: Any, kind: Any) -> Any:
    """Return the array, or the number of numpy's, that a list or a number was."""
    is_shaped = isinstance(kind, Mapping)
    name = kind[_TYPE] if is_shaped else kind
    # Numbers, and no type that takes more than one of these.
    if name not in _NUMBERS:
        raise ValueError(f"{shown(name)} is no type of numbers")
    array = np.asarray(value, np.dtype(name))
    return array.reshape(kind[_SHAPE]) if is_shaped else array if array.ndim else array[()]


def read_back(value: Any) -> Any:
    """Return a value as it is read back, once it is written as JSON: with lists for tuples, and texts for all names.

    Raises:
        ValueError: If the reader would refuse it: it is no JSON, is nested too deep, or takes too much memory. Also
            `TypeError`, `RecursionError` or `MemoryError`.
    """
    # Deeper within others than it stands in any file.
    text = json.dumps([[[[[value]]]]], allow_nan=False, ensure_ascii=False)
    (((((read,),),),),) = parsed(text.encode())
    return read


def plain_values(said: Mapping[str, Any], reserved: Collection[str] = ()) -> dict[str, Any]:
    """Return what the user says of an event or an episode, as JSON has it.

    Args:
        said: The values by name.
        reserved: Names that all of them have anyway.

    Raises:
        SettingsError: If one is no JSON, would be read back as another value, or has a name that is reserved.
    """
    settled = {}
    for name, value in said.items():
        if name in reserved:
            raise SettingsError.of(name, value, "every event has a field of this name; choose another")
        settled[name] = _given_back(name, value)
    return settled


def _given_back(name: str, value: Any) -> Any:
    """Return a value as it will be read back: equal to what was given.

    Raises:
        SettingsError: If it is no JSON, or would be another value then.
    """
    try:
        read = read_back({name: value})
    except _NO_JSON as error:
        raise SettingsError.of(name, value, f"give plain JSON values ({text_of(error)})") from None
    # A list for a tuple, a text for a name that is a number.
    if read[name] != value:
        remedy = f"would be read back as {shown(read[name])}: give lists for tuples, and texts for names that are none"
        raise SettingsError.of(name, value, remedy)
    return read[name]
