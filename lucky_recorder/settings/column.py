"""Columns of one's own: a name, a source, and what a value looks like."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Iterable
from typing import Any, SupportsIndex

import attrs
import numpy as np

from lucky_recorder.episode import keys
from lucky_recorder.errors import SettingsError
from lucky_recorder.settings import validators as v
from lucky_recorder.settings.declare import named_place, only_known_fields, told

_LONGEST_ROW = 1_000_000
# LeRobot and koyu add a key `task` to each row that they give.
_RESERVED = (*keys.LEADING, keys.TASK)
_PLACE = "column {name}: "


def _name(value: str, *, field: str = "name") -> str:
    name = v.text(value, field=field)
    if name in _RESERVED or name.startswith((keys.IMAGES, keys.MASKS, keys.VIDEOS)):
        raise SettingsError.of(field, value, "this name belongs to the recorder; choose another")
    if "/" in name or not name.isprintable():
        raise SettingsError.of(field, value, "a column name holds no '/' and no control characters")
    return name


def _source(value: str | Callable[..., Any], *, field: str = "source") -> str | Callable[..., Any]:
    if callable(value) or v.is_callable_name(value) or v.is_keyed(value, *keys.SOURCES):
        return value
    kinds = ", ".join(f"{kind}:NAME" for kind in keys.SOURCES)
    raise SettingsError.of(field, value, f"give a callable, 'module:function', or one of {kinds}")


def _dtype(value: str | type[Any] | np.dtype[Any], *, field: str = "dtype") -> str:
    try:
        name = np.dtype(value).name if isinstance(value, str | type | np.dtype) else ""
    except Exception:  # numpy parses texts in ways of its own, and raises SyntaxError too
        name = ""
    if name not in keys.DTYPES:
        raise SettingsError.of(field, value, f"give one of {', '.join(keys.DTYPES)}")
    return name


def _length(value: SupportsIndex, *, field: str = "shape") -> int:
    return v.whole(value, 1, _LONGEST_ROW, field=field)


def _shape(value: SupportsIndex | Iterable[SupportsIndex], *, field: str = "shape") -> tuple[int, ...]:
    lengths: Any = [value] if isinstance(value, numbers.Integral) else value
    shape = v.several(lengths, _length, field=field, unique=False)
    if math.prod(shape) > _LONGEST_ROW:
        raise SettingsError.of(field, shape, f"at most {_LONGEST_ROW} values a row")
    return shape


@only_known_fields(_PLACE)
@attrs.frozen(field_transformer=told(_PLACE))
class Column:
    """A column of your own.

    Attributes:
        name: Column name.
        source: A callable of the simulation, its ``"module:function"`` name, or one of ``sensor:NAME``, ``qpos:JOINT``,
            ``qvel:JOINT``, ``xpos:BODY``, ``xquat:BODY``, ``site_xpos:SITE``, ``ctrl:ACTUATOR``, ``gym:action``,
            ``gym:obs``, ``gym:obs.KEY``, ``gym:reward``, ``info:KEY``.
        dtype: Numeric or bool numpy dtype name.
        shape: ``()`` or ``(1,)`` for a scalar column, longer ones for fixed-length lists.
        names: A name per value.
        unit: The unit of the values.
        allow_nan: Whether NaN may be recorded.
    """

    name: str = attrs.field(converter=_name)
    source: str | Callable[..., Any] = attrs.field(converter=_source)
    dtype: str = attrs.field(default="float64", converter=_dtype)
    shape: tuple[int, ...] = attrs.field(default=(), converter=_shape)
    names: tuple[str, ...] | None = attrs.field(default=None, converter=v.optional_texts)
    unit: str | None = attrs.field(default=None, converter=v.optional_text)
    allow_nan: bool = attrs.field(default=False, converter=v.boolean)

    def __attrs_post_init__(self) -> None:
        size = math.prod(self.shape)
        if self.names is not None and len(self.names) != size:
            place = named_place(_PLACE, self.name)
            raise SettingsError.of(f"{place}names", self.names, f"give {size} names, one per value")

    @property
    def is_scalar(self) -> bool:
        """Whether it is a plain column, not a list."""
        return self.shape in ((), (1,))

    @property
    def is_called(self) -> bool:
        """Whether its source is a function, given or named, and not a place to read."""
        return callable(self.source) or not v.is_keyed(self.source, *keys.SOURCES)
