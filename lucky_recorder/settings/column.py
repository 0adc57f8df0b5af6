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
# float32 holds every float16, and Parquet's readers and LeRobot know it better.
_STORED_AS = {"float16": "float32", "str": keys.TEXT}
_BEFORE, _AFTER = "before", "after"
# What a source names has a moment of its own. Commands may be set during the step, by a controller in the environment.
_WHY_AFTER = {
    "ctrl": "commands are read after the step",
    "info": "the step's info is known after it",
    "gym:reward": "the reward is known after the step",
}
_WHY_BEFORE = "this is read before the step, when the action is chosen"
_PLACE = "column {name}: "


def _name(value: str, *, field: str = "name") -> str:
    name = v.text(value, field=field)
    folded = name.casefold()
    if folded in _RESERVED or folded.startswith((keys.IMAGES, keys.MASKS, keys.VIDEOS)):
        raise SettingsError.of(field, value, "this name belongs to the recorder; choose another")
    if "/" in name or not name.isprintable():
        raise SettingsError.of(field, value, "a column name holds no '/' and no control characters")
    v.portable((name,), field=field)
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
        name = value if isinstance(value, str) else ""
    name = _STORED_AS.get(name, name)
    if name not in keys.DTYPES:
        raise SettingsError.of(field, value, f"give one of {', '.join(keys.NUMBERS)}, or str")
    return name


def _length(value: SupportsIndex, *, field: str = "shape") -> int:
    return v.whole(value, 1, _LONGEST_ROW, field=field)


def _shape(value: SupportsIndex | Iterable[SupportsIndex], *, field: str = "shape") -> tuple[int, ...]:
    lengths: Any = [value] if isinstance(value, numbers.Integral) else value
    shape = v.several(lengths, _length, field=field, unique=False)
    if math.prod(shape) > _LONGEST_ROW:
        raise SettingsError.of(field, shape, f"at most {_LONGEST_ROW} values a row")
    return shape


def _when(value: str | None, *, field: str = "when", owner: Any = None) -> str:
    """Accept the moment at which a callable is asked; that of a named source is its own."""
    source = owner.source
    if callable(source) or not v.is_keyed(source, *keys.SOURCES):
        return _BEFORE if value is None else v.one_of(value, (_BEFORE, _AFTER), field=field)
    why = _WHY_AFTER.get(source, _WHY_AFTER.get(source.partition(":")[0]))
    own = _BEFORE if why is None else _AFTER
    if value is None or (isinstance(value, str) and value == own):
        return own
    raise SettingsError.of(field, value, f"{source}: {why or _WHY_BEFORE}; leave it out, or give a callable")


@only_known_fields(_PLACE)
@attrs.frozen(field_transformer=told(_PLACE))
class Column:
    """A column of your own.

    Attributes:
        name: Column name.
        source: A callable of the simulation, its ``"module:function"`` name, or one of ``sensor:NAME``, ``qpos:JOINT``,
            ``qvel:JOINT``, ``xpos:BODY``, ``xquat:BODY``, ``site_xpos:SITE``, ``ctrl:ACTUATOR``, ``gym:action``,
            ``gym:action.KEY``, ``gym:obs``, ``gym:obs.KEY``, ``gym:reward``, ``info:KEY``; a KEY may be several, with
            dots between them.
        dtype: Numeric or bool numpy dtype name, or ``str`` for texts of up to 64 KiB, which may be None. ``float16`` is
            stored as float32.
        shape: ``()`` or ``(1,)`` for a scalar column, longer ones for fixed-length lists.
        names: A name per value.
        unit: The unit of the values.
        allow_nan: Whether NaN may be recorded.
        when: When a callable is asked: ``before`` the step, the default, or ``after`` it, when action, reward and info
            are known and the data are those that the step has led to. What a named source gives has its own moment.
    """

    name: str = attrs.field(converter=_name)
    source: str | Callable[..., Any] = attrs.field(converter=_source)
    dtype: str = attrs.field(default="float64", converter=_dtype)
    shape: tuple[int, ...] = attrs.field(default=(), converter=_shape)
    names: tuple[str, ...] | None = attrs.field(default=None, converter=v.optional_texts)
    unit: str | None = attrs.field(default=None, converter=v.optional_text)
    allow_nan: bool = attrs.field(default=False, converter=v.boolean)
    # Last, since it follows from `source`.
    when: str = attrs.field(default=None, converter=_when)

    def __attrs_post_init__(self) -> None:
        size = math.prod(self.shape)
        place = named_place(_PLACE, self.name)
        if self.names is not None and len(self.names) != size:
            raise SettingsError.of(f"{place}names", self.names, f"give {size} names, one per value")
        if self.is_text and not self.is_scalar:
            raise SettingsError.of(f"{place}shape", self.shape, "a row holds one text: leave the shape out")

    @property
    def is_text(self) -> bool:
        """Whether it holds texts, and not numbers."""
        return self.dtype == keys.TEXT

    @property
    def is_scalar(self) -> bool:
        """Whether it is a plain column, not a list."""
        return self.shape in ((), (1,))

    @property
    def is_called(self) -> bool:
        """Whether its source is a function, given or named, and not a place to read."""
        return callable(self.source) or not v.is_keyed(self.source, *keys.SOURCES)

    @property
    def is_called_after(self) -> bool:
        """Whether its source is a function that is asked after the step."""
        return self.is_called and self.when == _AFTER
