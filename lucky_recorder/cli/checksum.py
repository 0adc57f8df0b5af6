"""Writing the sums of all files, and telling of how many."""

from __future__ import annotations

from pathlib import Path

from lucky_recorder.cli.console import Bytes
from lucky_recorder.cli.lines import say
from lucky_recorder.edit.checksum import checksum as write_sums
from lucky_recorder.errors import FormatError
from lucky_recorder.storage.checksums import Sums


def checksum(paths: list[Path]) -> None:
    """Write the sums of sessions and datasets, and say of how many files.

    Raises:
        LuckyRecorderError: If there are none to be had, or they cannot be written; what came before is done.
    """
    for path in paths:
        with Bytes() as bar:
            done = write_sums(path, tell=bar.tell)
        for one in done:
            say(f"{one.path}: sums of {one.files} files, {one.bytes / 1e6:.1f} MB")


def described(sums: Sums) -> str:
    """Say in a few words whether a folder has a list of sums."""
    if not sums.is_there():
        return "none"
    try:
        return f"of {len(sums.read())} files, which `lucky-recorder check` compares"
    except FormatError:
        return "cannot be read; `lucky-recorder check` says why"


def told(sums: Sums) -> str:
    """Say, at the end of a line, how many files were compared with their sums."""
    return f", {len(sums.read())} files as their sums say" if sums.is_there() else ""
