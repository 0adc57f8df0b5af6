"""How a command ends: its exit status, and the recorder's errors as one line."""

from __future__ import annotations

import contextlib
import logging
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path

import typer

from lucky_recorder.cli.lines import say
from lucky_recorder.errors import LuckyRecorderError, SettingsError

_SHOW = warnings.showwarning
FAULTY = 1
WRONG_ARGUMENT = 2
INTERRUPTED = 130


@contextlib.contextmanager
def stopping() -> Iterator[None]:
    """Turn the recorder's errors into a line on stderr and exit status 2, and Ctrl-C into one and 130.

    Every command is wrapped in it.

    Its warnings and its log become lines too: they name what stands in folders, and may come from anyone.
    """
    try:
        with _telling():
            yield
    except LuckyRecorderError as error:
        say(f"error: {error}", error=True)
        # Such as what was raised in a worker process, where nobody sees it.
        for line in "\n".join(getattr(error, "__notes__", ())).splitlines():
            say(line, error=True)
        raise typer.Exit(WRONG_ARGUMENT) from error
    except KeyboardInterrupt:
        say("interrupted", error=True)
        raise typer.Exit(INTERRUPTED) from None


@contextlib.contextmanager
def _telling() -> Iterator[None]:
    handler, logger = _Lines(), logging.getLogger("lucky_recorder")
    # Whoever has set up logging of their own, as tests do, gets it as they want it.
    is_ours = not logger.hasHandlers()
    shown = warnings.showwarning
    if shown is _SHOW:
        warnings.showwarning = _say_warning
    if is_ours:
        logger.addHandler(handler)
    try:
        yield
    finally:
        warnings.showwarning = shown
        if is_ours:
            logger.removeHandler(handler)


class _Lines(logging.Handler):
    """Prints what is logged as lines of the command line."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.WARNING:
            say(f"{record.levelname.lower()}: {record.getMessage()}", error=True)


def _say_warning(message: Warning | str, category: type[Warning], *where: object, **more: object) -> None:
    say(f"warning: {message}", error=True)


def refuse_shallow(decode: bool, is_deep: bool) -> None:
    """Refuse a deep check that is not to decode.

    Raises:
        SettingsError: If both were asked for.
    """
    if is_deep and not decode:
        raise SettingsError("--deep: decodes every frame; leave --no-decode out")


def refuse_faults(faults: Iterable[object], folder: Path) -> None:
    """Print each fault on a line of its own; end the command with exit status 1 if there are any."""
    count = 0
    for count, fault in enumerate(faults, 1):  # noqa: B007, the last count is the number of them
        say(fault)
    if count:
        say(f"{count} {'fault' if count == 1 else 'faults'} in {folder}", error=True)
        raise typer.Exit(FAULTY)
