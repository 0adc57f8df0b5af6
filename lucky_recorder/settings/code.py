"""Settings that name code: ``"module:function"`` imports a module, and so runs whatever stands in it.

Whoever writes Python runs code anyway. A file is another matter: people pass settings on like data, and do not expect
that to read them runs something. So what comes from a file names no code unless it is said that it may.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from lucky_recorder.episode import keys
from lucky_recorder.errors import SettingsError
from lucky_recorder.settings import validators as v

REMEDY = (
    "a settings file names code that would be run; if you trust the file, read it with allow_code=True, or on the "
    "command line with --allow-code"
)


def named_code(fields: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Find the fields that name code, and what they name: those of `RecorderSettings`, ``policy`` and ``env``."""
    for name, words in (("success", ("info",)), ("episode_trigger", ()), ("policy", ()), ("env", ())):
        value = fields.get(name)
        # Gymnasium imports a module too, for an id such as "module:Env-v0".
        is_named = isinstance(value, str) and ":" in value if name in ("policy", "env") else v.is_callable_name(value)
        if is_named and not v.is_keyed(value, *words):
            yield name, str(value)
    columns = fields.get("columns")
    for number, column in enumerate(columns if isinstance(columns, list | tuple) else ()):
        source = column.get("source") if isinstance(column, Mapping) else None
        if v.is_callable_name(source) and not v.is_keyed(source, *keys.SOURCES):
            yield f"columns[{number}].source", str(source)


def refuse_code(fields: Mapping[str, Any]) -> None:
    """Refuse settings out of a file that name code.

    Raises:
        SettingsError: If a field does; names it.
    """
    for field, name in named_code(fields):
        raise SettingsError.of(field, name, REMEDY)
