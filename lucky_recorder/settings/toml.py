"""How settings are written: as plain JSON values, and as TOML."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import attrs
import tomli_w

from lucky_recorder.settings.validators import callable_name


def plain(settings: attrs.AttrsInstance) -> dict[str, Any]:
    """Return settings as plain JSON values; a callable by its ``"module:function"`` name."""
    return attrs.asdict(settings, value_serializer=_plain)


def _plain(owner: Any, field: Any, value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(owner, field, item) for item in value]
    if isinstance(value, Fraction):
        return int(value) if value.denominator == 1 else str(value)
    if isinstance(value, Path):
        return str(value)
    return callable_name(value) if callable(value) else value


def toml(settings: attrs.AttrsInstance) -> str:
    """Return settings as TOML, which knows no null: fields that are None are left out."""
    written: dict[str, Any] = _without_none(plain(settings))
    return tomli_w.dumps(written)


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_none(item) for key, item in value.items() if item is not None}
    return [_without_none(item) for item in value] if isinstance(value, list) else value
