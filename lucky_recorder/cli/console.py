"""What commands print with: plain text where it comes from a folder, and an error as a line and an exit status."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

import typer

from lucky_recorder.errors import LuckyRecorderError

WRONG_ARGUMENT = 2


def printable(text: object) -> str:
    """Return a text that is safe on a terminal: names in a folder may hold escape sequences."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in str(text))


def say(text: object, error: bool = False) -> None:
    """Print one line, whatever the terminal's encoding; an error in red, to stderr."""
    encoding = sys.stdout.encoding or "utf-8"
    line = printable(text).encode(encoding, "replace").decode(encoding)
    typer.secho(line, err=error, fg=typer.colors.RED if error else None)


@contextlib.contextmanager
def stopping() -> Iterator[None]:
    """Turn the recorder's errors into a line on stderr and exit status 2."""
    try:
        yield
    except LuckyRecorderError as error:
        say(f"error: {error}", error=True)
        raise typer.Exit(WRONG_ARGUMENT) from error
