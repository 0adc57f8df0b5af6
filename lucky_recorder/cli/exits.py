"""How a command ends: its exit status, and the recorder's errors as one line."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path

import typer

from lucky_recorder.cli.lines import say
from lucky_recorder.errors import LuckyRecorderError

FAULTY = 1
WRONG_ARGUMENT = 2
INTERRUPTED = 130


@contextlib.contextmanager
def stopping() -> Iterator[None]:
    """Turn the recorder's errors into a line on stderr and exit status 2; every command is wrapped in it."""
    try:
        yield
    except LuckyRecorderError as error:
        say(f"error: {error}", error=True)
        raise typer.Exit(WRONG_ARGUMENT) from error


def refuse_faults(faults: Iterable[object], folder: Path) -> None:
    """Print each fault on a line of its own; end the command with exit status 1 if there are any."""
    count = 0
    for count, fault in enumerate(faults, 1):  # noqa: B007, the last count is the number of them
        say(fault)
    if count:
        say(f"{count} {'fault' if count == 1 else 'faults'} in {folder}", error=True)
        raise typer.Exit(FAULTY)
