"""Small named converters, composed where a setting is declared.

A converter takes a value as people give it and returns it in its settled form, or raises `SettingsError` naming the
field, the value and the remedy. The type of its first parameter is what the constructor of a settings class accepts,
for type checkers and editors; ``field`` is the name that the message gives the value.
"""

from __future__ import annotations

import importlib
import math
import numbers
import operator
import os
import re
import sys
import unicodedata
from collections.abc import Callable, Hashable, Iterable, Mapping, Set
from fractions import Fraction
from pathlib import Path
from typing import Any, SupportsIndex, TypeAlias, TypeVar

import numpy as np

from lucky_recorder.episode import clock, keys
from lucky_recorder.errors import SettingsError
from lucky_recorder.files import OTHER_LOCALE

Flag: TypeAlias = bool | np.bool_
Number: TypeAlias = float | Fraction | np.floating[Any] | np.integer[Any]
Rate: TypeAlias = str | Number

T = TypeVar("T")

_OUTPUT_NAME = re.compile(r"[A-Za-z0-9_-]{1,100}")
_HALF = "holds half a character (a surrogate)"
# What Windows takes for a device, whatever follows a dot; it takes the raised digits for digits.
_DEVICE = re.compile(r"(?:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[0-9\u00b9\u00b2\u00b3]) *(?:\..*)?", re.DOTALL)


def boolean(value: Flag, *, field: str = "value") -> bool:
    """Accept True or False only: the text ``"false"`` would count as true, and 1 is meant as a number."""
    if not isinstance(value, bool | np.bool_):
        raise SettingsError.of(field, value, "give true or false")
    return bool(value)


def whole(value: SupportsIndex, low: int, high: int = 2**31 - 1, *, field: str = "value") -> int:
    """Accept a whole number from ``low`` to ``high``."""
    number = index(value)
    if number is None or not low <= number <= high:
        raise SettingsError.of(field, value, f"give a whole number from {low} to {high}")
    return number


def count(value: SupportsIndex, *, field: str = "value") -> int:
    """Accept a whole number from 1 on."""
    return whole(value, 1, field=field)


def optional_count(value: SupportsIndex | None, *, field: str = "value") -> int | None:
    """Accept a whole number from 1 on, or None."""
    return None if value is None else count(value, field=field)


def seed(value: SupportsIndex, *, field: str = "value") -> int:
    """Accept the seed of something random: a whole number of 63 bits."""
    return whole(value, 0, 2**63 - 1, field=field)


def index(value: object) -> int | None:
    """Return a whole number as an int; None for what is none."""
    try:
        return None if isinstance(value, bool) else operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        return None


def positive(value: Number, *, field: str = "value") -> float:
    """Accept a finite number above zero."""
    real = _real(value)
    if not 0 < real < math.inf:
        raise SettingsError.of(field, value, "give a finite number above 0")
    return real


def optional_positive(value: Number | None, *, field: str = "value") -> float | None:
    """Accept a finite number above zero, or None."""
    return None if value is None else positive(value, field=field)


def number(value: Number, *, field: str = "value") -> float:
    """Accept a finite number."""
    real = _real(value)
    if not math.isfinite(real):
        raise SettingsError.of(field, value, "give a finite number")
    return real


