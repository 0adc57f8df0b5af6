"""Gymnasium's spaces: what a column of one looks like, and the parts of those that are made of others.

gymnasium is not imported here, so a space is known by what it has.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from lucky_recorder.capture.moment import Moment
from lucky_recorder.episode import keys
from lucky_recorder.errors import CaptureError, SettingsError, shown
from lucky_recorder.settings.column import Column

_MOST_TOLD = 20
# float32 holds every float16, and is what Parquet's readers and LeRobot know.
_STORED_AS = {"float16": "float32"}


class Layout(NamedTuple):
    """What one value of a space is: its shape, and the dtype it is stored as."""

    shape: tuple[int, ...]
    dtype: str


class Part(NamedTuple):
    """A space within a space, or the whole of it.

    Attributes:
        path: The keys of dicts and places in tuples that lead to it, from the outside in.
        space: The part itself.
    """

    path: tuple[Any, ...]
    space: Any

    @property
    def name(self) -> str:
        """What it is called: the keys with dots between them; empty for the whole."""
        return ".".join(map(str, self.path))

    def of(self, value: Any) -> Any:
        """Return this part of a value of the whole space."""
        for key in self.path:
            value = value[key]
        return value


def parts_of(space: Any) -> list[Part]:
    """Return the parts of a space that are made of no others, in order: the whole, where it has no parts."""
    return [part for part in _all_parts(Part((), space)) if not is_parted(part.space)]


def parts_called(space: Any, name: str) -> list[Part]:
    """Return the parts that a name may mean: several, where a key has a dot in it and is ambiguous."""
    return [part for part in _all_parts(Part((), space)) if part.name == name]


def is_parted(space: Any) -> bool:
    """Tell whether a space is made of others, each with a key or a place: a Dict or a Tuple."""
    return isinstance(getattr(space, "spaces", None), Mapping) or _is_tuple(space)


def _is_tuple(space: Any) -> bool:
    # A OneOf has a tuple of spaces too, but its values are those of one of them.
    is_named = any(kind.__name__ == "Tuple" for kind in type(space).__mro__)
    return is_named and isinstance(getattr(space, "spaces", None), tuple | list)


def _all_parts(part: Part) -> Iterator[Part]:
    yield part
    if is_parted(part.space):
        inner = part.space.spaces
        for key, space in inner.items() if isinstance(inner, Mapping) else enumerate(inner):
            yield from _all_parts(Part((*part.path, key), space))


def names_of(source: str, space: Any) -> list[str]:
    """Return the sources that name a part of a space, such as ``gym:obs.pose``; not all of very many."""
    names = [f"{source}.{part.name}" if part.path else source for part in parts_of(space)]
    return names if len(names) <= _MOST_TOLD else [*names[:_MOST_TOLD], f"and {len(names) - _MOST_TOLD} more"]


def layout_of(part: Part, what: str, field: str, value: object) -> Layout:
    """Return what a column of a space looks like.

    Args:
        part: The space.
        what: What it is a part of, for the error: ``observation space``.
        field: The setting's name, for the error.
        value: Its value, for the error.

    Raises:
        SettingsError: If no column can hold its values; names the space and the key.
    """
    why = _why_not(part.space)
    if why:
        place = f"part {part.name!r} of the {what}" if part.path else what
        raise SettingsError.of(field, value, f"the {place} is {shown(part.space)}, and {why}")
    if _is_text(part.space):
        return Layout((), keys.TEXT)
    name = np.dtype(part.space.dtype).name
    return Layout(tuple(int(n) for n in part.space.shape), _STORED_AS.get(name, name))


def _is_text(space: Any) -> bool:
    dtype = getattr(space, "dtype", None)
    return dtype is not None and getattr(space, "shape", None) is None and np.dtype(dtype).kind == "U"


def _why_not(space: Any) -> str:
    """Say why no column holds a space's values; empty where one does."""
    if _is_text(space):
        return ""
    shape, dtype = getattr(space, "shape", None), getattr(space, "dtype", None)
    if shape is None or dtype is None:
        return (
            f"values of a {type(space).__name__} have no one shape, which a column needs; "
            "record what you need of them with a callable of your own"
        )
    if 0 in shape:
        return f"its shape {tuple(shape)} holds no value; leave it out"
    name = np.dtype(dtype).name
    if _STORED_AS.get(name, name) not in keys.NUMBERS:
        return (
            f"a column cannot hold {name}; record it with a callable of your own, as one of {', '.join(keys.NUMBERS)}"
        )
    return ""


def check_column(column: Column, layout: Layout) -> None:
    """Refuse a declared shape or dtype that the values of a space cannot have.

    Raises:
        SettingsError: If it cannot; names the right one.
    """
    place, gives = f"column {column.name!r}: ", f"{column.source} gives"
    right = "str" if layout.dtype == keys.TEXT else layout.dtype
    # Whole numbers and truth may be declared as another kind of number: each value is looked at when it comes.
    is_float_lost = layout.dtype.startswith("float") and not column.dtype.startswith("float")
    if column.is_text != (layout.dtype == keys.TEXT) or is_float_lost:
        raise SettingsError.of(f"{place}dtype", column.dtype, f"{gives} {right}; set dtype={right!r}")
    # A single number is a scalar column, however deep the array it comes in.
    if layout.shape != column.shape and not (column.is_scalar and math.prod(layout.shape) == 1):
        raise SettingsError.of(f"{place}shape", column.shape, f"{gives} shape {layout.shape}; set shape={layout.shape}")


def reader(part: Part, slot: str, what: str, column: str) -> Callable[[Moment], Any]:
    """Return a function that takes a part of a space's value from a moment.

    Args:
        part: Which.
        slot: Where the moment has the value of the whole space: ``obs`` or ``action``.
        what: What that is, for the error.
        column: The column's name, for the error.
    """
    whole: Callable[[Moment], Any] = operator.attrgetter(slot)
    if not part.path:
        return whole

    def read(moment: Moment) -> Any:
        value = whole(moment)
        try:
            return part.of(value)
        except (KeyError, IndexError, TypeError) as error:
            why = f"the {what} has no part {part.name!r}, though its space has: {shown(value)}"
            raise CaptureError(f"column {column!r}: {why}") from error

    return read
