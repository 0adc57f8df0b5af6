"""How settings are written, as plain JSON values and as TOML, and how a TOML file is read."""

from __future__ import annotations

import tomllib
from fractions import Fraction
from pathlib import Path
from typing import Any

import attrs
import tomli_w

from lucky_recorder.episode import limits
from lucky_recorder.errors import SettingsError
from lucky_recorder.files import read_file
from lucky_recorder.settings.code import refuse_code
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


def read_toml(path: str | Path, *, allow_code: bool = False, field: str = "settings file") -> dict[str, Any]:
    """Return the fields that stand in a TOML file.

    Args:
        path: The file.
        allow_code: Whether it may name code, as ``"module:function"``.
        field: What the file is, for errors.

    Raises:
        SettingsError: If it cannot be read as TOML, or names code that it may not.
    """
    try:
        # Editors on Windows put a mark (BOM) in front, which TOML does not allow.
        fields = tomllib.loads(read_file(Path(path), limits.LARGEST_SETTINGS).decode("utf-8-sig"))
    except RecursionError:
        raise SettingsError.of(field, str(path), "cannot be read as TOML: it is nested too deeply") from None
    except (OSError, ValueError) as error:
        raise SettingsError.of(field, str(path), f"cannot be read as TOML: {error}") from error
    if not allow_code:
        refuse_code(fields)
    return fields


def toml(settings: attrs.AttrsInstance) -> str:
    """Return settings as TOML, which knows no null: fields that are None are left out."""
    written: dict[str, Any] = _without_none(plain(settings))
    return tomli_w.dumps(written)


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_none(item) for key, item in value.items() if item is not None}
    return [_without_none(item) for item in value] if isinstance(value, list) else value
