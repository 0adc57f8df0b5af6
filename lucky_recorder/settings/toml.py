"""How settings are written: as plain JSON values, and as TOML."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from lucky_recorder.settings.validators import callable_name


def plain(value: Any) -> Any:
    """Return a setting as plain JSON values; a callable by its ``"module:function"`` name."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    if isinstance(value, Fraction):
        return int(value) if value.denominator == 1 else str(value)
    if isinstance(value, Path):
        return str(value)
    if callable(value):
        return callable_name(value)
    return value


def toml(fields: Mapping[str, Any]) -> str:
    """Return plain settings as TOML: lists of tables last, fields that are None left out."""
    given = {key: value for key, value in fields.items() if value is not None}
    tables = {key: value for key, value in given.items() if isinstance(value, list) and any(map(_is_table, value))}
    lines = [f"{key} = {_toml_value(value)}" for key, value in given.items() if key not in tables]
    for key, rows in tables.items():
        for row in rows:
            lines += ["", f"[[{key}]]", *(f"{k} = {_toml_value(x)}" for k, x in row.items() if x is not None)]
    return "\n".join(lines) + "\n"


def _is_table(value: Any) -> bool:
    return isinstance(value, dict)


def _toml_value(value: Any) -> str:
    if _is_table(value):
        return "{ " + ", ".join(f"{k} = {_toml_value(x)}" for k, x in value.items() if x is not None) + " }"
    # JSON's texts are TOML's, except that TOML wants DEL escaped.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
