"""How a settings class is declared: what attrs itself does not do, so that a refusal names its field.

```python
_PLACE = "camera {name}: "

@only_known_fields(_PLACE)
@attrs.frozen(field_transformer=told(_PLACE))
class Camera:
    name: str = attrs.field(converter=output_name)
    width: int = attrs.field(default=640, converter=even_pixels)
```

The converters are plain functions with names: from those, and from nothing else, type checkers read what the
constructor accepts.
"""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import attrs

from lucky_recorder.errors import SettingsError, shown

T = TypeVar("T", bound=attrs.AttrsInstance)


def named_place(place: str, name: object) -> str:
    """Return what stands before a field's name in a message: ``{name}`` is the name of the object."""
    return place.format(name=shown(name))


def told(place: str = "") -> Callable[[type, list[attrs.Attribute[Any]]], list[attrs.Attribute[Any]]]:
    """Return attrs' hook that tells each converter, as ``field``, the name of what it settles.

    A converter that has a parameter ``owner`` is given the object too, with the fields that stand above its own: a
    value may follow from them.

    Args:
        place: What stands before the field's name; see `named_place`.
    """

    def transform(kind: type, fields: list[attrs.Attribute[Any]]) -> list[attrs.Attribute[Any]]:
        return [f.evolve(converter=_told(place, f.converter)) if f.converter else f for f in fields]

    return transform


def _told(place: str, converter: Any) -> attrs.Converter[Any, Any]:
    takes_owner = "owner" in inspect.signature(converter).parameters

    @functools.wraps(converter)
    def convert(value: Any, owner: Any, field: attrs.Attribute[Any]) -> Any:
        # An object's name is its first field: while that is settled, the value is all there is of it.
        name = value if field.name == "name" else getattr(owner, "name", None)
        context = {"owner": owner} if takes_owner else {}
        return converter(value, field=named_place(place, name) + field.name, **context)

    return attrs.Converter(convert, takes_self=True, takes_field=True)


def only_known_fields(place: str = "") -> Callable[[type[T]], type[T]]:
    """Return a class decorator: a keyword that is no field is a `SettingsError` that names its nearest neighbour."""

    def decorate(kind: type[T]) -> type[T]:
        construct = kind.__init__

        @functools.wraps(construct)
        def init(self: T, *args: Any, **fields: Any) -> None:
            _refuse_unknown(kind, fields, named_place(place, fields.get("name", args[0] if args else None)))
            construct(self, *args, **fields)

        kind.__init__ = init  # type: ignore[method-assign, assignment]
        return kind

    return decorate


def _refuse_unknown(kind: type[attrs.AttrsInstance], fields: Mapping[Any, Any], place: str) -> None:
    known = attrs.fields_dict(kind)
    for key, value in fields.items():
        if key not in known:
            name = key if isinstance(key, str) else shown(key)
            near = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"
            raise SettingsError.of(f"{place}{name}", value, f"unknown field; {hint}")


def build(kind: type[T], fields: Mapping[Any, Any], place: str) -> T:
    """Build settings from a mapping.

    Args:
        kind: The settings class.
        fields: Its fields by name.
        place: Where the mapping stands, for messages: ``"cameras[0]."``.

    Raises:
        SettingsError: If a field is unknown, missing, or cannot be recorded.
    """
    _refuse_unknown(kind, fields, place)
    for name, field in attrs.fields_dict(kind).items():
        if field.default is attrs.NOTHING and name not in fields:
            raise SettingsError(f"{place}{name} is missing: every {kind.__name__} needs one")
    return kind(**fields)


def instance(value: object, kind: type[T], *, field: str = "value") -> T:
    """Accept an object of ``kind``, or a mapping to build it from."""
    if isinstance(value, kind):
        return value
    if isinstance(value, Mapping):
        return build(kind, value, f"{field}.")
    raise SettingsError.of(field, value, f"give a {kind.__name__} or a table of its fields")
