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
from lucky_recorder.errors import SettingsError, shown
from lucky_recorder.storage.untrusted import parsed

# Beside a reset's options: the types of the arrays that stand there as lists, and what is no JSON, as its repr.
_NUMBERS = frozenset(np.dtype(kind).newbyteorder(order).str for kind in "?bBhHiIlLqQefd" for order in ("<", ">"))
ARRAYS, NOT_JSON = "lucky_recorder.arrays", "lucky_recorder.not_json"


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
    `ARRAYS`. What is no JSON stands there as its ``repr``, cut short, under `NOT_JSON`.
    """
    if not options:
        return None
    plain, arrays, rest = {}, {}, {}
    try:
        for key, value in options.items():
            is_array = isinstance(value, np.ndarray | np.generic) and value.dtype.str in _NUMBERS
            if is_array and _is_json(value.tolist()):
                plain[str(key)], arrays[str(key)] = value.tolist(), value.dtype.str
            elif isinstance(key, str) and _is_json(value):
                plain[key] = json.loads(json.dumps(value))
            else:
                rest[str(key)] = shown(value)
        said = plain | dict(_beside(arrays, rest))
        if len(json.dumps(said, ensure_ascii=False).encode()) <= LONGEST_TEXT:
            return said
    except Exception:  # an object of the user's may raise anything when it is looked at
        pass
    return {NOT_JSON: {"options": shown(options)}}


def _beside(arrays: Mapping[str, str], rest: Mapping[str, str]) -> Iterator[tuple[str, Mapping[str, str]]]:
    return ((name, said) for name, said in ((ARRAYS, arrays), (NOT_JSON, rest)) if said)


def _is_json(value: Any) -> bool:
    """Tell whether JSON holds a value as it is: no tuple, which would be read back as a list."""
    try:
        written = json.dumps(value, allow_nan=False, ensure_ascii=False)
        written.encode()
        return bool(json.loads(written) == value)
    except (TypeError, ValueError, RecursionError):
        return False


def given_options(plain: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the options that `plain_options` has written; None where they were not all JSON."""
    arrays = plain.get(ARRAYS, {})
    if NOT_JSON in plain or not isinstance(arrays, Mapping):
        return None
    given = {key: value for key, value in plain.items() if key != ARRAYS}
    for key, kind in arrays.items():
        # Whoever has written them: numbers, and no type that takes more than one of these.
        if key not in given or kind not in _NUMBERS:
            return None
        try:
            given[key] = np.asarray(given[key], np.dtype(kind))
        except (TypeError, ValueError, OverflowError):
            return None
    return given


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
        # With its name, and deeper within others than it stands in any file.
        text = json.dumps([[[[{name: value}]]]], allow_nan=False, ensure_ascii=False)
        ((((read,),),),) = parsed(text.encode())
    except (TypeError, ValueError, RecursionError, MemoryError) as error:
        raise SettingsError.of(name, value, f"give plain JSON values ({error})") from None
    # A list for a tuple, a text for a name that is a number.
    if read[name] != value:
        remedy = f"would be read back as {shown(read[name])}: give lists for tuples, and texts for names that are none"
        raise SettingsError.of(name, value, remedy)
    return read[name]
