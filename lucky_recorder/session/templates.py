"""Path templates that come with a session, and are not trusted."""

from __future__ import annotations

import re

from lucky_recorder.errors import FormatError

_PLACEHOLDER = re.compile(r"\{(\w+)(?::0(\d)d)?\}")


def expand(template: object, **values: str | int) -> str:
    """Fill in a path template of ``info.json``, such as ``data/chunk-{chunk_index:03d}/…``.

    Only plain names and zero-padded numbers are filled in: the template comes with the folder, and is not trusted.

    Raises:
        FormatError: If the template is no text, or asks for anything else.
    """
    if not isinstance(template, str):
        raise FormatError(f"{template!r} is no path template")

    def fill(match: re.Match[str]) -> str:
        name, digits = match.groups()
        if name not in values:
            raise FormatError(f"{template!r}: unknown field {name!r} in a path template")
        return str(values[name]).zfill(int(digits or 0))

    path = _PLACEHOLDER.sub(fill, template)
    if "{" in path or "}" in path:
        raise FormatError(f"{template!r} is no path template")
    return path
