"""One line on the terminal: plain text, wherever it comes from."""

from __future__ import annotations

import sys

import typer


def printable(text: object) -> str:
    """Return a text that is safe on a terminal: names in a folder may hold escape sequences."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in str(text))


def say(text: object, error: bool = False) -> None:
    """Print one line, whatever the terminal's encoding; an error in red, to stderr."""
    # Printing raises on a character that the terminal's encoding, such as ASCII, does not have.
    encoding = sys.stdout.encoding or "utf-8"
    line = printable(text).encode(encoding, "replace").decode(encoding)
    typer.secho(line, err=error, fg=typer.colors.RED if error else None)
