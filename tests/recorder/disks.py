"""Small disks, for tests that fill them."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


@contextlib.contextmanager
def small_disk(folder: Path, kilobytes: int, files: int | None = None) -> Iterator[Path]:
    """Have a file system of some kilobytes lie at a folder; skips the test where this user may not mount one.

    Args:
        folder: The folder.
        kilobytes: Its size.
        files: How many files and folders it can hold; None for as many as the system likes.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if not hasattr(os, "geteuid") or os.geteuid():
        pytest.skip("only root may mount a small disk")
    size = f"size={kilobytes}k" + ("" if files is None else f",nr_inodes={files}")
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", size, "tmpfs", str(folder)], capture_output=True, text=True)
    if made.returncode:
        pytest.skip(f"a small disk cannot be mounted here: {made.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)