def _real(value: object) -> float:
    """Return a number as a float; NaN for what is none, or is too large to be one."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return math.nan
    try:
        return float(value)
    except (OverflowError, TypeError):  # numpy counts its timedelta64 among the numbers, though it becomes none
        return math.nan


def optional_hertz(value: Rate | None, *, field: str = "value") -> Fraction | None:
    """Accept a rate in Hz, kept as an exact fraction, or None."""
    return None if value is None else clock.rate(value, field)


def one_of(value: str, choices: tuple[str, ...], *, field: str = "value") -> str:
    """Accept one of the given words."""
    if not isinstance(value, str) or value not in choices:
        raise SettingsError.of(field, value, f"choose one of {', '.join(choices)}")
    # The plain text, where a subclass of str was given: numpy's, or an enum's.
    return choices[choices.index(value)]


def text(value: str, *, field: str = "value") -> str:
    """Accept a string that is not blank and can be written as UTF-8."""
    if not isinstance(value, str) or not value.strip():
        raise SettingsError.of(field, value, "give a text that is not empty")
    if _has_half_characters(value):
        raise SettingsError.of(field, value, f"{_HALF}{_of_the_locale(value) or '; give proper Unicode'}")
    return value


def _of_the_locale(value: str) -> str:
    """Say so where the bytes behind a text are proper UTF-8, which Python was told not to read as that."""
    try:
        value.encode(errors="surrogateescape").decode()
    except UnicodeError:
        return ""
    return (
        f", as Python reads names as {sys.getfilesystemencoding()} in this locale, and it is UTF-8; set "
        "PYTHONUTF8=1 in the environment, or a locale of UTF-8, such as LC_ALL=C.UTF-8"
    )


def _has_half_characters(value: str) -> bool:
    return any("\ud800" <= c <= "\udfff" for c in value)


def optional_text(value: str | None, *, field: str = "value") -> str | None:
    """Accept a string that is not blank and can be written as UTF-8, or None."""
    return None if value is None else text(value, field=field)


def texts(value: Iterable[str], *, field: str = "value") -> tuple[str, ...]:
    """Accept a list of texts, none of them twice."""
    return several(value, text, field=field)


def optional_texts(value: Iterable[str] | None, *, field: str = "value") -> tuple[str, ...] | None:
    """Accept a list of texts, none of them twice, or None."""
    return None if value is None else texts(value, field=field)


def folder(value: str | os.PathLike[str], *, field: str = "value") -> Path:
    """Accept a path; nothing is created."""
    path = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    if not isinstance(path, str) or not path or "\0" in path:
        raise SettingsError.of(field, value, "give a folder")
    # Python has them for bytes of a name that are no text. What is written names the folder, and is text.
    if _has_half_characters(path):
        remedy = _of_the_locale(path) or ": its name is no UTF-8; rename the folder, or give another"
        raise SettingsError.of(field, value, f"{_HALF}{remedy}")
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        raise SettingsError.of(field, value, f"such a name {OTHER_LOCALE}") from None
    try:
        return Path(path).expanduser()
    except RuntimeError as error:  # ~name of a user who is not there
        raise SettingsError.of(field, value, f"{error} Give the whole path") from None


def optional_folder(value: str | os.PathLike[str] | None, *, field: str = "value") -> Path | None:
    """Accept a path, or None; it becomes a whole one."""
    return None if value is None else anchored(folder(value, field=field), field=field)


def anchored(path: Path, *, field: str = "value") -> Path:
    """Return a path as a whole one: it is meant from the folder that the process is in now, and may leave."""
    try:
        return path.absolute()
    except OSError as error:
        remedy = f"the folder that this process is in is gone ({error.strerror}); give the whole path"
        raise SettingsError.of(field, str(path), remedy) from error


def output_name(value: str, *, field: str = "value") -> str:
    """Accept a camera's Output Name: a part of folder and column names."""
    if not isinstance(value, str) or not _OUTPUT_NAME.fullmatch(value):
        raise SettingsError.of(field, value, "use letters, digits, '_' and '-' only, at most 100")
    if value.casefold().endswith((keys.DEPTH_SUFFIX, keys.RGBD_SUFFIX)):
        raise SettingsError.of(field, value, "_depth and _rgbd end the names of depth streams; choose another")
    portable((value,), field=field)
    return value


def portable(names: Iterable[str], *, field: str = "value") -> None:
    """Refuse names that some file system cannot hold, or cannot hold beside each other.

    A session is copied to other machines. There ``Front`` and ``front`` may be one file, and so may a letter with its
    accent (NFC) and a letter and an accent (NFD); Windows keeps some names for its devices, and drops a dot or a space
    at the end. Columns and robots become parts of file names too, and some readers fold the case of columns.

    Raises:
        SettingsError: If a name is none for a file, or two are the same to some file system; names both.
    """
    seen: dict[str, str] = {}
    for name in names:
        folded = fold(name)
        if _DEVICE.fullmatch(folded):
            raise SettingsError.of(field, name, "Windows keeps this name for a device; choose another")
        if name.endswith((".", " ")):
            raise SettingsError.of(field, name, "Windows drops a dot or a space at the end; leave it out")
        if folded in seen:
            raise SettingsError.of(field, name, _collision(seen[folded], name))
        seen[folded] = name


def fold(name: str) -> str:
    """Return the one form of all names that are the same to some file system: see `portable`."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def _collision(first: str, second: str) -> str:
    if first == second:
        return "stands twice; each must be unique"
    # Two spellings of an accent look the same on a screen: only escapes tell them apart.
    return f"is the same name as {first!r} on some systems ({second!a} and {first!a}); choose another"


def optional_names(value: Iterable[str] | None, *, field: str = "value") -> tuple[str, ...] | None:
    """Accept a list of names that become parts of file names, or None."""
    names = optional_texts(value, field=field)
    portable(names or (), field=field)
    return names


def several(
    value: Iterable[object], inner: Callable[..., T], *, field: str = "value", unique: bool = True
) -> tuple[T, ...]:
    """Accept a list of what ``inner`` accepts, kept as a tuple."""
    settled = tuple(inner(item, field=f"{field}[{i}]") for i, item in enumerate(_listed(value, field)))
    if unique:
        distinct(settled, field=field)
    return settled


def _listed(value: object, field: str) -> list[Any]:
    # A text is a list of letters to Python, and a set has no order.
    if isinstance(value, str | bytes | Mapping | Set) or not isinstance(value, Iterable):
        raise SettingsError.of(field, value, "give a list")
    try:
        return list(value)
    except Exception as error:  # a generator runs code of its own, which may raise anything
        raise SettingsError.of(field, value, f"cannot be read as a list ({error}); give a list") from error


def distinct(values: Iterable[Any], *, field: str = "value") -> None:
    """Refuse a value that stands twice in a list."""
    seen: set[Hashable] = set()
    for value in values:
        if value in seen:
            raise SettingsError.of(field, value, "stands twice; each must be unique")
        seen.add(value)


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
