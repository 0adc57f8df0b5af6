"""What callers give the functions that shape sessions and datasets, settled before anything is looked at."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from lucky_recorder.errors import SettingsError
from lucky_recorder.settings import validators as v


def settled(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of such a function as it takes them, by their names.

    Paths are of any kind that the system knows, and whole numbers also numpy's.

    Raises:
        SettingsError: If one is of another type, or no such value; names it.
    """
    converters = {**_CONVERTERS, "output": _folders} if "parts" in given else _CONVERTERS
    return {name: converters[name](value, name) if name in converters else value for name, value in given.items()}


def _path(value: Any, field: str) -> Path:
    if not isinstance(value, str | os.PathLike):
        raise SettingsError.of(field, value, "give the path of a folder")
    path = os.fspath(value)
    if not isinstance(path, str) or "\0" in path:
        raise SettingsError.of(field, value, "give the path of a folder")
    try:
        os.fsencode(path)
    except UnicodeEncodeError as error:
        told = f"no file can have this name ({error.reason}); give another"
        raise SettingsError.of(field, path, told) from None
    # Where the current folder is gone, nothing can be meant by a name.
    v.anchored(Path(path), field=field)
    return Path(path)


def _each(value: Any) -> list[Any] | None:
    """Return what a value holds; None where it is no such thing, as an array of numpy's that is one number."""
    try:
        return list(value)
    except TypeError:
        return None


def _paths(value: Any, field: str) -> list[Path]:
    each = None if isinstance(value, str | bytes | os.PathLike) else _each(value)
    if each is None:
        raise SettingsError.of(field, value, f"give a list of {field}")
    return [_path(one, field) for one in each]


def _folders(value: Any, field: str) -> Path | dict[Any, Path]:
    if isinstance(value, Mapping):
        return {name: _path(one, field) for name, one in value.items()}
    return _path(value, field)


def _numbers(value: Any, field: str) -> str | list[int] | None:
    if value is None or isinstance(value, str):
        return value
    each = _each(value)
    found = [None] if each is None else [v.index(one) for one in each]
    if None in found:
        raise SettingsError.of(field, value, 'give numbers of episodes, [0, 3], or a text such as "0:40,52"')
    return [number for number in found if number is not None]


def _words(value: Any, field: str) -> list[str] | None:
    if value is None:
        return None
    words = [value] if isinstance(value, str) else _each(value)
    if words is None or not all(isinstance(word, str) for word in words):
        raise SettingsError.of(field, value, "give descriptions of tasks")
    return words


def _shares(value: Any, field: str) -> dict[Any, Any]:
    if not isinstance(value, Mapping):
        raise SettingsError.of(field, value, 'give each part its share by name: {"train": 0.9, "val": 0.1}')
    return dict(value)


def _text(value: Any, field: str) -> str | None:
    if value is not None and not isinstance(value, str):
        raise SettingsError.of(field, value, "give a text")
    return value


def _any_whole(value: Any, field: str) -> int:
    number = v.index(value)
    if number is None:
        raise SettingsError.of(field, value, "give a whole number")
    return number


def _ticks(value: Any, field: str) -> int:
    number = v.index(value)
    if number is None or number < 0:
        raise SettingsError.of(field, value, "give how many ticks are cut off, 0 or more")
    return number


def _rows(value: Any, field: str) -> int | None:
    return None if value is None else v.whole(value, 0, 2**62, field=field)


def _flag(value: Any, field: str) -> bool:
    return v.boolean(value, field=field)


def _called(value: Any, field: str) -> Any:
    if value is not None and not callable(value):
        raise SettingsError.of(field, value, "give a function of two numbers: episodes done, and all of them")
    return value


_CONVERTERS: dict[str, Callable[[Any, str], Any]] = {
    "session": _path,
    "sessions": _paths,
    "output": _path,
    "episodes": _numbers,
    "tasks": _words,
    "min_length": _rows,
    "where": _text,
    "old": _text,
    "new": lambda value, field: v.text(value, field=field),
    "parts": _shares,
    "seed": _any_whole,
    "start": _ticks,
    "end": _ticks,
    **dict.fromkeys(("success_only", "by_task", "snap", "dry_run"), _flag),
    "on_episode": _called,
}
