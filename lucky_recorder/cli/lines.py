"""One line on the terminal: plain text, wherever it comes from."""

from __future__ import annotations

import sys

import typer

from lucky_recorder.episode import limits


def printable(text: object) -> str:
    """Return a text that is safe on a terminal: names in a folder may hold escape sequences, and be of any length.

    Everything that the command line prints goes through here: lines, the cells of tables, warnings and the log.
    """
    line = str(text)
    if len(line) > limits.LONGEST_LINE:
        line = f"{line[: limits.LONGEST_LINE]}…"
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in line)


def encodable(text: str, error: bool = False) -> str:
    """Return a text with a question mark for each character that stdout, or stderr, cannot encode, such as ASCII."""
    # Printing such a character raises.
    encoding = (sys.stderr if error else sys.stdout).encoding or "utf-8"
    return text.encode(encoding, "replace").decode(encoding)


def say(text: object, error: bool = False) -> None:
    """Print one line, whatever the terminal's encoding; an error in red, to stderr."""
    line = encodable(printable(text), error)
    typer.secho(line, err=error, fg=typer.colors.RED if error else None)
