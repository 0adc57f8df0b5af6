"""Small named validators, composed where a setting is declared.

A validator takes the field's name and the value and returns the value in its settled form, or raises
`SettingsError` naming field, value and remedy.
"""

from __future__ import annotations

import dataclasses
import difflib
import importlib
import math
import numbers
import operator
import os
import re
import sys
from collections.abc import Callable, Hashable, Iterable, Mapping, Set
from pathlib import Path
from typing import Any

import numpy as np

from lucky_recorder.episode import clock
from lucky_recorder.errors import SettingsError

Validator = Callable[[str, Any], Any]

_OUTPUT_NAME = re.compile(r"[A-Za-z0-9_-]{1,100}")


def checked(validator: Validator, **options: Any) -> Any:
    """Declare a dataclass field whose value goes through ``validator``."""
    return dataclasses.field(metadata={"validator": validator}, **options)


def validate(settings: Any, place: str = "") -> None:
    """Run every declared validator of a frozen dataclass and keep the settled values."""
    for declared in dataclasses.fields(settings):
        validator = declared.metadata.get("validator")
        if validator is not None:
            settled = validator(place + declared.name, getattr(settings, declared.name))
            object.__setattr__(settings, declared.name, settled)


def build(kind: Any, fields: Mapping[str, Any], place: str) -> Any:
    """Build a settings dataclass from a mapping; an unknown key names its nearest neighbour."""
    known = {f.name: f for f in dataclasses.fields(kind)}
    for key in fields:
        if key not in known:
            near = difflib.get_close_matches(str(key), known, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"
            raise SettingsError.of(f"{place}{key}", fields[key], f"unknown field; {hint}")
    for name, declared in known.items():
        if declared.default is dataclasses.MISSING and name not in fields:
            raise SettingsError(f"{place}{name} is missing: every {kind.__name__} needs one")
    return kind(**fields)


def optional(inner: Validator) -> Validator:
    """Allow None besides what ``inner`` allows."""
    return lambda field, value: None if value is None else inner(field, value)


def boolean(field: str, value: Any) -> bool:
    """Accept True or False only; ``"false"`` and 1 are mistakes waiting to happen."""
    if not isinstance(value, bool | np.bool_):
        raise SettingsError.of(field, value, "give true or false")
    return bool(value)


def whole(low: int, high: int = 2**31 - 1) -> Validator:
    """Accept a whole number from ``low`` to ``high``."""

    def check(field: str, value: Any) -> int:
        number = index(value)
        if number is None or not low <= number <= high:
            raise SettingsError.of(field, value, f"give a whole number from {low} to {high}")
        return number

    return check


def index(value: Any) -> int | None:
    """Return a whole number as an int; None for what is none."""
    try:
        return None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        return None


def positive(field: str, value: Any) -> float:
    """Accept a finite number above zero."""
    real = _real(value)
    if not 0 < real < math.inf:
        raise SettingsError.of(field, value, "give a finite number above 0")
    return real


def number(field: str, value: Any) -> float:
    """Accept a finite number."""
    real = _real(value)
    if not math.isfinite(real):
        raise SettingsError.of(field, value, "give a finite number")
    return real


def _real(value: Any) -> float:
    """Return a number as a float; NaN for what is none, or is too large to be one."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return math.nan
    try:
        return float(value)
    except (OverflowError, TypeError):  # numpy counts its timedelta64 among the numbers, though it becomes none
        return math.nan


def hertz(field: str, value: Any) -> Any:
    """Accept a rate in Hz, kept as an exact fraction."""
    return clock.rate(value, field)


def one_of(*choices: str) -> Validator:
    """Accept one of the given words."""

    def check(field: str, value: Any) -> str:
        if not isinstance(value, str) or value not in choices:
            raise SettingsError.of(field, value, f"choose one of {', '.join(choices)}")
        return choices[choices.index(value)]

    return check


def text(field: str, value: Any) -> str:
    """Accept a string that is not blank and can be written as UTF-8."""
    if not isinstance(value, str) or not value.strip():
        raise SettingsError.of(field, value, "give a text that is not empty")
    if any("\ud800" <= c <= "\udfff" for c in value):
        raise SettingsError.of(field, value, "holds half a character (a surrogate); give proper Unicode")
    return value


def folder(field: str, value: Any) -> Path:
    """Accept a path; nothing is created."""
    path = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    if not isinstance(path, str) or not path or "\0" in path:
        raise SettingsError.of(field, value, "give a folder")
    try:
        return Path(path).expanduser()
    except RuntimeError as error:  # ~name of a user who is not there
        raise SettingsError.of(field, value, f"{error} Give the whole path") from None


def output_name(field: str, value: Any) -> str:
    """Accept a camera's Output Name: a part of folder and column names."""
    if not isinstance(value, str) or not _OUTPUT_NAME.fullmatch(value):
        raise SettingsError.of(field, value, "use letters, digits, '_' and '-' only, at most 100")
    if value.endswith(("_depth", "_rgbd")):
        raise SettingsError.of(field, value, "_depth and _rgbd end the names of depth streams; choose another")
    return value


def even_pixels(field: str, value: Any) -> int:
    """Accept an even image size; 4:2:0 video has one colour sample per two pixels."""
    pixels: int = whole(16, 8192)(field, value)
    if pixels % 2:
        raise SettingsError.of(field, value, f"video needs an even size; use {pixels - 1} or {pixels + 1}")
    return pixels


def several(inner: Validator, unique: bool = True) -> Validator:
    """Accept a list of what ``inner`` accepts, kept as a tuple."""

    def check(field: str, value: Any) -> tuple[Any, ...]:
        settled = tuple(inner(f"{field}[{i}]", item) for i, item in enumerate(_listed(field, value)))
        if unique:
            distinct(field, settled)
        return settled

    return check


def _listed(field: str, value: Any) -> list[Any]:
    if isinstance(value, str | bytes | Mapping | Set) or not isinstance(value, Iterable):
        raise SettingsError.of(field, value, "give a list")
    try:
        return list(value)
    except Exception as error:
        raise SettingsError.of(field, value, f"cannot be read as a list ({error}); give a list") from error


def distinct(field: str, values: tuple[Hashable, ...]) -> None:
    """Refuse a value that stands twice in a list."""
    seen: set[Hashable] = set()
    for value in values:
        if value in seen:
            raise SettingsError.of(field, value, "stands twice; each must be unique")
        seen.add(value)


def instance(kind: Any) -> Validator:
    """Accept an object of ``kind``, or a mapping to build it from."""

    def check(field: str, value: Any) -> Any:
        if isinstance(value, kind):
            return value
        if isinstance(value, Mapping):
            return build(kind, value, f"{field}.")
        raise SettingsError.of(field, value, f"give a {kind.__name__} or a table of its fields")

    return check


def is_callable_name(value: object) -> bool:
    """Tell ``"module:function"`` from other strings."""
    return isinstance(value, str) and bool(re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*", value))


def is_keyed(value: object, *kinds: str) -> bool:
    """Tell ``"kind:NAME"`` of one of ``kinds`` from other strings; the name is any text."""
    kind, _, name = value.partition(":") if isinstance(value, str) else ("", "", "")
    return kind in kinds and bool(name.strip())


def callable_name(value: Callable[..., Any]) -> str:
    """Return the name `load_callable` finds a callable by; ``"module:<function>"`` where it would not find it."""
    module, path = value.__module__, getattr(value, "__qualname__", type(value).__qualname__)
    found: Any = sys.modules.get(module)
    for part in path.split("."):
        found = getattr(found, part, None)
    return f"{module}:{path}" if found == value else f"{module}:<{path}>"


def load_callable(field: str, name: str) -> Callable[..., Any]:
    """Import the callable that ``"module:function"`` names."""
    module, _, path = name.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    except Exception as error:  # whatever the module raises while it is imported
        raise SettingsError.of(field, name, f"cannot be imported ({error}); give 'module:function'") from error
    if not callable(found):
        raise SettingsError.of(field, name, "is not callable")
    return found  # type: ignore[no-any-return]
